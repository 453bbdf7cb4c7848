#include "src/analysis/grad/probe_folder.h"

#include <algorithm>
#include <optional>

#include <fmt/format.h>

#include "src/base/files.h"
#include "src/base/number_text.h"
#include "src/base/path_kind.h"
#include "src/base/strings.h"
#include "src/report/readers.h"

namespace msprobe::analysis::grad {

namespace fs = std::filesystem;

Result<NumberedFolders> FindNumbered(const fs::path& folder, std::string_view word) {
  MSP_ASSIGN_OR_RETURN(const std::vector<std::string> names, base::ListFolder(folder));
  NumberedFolders found;
  for (const std::string& name : names) {
    if (!name.starts_with(word) || name.size() == word.size() ||
        !std::all_of(name.begin() + static_cast<ptrdiff_t>(word.size()), name.end(),
                     base::IsDigit)) {
      continue;
    }
    const std::optional<int64_t> number =
        base::ParseInt(std::string_view(name).substr(word.size()));
    if (number && base::IsFolder(folder / name)) {
      found.emplace(*number, folder / name);
    }
  }
  return found;
}

Result<std::map<std::string, std::string>> FindDirections(const fs::path& step) {
  MSP_ASSIGN_OR_RETURN(const std::vector<std::string> names, base::ListFolder(step));
  std::map<std::string, std::string> found;
  for (const std::string_view ending : {".npy", ".npz", ".pt"}) {
    for (const std::string& name : names) {
      if (name.ends_with(ending)) {
        found.emplace(name.substr(0, name.size() - ending.size()), name);
      }
    }
  }
  return found;
}

Result<std::vector<std::string>> ReadParameterNames(const fs::path& path) {
  MSP_ASSIGN_OR_RETURN(const report::Table table, report::ReadCsv(path));
  // Graph mode of MindSpore writes it with a capital.
  const auto column = std::find_if(
      table.columns().begin(), table.columns().end(),
      [](const std::string& name) { return base::EqualsIgnoringCase(name, "param_name"); });
  if (column == table.columns().end()) {
    return BadFormatError(fmt::format("{} has no column param_name", path.string()))
        .WithHint("give folders that the task grad_probe has written");
  }
  const auto at = static_cast<size_t>(column - table.columns().begin());
  std::vector<std::string> names;
  for (size_t row = 0; row < table.row_count(); ++row) {
    names.emplace_back(table.row(row)[at].text());
  }
  return names;
}

}  // namespace msprobe::analysis::grad
