#include "src/dump/json_source.h"

#include <system_error>
#include <utility>

#include <fmt/format.h>

#include "src/base/files.h"
#include "src/base/output_files.h"
#include "src/dump/layout.h"
#include "src/dump/record_log.h"

namespace msprobe::dump {

MemberStream::MemberStream(Visit member, std::string_view expanded_key, Visit entry)
    : member_(std::move(member)), expanded_key_(expanded_key), entry_(std::move(entry)) {}

bool MemberStream::Fail(Status status) {
  status_ = std::move(status);
  stopped_ = true;
  return false;
}

bool MemberStream::StartValue(std::string_view what) {
  if (stopped_) {
    return false;
  }
  if (building_) {
    return true;
  }
  if (level_ == Level::kOutside) {
    return Fail(
        BadFormatError(fmt::format("it holds {} where an object {{...}} was expected", what)));
  }
  builder_.Reset();
  building_ = true;
  value_begin_ = nullptr;
  return true;
}

bool MemberStream::FinishValue(bool taken) {
  if (!taken) {
    return Fail(BadFormatError(
        fmt::format("\"{}\" holds more than {} values", name_, EntryTreeBuilder::kMaxNodes)));
  }
  if (!builder_.complete()) {
    return true;
  }
  building_ = false;
  Result<bool> go_on = (level_ == Level::kExpanded ? entry_ : member_)(name_, builder_.tree());
  if (!go_on.ok()) {
    return Fail(std::move(go_on).status());
  }
  stopped_ = !*go_on;
  return *go_on;
}

bool MemberStream::OnNull() { return StartValue("null") && FinishValue(builder_.OnNull()); }

bool MemberStream::OnBool(bool value) {
  return StartValue("true or false") && FinishValue(builder_.OnBool(value));
}

bool MemberStream::OnInt(int64_t value) {
  return StartValue("a number") && FinishValue(builder_.OnInt(value));
}

bool MemberStream::OnFloat(double value, std::string_view digits) {
  return StartValue("a number") && FinishValue(builder_.OnFloat(value, digits));
}

bool MemberStream::OnText(std::string_view value) {
  return StartValue("text") && FinishValue(builder_.OnText(value));
}

bool MemberStream::OnBeginObject() {
  if (stopped_) {
    return false;
  }
  if (!building_ && level_ == Level::kOutside) {
    level_ = Level::kTop;
    return true;
  }
  if (!building_ && level_ == Level::kTop && entry_ && name_ == expanded_key_) {
    level_ = Level::kExpanded;
    found_expanded_ = true;
    return true;
  }
  const bool is_whole_value = !building_;
  if (!StartValue("an object")) {
    return false;
  }
  if (is_whole_value) {
    value_begin_ = place() - 1;
  }
  return FinishValue(builder_.OnBeginObject());
}

bool MemberStream::OnKey(std::string_view key) {
  if (stopped_) {
    return false;
  }
  if (building_) {
    builder_.OnKey(key);
  } else {
    name_.assign(key);
  }
  return true;
}

bool MemberStream::OnEndObject() {
  if (stopped_) {
    return false;
  }
  if (building_) {
    builder_.OnEndObject();
    return FinishValue(true);
  }
  level_ = level_ == Level::kExpanded ? Level::kTop : Level::kOutside;
  return true;
}

bool MemberStream::OnBeginArray() {
  return StartValue("a list") && FinishValue(builder_.OnBeginArray());
}

bool MemberStream::OnEndArray() {
  if (stopped_) {
    return false;
  }
  builder_.OnEndArray();
  return FinishValue(true);
}

bool ReadQuickly(std::string_view text, MemberStream& stream) {
  constexpr std::string_view kBlanks = " \t\r\n";
  const size_t first = text.find_first_not_of(kBlanks);
  if (first == std::string_view::npos) {
    return false;
  }
  stream.BorrowTexts();
  return json::ParsePlainObject(text.substr(first, text.find_last_not_of(kBlanks) + 1 - first),
                                stream);
}

}  // namespace msprobe::dump

namespace msprobe::dump::internal {
namespace {

constexpr size_t kHeaderBytes = 65536;
constexpr std::string_view kDebugLevel = "debug";

using Convert = std::string (*)(const RecordLog&);

std::string StackText(const RecordLog& log) { return StackJsonText(log, SourceFiles::kPython); }

// The function that makes the file's text from a log; null for files that no log holds.
Convert ConversionOf(const std::filesystem::path& file_name) {
  if (file_name == kDumpFileName || file_name == kDebugFileName) {
    return DumpJsonText;
  }
  if (file_name == kStackFileName) {
    return StackText;
  }
  return file_name == kConstructFileName ? ConstructJsonText : nullptr;
}

}  // namespace

Result<JsonSource> JsonSource::Open(const std::filesystem::path& path) {
  JsonSource source;
  const std::filesystem::path log_path = path.parent_path() / kRecordLogName;
  const Convert convert = ConversionOf(path.filename());
  if (convert != nullptr && base::IsRegularFile(log_path)) {
    MSP_ASSIGN_OR_RETURN(const base::FileBytes bytes, base::FileBytes::Open(log_path));
    const Result<RecordLog> log = RecordLog::Parse(bytes.text());
    // A log that says nothing yet, or one of another level, leaves the file as it is.
    const bool debug_file = path.filename() == kDebugFileName;
    if (log.ok() && (log->header.level == kDebugLevel) == debug_file) {
      source.converted_ = convert(*log);
      source.recovery_ = LogConversion{log->record_count, log->entries.size(), log->lost_bytes};
      return source;
    }
  }
  MSP_ASSIGN_OR_RETURN(source.file_, base::FileBytes::Open(path));
  return source;
}

LeftLog FindLeftLog(const std::filesystem::path& rank_folder) {
  const std::filesystem::path log_path = rank_folder / kRecordLogName;
  if (!base::IsRegularFile(log_path)) {
    return LeftLog::kNone;
  }
  const Result<base::FileBytes> bytes = base::FileBytes::Open(log_path);
  if (!bytes.ok()) {
    base::NoteUnseen(bytes.status());
    return LeftLog::kNone;
  }
  // The first record is enough.
  const Result<RecordLog> log = RecordLog::Parse(bytes->text().substr(0, kHeaderBytes));
  if (!log.ok()) {
    return LeftLog::kNone;
  }
  return log->header.level == kDebugLevel ? LeftLog::kDebug : LeftLog::kDump;
}

}  // namespace msprobe::dump::internal
