// Inside of the room: the text of a dump's JSON file, taken from the log of records beside it where
// the capture did not come to its end.
#pragma once

#include <filesystem>
#include <optional>
#include <string>
#include <string_view>

#include "msprobe/status.h"

#include "src/base/files.h"
#include "src/dump/dump_json_writer.h"

namespace msprobe::dump::internal {

class JsonSource {
 public:
  static Result<JsonSource> Open(const std::filesystem::path& path);

  std::string_view text() const { return recovery_ ? std::string_view(converted_) : file_.text(); }
  // Gives pages of a part of the text back to the system; they are read again when somebody looks.
  void ReleaseText(uint64_t offset, uint64_t bytes) const {
    if (!recovery_) {
      file_.ReleasePages(file_.bytes().subspan(offset, bytes));
    }
  }
  // What the log gave; nullopt when the file itself was read.
  const std::optional<LogConversion>& recovery() const { return recovery_; }

 private:
  base::FileBytes file_;
  std::string converted_;
  std::optional<LogConversion> recovery_;
};

// Whether a rank folder holds a log of an unfinished step, and of which kind of capture.
enum class LeftLog { kNone, kDump, kDebug };
LeftLog FindLeftLog(const std::filesystem::path& rank_folder);

}  // namespace msprobe::dump::internal
