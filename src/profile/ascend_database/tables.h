// Inside of the room: what all parts of an Ascend database's reader share.
#pragma once

#include <cstdint>
#include <functional>
#include <initializer_list>
#include <optional>
#include <string_view>
#include <unordered_map>

#include "msprobe/status.h"

#include "src/database/sqlite_file.h"
#include "src/profile/profile.h"

namespace msprobe::profile {

class DatabaseTables {
 public:
  // A number of some bytes in a row stands for a text of any length, which is spelled out for each
  // row of a result: bytes of all longer texts that rows name.
  static constexpr uint64_t kSpelledTimesFileSize = 64;
  static constexpr uint64_t kFreeSpelledBytes = uint64_t{16} << 20U;
  static constexpr size_t kShortText = 256;  // does not count

  DatabaseTables(const database::SqliteFile& file, const Needs& needs, Profile& profile)
      : file_(file),
        needs_(needs),
        profile_(profile),
        spelled_left_(kSpelledTimesFileSize * file.size_bytes() + kFreeSpelledBytes) {}

  // Texts and steps. Fails where the step that is needed is none of them.
  Status Load();
  // As database::SqliteFile's. Tables and columns that are missing, and tables that break off, are
  // told as warnings, or are errors when the needs are strict.
  Status ForEachRow(std::string_view table, std::initializer_list<std::string_view> columns,
                    const std::function<void(const database::SqliteRow&)>& visit);
  bool HasTable(std::string_view table) const { return file_.HasTable(table); }

  // A column of numbers of texts; kNoText for null and for numbers that mean nothing. Where rows
  // name long texts so often that all of them together are out of proportion to the file, the
  // beginning of the text.
  TextId Text(const database::SqliteRow& row, int column);
  // True for everything when no step is needed.
  bool InStep(Nanoseconds start) const {
    return !step_.has_value() || (step_->start <= start && start <= step_->end);
  }

  const Needs& needs() const { return needs_; }
  Profile& profile() { return profile_; }

 private:
  TextId Spelled(TextId text);

  const database::SqliteFile& file_;
  const Needs& needs_;
  Profile& profile_;
  std::unordered_map<int64_t, TextId> texts_;
  std::optional<Step> step_;
  uint64_t spelled_left_;
  bool cuts_texts_ = false;
};

// Ends of a row's time: false (and counted by the caller) when they make no sense.
inline bool IsUsableTime(Nanoseconds start, Nanoseconds end) { return start >= 0 && end >= start; }

// The nearest double, also of points in time, which have more digits than a double.
inline double MicrosecondsOf(Nanoseconds time) {
  const Nanoseconds whole = time / 1000;
  return static_cast<double>(whole) + static_cast<double>(time % 1000) / 1000;
}

}  // namespace msprobe::profile
