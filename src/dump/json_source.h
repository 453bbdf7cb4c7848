// The text of a dump's JSON file, taken from the log of records beside it where
// the capture did not come to its end.
#pragma once

#include <filesystem>
#include <functional>
#include <optional>
#include <string>
#include <string_view>

#include "msprobe/status.h"

#include "src/base/files.h"
#include "src/dump/entry_tree.h"
#include "src/dump/record_log.h"
#include "src/json/stream_reader.h"

namespace msprobe::dump {

// The members of a JSON document's top object, one tree at a time: what dump, stack and construct
// files have in common.

class MemberStream final : public json::Handler {
 public:
  // False stops reading without an error. Name and tree are valid during the call only.
  using Visit = std::function<Result<bool>(std::string_view name, const EntryTree& value)>;

  // `member` gets every member of the top object, except that the members of the object named
  // `expanded_key` go to `entry`.
  MemberStream(Visit member, std::string_view expanded_key, Visit entry);
  explicit MemberStream(Visit member) : MemberStream(std::move(member), {}, {}) {}

  // The text that is read outlives the stream: trees need not copy it.
  void BorrowTexts() { builder_.BorrowTexts(); }

  // While an object is handed over: its text in what is read. Empty of other values.
  std::string_view value_text() const {
    return value_begin_ == nullptr
               ? std::string_view()
               : std::string_view(value_begin_, static_cast<size_t>(place() - value_begin_));
  }

  // Why reading was stopped by this side: a visitor's error, or a document of the wrong form.
  const Status& status() const { return status_; }
  bool found_expanded() const { return found_expanded_; }

  bool OnNull() override;
  bool OnBool(bool value) override;
  bool OnInt(int64_t value) override;
  bool OnFloat(double value, std::string_view digits) override;
  bool OnText(std::string_view value) override;
  bool OnBeginObject() override;
  bool OnKey(std::string_view key) override;
  bool OnEndObject() override;
  bool OnBeginArray() override;
  bool OnEndArray() override;

 private:
  enum class Level { kOutside, kTop, kExpanded };

  // Called before a value; false (with a status) where no plain value may stand.
  bool StartValue(std::string_view what);
  // Called after each event the builder took: hands a complete value over.
  bool FinishValue(bool taken);
  bool Fail(Status status);

  const Visit member_;
  const std::string expanded_key_;
  const Visit entry_;
  EntryTreeBuilder builder_;
  std::string name_;
  const char* value_begin_ = nullptr;
  Level level_ = Level::kOutside;
  bool building_ = false;
  bool found_expanded_ = false;
  bool stopped_ = false;
  Status status_;
};

// The members of a text by the quick way, json::ParsePlainObject. False: it is damaged or no plain
// JSON, and json::ParseStream has to read it with another stream; the visitors have seen a part of
// it.
bool ReadQuickly(std::string_view text, MemberStream& stream);

}  // namespace msprobe::dump

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
  // The conversion of the log; nullopt if the file itself was read.
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
