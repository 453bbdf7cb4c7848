#include "src/analysis/kernel_dump/code_mapping.h"

#include <algorithm>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <system_error>
#include <utility>

#include <fmt/format.h>

#include "src/analysis/kernel_dump/dump_files.h"
#include "src/base/csv.h"
#include "src/base/files.h"
#include "src/base/output_files.h"
#include "src/base/strings.h"

namespace msprobe::analysis::kernel_dump {
namespace {

constexpr size_t kLongestIrLine = size_t{1} << 20U;
constexpr size_t kMostIrNodes = 10'000'000;
constexpr std::string_view kFileLine = "In file ";
constexpr std::string_view kScopeWord = "scope";
constexpr std::string_view kUniqueId = "unique_id";
constexpr std::string_view kForwardUniqueId = "forward_unique_id";

std::string_view StripEnds(std::string_view text, std::string_view characters) {
  const size_t begin = text.find_first_not_of(characters);
  if (begin == std::string_view::npos) {
    return {};
  }
  return text.substr(begin, text.find_last_not_of(characters) - begin + 1);
}

// "%12(CNode_70$b) = ..." -> "%12&CNode_70$b"
std::optional<std::string> NodeKey(std::string_view line) {
  line = base::Trim(line);
  if (!line.starts_with('%')) {
    return std::nullopt;
  }
  const size_t open = line.find('(');
  const size_t close = line.find(')', open == std::string_view::npos ? 0 : open);
  if (open == std::string_view::npos || close == std::string_view::npos || open < 2 ||
      !std::all_of(line.begin() + 1, line.begin() + static_cast<ptrdiff_t>(open), base::IsDigit) ||
      !base::Trim(line.substr(close + 1)).starts_with('=')) {
    return std::nullopt;
  }
  return fmt::format("{}&{}", line.substr(0, open), line.substr(open + 1, close - open - 1));
}

// The text behind `key: ` in the attributes of a node, without quotes.
std::string Attribute(std::string_view line, std::string_view key) {
  line = line.substr(0, line.find_last_not_of("\" ") + 1);  // once: the line may be long
  for (size_t at = line.find(key); at != std::string_view::npos; at = line.find(key, at + 1)) {
    const bool whole_word = at == 0 || line[at - 1] == '{' || line[at - 1] == ' ' ||
                            line[at - 1] == ',' || line[at - 1] == '"';
    if (!whole_word) {
      continue;
    }
    const size_t colon = line.find_first_not_of("\" ", at + key.size());
    if (colon == std::string_view::npos || line[colon] != ':') {
      continue;
    }
    const std::string_view rest = StripEnds(line.substr(colon + 1), " ");
    if (rest.starts_with('"')) {
      return std::string(rest.substr(1, rest.find('"', 1) - 1));
    }
    return std::string(rest.substr(0, rest.find_first_of(",} )")));
  }
  return {};
}

// Collects the nodes while lines come by.
class IrCollector {
 public:
  Status Line(std::string_view line) {
    if (std::optional<std::string> key = NodeKey(line)) {
      Finish();
      current_key_ = *std::move(key);
      unique_id_ = Attribute(line, kUniqueId);
      forward_id_ = Attribute(line, kForwardUniqueId);
      return seen_.size() > kMostIrNodes
                 ? UnsupportedError(fmt::format("more than {} nodes", kMostIrNodes))
                 : Status();
    }
    if (current_key_.empty() || done_) {
      return {};
    }
    std::string_view text = base::Trim(line);
    const bool is_comment = text.starts_with("# ");
    if (!scope_) {
      if (!is_comment) {
        return {};  // the types of the node
      }
      const size_t word = text.find(kScopeWord);
      const size_t open = text.find('(', word);
      if (word != std::string_view::npos && open != std::string_view::npos) {
        scope_ = std::string(StripEnds(text.substr(open), "() "));
      } else if (text.find(kFileLine) != std::string_view::npos) {
        AddCode(text);
      }
      return {};
    }
    if (!is_comment) {
      done_ = true;
    } else if (text.find(kFileLine) != std::string_view::npos) {
      AddCode(text);
    }
    return {};
  }

  IrNodes Nodes() {
    Finish();
    // Gradients stand behind their forward nodes, or before them.
    for (auto& [pattern, forward_id] : without_code_) {
      const auto forward = code_of_id_.find(forward_id);
      if (forward != code_of_id_.end()) {
        nodes_[pattern].code_stack = forward->second;
      }
    }
    return std::move(nodes_);
  }

 private:
  void AddCode(std::string_view comment) {
    if (!code_.empty()) {
      code_ += '\n';
    }
    code_ += StripEnds(StripEnds(comment, "# "), "/");
  }

  void Finish() {
    if (!current_key_.empty() && seen_.insert(current_key_).second) {
      if (!unique_id_.empty() && !code_.empty()) {
        code_of_id_.emplace(unique_id_, code_);
      }
      if (scope_ && !scope_->empty()) {
        std::string pattern = base::ReplaceAll(*scope_, "/", "_");
        if (code_.empty() && !forward_id_.empty()) {
          without_code_.emplace(pattern, forward_id_);
        }
        nodes_.try_emplace(std::move(pattern), IrNode{*scope_, code_});
      }
    }
    current_key_.clear();
    scope_.reset();
    code_.clear();
    done_ = false;
  }

  IrNodes nodes_;
  std::set<std::string> seen_;
  std::map<std::string, std::string> code_of_id_;
  std::map<std::string, std::string> without_code_;  // pattern to the id of the forward node
  std::string current_key_;
  std::string unique_id_;
  std::string forward_id_;
  std::optional<std::string> scope_;
  std::string code_;
  bool done_ = false;
};

}  // namespace

Result<IrNodes> ReadIr(const std::filesystem::path& file) {
  MSP_ASSIGN_OR_RETURN(const base::InputFile input, base::InputFile::Open(file));
  IrCollector collector;
  std::string line;
  std::vector<char> buffer(size_t{1} << 16U);
  // Longer lines hold constants: their beginning is enough.
  uint64_t offset = 0;
  for (bool cut = false;;) {
    MSP_ASSIGN_OR_RETURN(const size_t count, input.ReadAt(offset, buffer));
    if (count == 0) {
      break;
    }
    offset += count;
    std::string_view rest(buffer.data(), count);
    while (!rest.empty()) {
      const size_t end = rest.find('\n');
      const std::string_view part = rest.substr(0, end);
      if (!cut) {
        line.append(part.substr(0, kLongestIrLine - std::min(line.size(), kLongestIrLine)));
      }
      cut = line.size() == kLongestIrLine;
      if (end == std::string_view::npos) {
        break;
      }
      MSP_RETURN_IF_ERROR(collector.Line(line), file.string());
      line.clear();
      cut = false;
      rest.remove_prefix(end + 1);
    }
  }
  MSP_RETURN_IF_ERROR(collector.Line(line), file.string());
  IrNodes nodes = collector.Nodes();
  if (nodes.empty()) {
    return BadFormatError(fmt::format("{}: no operator with a scope", file.string()))
        .WithHint(
            "an IR text of MindSpore is expected, with debug information: "
            "MS_DEV_SAVE_GRAPHS=2 or context.save_graphs");
  }
  return nodes;
}

ScopeFinder::ScopeFinder(const IrNodes& nodes) {
  std::vector<std::string_view> scopes;
  for (const IrNodes::value_type& node : nodes) {
    nodes_.push_back(&node);
    scopes.push_back(node.first);
  }
  finder_ = base::TextFinder(scopes);
}

ScopeFinder::Found ScopeFinder::Find(std::string_view op_name) const {
  struct Hit {
    size_t begin;
    size_t length;
    const IrNode* node;
  };
  std::vector<Hit> hits;
  Found found;
  finder_.ForEachHit(op_name, [&](uint32_t index, size_t end) {
    found.cut = hits.size() == kMostScopes;
    if (!found.cut) {
      const auto& [scope, node] = *nodes_[index];
      hits.push_back({end - scope.size(), scope.size(), &node});
    }
    return found.cut;
  });
  std::stable_sort(hits.begin(), hits.end(), [](const Hit& a, const Hit& b) {
    return std::pair(a.begin, a.length) < std::pair(b.begin, b.length);
  });
  for (const Hit& hit : hits) {
    if (found.code_stack.size() + hit.node->code_stack.size() > kMostCodeBytes ||
        found.scope_name.size() + hit.node->scope.size() > kMostCodeBytes) {
      found.cut = true;
      break;
    }
    if (!found.scope_name.empty()) {
      found.code_stack += '\n';
      found.scope_name += '\n';
    }
    found.code_stack += hit.node->code_stack;
    found.scope_name += hit.node->scope;
  }
  return found;
}

namespace {

constexpr uint64_t kLargestTable = uint64_t{1} << 30U;
constexpr size_t kWrittenAtOnce = size_t{1} << 20U;
constexpr uint64_t kBytesPerArray = 1024;  // what it counts as input: a name in a folder
constexpr std::string_view kArrayFile = ".npy";
constexpr std::string_view kStatisticFile = "statistic.csv";
constexpr std::string_view kOpNameColumn = "Op Name";
constexpr std::string_view kCodeColumn = "Code Stack";
constexpr std::string_view kScopeColumn = "Scope Name";

// A field as Python's csv module writes it: quoted where it has to be, its text unchanged, since
// scripts join these tables by it.
void AppendField(std::string_view field, std::string& line) {
  if (field.find_first_of(",\"\n\r") == std::string_view::npos) {
    line += field;
    return;
  }
  line += '"';
  line += base::ReplaceAll(field, "\"", "\"\"");
  line += '"';
}

// The code of each name, within what all of them may take.
class CodeColumns {
 public:
  CodeColumns(const ScopeFinder& finder, uint64_t most_bytes)
      : finder_(finder), left_bytes_(most_bytes) {}

  void Append(std::string_view op_name, std::string& line, CodeMapping& mapping) {
    ScopeFinder::Found found = finder_.Find(op_name);
    const uint64_t bytes = found.code_stack.size() + found.scope_name.size();
    if (bytes > left_bytes_) {
      found = {};
      ++without_code_;
    } else {
      left_bytes_ -= bytes;
    }
    cut_ += found.cut ? 1U : 0U;
    AppendField(found.code_stack, line);
    line += ',';
    AppendField(found.scope_name, line);
    line += '\n';
    ++mapping.rows;
    mapping.mapped += found.scope_name.empty() ? 0U : 1U;
  }

  void AddWarnings(CodeMapping& mapping) const {
    if (cut_ > 0) {
      mapping.warnings.push_back(fmt::format(
          "{}: the name holds more than {} scopes, or they have more than {} of code; the first "
          "are written",
          base::Plural(cut_, "row"), base::FormatCount(ScopeFinder::kMostScopes),
          base::FormatBytes(ScopeFinder::kMostCodeBytes)));
    }
    if (without_code_ > 0) {
      mapping.warnings.push_back(fmt::format(
          "{}: no lines of code are written, since those of the rows before are more than {} times "
          "the graph and the tables; map fewer tables at once, or look at the graph's text",
          base::Plural(without_code_, "row"), kTimesMappedInput));
    }
  }

 private:
  const ScopeFinder& finder_;
  uint64_t left_bytes_;
  uint64_t cut_ = 0;
  uint64_t without_code_ = 0;
};

// Files below a folder, in the order of their paths; links are not followed.
Status CollectFiles(const std::filesystem::path& folder, size_t depth,
                    std::vector<std::filesystem::path>& arrays,
                    std::vector<std::filesystem::path>& tables) {
  constexpr size_t kDeepest = 64;
  if (depth == kDeepest) {
    return UnsupportedError(
        fmt::format("{}: folders more than {} deep", folder.string(), kDeepest));
  }
  MSP_ASSIGN_OR_RETURN(const std::vector<std::string> names, base::ListFolder(folder));
  for (const std::string& name : names) {
    const std::filesystem::path path = folder / name;
    std::error_code error;
    const auto kind = std::filesystem::symlink_status(path, error).type();
    if (kind == std::filesystem::file_type::directory) {
      MSP_RETURN_IF_ERROR(CollectFiles(path, depth + 1, arrays, tables));
    } else if (kind == std::filesystem::file_type::regular && name.ends_with(kArrayFile)) {
      arrays.push_back(path);
    } else if (kind == std::filesystem::file_type::regular && name == kStatisticFile) {
      tables.push_back(path);
    } else if (kind == std::filesystem::file_type::none) {
      base::NoteUnseen(
          IoError(fmt::format("cannot look at {}: {}", path.string(), error.message())));
    }
  }
  return {};
}

uint64_t SizeOf(const std::filesystem::path& path) {
  std::error_code error;
  const uintmax_t bytes = std::filesystem::file_size(path, error);
  return error ? 0 : bytes;
}

// The second field of a dump's name, which mapping.csv may have to tell.
std::string OpNameOf(
    const std::filesystem::path& file,
    std::map<std::filesystem::path, std::map<std::string, std::string>>& mappings) {
  std::string name = file.filename().string();
  if (io::kernel_dump::IsReplacedName(name)) {
    const std::filesystem::path folder = file.parent_path();
    auto known = mappings.find(folder);
    if (known == mappings.end()) {
      Result<std::map<std::string, std::string>> read =
          ReadNameMapping(folder / io::kernel_dump::kNameMappingFile);
      base::NoteUnseen(read.status());
      known =
          mappings
              .emplace(folder, read.ok() ? *std::move(read) : std::map<std::string, std::string>())
              .first;
    }
    if (const auto entry = known->second.find(name); entry != known->second.end()) {
      name = entry->second;
    }
  }
  const std::vector<std::string_view> fields = base::Split(name, '.');
  return fields.size() > 1 ? std::string(fields[1]) : std::string();
}

Status MapArrays(const CodeMappingOptions& options, CodeColumns& code,
                 const std::vector<std::filesystem::path>& arrays, CodeMapping& mapping) {
  MSP_ASSIGN_OR_RETURN(const base::RunStamp stamp,
                       base::RunStamp::Take(options.output, base::TimestampNow()));
  std::string text = fmt::format("File Path,{},{}\n", kCodeColumn, kScopeColumn);
  std::map<std::filesystem::path, std::map<std::string, std::string>> mappings;
  const std::filesystem::path path =
      options.output / fmt::format("code_mapping_{}.csv", stamp.text());
  MSP_ASSIGN_OR_RETURN(base::AtomicFile out, base::AtomicFile::Create(path));
  for (const std::filesystem::path& file : arrays) {
    AppendField(std::filesystem::absolute(file).lexically_normal().string(), text);
    text += ',';
    code.Append(OpNameOf(file, mappings), text, mapping);
    if (text.size() >= kWrittenAtOnce) {
      MSP_RETURN_IF_ERROR(out.Write(text));
      text.clear();
    }
  }
  MSP_RETURN_IF_ERROR(out.Write(text));
  MSP_RETURN_IF_ERROR(out.Commit());
  mapping.files.push_back(path);
  return {};
}

// The table with both columns behind the others; older ones of the same names are left out. A comma
// at the end of rows, as MindSpore writes it, is not a column.
Status MapTable(const std::filesystem::path& path, CodeColumns& code, CodeMapping& mapping) {
  MSP_ASSIGN_OR_RETURN(const std::string text, base::ReadTextFile(path, kLargestTable));
  base::CsvTokenizer rows(base::WithoutByteOrderMark(text));
  // In place of what was read: this is what the command is for.
  MSP_ASSIGN_OR_RETURN(base::AtomicFile file,
                       base::AtomicFile::Create(path, base::Existing::kReplace));
  MSP_RETURN_IF_ERROR(file.TakeAccessOf(path));
  std::string out;
  std::vector<bool> kept;
  std::optional<size_t> name_column;
  for (bool is_header = true;; is_header = false) {
    rows.SkipEmptyLines();
    const base::CsvTokenizer::Row row = rows.Next();
    if (row == base::CsvTokenizer::Row::kEnd) {
      break;
    }
    if (row != base::CsvTokenizer::Row::kFields) {
      return BadFormatError(
          fmt::format("{} line {}: a quote that does not end", path.string(), rows.line()));
    }
    const std::span<const std::string_view> fields = rows.fields();
    if (is_header) {
      size_t columns = fields.size();
      while (columns > 0 && base::Trim(fields[columns - 1]).empty()) {
        --columns;
      }
      for (size_t i = 0; i < columns; ++i) {
        kept.push_back(fields[i] != kCodeColumn && fields[i] != kScopeColumn);
        if (fields[i] == kOpNameColumn) {
          name_column = i;
        }
      }
      if (!name_column) {
        return BadFormatError(fmt::format("{}: no column \"{}\"", path.string(), kOpNameColumn));
      }
    }
    for (size_t i = 0; i < kept.size(); ++i) {
      if (kept[i]) {
        AppendField(i < fields.size() ? fields[i] : "", out);
        out += ',';
      }
    }
    if (is_header) {
      out += fmt::format("{},{}\n", kCodeColumn, kScopeColumn);
      continue;
    }
    code.Append(*name_column < fields.size() ? fields[*name_column] : "", out, mapping);
    if (out.size() >= kWrittenAtOnce) {
      MSP_RETURN_IF_ERROR(file.Write(out));
      out.clear();
    }
  }
  MSP_RETURN_IF_ERROR(file.Write(out));
  MSP_RETURN_IF_ERROR(file.Commit());
  mapping.files.push_back(path);
  return {};
}

}  // namespace

Result<CodeMapping> MapCode(const CodeMappingOptions& options, uint64_t free_bytes) {
  std::vector<std::filesystem::path> arrays;
  std::vector<std::filesystem::path> tables;
  if (base::IsFolder(options.dump_data)) {
    MSP_RETURN_IF_ERROR(CollectFiles(options.dump_data, 0, arrays, tables));
  } else if (base::IsRegularFile(options.dump_data)) {
    const bool is_array = options.dump_data.extension() == kArrayFile;
    (is_array ? arrays : tables).push_back(options.dump_data);
  } else {
    return NotFoundError(fmt::format("{} does not exist", options.dump_data.string()));
  }
  if (arrays.empty() && tables.empty()) {
    return NotFoundError(fmt::format("{}: neither .npy files nor {}", options.dump_data.string(),
                                     kStatisticFile))
        .WithHint("dump_data is the folder of a graph's dump");
  }
  MSP_ASSIGN_OR_RETURN(const IrNodes nodes, ReadIr(options.ir));
  const ScopeFinder finder(nodes);
  uint64_t input_bytes = SizeOf(options.ir) + kBytesPerArray * arrays.size();
  for (const std::filesystem::path& table : tables) {
    input_bytes += SizeOf(table);
  }
  CodeColumns code(finder, kTimesMappedInput * input_bytes + free_bytes);
  CodeMapping mapping;
  mapping.scopes = nodes.size();
  if (!arrays.empty()) {
    MSP_RETURN_IF_ERROR(MapArrays(options, code, arrays, mapping));
  } else {
    for (const std::filesystem::path& table : tables) {
      MSP_RETURN_IF_ERROR(MapTable(table, code, mapping));
    }
  }
  code.AddWarnings(mapping);
  return mapping;
}

}  // namespace msprobe::analysis::kernel_dump
