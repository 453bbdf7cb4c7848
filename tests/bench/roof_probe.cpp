// Prints two words: what one core and what all cores read from memory, in GB/s. With files as
// arguments: how many seconds all cores need to look at every byte of them, mapped, and read into a
// buffer, the least of five times each.
#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstdint>
#include <cstdio>
#include <cstring>
#include <functional>
#include <span>
#include <thread>
#include <vector>

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "tests/bench/roof.h"

namespace {

constexpr size_t kBufferBytes = size_t{256} << 10U;
std::atomic<uint64_t> g_sum;  // so that nothing is left out

uint64_t SumOf(const char* bytes, size_t count) {
  uint64_t sum = 0;
  for (size_t at = 0; at + 8 <= count; at += 8) {
    uint64_t word = 0;
    std::memcpy(&word, bytes + at, 8);
    sum += word;
  }
  return sum;
}

uint64_t Mapped(int file, size_t size, std::vector<char>& /*buffer*/) {
  void* const bytes = ::mmap(nullptr, size, PROT_READ, MAP_PRIVATE, file, 0);
  if (bytes == MAP_FAILED) {
    return 0;
  }
  ::madvise(bytes, size, MADV_SEQUENTIAL);
  const uint64_t sum = SumOf(static_cast<const char*>(bytes), size);
  ::munmap(bytes, size);
  return sum;
}

uint64_t Read(int file, size_t /*size*/, std::vector<char>& buffer) {
  uint64_t sum = 0;
  for (ssize_t count = 0; (count = ::read(file, buffer.data(), buffer.size())) > 0;) {
    sum += SumOf(buffer.data(), static_cast<size_t>(count));
  }
  return sum;
}

double SecondsOf(std::span<char*> files,
                 const std::function<uint64_t(int, size_t, std::vector<char>&)>& look) {
  const auto begin = std::chrono::steady_clock::now();
  std::atomic<size_t> next{0};
  const auto work = [&] {
    std::vector<char> buffer(kBufferBytes);
    for (size_t at = next++; at < files.size(); at = next++) {
      const int file = ::open(files[at], O_RDONLY | O_CLOEXEC);
      struct stat about {};
      if (file >= 0 && ::fstat(file, &about) == 0 && about.st_size > 0) {
        g_sum += look(file, static_cast<size_t>(about.st_size), buffer);
      }
      ::close(file);
    }
  };
  std::vector<std::thread> threads;
  for (unsigned i = 0; i < std::max(1U, std::thread::hardware_concurrency()); ++i) {
    threads.emplace_back(work);
  }
  for (std::thread& thread : threads) {
    thread.join();
  }
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
}

}  // namespace

int main(int count, char** arguments) {
  if (count > 1) {
    const std::span<char*> files(arguments + 1, static_cast<size_t>(count - 1));
    double mapped = SecondsOf(files, Mapped);
    double read = SecondsOf(files, Read);
    for (int i = 0; i < 4; ++i) {
      mapped = std::min(mapped, SecondsOf(files, Mapped));
      read = std::min(read, SecondsOf(files, Read));
    }
    std::printf("%.3f %.3f\n", mapped, read);
    return 0;
  }
  const msprobe::bench::Roof& roof = msprobe::bench::MeasuredRoof();
  std::printf("%.2f %.2f\n", roof.one_core_bytes_per_second / 1e9,
              roof.all_cores_bytes_per_second / 1e9);
}
