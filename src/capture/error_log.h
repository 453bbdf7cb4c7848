// dump_error_info.log of a step: what could not be captured, and why.
#pragma once

#include <cstdint>
#include <memory>
#include <mutex>
#include <string_view>

#include "src/base/files.h"
#include "src/capture/totals.h"

namespace msprobe::capture {

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

}  // namespace msprobe::capture
