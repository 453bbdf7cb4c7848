#include "src/analysis/inspect/run.h"

#include <algorithm>
#include <system_error>
#include <utility>

#include <fmt/format.h>

#include "src/analysis/inspect/cells.h"
#include "src/analysis/inspect/dump_contents.h"
#include "src/analysis/inspect/dump_overview.h"
#include "src/analysis/inspect/table_contents.h"
#include "src/analysis/inspect/tensor_contents.h"
#include "src/analysis/inspect/unstable_calls.h"
#include "src/base/files.h"
#include "src/base/strings.h"
#include "src/dump/layout.h"

namespace msprobe::analysis::inspect {
namespace {

namespace fs = std::filesystem;

// JSON by name, or by its first character whatever the name.
Result<bool> LooksLikeJson(const fs::path& path) {
  if (path.extension() == ".json") {
    return true;
  }
  MSP_ASSIGN_OR_RETURN(const base::FileBytes file, base::FileBytes::Open(path));
  const size_t first = file.text().substr(0, 64).find_first_not_of(" \t\r\n");
  return first != std::string_view::npos && file.text()[first] == '{';
}

Result<Contents> InspectFolder(const Options& options) {
  Result<dump::DumpLayout> layout = dump::FindDump(options.path);
  if (layout.ok()) {
    return InspectDumpFolder(options, *layout);
  }
  if (layout.status().code() == StatusCode::kNotFound) {
    MSP_ASSIGN_OR_RETURN(std::vector<std::string> names, base::ListFolder(options.path));
    std::erase_if(names, [](const std::string& name) { return !HasTensorFileName(name); });
    if (!names.empty()) {
      return InspectTensorFolder(options, names);
    }
    MSP_ASSIGN_OR_RETURN(const std::vector<fs::path> tables, UnstableCallsFilesIn(options.path));
    if (!tables.empty()) {
      return RankUnstableCalls(options, tables);
    }
  }
  return std::move(layout).status();
}

Result<Contents> InspectAny(const Options& options) {
  std::error_code error;
  const fs::file_status status = fs::status(options.path, error);
  if (status.type() == fs::file_type::not_found) {
    return NotFoundError(fmt::format("{} does not exist", options.path.string()));
  }
  if (fs::is_directory(status)) {
    return InspectFolder(options);
  }
  if (IsUnstableCallsFile(options.path)) {
    return RankUnstableCalls(options, {options.path});
  }
  if (options.path.extension() == ".csv") {
    return InspectTable(options);
  }
  MSP_ASSIGN_OR_RETURN(const bool is_json, LooksLikeJson(options.path));
  return is_json ? InspectDumpFile(options) : InspectTensorFile(options);
}

}  // namespace

Result<Contents> Run(const Options& options) {
  MSP_ASSIGN_OR_RETURN(Contents result, InspectAny(options));
  for (std::string& line : result.summary) {
    line = base::Printable(line);
  }
  for (std::string& line : result.warnings) {
    line = base::Printable(line);
  }
  return result;
}

}  // namespace msprobe::analysis::inspect
