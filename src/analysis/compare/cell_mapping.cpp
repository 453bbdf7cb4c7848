#include "src/analysis/compare/mapping.h"
#include "src/analysis/compare/mapping_rules.h"
#include "src/base/strings.h"

namespace msprobe::analysis::compare {
namespace {

constexpr std::string_view kCellPrefix = "Cell.";

// "<path>.<Class>" of a cell's row name that stands behind "Cell."; empty when no known part
// follows it.
std::string_view CellNameOf(std::string_view rest) {
  size_t end = std::string_view::npos;
  for (const std::string_view mark : {".forward.", ".backward.", ".parameters_grad."}) {
    end = std::min(end, rest.find(mark));
  }
  return end == std::string_view::npos ? std::string_view() : rest.substr(0, end);
}

}  // namespace

Status MapRowsByCell(const std::filesystem::path& file, const Side& npu, RowMapping& mapping) {
  MSP_ASSIGN_OR_RETURN(const TextMap targets, LoadTextMap(file));
  mapping.keys.clear();
  std::string key;
  for (const SideRow& row : npu.rows) {
    const std::string_view rest =
        row.name.starts_with(kCellPrefix) ? row.name.substr(kCellPrefix.size()) : "";
    const std::string_view cell = CellNameOf(rest);
    if (cell.empty()) {
      mapping.keys.push_back(row.name);
      continue;
    }
    const auto target = targets.find(cell);
    key = kModulePrefix;
    key += target == targets.end() ? cell : std::string_view(target->second);
    key += rest.substr(cell.size());
    mapping.keys.push_back(mapping.arena->Keep(key));
  }
  return OkStatus();
}

}  // namespace msprobe::analysis::compare
