// What cmake/older_glibc does where the host has none of the newer functions: linked as released
// programs are, with the search for those functions left out. Ends with 0 when all of it works; a
// checking library would be in the way of what is checked.
#include <cerrno>
#include <chrono>
#include <cmath>
#include <condition_variable>
#include <cstdio>
#include <filesystem>
#include <mutex>
#include <random>
#include <stdexcept>
#include <string>
#include <thread>

#include <fcntl.h>
#include <unistd.h>

namespace {

int failures = 0;
int constructed = 0;
int destroyed_by_threads = 0;

void Check(bool holds, const char* what) {
  std::printf("%s %s\n", holds ? "ok    " : "FAILED", what);
  failures += holds ? 0 : 1;
}

struct Counted {
  Counted() { ++constructed; }
};
const Counted counted;

struct OfThread {
  std::string text = "long enough to be allocated on the heap";
  ~OfThread() { ++destroyed_by_threads; }
};
thread_local OfThread of_thread;

struct Last {
  // Of the first thread, too: its objects go before those of the program.
  ~Last() {
    if (destroyed_by_threads != 2) {
      std::puts("FAILED objects of the first thread are destroyed");
      ::_exit(1);
    }
  }
};
const Last last;

bool Throws() {
  try {
    throw std::runtime_error("thrown");
  } catch (const std::exception& error) {
    return std::string(error.what()) == "thrown";
  }
}

}  // namespace

int main(int /*count*/, char** arguments) {
  Check(constructed == 1, "constructors run, once");
  Check(Throws(), "exceptions are caught");
  size_t length = of_thread.text.size();
  std::thread([&] { length += of_thread.text.size(); }).join();
  Check(length == 2 * of_thread.text.size(), "threads run, with objects of their own");
  Check(destroyed_by_threads == 1, "they are destroyed with their thread");

  std::random_device random;
  Check(random() != random() || random() != random(), "random numbers differ");

  std::mutex mutex;
  std::condition_variable condition;
  std::unique_lock lock(mutex);
  const auto begin = std::chrono::steady_clock::now();
  const auto outcome = condition.wait_for(lock, std::chrono::milliseconds(30));
  Check(outcome == std::cv_status::timeout &&
            std::chrono::steady_clock::now() - begin >= std::chrono::milliseconds(25),
        "waits end at their time");

  const std::filesystem::path own(arguments[0]);
  Check(std::filesystem::file_size(own) > 1000 && !std::filesystem::is_symlink(own),
        "files are looked at");
  const int file = ::open64(arguments[0], O_RDONLY | O_CLOEXEC);
  Check(::fcntl64(file, F_GETFD) == FD_CLOEXEC && ::fcntl64(file, F_SETFD, 0) == 0 &&
            ::fcntl64(file, F_GETFD) == 0,
        "file descriptors are controlled");
  Check(::renameat2(AT_FDCWD, arguments[0], AT_FDCWD, arguments[0], RENAME_NOREPLACE) == -1 &&
            errno == EEXIST,
        "renaming replaces nothing");
  // Through variables: the compiler would compute them itself.
  volatile double two = 2;
  Check(std::pow(two, 10) == 1024 && std::log2(two) == 1 && std::hypot(two, two) > 2.82 &&
            std::exp(std::log(two)) < 2.1,
        "libm computes");
  return failures == 0 ? 0 : 1;
}
