#include "src/analysis/kernel_dump/dump_files.h"

#include <algorithm>
#include <system_error>
#include <utility>

#include <fmt/format.h>

#include "src/base/csv.h"
#include "src/base/files.h"
#include "src/base/output_files.h"
#include "src/base/strings.h"

namespace msprobe::analysis::kernel_dump {
namespace {

namespace kd = io::kernel_dump;
constexpr uint64_t kLargestMapping = uint64_t{64} << 20U;
constexpr size_t kDeepestFolder = 64;
constexpr std::string_view kTableSuffix = ".csv";

bool IsOther(std::string_view name) {
  for (const std::string_view suffix :
       {".csv", ".json", ".txt", ".npy", ".npz", ".pt", ".log", ".md"}) {
    if (name.ends_with(suffix)) {
      return true;
    }
  }
  return name.starts_with('.');
}

class Search {
 public:
  Search(const std::string& filter, uint64_t& left_out, std::vector<DumpPath>* statistics,
         std::vector<DumpPath>& found)
      : filter_(filter), left_out_(left_out), statistics_(statistics), found_(found) {}

  Status Folder(const std::filesystem::path& folder, const std::string& below, size_t depth) {
    if (depth == kDeepestFolder) {
      return UnsupportedError(
          fmt::format("{}: folders more than {} deep", folder.string(), kDeepestFolder));
    }
    MSP_ASSIGN_OR_RETURN(const std::vector<std::string> names, base::ListFolder(folder));
    std::map<std::string, std::string> mapping;
    if (std::binary_search(names.begin(), names.end(), kd::kNameMappingFile)) {
      Result<std::map<std::string, std::string>> read =
          ReadNameMapping(folder / kd::kNameMappingFile);
      if (!read.ok()) {
        base::NoteUnseen(read.status());
      } else {
        mapping = *std::move(read);
      }
    }
    for (const std::string& name : names) {
      const std::filesystem::path path = folder / name;
      std::error_code error;
      const auto kind = std::filesystem::symlink_status(path, error).type();
      if (kind == std::filesystem::file_type::directory) {
        MSP_RETURN_IF_ERROR(Folder(path, below + name + "/", depth + 1));
      } else if (kind == std::filesystem::file_type::none) {
        base::NoteUnseen(
            IoError(fmt::format("cannot look at {}: {}", path.string(), error.message())));
      } else if (kind == std::filesystem::file_type::regular && TakeStatistics(path, name, below)) {
        continue;
      } else if (kind != std::filesystem::file_type::regular || IsOther(name)) {
        ++left_out_;
      } else {
        const auto known = mapping.find(name);
        Add(path, known != mapping.end() ? known->second : name, below);
      }
    }
    return {};
  }

  // Whether it is the table of a kernel, and wanted.
  bool TakeStatistics(const std::filesystem::path& path, const std::string& name,
                      const std::string& below) {
    if (statistics_ == nullptr || !name.ends_with(kTableSuffix)) {
      return false;
    }
    const std::string stem = name.substr(0, name.size() - kTableSuffix.size());
    std::optional<kd::DumpFileName> parsed = kd::ParseDumpFileName(stem);
    if (!parsed || (!filter_.empty() && !base::GlobMatch(filter_, stem))) {
      return false;
    }
    statistics_->push_back({path, stem, below, std::move(parsed)});
    return true;
  }

  void Add(const std::filesystem::path& path, const std::string& name, const std::string& below) {
    if (!filter_.empty() && !base::GlobMatch(filter_, name)) {
      return;
    }
    found_.push_back({path, name, below, kd::ParseDumpFileName(name)});
  }

 private:
  const std::string& filter_;
  uint64_t& left_out_;
  std::vector<DumpPath>* statistics_;
  std::vector<DumpPath>& found_;
};

}  // namespace

Result<std::map<std::string, std::string>> ReadNameMapping(const std::filesystem::path& file) {
  MSP_ASSIGN_OR_RETURN(const std::string text, base::ReadTextFile(file, kLargestMapping));
  std::map<std::string, std::string> mapping;
  base::CsvTokenizer rows(
      base::WithoutByteOrderMark(text),
      {base::CsvDialect::RowEnd::kEveryLineFeed, base::CsvDialect::AfterQuote::kJoined, 3});
  for (;;) {
    const base::CsvTokenizer::Row row = rows.Next();
    if (row == base::CsvTokenizer::Row::kEnd) {
      return mapping;
    }
    if (row == base::CsvTokenizer::Row::kFields && rows.fields().size() >= 2) {
      const std::string_view replaced = base::Trim(rows.fields()[0]);
      const std::string_view name = base::Trim(rows.fields()[1]);
      if (kd::IsReplacedName(replaced) && name.find('/') == std::string_view::npos) {
        mapping.emplace(replaced, name);
      }
    }
  }
}

Result<std::vector<DumpPath>> FindDumpFiles(const std::filesystem::path& input,
                                            const std::string& filter, uint64_t& left_out,
                                            std::vector<DumpPath>* statistics) {
  std::vector<DumpPath> found;
  Search search(filter, left_out, statistics, found);
  if (base::IsFolder(input)) {
    MSP_RETURN_IF_ERROR(search.Folder(input, "", 0));
  } else if (base::IsRegularFile(input)) {
    // A single file that has been given a number for its name: the mapping tells.
    std::string name = input.filename().string();
    if (search.TakeStatistics(input, name, "")) {
      return found;
    }
    const std::filesystem::path mapping = input.parent_path() / kd::kNameMappingFile;
    if (kd::IsReplacedName(name) && base::IsRegularFile(mapping)) {
      if (Result<std::map<std::string, std::string>> known = ReadNameMapping(mapping); known.ok()) {
        if (const auto entry = known->find(name); entry != known->end()) {
          name = entry->second;
        }
      }
    }
    search.Add(input, name, "");
  } else {
    return NotFoundError(fmt::format("{} does not exist", input.string()));
  }
  return found;
}

}  // namespace msprobe::analysis::kernel_dump
