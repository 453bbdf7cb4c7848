// The writing end of records.log: callers copy records into memory, a thread of ours hands them to
// the system shortly afterwards, so that a killed process loses next to nothing.
#pragma once

#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <string>
#include <string_view>
#include <thread>

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
  // Appends nothing any more; ends the thread and closes the file (and gives up a lock on it). What
  // cannot be written now is lost.
  void Close() noexcept;

  // Puts `start` in front of the records instead of the present start of `start_bytes` bytes, and
  // goes on at `new_path`. The lock moves with it.
  Status ReplaceStart(size_t start_bytes, std::string_view start, const base::Path& new_path);

  uint64_t lost_bytes() const;
  // After fork, in the child, where the mutexes may be anyone's.
  int descriptor_after_fork() const { return descriptor_; }

 private:
  void Loop();
  bool FlushOrKeep() noexcept;  // false: all that waits is kept
  Status WriteWaiting();        // io_mutex_ held

  const std::function<void(const Status&)> on_trouble_;

  std::mutex io_mutex_;  // before mutex_: what touches the file
  int descriptor_;
  base::Path path_;
  std::string writing_;  // taken from waiting_, on its way to the file

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
