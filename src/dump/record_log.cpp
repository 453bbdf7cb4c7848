#include "src/dump/record_log.h"

#include <algorithm>
#include <cerrno>
#include <unordered_map>
#include <utility>

#include <fmt/format.h>
#include <sys/file.h>

#include "src/base/files.h"
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
    // Of several values for one ticket the last one stays.
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
    const auto [found, is_new] = entry_by_name_.try_emplace(entry_name, log_.entries.size());
    if (is_new) {
      log_.entries.push_back({entry_name, {}});
    }
    std::vector<RecordLog::Member>& members = log_.entries[found->second].members;
    const size_t same = PlaceOf(found->second, members, key);
    if (same < members.size()) {
      members[same].fragment = fragment;
    } else {
      members.push_back({key, fragment});
    }
    return true;
  }

  // Of the member with this key; members.size() where there is none, which is then added. An entry
  // has few members; only one that has more gets a map of them.
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

Result<RecordLog> RecordLog::Parse(std::string_view bytes) {
  if (!bytes.starts_with(kMagic)) {
    return BadFormatError("not a log of records")
        .WithHint(fmt::format("{} of a capture begins with {}", kRecordLogName, kMagic));
  }
  RecordLog log;
  LogParser parser(log);
  size_t at = kMagic.size();
  while (bytes.size() - at >= kFrameHeadBytes) {
    const auto payload_bytes = LittleAt<uint32_t>(bytes.data() + at);
    const auto checksum = LittleAt<uint32_t>(bytes.data() + at + sizeof(uint32_t));
    if (payload_bytes > bytes.size() - at - kFrameHeadBytes) {
      break;
    }
    const std::string_view payload = bytes.substr(at + kFrameHeadBytes, payload_bytes);
    const bool is_header = log.record_count == 0;
    if (kernels::Crc32(payload) != checksum || payload.empty() ||
        (payload[0] == static_cast<char>(Kind::kHeader)) != is_header || !parser.Take(payload)) {
      break;
    }
    ++log.record_count;
    at += kFrameHeadBytes + payload_bytes;
  }
  if (log.record_count == 0) {
    return BadFormatError("the log of records ends within its header");
  }
  log.lost_bytes = bytes.size() - at;
  parser.Finish();
  return log;
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

}  // namespace msprobe::dump
