#include "src/analysis/config_check/result_folder.h"

#include <algorithm>
#include <array>
#include <cerrno>
#include <deque>
#include <string>
#include <system_error>
#include <utility>
#include <vector>

#include <fmt/format.h>

#include "src/analysis/config_check/result_json.h"
#include "src/base/files.h"
#include "src/base/output_files.h"
#include "src/base/strings.h"
#include "src/base/threads.h"
#include "src/report/sheet_parts.h"
#include "src/report/writers.h"

namespace msprobe::analysis::config_check {
namespace {

namespace fs = std::filesystem;

constexpr std::array<std::string_view, 2> kPackFolders = {"bench", "cmp"};
constexpr std::string_view kWorkbook = "result.xlsx";
constexpr std::string_view kJsonFile = "result.json";
constexpr std::string_view kPage = "result.html";  // written by the command

bool Exists(const fs::path& path) {
  std::error_code error;
  return fs::symlink_status(path, error).type() != fs::file_type::not_found;
}

// The same where it matters that nobody knows.
Result<bool> IsThere(const fs::path& path) {
  std::error_code error;
  const fs::file_type type = fs::symlink_status(path, error).type();
  if (type == fs::file_type::none) {
    return IoError(fmt::format("cannot look at {}: {}", path.string(), error.message()))
        .WithHint("name another folder with -o");
  }
  return type != fs::file_type::not_found;
}

// The first thing in a pack's folder that no pack holds; empty when it is an extracted pack.
std::string FindForeign(const fs::path& folder) {
  std::error_code error;
  if (!fs::is_directory(fs::symlink_status(folder, error))) {
    return folder.string();
  }
  fs::recursive_directory_iterator at(folder, error);
  for (; !error && at != fs::recursive_directory_iterator(); at.increment(error)) {
    const std::string name = at->path().lexically_relative(folder).string();
    const fs::file_type type = at->symlink_status(error).type();
    const bool known =
        type == fs::file_type::directory ? IsPackMember(name + "/") : IsPackMember(name);
    if (!known || (type != fs::file_type::directory && type != fs::file_type::regular)) {
      return at->path().string();
    }
  }
  return error ? folder.string() : std::string();
}

Status MoveInto(const fs::path& from, const fs::path& target) {
  std::error_code error;
  if (Exists(target)) {
    fs::remove_all(target, error);
    if (error) {
      return IoError(fmt::format("cannot remove {}: {}", target.string(), error.message()));
    }
  }
  fs::rename(from, target, error);
  if (error) {
    return IoError(fmt::format("cannot create {}: {}", target.string(), error.message()));
  }
  return {};
}

report::Table SummaryTable(const CompareRun& run) {
  report::Table table("summary", {"filename", "pass_check"});
  for (const CheckResult& check : run.checks) {
    const std::array<report::Cell, 2> cells = {report::Cell::Text(PartName(check.part)),
                                               report::Cell::Boolean(check.passed)};
    table.AddRow(cells);
  }
  return table;
}

// A sheet of 1,048,576 rows or more becomes NAME_part_0, NAME_part_1, ... of equal size.
void AppendSheet(const report::Table& table, std::deque<report::Table>& parts,
                 std::vector<const report::Table*>& sheets) {
  if (table.row_count() <= report::kMaxSheetRows) {
    sheets.push_back(&table);
    return;
  }
  for (report::Table& part : report::SplitIntoParts(table, report::kMaxSheetRows)) {
    sheets.push_back(&parts.emplace_back(std::move(part)));
  }
}

Status WriteWorkbook(const fs::path& path, const CompareRun& run) {
  const report::Table summary = SummaryTable(run);
  std::deque<report::Table> parts;
  std::vector<const report::Table*> sheets = {&summary};
  for (const CheckResult& check : run.checks) {
    AppendSheet(check.table, parts, sheets);
  }
  report::XlsxOptions options;
  options.styled_header = true;
  base::ThreadPool pool(1);
  return report::WriteXlsx(path, sheets, options, pool);
}

}  // namespace

Status CheckResultFolder(const CompareOptions& options) {
  const fs::path& folder = options.output_folder;
  MSP_RETURN_IF_ERROR(base::CheckOutputFolder(folder));
  MSP_ASSIGN_OR_RETURN(const bool exists, IsThere(folder));
  if (!exists) {
    return {};
  }
  std::string earlier;
  for (const std::string_view name :
       {kPackFolders[0], kPackFolders[1], kWorkbook, kJsonFile, kPage}) {
    MSP_ASSIGN_OR_RETURN(const bool is_there, IsThere(folder / name));
    if (is_there) {
      earlier += fmt::format("{}{}", earlier.empty() ? "" : ", ", name);
    }
  }
  if (!earlier.empty() && base::ExistingFiles() == base::Existing::kRefuse) {
    return UsageError(fmt::format("{} already holds {}", folder.string(), earlier))
        .WithHint("--force replaces them and nothing else; or choose another folder with -o");
  }
  for (const std::string_view name : kPackFolders) {
    MSP_ASSIGN_OR_RETURN(const bool is_there, IsThere(folder / name));
    if (!is_there) {
      continue;
    }
    if (const std::string foreign = FindForeign(folder / name); !foreign.empty()) {
      return UsageError(fmt::format("{} is not a result of config_check: {} would be deleted",
                                    (folder / name).string(), base::Printable(foreign)))
          .WithHint("name another folder with -o");
    }
  }
  for (const std::string_view name : {kWorkbook, kJsonFile, kPage}) {
    MSP_RETURN_IF_ERROR(base::CheckOutputFile(folder / name));
  }
  return {};
}

Status WriteResultFolder(const CompareOptions& options, const PackPair& packs,
                         const base::StagingFolder& staging, CompareRun& run) {
  std::error_code error;
  const fs::path& folder = run.output_folder;
  MSP_RETURN_IF_ERROR(packs.bench.Extract(staging.path() / kPackFolders[0]));
  MSP_RETURN_IF_ERROR(packs.cmp.Extract(staging.path() / kPackFolders[1]));
  if (options.write_xlsx) {
    run.files.push_back(folder / kWorkbook);
    MSP_RETURN_IF_ERROR(WriteWorkbook(staging.path() / kWorkbook, run));
  }
  if (options.write_json) {
    run.files.push_back(folder / kJsonFile);
    MSP_RETURN_IF_ERROR(
        base::WriteFileAtomically(staging.path() / kJsonFile, ResultJson(options, run)));
  }
  for (const std::string_view name :
       {kPackFolders[0], kPackFolders[1], kWorkbook, kJsonFile, kPage}) {
    if (Exists(staging.path() / name)) {
      MSP_RETURN_IF_ERROR(MoveInto(staging.path() / name, folder / name));
    } else if (Exists(folder / name)) {
      fs::remove(folder / name, error);  // a result of the earlier run would contradict this one
    }
  }
  return {};
}

}  // namespace msprobe::analysis::config_check
