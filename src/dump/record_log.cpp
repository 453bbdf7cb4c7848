#include "src/dump/record_log.h"

#include <algorithm>
#include <cerrno>
#include <charconv>
#include <filesystem>
#include <memory>
#include <mutex>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <system_error>
#include <tuple>
#include <unordered_map>
#include <utility>
#include <vector>

#include <fmt/format.h>
#include <sys/file.h>
#include <sys/stat.h>

#include "src/base/files.h"
#include "src/base/strings.h"
#include "src/dump/layout.h"
#include "src/dump/names.h"
#include "src/json/writer.h"
#include "src/kernels/crc32.h"

namespace msprobe::dump {
namespace {

constexpr std::string_view kMagic = "MSPRLOG1";
constexpr size_t kFrameHeadBytes = 8;

enum class Kind : uint8_t {
  kHeader = 1,
  kMember = 2,
  kWhole = 3,
  kPending = 4,
  kConstruct = 5,
  kStack = 6,
  kStackOf = 7,
};

template <typename Integer>
void PutLittle(Integer value, std::string& out) {
  for (size_t i = 0; i < sizeof value; ++i) {
    out.push_back(static_cast<char>((static_cast<uint64_t>(value) >> (8 * i)) & 0xFFU));
  }
}

template <typename Integer>
Integer LittleAt(const char* bytes) {
  uint64_t value = 0;
  for (size_t i = 0; i < sizeof(Integer); ++i) {
    value |= static_cast<uint64_t>(static_cast<unsigned char>(bytes[i])) << (8 * i);
  }
  return static_cast<Integer>(value);
}

// One frame: its head is filled in when the payload behind it is known.
class FrameWriter {
 public:
  FrameWriter(Kind kind, std::string& out) : out_(out), start_(out.size()) {
    out_.append(kFrameHeadBytes, '\0');
    out_.push_back(static_cast<char>(kind));
  }
  FrameWriter(const FrameWriter&) = delete;
  FrameWriter& operator=(const FrameWriter&) = delete;
  ~FrameWriter() {
    const std::string_view payload = std::string_view(out_).substr(start_ + kFrameHeadBytes);
    std::string head;
    PutLittle(static_cast<uint32_t>(payload.size()), head);
    PutLittle(kernels::Crc32(payload), head);
    out_.replace(start_, kFrameHeadBytes, head);
  }

  void Text(std::string_view text) {
    PutLittle(static_cast<uint32_t>(text.size()), out_);
    out_ += text;
  }
  template <typename Integer>
  void Number(Integer value) {
    PutLittle(value, out_);
  }

 private:
  std::string& out_;
  const size_t start_;
};

// The fields of one payload; once something is missing, everything reads empty and ok() is false.
class FieldReader {
 public:
  explicit FieldReader(std::string_view payload) : rest_(payload) {}

  template <typename Integer>
  Integer Number() {
    if (!ok_ || rest_.size() < sizeof(Integer)) {
      ok_ = false;
      return 0;
    }
    const auto value = LittleAt<Integer>(rest_.data());
    rest_.remove_prefix(sizeof(Integer));
    return value;
  }
  std::string_view Text() {
    const auto bytes = Number<uint32_t>();
    if (!ok_ || rest_.size() < bytes) {
      ok_ = false;
      return {};
    }
    const std::string_view text = rest_.substr(0, bytes);
    rest_.remove_prefix(bytes);
    return text;
  }
  bool ok() const { return ok_; }
  size_t rest_bytes() const { return rest_.size(); }

 private:
  std::string_view rest_;
  bool ok_ = true;
};

class LogParser {
 public:
  explicit LogParser(RecordLog& log) : log_(log) {}

  // False for a payload that is none of ours.
  bool Take(std::string_view payload) {
    FieldReader fields(payload);
    switch (static_cast<Kind>(fields.Number<uint8_t>())) {
      case Kind::kHeader:
        return TakeHeader(fields);
      case Kind::kMember: {
        const std::string_view entry = fields.Text();
        const std::string_view key = fields.Text();
        return PutMember(entry, key, fields.Text(), fields.ok());
      }
      case Kind::kWhole: {
        const std::string_view entry = fields.Text();
        return PutMember(entry, {}, fields.Text(), fields.ok());
      }
      case Kind::kPending: {
        const auto ticket = fields.Number<uint64_t>();
        const std::string_view fragment = fields.Text();
        log_.pending.emplace_back(ticket, fragment);
        return fields.ok();
      }
      case Kind::kConstruct:
        return TakeConstruct(fields);
      case Kind::kStack:
        return TakeStack(fields);
      case Kind::kStackOf: {
        const std::string_view name = fields.Text();
        const auto id = fields.Number<uint32_t>();
        const auto found = stack_by_id_.find(id);
        if (!fields.ok() || found == stack_by_id_.end()) {
          return false;
        }
        log_.stacks[found->second].names.push_back(name);
        return true;
      }
    }
    return false;
  }

  void Finish() {
    std::stable_sort(log_.pending.begin(), log_.pending.end(),
                     [](const auto& a, const auto& b) { return a.first < b.first; });
    // If a ticket has several values, the last one stays.
    auto out = log_.pending.begin();
    for (auto at = log_.pending.begin(); at != log_.pending.end(); ++at) {
      if (std::next(at) == log_.pending.end() || std::next(at)->first != at->first) {
        *out++ = *at;
      }
    }
    log_.pending.erase(out, log_.pending.end());
  }

 private:
  bool TakeHeader(FieldReader& fields) {
    log_.header.task = fields.Text();
    log_.header.level = fields.Text();
    log_.header.framework = fields.Text();
    log_.header.dump_data_dir = fields.Text();
    log_.header.process_id = fields.Number<uint64_t>();
    if (fields.ok() && fields.rest_bytes() > 0) {
      log_.header.run = fields.Text();
    }
    return fields.ok();
  }

  bool PutMember(std::string_view entry_name, std::string_view key, std::string_view fragment,
                 bool ok) {
    if (!ok) {
      return false;
    }
    // Members of an entry follow each other.
    size_t entry = last_entry_;
    if (log_.entries.empty() || log_.entries[entry].name != entry_name) {
      const auto [found, is_new] = entry_by_name_.try_emplace(entry_name, log_.entries.size());
      if (is_new) {
        log_.entries.push_back({entry_name, {}});
      }
      entry = last_entry_ = found->second;
    }
    std::vector<RecordLog::Member>& members = log_.entries[entry].members;
    const size_t same = PlaceOf(entry, members, key);
    if (same < members.size()) {
      members[same].fragment = fragment;
    } else {
      members.push_back({key, fragment});
    }
    return true;
  }

  // The index of the member with this key; members.size() where there is none, which is then added.
  // An entry has few members; only one that has more gets a map of them.
  size_t PlaceOf(size_t entry, const std::vector<RecordLog::Member>& members,
                 std::string_view key) {
    constexpr size_t kFew = 16;
    if (members.size() < kFew) {
      const auto same = std::find_if(members.begin(), members.end(),
                                     [key](const auto& member) { return member.key == key; });
      return static_cast<size_t>(same - members.begin());
    }
    auto& places = member_places_[entry];
    if (places.empty()) {
      for (size_t i = 0; i < members.size(); ++i) {
        places.emplace(members[i].key, i);
      }
    }
    return places.try_emplace(key, members.size()).first->second;
  }

  bool TakeConstruct(FieldReader& fields) {
    const std::string_view name = fields.Text();
    const bool has_parent = fields.Number<uint8_t>() != 0;
    const std::string_view parent = has_parent ? fields.Text() : std::string_view();
    if (!fields.ok()) {
      return false;
    }
    const auto [found, is_new] = node_by_name_.try_emplace(name, log_.construct.size());
    if (is_new) {
      log_.construct.push_back({name, std::nullopt});
    }
    log_.construct[found->second].parent =
        has_parent ? std::optional<std::string_view>(parent) : std::nullopt;
    return true;
  }

  bool TakeStack(FieldReader& fields) {
    const auto id = fields.Number<uint32_t>();
    const auto count = fields.Number<uint32_t>();
    constexpr size_t kLeastFrameBytes = 12;
    if (!fields.ok() || count > fields.rest_bytes() / kLeastFrameBytes) {
      return false;
    }
    RecordLog::Stack stack;
    stack.frames.reserve(count);
    for (uint32_t i = 0; i < count; ++i) {
      LogFrame frame;
      frame.file = fields.Text();
      frame.function = fields.Text();
      frame.line = fields.Number<int32_t>();
      stack.frames.push_back(frame);
    }
    if (!fields.ok() || !stack_by_id_.try_emplace(id, log_.stacks.size()).second) {
      return false;
    }
    log_.stacks.push_back(std::move(stack));
    return true;
  }

  RecordLog& log_;
  size_t last_entry_ = 0;
  std::unordered_map<std::string_view, size_t> entry_by_name_;
  // Per entry that has many members.
  std::unordered_map<size_t, std::unordered_map<std::string_view, size_t>> member_places_;
  std::unordered_map<std::string_view, size_t> node_by_name_;
  std::unordered_map<uint32_t, size_t> stack_by_id_;
};

}  // namespace

std::string HoleText(uint64_t ticket) {
  return fmt::format("{}{}{}", kHoleBegin, ticket, kHoleEnd);
}

void AppendLogStart(const LogHeader& header, std::string& out) {
  out += kMagic;
  FrameWriter frame(Kind::kHeader, out);
  frame.Text(header.task);
  frame.Text(header.level);
  frame.Text(header.framework);
  frame.Text(header.dump_data_dir);
  frame.Number(header.process_id);
  frame.Text(header.run);
}

void AppendMember(std::string_view entry, std::string_view key, std::string_view fragment,
                  std::string& out) {
  FrameWriter frame(Kind::kMember, out);
  frame.Text(entry);
  frame.Text(key);
  frame.Text(fragment);
}

void AppendWhole(std::string_view entry, std::string_view fragment, std::string& out) {
  FrameWriter frame(Kind::kWhole, out);
  frame.Text(entry);
  frame.Text(fragment);
}

void AppendPending(uint64_t ticket, std::string_view fragment, std::string& out) {
  FrameWriter frame(Kind::kPending, out);
  frame.Number(ticket);
  frame.Text(fragment);
}

void AppendConstruct(std::string_view name, std::optional<std::string_view> parent,
                     std::string& out) {
  FrameWriter frame(Kind::kConstruct, out);
  frame.Text(name);
  frame.Number(static_cast<uint8_t>(parent.has_value() ? 1 : 0));
  if (parent) {
    frame.Text(*parent);
  }
}

void AppendStack(uint32_t id, const std::vector<LogFrame>& frames, std::string& out) {
  FrameWriter writer(Kind::kStack, out);
  writer.Number(id);
  writer.Number(static_cast<uint32_t>(frames.size()));
  for (const LogFrame& frame : frames) {
    writer.Text(frame.file);
    writer.Text(frame.function);
    writer.Number(frame.line);
  }
}

void AppendStackOf(std::string_view name, uint32_t id, std::string& out) {
  FrameWriter frame(Kind::kStackOf, out);
  frame.Text(name);
  frame.Number(id);
}

namespace {

enum class Checksums : uint8_t { kLookedAt, kTrusted };

// Takes the records at the beginning of `bytes`; what is behind the last whole one is left.
std::string_view TakeRecords(std::string_view bytes, Checksums checksums, LogParser& parser,
                             RecordLog& log) {
  while (bytes.size() >= kFrameHeadBytes) {
    const auto payload_bytes = LittleAt<uint32_t>(bytes.data());
    const auto checksum = LittleAt<uint32_t>(bytes.data() + sizeof(uint32_t));
    if (payload_bytes > bytes.size() - kFrameHeadBytes) {
      break;
    }
    const std::string_view payload = bytes.substr(kFrameHeadBytes, payload_bytes);
    const bool is_header = log.record_count == 0;
    if ((checksums == Checksums::kLookedAt && kernels::Crc32(payload) != checksum) ||
        payload.empty() || (payload[0] == static_cast<char>(Kind::kHeader)) != is_header ||
        !parser.Take(payload)) {
      break;
    }
    ++log.record_count;
    bytes.remove_prefix(kFrameHeadBytes + payload_bytes);
  }
  return bytes;
}

Result<RecordLog> ParsePieces(std::span<const std::string_view> pieces, Checksums checksums) {
  std::string_view rest = pieces.empty() ? std::string_view() : pieces.front();
  if (!rest.starts_with(kMagic)) {
    return BadFormatError("not a log of records")
        .WithHint(fmt::format("{} of a capture begins with {}", kRecordLogName, kMagic));
  }
  RecordLog log;
  LogParser parser(log);
  rest.remove_prefix(kMagic.size());
  for (size_t i = 0; i < pieces.size(); ++i) {
    rest = TakeRecords(i == 0 ? rest : pieces[i], checksums, parser, log);
    log.lost_bytes += rest.size();
  }
  if (log.record_count == 0) {
    return BadFormatError("the log of records ends within its header");
  }
  parser.Finish();
  return log;
}

}  // namespace

Result<RecordLog> RecordLog::Parse(std::string_view bytes) {
  return ParsePieces({&bytes, 1}, Checksums::kLookedAt);
}

Result<RecordLog> RecordLog::Parse(std::span<const std::string_view> pieces) {
  return ParsePieces(pieces, Checksums::kTrusted);
}

bool RecordLog::EndsInHeader(std::string_view bytes) {
  if (!bytes.starts_with(kMagic)) {
    return kMagic.starts_with(bytes);
  }
  constexpr size_t kLongestHeader = 16384;  // far more than any has: a longer log holds records
  bytes.remove_prefix(kMagic.size());
  return bytes.size() < kFrameHeadBytes ||
         (bytes.size() < kLongestHeader &&
          LittleAt<uint32_t>(bytes.data()) > bytes.size() - kFrameHeadBytes);
}

bool IsBeingWritten(const base::Path& log) {
  const Result<base::InputFile> file = base::InputFile::Open(log, base::Links::kRefuse);
  return file.ok() && ::flock(file->descriptor(), LOCK_SH | LOCK_NB) != 0 && errno == EWOULDBLOCK;
}

std::string RunOfLog(const base::Path& log) {
  constexpr size_t kHeaderBytes = 16384;  // far more than it has
  const std::string start = base::HeadOf(log, kHeaderBytes, base::Links::kRefuse);
  const Result<RecordLog> parsed = RecordLog::Parse(start);
  return parsed.ok() ? parsed->header.run : std::string();
}

namespace {

constexpr int kIndent = 1;
constexpr uint64_t kLongestSourceBytes = uint64_t{16} << 20U;
// Limits on all source files together, and on the lines that are taken from them: a frame of a few
// bytes may name a line of any length. The sources on the stacks of a training take some MiB, their
// lines less.
constexpr uint64_t kMostSourceBytes = uint64_t{64} << 20U;
constexpr uint64_t kMostCodeBytes = uint64_t{256} << 20U;

// Puts the values that came later into their places. A ticket fills one hole, so that the text
// stays as small as the log whatever stands in it.
class HoleFiller {
 public:
  explicit HoleFiller(const RecordLog& log) : log_(log), used_(log.pending.size()) {}

  // The fragment with its holes filled, in `scratch` where it has any.
  std::string_view Fill(std::string_view fragment, std::string& scratch) {
    if (fragment.find(kHoleBegin) == std::string_view::npos) {
      return fragment;
    }
    scratch.clear();
    Append(fragment, scratch);
    return scratch;
  }

 private:
  // What fills a hole may have holes of its own.
  void Append(std::string_view fragment, std::string& out) {
    std::vector<std::string_view> rest = {fragment};
    while (!rest.empty()) {
      std::string_view& top = rest.back();
      const size_t begin = top.find(kHoleBegin);
      out += top.substr(0, begin);
      if (begin == std::string_view::npos) {
        rest.pop_back();
        continue;
      }
      const size_t end = std::min(top.find(kHoleEnd, begin), top.size());
      uint64_t ticket = 0;
      std::from_chars(top.data() + begin + 1, top.data() + end, ticket);
      top.remove_prefix(std::min(end + 1, top.size()));
      rest.push_back(Take(ticket));
    }
  }

  std::string_view Take(uint64_t ticket) {
    const auto found =
        std::lower_bound(log_.pending.begin(), log_.pending.end(), ticket,
                         [](const auto& value, uint64_t wanted) { return value.first < wanted; });
    const auto index = static_cast<size_t>(found - log_.pending.begin());
    if (found == log_.pending.end() || found->first != ticket || used_[index]) {
      return "null";
    }
    used_[index] = true;
    return found->second;
  }

  const RecordLog& log_;
  std::vector<bool> used_;  // per value in log.pending
};

void PutEntry(const RecordLog::Entry& entry, HoleFiller& filler, json::Writer& writer,
              std::string& scratch) {
  writer.Key(entry.name);
  const bool whole = entry.members.size() == 1 && entry.members[0].key.empty();
  if (!whole) {
    writer.BeginObject();
  }
  for (const RecordLog::Member& member : entry.members) {
    if (!whole) {
      writer.Key(member.key);
    }
    writer.Raw(filler.Fill(member.fragment, scratch));
  }
  if (!whole) {
    writer.EndObject();
  }
}

// A source file and where its lines begin.
struct Source {
  std::string text;
  std::vector<uint32_t> begins;  // kLongestSourceBytes is far below 2^32
};

std::shared_ptr<const Source> ReadSource(const base::Path& path, uint64_t most_bytes) {
  auto source = std::make_shared<Source>();
  Result<std::string> text = base::ReadTextFile(path, most_bytes);
  if (!text.ok()) {
    return source;
  }
  source->text = std::move(*text);
  source->begins.push_back(0);
  for (size_t end = source->text.find('\n'); end != std::string::npos;
       end = source->text.find('\n', end + 1)) {
    source->begins.push_back(static_cast<uint32_t>(end + 1));
  }
  return source;
}

// The sources of a program that records step after step: its stacks name the same few files each
// time, and reading them would be a good part of what a small step costs. A file that was changed
// is read again. Thread-safe.
class SourceMemory {
 public:
  static SourceMemory& OfThisProcess() {
    static SourceMemory* const memory =
        new SourceMemory;  // threads may still convert when the process ends
    return *memory;
  }

  std::shared_ptr<const Source> Get(const std::string& file, uint64_t most_bytes) {
    struct stat status = {};
    if (::stat(file.c_str(), &status) != 0 || static_cast<uint64_t>(status.st_size) > most_bytes) {
      return ReadSource(base::Path(file), most_bytes);
    }
    const Stamp stamp = {static_cast<uint64_t>(status.st_dev), static_cast<uint64_t>(status.st_ino),
                         status.st_size, status.st_mtim.tv_sec, status.st_mtim.tv_nsec};
    // A fork may have left it locked for good.
    const std::unique_lock lock(mutex_, std::try_to_lock);
    if (!lock) {
      return ReadSource(base::Path(file), most_bytes);
    }
    if (const auto found = by_file_.find(file);
        found != by_file_.end() && found->second.stamp == stamp) {
      return found->second.source;
    }
    std::shared_ptr<const Source> source = ReadSource(base::Path(file), most_bytes);
    if (bytes_ + source->text.size() > kMostBytes) {
      by_file_.clear();
      bytes_ = 0;
    }
    if (source->text.size() <= kMostBytes) {
      bytes_ += source->text.size();
      by_file_.insert_or_assign(file, Known{stamp, source});
    }
    return source;
  }

 private:
  using Stamp = std::tuple<uint64_t, uint64_t, int64_t, int64_t, int64_t>;
  struct Known {
    Stamp stamp;
    std::shared_ptr<const Source> source;
  };
  static constexpr size_t kMostBytes = size_t{16} << 20U;
  std::mutex mutex_;
  std::unordered_map<std::string, Known> by_file_;
  size_t bytes_ = 0;  // of what was put since the last time all were given up
};

// The lines of source files, each file read once.
class SourceLines {
 public:
  explicit SourceLines(SourceFiles allowed) : allowed_(allowed) {}

  // The line without blanks around it; nullopt when there is no such line to read.
  std::optional<std::string_view> Find(std::string_view file, int32_t line) {
    const auto [found, is_new] = by_file_.try_emplace(std::string(file));
    if (is_new) {
      found->second = Read(found->first);
      source_left_ -= found->second->text.size();
    }
    const Source& source = *found->second;
    if (line < 1 || static_cast<size_t>(line) > source.begins.size()) {
      return std::nullopt;
    }
    const size_t begin = source.begins[static_cast<size_t>(line) - 1];
    const std::string_view text = std::string_view(source.text).substr(begin);
    const std::string_view code = base::Trim(text.substr(0, text.find('\n')));
    if (code.size() > code_left_) {
      return std::nullopt;
    }
    code_left_ -= code.size();
    return code;
  }

 private:
  std::shared_ptr<const Source> Read(const std::string& file) {
    const uint64_t most_bytes = std::min(kLongestSourceBytes, source_left_);
    if (allowed_ == SourceFiles::kOfThisProcess) {
      return SourceMemory::OfThisProcess().Get(file, most_bytes);
    }
    // The file that is opened decides, not the name of the link.
    std::error_code error;
    const base::Path path = std::filesystem::canonical(base::Path(file), error);
    return error || path.extension() != kPythonEnd ? std::make_shared<const Source>()
                                                   : ReadSource(path, most_bytes);
  }

  static constexpr std::string_view kPythonEnd = ".py";

  const SourceFiles allowed_;
  uint64_t source_left_ = kMostSourceBytes;
  uint64_t code_left_ = kMostCodeBytes;
  std::unordered_map<std::string, std::shared_ptr<const Source>> by_file_;
};

}  // namespace

namespace {

// About what the text of all entries takes: memory that grows in steps is copied at each.
size_t BytesOf(const std::vector<RecordLog::Entry>& entries) {
  constexpr size_t kAroundName = 16;
  size_t bytes = 0;
  for (const RecordLog::Entry& entry : entries) {
    bytes += entry.name.size() + kAroundName;
    for (const RecordLog::Member& member : entry.members) {
      bytes += member.key.size() + member.fragment.size() + kAroundName;
    }
  }
  return bytes;
}

}  // namespace

namespace {

bool IsReducedGradient(const RecordLog::Entry& entry) {
  return entry.name.ends_with(kReducedGradientsEnd);
}

// The entries that stand in the one file, or in the other.
std::string EntriesText(const RecordLog& log, bool reduced_gradients) {
  std::string out;
  out.reserve(BytesOf(log.entries));
  std::string scratch;
  HoleFiller filler(log);
  json::Writer writer(out, kIndent);
  writer.BeginObject();
  writer.Member("task", log.header.task);
  writer.Member("level", log.header.level);
  writer.Member("framework", log.header.framework);
  writer.Key("dump_data_dir");
  if (log.header.dump_data_dir.empty()) {
    writer.Null();
  } else {
    writer.Text(log.header.dump_data_dir);
  }
  writer.Key("data");
  writer.BeginObject();
  for (const RecordLog::Entry& entry : log.entries) {
    if (IsReducedGradient(entry) == reduced_gradients) {
      PutEntry(entry, filler, writer, scratch);
    }
  }
  writer.EndObject();
  writer.EndObject();
  return out;
}

}  // namespace

std::string DumpJsonText(const RecordLog& log) { return EntriesText(log, false); }
std::string ReducedGradientsJsonText(const RecordLog& log) { return EntriesText(log, true); }

std::string ConstructJsonText(const RecordLog& log) {
  std::string out;
  json::Writer writer(out, kIndent);
  writer.BeginObject();
  for (const RecordLog::Node& node : log.construct) {
    writer.Key(node.name);
    if (node.parent) {
      writer.Text(*node.parent);
    } else {
      writer.Null();
    }
  }
  writer.EndObject();
  return out;
}

std::string StackJsonText(const RecordLog& log, SourceFiles allowed) {
  std::string out;
  json::Writer writer(out, kIndent);
  SourceLines sources(allowed);
  size_t number = 0;
  writer.BeginObject();
  for (const RecordLog::Stack& stack : log.stacks) {
    if (stack.names.empty()) {
      continue;
    }
    writer.Key(fmt::format("{}", number++));
    writer.BeginArray();
    writer.BeginArray();
    for (const std::string_view name : stack.names) {
      writer.Text(name);
    }
    writer.EndArray();
    writer.BeginArray();
    for (const LogFrame& frame : stack.frames) {
      if (const auto line = sources.Find(frame.file, frame.line)) {
        writer.Text(fmt::format("File {}, line {}, in {}, \n {}", frame.file, frame.line,
                                frame.function, *line));
      }
    }
    if (stack.frames.empty()) {
      writer.Text("The call stack retrieval failed.");
    }
    writer.EndArray();
    writer.EndArray();
  }
  writer.EndObject();
  return out;
}

namespace {

Result<LogConversion> WriteJsonFiles(const RecordLog& log, const base::Path& rank_folder,
                                     SourceFiles allowed) {
  const auto reduced =
      static_cast<size_t>(std::count_if(log.entries.begin(), log.entries.end(), IsReducedGradient));
  if (log.header.level == "debug") {
    MSP_RETURN_IF_ERROR(base::WriteFileAtomically(rank_folder / kDebugFileName, DumpJsonText(log),
                                                  base::Existing::kReplace));
  } else {
    // dump.json last: who sees it finds its companions.
    if (reduced > 0) {
      MSP_RETURN_IF_ERROR(base::WriteFileAtomically(rank_folder / kReducedGradientsFileName,
                                                    ReducedGradientsJsonText(log),
                                                    base::Existing::kReplace));
    }
    MSP_RETURN_IF_ERROR(base::WriteFileAtomically(
        rank_folder / kStackFileName, StackJsonText(log, allowed), base::Existing::kReplace));
    MSP_RETURN_IF_ERROR(base::WriteFileAtomically(
        rank_folder / kConstructFileName, ConstructJsonText(log), base::Existing::kReplace));
    MSP_RETURN_IF_ERROR(base::WriteFileAtomically(rank_folder / kDumpFileName, DumpJsonText(log),
                                                  base::Existing::kReplace));
  }
  return LogConversion{log.record_count, log.entries.size() - reduced, log.lost_bytes};
}

}  // namespace

Result<LogConversion> ConvertRecordLog(const base::Path& rank_folder, SourceFiles allowed) {
  const base::Path log_path = rank_folder / kRecordLogName;
  MSP_ASSIGN_OR_RETURN(const base::FileBytes bytes, base::FileBytes::Open(log_path));
  const Result<RecordLog> parsed = RecordLog::Parse(bytes.text());
  if (!parsed.ok()) {
    return Status(parsed.status()).AddContext("cannot read " + log_path.string());
  }
  return WriteJsonFiles(*parsed, rank_folder, allowed);
}

Result<LogConversion> ConvertRecordLog(std::span<const std::string_view> pieces,
                                       const base::Path& rank_folder, SourceFiles allowed) {
  MSP_ASSIGN_OR_RETURN(const RecordLog log, RecordLog::Parse(pieces));
  return WriteJsonFiles(log, rank_folder, allowed);
}

}  // namespace msprobe::dump
