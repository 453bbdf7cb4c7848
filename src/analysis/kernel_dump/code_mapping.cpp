#include "src/analysis/kernel_dump/code_mapping.h"

#include <algorithm>
#include <optional>
#include <system_error>

#include <fmt/format.h>

#include "src/analysis/kernel_dump/dump_files.h"
#include "src/base/csv.h"
#include "src/base/files.h"
#include "src/base/output_files.h"
#include "src/base/strings.h"

namespace msprobe::analysis::kernel_dump {
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
// at the end of rows, as MindSpore writes it, is no column.
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
    return NotFoundError(fmt::format("{}: no such file or directory", options.dump_data.string()));
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
