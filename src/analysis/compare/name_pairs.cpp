#include "src/analysis/compare/name_pairs.h"

#include <string_view>
#include <unordered_map>

#include <fmt/format.h>

namespace msprobe::analysis::compare {

void PairRowsByName(ComparedPair& pair) {
  constexpr std::string_view kNoShape = "None";
  std::unordered_map<std::string_view, const SideRow*> bench;
  for (const SideRow& row : pair.bench.rows) {
    bench.try_emplace(row.name, &row);
  }
  pair.mapping.by_key_only = true;
  pair.mapping.keys.clear();
  for (SideRow& row : pair.npu.rows) {
    const auto partner = bench.find(row.name);
    const bool fits = partner == bench.end() || partner->second->shape == row.shape ||
                      partner->second->shape == kNoShape || row.shape == kNoShape;
    if (!fits) {
      row.problem = pair.npu.Keep(
          fmt::format("The row of this name has the shape {} there. ", partner->second->shape));
    }
    // No row has an empty name.
    pair.mapping.keys.push_back(fits ? row.name : std::string_view());
  }
}

}  // namespace msprobe::analysis::compare
