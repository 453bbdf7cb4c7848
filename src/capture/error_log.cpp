#include "src/capture/error_log.h"

#include <array>
#include <atomic>
#include <ctime>
#include <utility>

#include <fcntl.h>
#include <fmt/format.h>
#include <unistd.h>

#include "src/base/threads.h"
#include "src/base/log.h"
#include "src/base/strings.h"

namespace msprobe::capture {
namespace {

// "2026-11-21 09:59:07 +0800"
std::string LocalTime() {
  const std::time_t now = std::time(nullptr);
  std::tm parts{};
  ::localtime_r(&now, &parts);
  std::array<char, 64> text;
  const size_t length = std::strftime(text.data(), text.size(), "%Y-%m-%d %H:%M:%S %z", &parts);
  return {text.data(), length};
}

}  // namespace

ErrorLog::ErrorLog(base::Path path, std::shared_ptr<Totals> totals)
    : path_(std::move(path)), totals_(std::move(totals)) {}

void ErrorLog::Report(std::string_view name, std::string_view text) {
  static std::atomic<bool> told{false};
  if (!told.exchange(true)) {
    base::LogWarning(fmt::format("{}: {}", name, text));
    const std::lock_guard lock(mutex_);
    base::LogHint(path_.empty() ? "training continues; later errors are only counted"
                                : fmt::format("training continues; this and later errors are "
                                              "written to {}",
                                              path_.string()));
  }
  Note(name, text);
}

void ErrorLog::Note(std::string_view name, std::string_view text) {
  const base::NoFileSizeSignal guard;
  ++totals_->errors;
  base::Path path;
  {
    const std::lock_guard lock(mutex_);
    path = path_;
    if (++count_ > kMostLines || path_.empty()) {
      return;
    }
  }
  const int descriptor = ::open(
      path.c_str(), O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK, 0640);
  if (descriptor < 0) {
    return;
  }
  const std::string line =
      fmt::format("[{}] [ERROR] {}: {} (process {})\n", LocalTime(), base::Printable(name),
                  base::Printable(text, "\n\t"), ::getpid());
  // What cannot be written here was at least counted.
  [[maybe_unused]] const ssize_t written = ::write(descriptor, line.data(), line.size());
  ::close(descriptor);
}

void ErrorLog::SetPath(base::Path path) {
  const std::lock_guard lock(mutex_);
  path_ = std::move(path);
}

uint64_t ErrorLog::count() const {
  const std::lock_guard lock(mutex_);
  return count_;
}

}  // namespace msprobe::capture
