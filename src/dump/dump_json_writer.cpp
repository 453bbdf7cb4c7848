#include "src/dump/dump_json_writer.h"

#include <algorithm>
#include <charconv>
#include <filesystem>
#include <optional>
#include <string>
#include <string_view>
#include <system_error>
#include <unordered_map>
#include <utility>
#include <vector>

#include <fmt/format.h>

#include "src/base/strings.h"
#include "src/dump/layout.h"
#include "src/json/writer.h"

namespace msprobe::dump {
namespace {

constexpr int kIndent = 1;
constexpr uint64_t kLongestSourceBytes = uint64_t{16} << 20U;
// Of all files together, and of the lines that are taken from them: a frame of a few bytes may name
// a line of any length. Sources on the stacks of a training have some MiB, their lines less.
constexpr uint64_t kMostSourceBytes = uint64_t{64} << 20U;
constexpr uint64_t kMostCodeBytes = uint64_t{256} << 20U;

// Puts the values that came later into their places. A ticket fills one hole, so that the text
// stays as small as the log whatever stands in it.
class HoleFiller {
 public:
  explicit HoleFiller(const RecordLog& log) : log_(log), used_(log.pending.size()) {}

  // Appends a fragment with its holes filled; what fills one may have holes of its own.
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

 private:
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
    scratch.clear();
    filler.Append(member.fragment, scratch);
    writer.Raw(scratch);
  }
  if (!whole) {
    writer.EndObject();
  }
}

// The lines of source files, each file read once.
class SourceLines {
 public:
  explicit SourceLines(SourceFiles allowed) : allowed_(allowed) {}

  // The line without blanks around it; nullopt when there is no such line to read.
  std::optional<std::string_view> Find(std::string_view file, int32_t line) {
    const auto [found, is_new] = by_file_.try_emplace(std::string(file));
    Source& source = found->second;
    if (is_new) {
      Read(found->first, source);
    }
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
  struct Source {
    std::string text;
    std::vector<uint32_t> begins;  // of the lines; kLongestSourceBytes is far below 2^32
  };

  void Read(const std::string& file, Source& source) {
    base::Path path(file);
    if (allowed_ == SourceFiles::kPython) {
      // What is opened decides, not the name of a link.
      std::error_code error;
      path = std::filesystem::canonical(path, error);
      if (error || path.extension() != kPythonEnd) {
        return;
      }
    }
    Result<std::string> text =
        base::ReadTextFile(path, std::min(kLongestSourceBytes, source_left_));
    if (!text.ok()) {
      return;
    }
    source_left_ -= text->size();
    source.text = std::move(*text);
    source.begins.push_back(0);
    for (size_t end = source.text.find('\n'); end != std::string::npos;
         end = source.text.find('\n', end + 1)) {
      source.begins.push_back(static_cast<uint32_t>(end + 1));
    }
  }

  static constexpr std::string_view kPythonEnd = ".py";

  const SourceFiles allowed_;
  uint64_t source_left_ = kMostSourceBytes;
  uint64_t code_left_ = kMostCodeBytes;
  std::unordered_map<std::string, Source> by_file_;  // nodes stay where they are
};

}  // namespace

std::string DumpJsonText(const RecordLog& log) {
  std::string out;
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
    PutEntry(entry, filler, writer, scratch);
  }
  writer.EndObject();
  writer.EndObject();
  return out;
}

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

Result<LogConversion> ConvertRecordLog(const base::Path& rank_folder, SourceFiles allowed) {
  const base::Path log_path = rank_folder / kRecordLogName;
  MSP_ASSIGN_OR_RETURN(const base::FileBytes bytes, base::FileBytes::Open(log_path));
  Result<RecordLog> parsed = RecordLog::Parse(bytes.text());
  if (!parsed.ok()) {
    return Status(parsed.status()).AddContext("cannot read " + log_path.string());
  }
  const RecordLog& log = *parsed;
  if (log.header.level == "debug") {
    MSP_RETURN_IF_ERROR(base::WriteFileAtomically(rank_folder / kDebugFileName, DumpJsonText(log),
                                                  base::Existing::kReplace));
  } else {
    // dump.json last: who sees it finds its companions.
    MSP_RETURN_IF_ERROR(base::WriteFileAtomically(
        rank_folder / kStackFileName, StackJsonText(log, allowed), base::Existing::kReplace));
    MSP_RETURN_IF_ERROR(base::WriteFileAtomically(
        rank_folder / kConstructFileName, ConstructJsonText(log), base::Existing::kReplace));
    MSP_RETURN_IF_ERROR(base::WriteFileAtomically(rank_folder / kDumpFileName, DumpJsonText(log),
                                                  base::Existing::kReplace));
  }
  return LogConversion{log.record_count, log.entries.size(), log.lost_bytes};
}

}  // namespace msprobe::dump
