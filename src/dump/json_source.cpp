#include "src/dump/json_source.h"

#include <system_error>
#include <utility>

#include "src/base/files.h"
#include "src/base/output_files.h"
#include "src/dump/layout.h"
#include "src/dump/record_log.h"

namespace msprobe::dump::internal {
namespace {

constexpr size_t kHeaderBytes = 65536;
constexpr std::string_view kDebugLevel = "debug";

using Convert = std::string (*)(const RecordLog&);

std::string StackText(const RecordLog& log) { return StackJsonText(log, SourceFiles::kPython); }

// Which text of a log stands for the file; null for files that no log holds.
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
