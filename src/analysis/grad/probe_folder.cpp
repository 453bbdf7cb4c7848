#include "src/analysis/grad/probe_folder.h"

#include <algorithm>
#include <cmath>
#include <optional>

#include <fmt/format.h>

#include "src/base/files.h"
#include "src/base/numbers.h"
#include "src/base/output_files.h"
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

Result<std::vector<GradientSummary>> ReadSummary(const fs::path& path) {
  MSP_ASSIGN_OR_RETURN(const report::Table table, report::ReadCsv(path));
  // Graph mode of MindSpore writes them with a capital.
  const auto find = [&](std::string_view wanted) -> std::optional<size_t> {
    for (size_t at = 0; at < table.columns().size(); ++at) {
      if (base::EqualsIgnoringCase(table.columns()[at], wanted)) {
        return at;
      }
    }
    return std::nullopt;
  };
  const std::optional<size_t> name = find("param_name");
  if (!name) {
    return BadFormatError(fmt::format("{} has no column param_name", path.string()))
        .WithHint("give folders that the task grad_probe has written");
  }
  const std::optional<size_t> most = find("max");
  const std::optional<size_t> least = find("min");
  std::vector<GradientSummary> rows;
  for (size_t at = 0; at < table.row_count(); ++at) {
    const auto row = table.row(at);
    GradientSummary& summary = rows.emplace_back();
    summary.parameter = row[*name].text();
    if (most && least) {
      const std::optional<double> high = base::ParseDouble(row[*most].text());
      const std::optional<double> low = base::ParseDouble(row[*least].text());
      if (high && low && std::isfinite(*high) && std::isfinite(*low)) {
        summary.largest = std::max(std::abs(*high), std::abs(*low));
      }
    }
  }
  return rows;
}

}  // namespace msprobe::analysis::grad
