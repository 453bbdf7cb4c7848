// What the names of nodes say.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "src/analysis/graph/model.h"
#include "src/analysis/graph/options.h"

namespace msprobe::analysis::graph {

// Collections of calls between modules: "Apis_Between_Modules.0", and in merged dumps
// "Apis_Between_Modules_Rank1.0" and "Apis_Between_Modules_All_Ranks.0".
inline constexpr std::string_view kCollectionName = "Apis_Between_Modules";

// The dtype of rows that are groups of ranks.
inline constexpr std::string_view kProcessGroup = "torch.ProcessGroup";

NodeType TypeOfName(std::string_view name, Edition edition);
// Names that modules, optimizers and clipping have: one stack line per module is told by its name.
bool IsModuleName(std::string_view name);

// "<before>.forward.3" -> before, 3.
struct NumberedDirection {
  std::string_view before;
  std::string_view number;
};
std::optional<NumberedDirection> ParseForward(std::string_view name);   // ".forward.<n>" at the end
std::optional<NumberedDirection> ParseBackward(std::string_view name);  // ".backward.<n>"

// The second field: "conv2d" of "Functional.conv2d.0.forward"; empty when there is none.
std::string_view ApiOf(std::string_view name);
// Calls that return memory as they find it: their values say nothing.
bool ReturnsRawMemory(std::string_view name);

}  // namespace msprobe::analysis::graph
