#include "src/analysis/compare/mapping_rules.h"

namespace msprobe::analysis::compare {

Status MapRowsByData(const std::filesystem::path& file, const Side& npu, RowMapping& mapping) {
  MSP_ASSIGN_OR_RETURN(const TextMap targets, LoadTextMap(file));
  mapping.keys.clear();
  size_t used = 0;
  for (const SideRow& row : npu.rows) {
    const auto target = targets.find(row.name);
    if (target == targets.end()) {
      mapping.keys.push_back(row.name);
    } else {
      mapping.keys.push_back(mapping.arena->Keep(target->second));
      ++used;
    }
  }
  if (used == 0 && !targets.empty()) {
    mapping.warnings.push_back(file.string() + ": none of its " + std::to_string(targets.size()) +
                               " names is a row of " + npu.json_path.string());
  }
  return OkStatus();
}

}  // namespace msprobe::analysis::compare
