// From the log of a step to the files that readers know.
#pragma once

#include <string>

#include "msprobe/status.h"

#include "src/base/files.h"
#include "src/dump/record_log.h"

namespace msprobe::dump {

// The JSON texts, spelled as Python's json.dump with indent 1 does.
std::string DumpJsonText(const RecordLog& log);  // dump.json or debug.json
std::string ConstructJsonText(const RecordLog& log);
// Which files are opened for the code of a frame: those that the log names, as the capture itself
// wrote it in this process; or, of a log that may be anybody's, Python files alone, links followed.
enum class SourceFiles { kOfThisProcess, kPython };
// Reads the source lines of the frames; frames without source are left out.
std::string StackJsonText(const RecordLog& log, SourceFiles allowed);

// Reads records.log of a rank folder and writes dump.json, stack.json and construct.json, or
// debug.json for level debug, each atomically. The log stays.
struct LogConversion {
  uint64_t records = 0;
  uint64_t entries = 0;
  uint64_t lost_bytes = 0;
};
Result<LogConversion> ConvertRecordLog(const base::Path& rank_folder, SourceFiles allowed);

}  // namespace msprobe::dump
