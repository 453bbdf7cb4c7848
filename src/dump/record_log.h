// The append-only log of a step under capture (records.log in the rank folder). It survives a
// killed process: whatever was appended before is readable, a torn end is reported and left out.
//
// Layout: 8 bytes "MSPRLOG1", then frames of [u32 payload bytes][u32 CRC-32 of the
// payload][payload], little-endian. A payload is a kind byte and fields; a text is [u32
// bytes][bytes].
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "msprobe/status.h"

#include "src/base/files.h"

namespace msprobe::dump {

inline constexpr std::string_view kRecordLogName = "records.log";

// Places in a fragment for values that come later: "\x01<ticket in decimal>\x02". JSON text never
// holds these bytes. A ticket fills one hole; one that nothing fills reads null.
inline constexpr char kHoleBegin = '\x01';
inline constexpr char kHoleEnd = '\x02';
std::string HoleText(uint64_t ticket);

// The first record of a log.
struct LogHeader {
  std::string task;
  std::string level;
  std::string framework;
  std::string dump_data_dir;  // empty: null
  uint64_t process_id = 0;
  std::string run{};  // that the process is part of; empty in logs of older versions
};

struct LogFrame {
  std::string_view file;
  std::string_view function;
  int32_t line = 0;
};

// Appends one record each to `out`, ready to be written behind what is there. Texts may be any
// bytes. Fragments are JSON text at their final indentation: of a member's value as it stands at
// depth 3 of dump.json, of a whole entry's value at depth 2.
void AppendLogStart(const LogHeader& header, std::string& out);  // magic and header
void AppendMember(std::string_view entry, std::string_view key, std::string_view fragment,
                  std::string& out);
void AppendWhole(std::string_view entry, std::string_view fragment, std::string& out);
void AppendPending(uint64_t ticket, std::string_view fragment, std::string& out);
void AppendConstruct(std::string_view name, std::optional<std::string_view> parent,
                     std::string& out);
void AppendStack(uint32_t id, const std::vector<LogFrame>& frames, std::string& out);
void AppendStackOf(std::string_view name, uint32_t id, std::string& out);

// The content of a log, as views into its bytes.
struct RecordLog {
  struct Member {
    std::string_view key;  // empty: the value of the whole entry
    std::string_view fragment;
  };
  struct Entry {
    std::string_view name;
    std::vector<Member> members;  // place of the first commit, value of the last
  };
  struct Node {
    std::string_view name;
    std::optional<std::string_view> parent;
  };
  struct Stack {
    std::vector<LogFrame> frames;         // innermost first
    std::vector<std::string_view> names;  // in order of first mention
  };

  LogHeader header;
  std::vector<Entry> entries;                                  // in order of first commit
  std::vector<std::pair<uint64_t, std::string_view>> pending;  // sorted by ticket, last one wins
  std::vector<Node> construct;
  std::vector<Stack> stacks;
  uint64_t record_count = 0;
  uint64_t lost_bytes = 0;  // behind the last whole frame

  // An error only when not even the header can be read.
  static Result<RecordLog> Parse(std::string_view bytes);
  // The same of a log that this process has in memory, in pieces of whole records: their checksums
  // are not looked at.
  static Result<RecordLog> Parse(std::span<const std::string_view> pieces);
  // Whether a log that cannot be parsed is one whose writer ended before its header was written.
  static bool EndsInHeader(std::string_view bytes);
};

// Whether a living process of this host writes the log: it holds a lock as long as it lives.
bool IsBeingWritten(const base::Path& log);

// Only the run in the header of a log file; empty when it cannot be determined.
std::string RunOfLog(const base::Path& log);

// From the log of a step to the files that readers know.

// The JSON texts, spelled as Python's json.dump with indent 1 does.
std::string DumpJsonText(const RecordLog& log);  // dump.json or debug.json
std::string ReducedGradientsJsonText(const RecordLog& log);
std::string ConstructJsonText(const RecordLog& log);
// The files that may be opened for the code of a frame: any file that the log names, if this
// process wrote the log; only Python files, with links followed, if anybody may have written it.
enum class SourceFiles { kOfThisProcess, kPython };
// Reads the source lines of the frames; frames without source are left out.
std::string StackJsonText(const RecordLog& log, SourceFiles allowed);

// Reads records.log of a rank folder and writes dump.json, stack.json and construct.json, and
// reduced_gradients.json where there are some, or debug.json for level debug, each atomically. The
// log stays.
struct LogConversion {
  uint64_t records = 0;
  uint64_t entries = 0;
  uint64_t lost_bytes = 0;
};
Result<LogConversion> ConvertRecordLog(const base::Path& rank_folder, SourceFiles allowed);
// The same of a log that is in memory (RecordLog::Parse); the file is not looked at.
Result<LogConversion> ConvertRecordLog(std::span<const std::string_view> pieces,
                                       const base::Path& rank_folder, SourceFiles allowed);

}  // namespace msprobe::dump
