#include "src/capture/log_writer.h"

#include <array>
#include <atomic>
#include <cerrno>
#include <cstring>
#include <ctime>
#include <new>
#include <utility>

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/file.h>
#include <unistd.h>

#include "src/base/log.h"
#include "src/base/strings.h"
#include "src/base/threads.h"

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
  // A line that cannot be written here has at least been counted.
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

namespace {

// So much is written at once rather than after the interval.
constexpr size_t kWakeAboveBytes = size_t{1} << 20U;

}  // namespace

LogWriter::LogWriter(int descriptor, base::Path path, std::function<void(const Status&)> on_trouble)
    : on_trouble_(std::move(on_trouble)), descriptor_(descriptor), path_(std::move(path)) {
  try {
    if (Result<std::thread> thread = base::StartBackgroundThread([this] { Loop(); }); thread.ok()) {
      thread_ = *std::move(thread);
      has_thread_ = true;
    }
  } catch (const std::bad_alloc&) {  // as where no thread can be had
  }
}

LogWriter::~LogWriter() { Close(); }

bool LogWriter::Append(std::string_view records) {
  bool wake = false;
  {
    const std::lock_guard lock(mutex_);
    if (appends_ended_ || closed_ || waiting_.size() + records.size() > kMostWaitingBytes) {
      lost_bytes_ += records.size();
      return false;
    }
    const size_t before = waiting_.size();
    try {
      waiting_ += records;
    } catch (const std::bad_alloc&) {
      lost_bytes_ += records.size();
      return false;
    }
    wake = before < kWakeAboveBytes && waiting_.size() >= kWakeAboveBytes;
  }
  if (!has_thread_) {
    FlushOrKeep();  // tried again with the next record, and at the end
    return true;
  }
  if (wake) {
    wake_.notify_one();
  }
  return true;
}

void LogWriter::EndAppends() {
  const std::lock_guard lock(mutex_);
  appends_ended_ = true;
}

bool LogWriter::HasRoom(size_t bytes) const {
  const std::lock_guard lock(mutex_);
  return waiting_.size() + bytes <= kMostWaitingBytes;
}

void LogWriter::Loop() {
  std::unique_lock lock(mutex_);
  while (!closed_) {
    // Polling costs callers nothing, where a wake-up per record would be a system call each.
    wake_.wait_for(lock, kFlushInterval,
                   [this] { return closed_ || waiting_.size() >= kWakeAboveBytes; });
    if (waiting_.empty()) {
      continue;
    }
    lock.unlock();
    const bool written = FlushOrKeep();
    lock.lock();
    if (!written) {
      // A full disk is not asked more often than this.
      wake_.wait_for(lock, kFlushInterval * 10, [this] { return closed_; });
    }
  }
}

bool LogWriter::FlushOrKeep() noexcept {
  try {
    return Flush().ok();
  } catch (const std::bad_alloc&) {  // as on a full disk
    return false;
  }
}

Status LogWriter::Flush() {
  const base::NoFileSizeSignal guard;
  Status status;
  {
    const std::lock_guard io_lock(io_mutex_);
    status = WriteWaiting();
  }
  if (!status.ok()) {
    const bool tell = [this] {
      const std::lock_guard lock(mutex_);
      return !std::exchange(told_, true);
    }();
    if (tell) {
      try {
        on_trouble_(status);
      } catch (const std::bad_alloc&) {  // whoever counts what is lost, tells it
      }
    }
  }
  return status;
}

bool LogWriter::TakeWaiting() {
  const std::lock_guard lock(mutex_);
  if (!waiting_.empty()) {
    const size_t bytes = waiting_.size();
    chunks_.push_back({std::move(waiting_), 0});
    chunk_bytes_ += bytes;
    waiting_.clear();
  }
  return is_whole_;
}

Status LogWriter::WriteWaiting() {
  TakeWaiting();
  Status status;
  for (Chunk& chunk : chunks_) {
    while (status.ok() && chunk.written < chunk.text.size() && descriptor_ >= 0) {
      const ssize_t count = ::write(descriptor_, chunk.text.data() + chunk.written,
                                    chunk.text.size() - chunk.written);
      if (count >= 0) {
        chunk.written += static_cast<size_t>(count);
      } else if (errno != EINTR) {
        status = IoError(fmt::format("cannot write {}: {}", path_.string(), std::strerror(errno)));
      }
    }
  }
  if (chunk_bytes_ > kMostKeptBytes || !is_whole_) {
    is_whole_ = false;
    std::erase_if(chunks_, [this](const Chunk& chunk) {
      const bool is_written = chunk.written == chunk.text.size();
      chunk_bytes_ -= is_written ? chunk.text.size() : 0;
      return is_written;
    });
  }
  return status;
}

void LogWriter::EndThread() noexcept {
  {
    const std::lock_guard lock(mutex_);
    closed_ = true;
  }
  wake_.notify_one();
  if (thread_.joinable()) {
    thread_.join();
  }
}

void LogWriter::Close() noexcept {
  EndThread();
  FlushOrKeep();  // reported by Flush itself
  const std::lock_guard io_lock(io_mutex_);
  if (descriptor_ >= 0) {
    ::close(std::exchange(descriptor_, -1));
  }
  const std::lock_guard lock(mutex_);
  for (const Chunk& chunk : chunks_) {
    lost_bytes_ += chunk.text.size() - chunk.written;
  }
  lost_bytes_ += waiting_.size();
  chunks_.clear();
  chunk_bytes_ = 0;
  waiting_.clear();
}

void LogWriter::CloseUnwritten() noexcept {
  EndThread();
  const std::lock_guard io_lock(io_mutex_);
  if (descriptor_ >= 0) {
    ::close(std::exchange(descriptor_, -1));
  }
  const std::lock_guard lock(mutex_);
  chunks_.clear();
  chunk_bytes_ = 0;
  waiting_.clear();
}

Status LogWriter::ReplaceStart(size_t start_bytes, std::string_view start,
                               const base::Path& new_path) {
  const base::NoFileSizeSignal guard;
  const std::lock_guard io_lock(io_mutex_);
  is_whole_ = false;  // the start in memory is the former one
  MSP_RETURN_IF_ERROR(WriteWaiting());
  MSP_ASSIGN_OR_RETURN(const base::FileBytes old, base::FileBytes::Open(new_path));
  const base::Path temporary = new_path.string() + ".tmp";
  base::Path own_path = new_path;
  // Before there is a file: nothing is left where memory ends.
  std::string content(start);
  content += old.text().substr(std::min(start_bytes, old.text().size()));
  const int descriptor = ::open(
      temporary.c_str(), O_RDWR | O_CREAT | O_TRUNC | O_APPEND | O_CLOEXEC | O_NOFOLLOW, 0640);
  if (descriptor < 0) {
    return IoError(fmt::format("cannot create {}: {}", temporary.string(), std::strerror(errno)));
  }
  ::flock(descriptor, LOCK_EX | LOCK_NB);
  size_t done = 0;
  while (done < content.size()) {
    const ssize_t count = ::write(descriptor, content.data() + done, content.size() - done);
    if (count < 0 && errno == EINTR) {
      continue;
    }
    if (count < 0) {
      break;
    }
    done += static_cast<size_t>(count);
  }
  if (done < content.size() || ::rename(temporary.c_str(), new_path.c_str()) != 0) {
    const int error = errno;
    ::close(descriptor);
    ::unlink(temporary.c_str());
    return IoError(fmt::format("cannot write {}: {}", new_path.string(), std::strerror(error)));
  }
  ::close(std::exchange(descriptor_, descriptor));
  path_.swap(own_path);
  return {};
}

uint64_t LogWriter::lost_bytes() const {
  const std::lock_guard lock(mutex_);
  return lost_bytes_;
}

}  // namespace msprobe::capture
