// The writing end of records.log: callers copy records into memory, a thread of ours hands them to
// the system shortly afterwards, so that a killed process loses next to nothing.
#pragma once

#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <span>
#include <string>
#include <string_view>
#include <thread>
#include <vector>

#include "msprobe/status.h"

#include "src/base/files.h"
#include "src/capture/tensor_files.h"

namespace msprobe::capture {

// dump_error_info.log of a step: what could not be captured, and why.

// Thread-safe. Opens the file for each line: errors are rare, and the folder may be moved.
class ErrorLog {
 public:
  // A trouble that repeats with every call must not fill the disk.
  static constexpr uint64_t kMostLines = 10000;

  // An empty path: there is no file, and errors are counted.
  ErrorLog(base::Path path, std::shared_ptr<Totals> totals);

  // Neither fails. The first report of the process is also a warning on stderr, notes are not.
  void Report(std::string_view name, std::string_view text);
  void Note(std::string_view name, std::string_view text);
  void SetPath(base::Path path);
  uint64_t count() const;

 private:
  mutable std::mutex mutex_;
  base::Path path_;
  const std::shared_ptr<Totals> totals_;
  uint64_t count_ = 0;
};

class LogWriter {
 public:
  // Records wait in memory no longer than this, and then a little for the write itself.
  static constexpr std::chrono::milliseconds kFlushInterval{40};
  // A log up to this size stays in memory as well: the end of a step need not read it.
  static constexpr size_t kMostKeptBytes = size_t{16} << 20U;
  // While the disk is full, records wait up to this size; further ones are lost.
  static constexpr size_t kMostWaitingBytes = size_t{64} << 20U;

  // Takes over `descriptor`, open for writing at its end. `on_trouble` is called with the first
  // failure, from any thread. A thread that cannot be had is replaced by writing in Append.
  LogWriter(int descriptor, base::Path path, std::function<void(const Status&)> on_trouble);
  LogWriter(const LogWriter&) = delete;
  LogWriter& operator=(const LogWriter&) = delete;
  ~LogWriter();  // writes what waits

  // Whole records, ready to be written. False when they are lost: too much waits already, or there
  // is no memory for them. Thread-safe, as all below.
  bool Append(std::string_view records);
  // From now on Append takes nothing more: the next Flush is the last that is needed.
  void EndAppends();
  // Whether so much more may wait.
  bool HasRoom(size_t bytes) const;
  // Returns when everything appended before is the system's. std::bad_alloc passes, and all that
  // waits is kept.
  Status Flush();
  // Calls use(pieces) with all that was appended, written or not, in pieces of whole records, if
  // all of it is in memory. False where it is not: then the file has it after a Flush.
  template <typename Use>
  bool UseWhole(Use use) {
    const std::lock_guard io_lock(io_mutex_);
    if (!TakeWaiting()) {
      return false;
    }
    std::vector<std::string_view> pieces;
    pieces.reserve(chunks_.size());
    for (const Chunk& chunk : chunks_) {
      pieces.emplace_back(chunk.text);
    }
    use(std::span<const std::string_view>(pieces));
    return true;
  }

  // Appends nothing any more; ends the thread and closes the file (and gives up a lock on it). What
  // cannot be written now is lost.
  void Close() noexcept;
  // The same where the log is not needed any more: what waits is not written.
  void CloseUnwritten() noexcept;

  // Puts `start` in front of the records instead of the present start of `start_bytes` bytes, and
  // goes on at `new_path`. The lock moves with it.
  Status ReplaceStart(size_t start_bytes, std::string_view start, const base::Path& new_path);

  uint64_t lost_bytes() const;
  // After fork, in the child, where the mutexes may be anyone's.
  int descriptor_after_fork() const { return descriptor_; }

 private:
  // Some records on their way to the file, and then perhaps kept.
  struct Chunk {
    std::string text;
    size_t written = 0;
  };

  void Loop();
  void EndThread() noexcept;
  bool FlushOrKeep() noexcept;  // false: all that waits is kept
  // io_mutex_ held:
  bool TakeWaiting();  // to chunks_; whether they are the whole log
  Status WriteWaiting();

  const std::function<void(const Status&)> on_trouble_;

  std::mutex io_mutex_;  // before mutex_: what touches the file
  int descriptor_;
  base::Path path_;
  std::vector<Chunk> chunks_;  // taken from waiting_
  size_t chunk_bytes_ = 0;
  bool is_whole_ = true;  // chunks_ begin where the log does

  mutable std::mutex mutex_;
  std::condition_variable wake_;
  std::string waiting_;
  uint64_t lost_bytes_ = 0;
  bool told_ = false;
  bool appends_ended_ = false;
  bool closed_ = false;
  bool has_thread_ = false;  // never changes once made; thread_ is for Close alone
  std::thread thread_;
};

}  // namespace msprobe::capture
