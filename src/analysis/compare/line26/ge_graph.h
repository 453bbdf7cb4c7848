// The graph that torchair writes beside a dump of GE (dynamo_original_graph_<n>...txt, Protocol
// Buffers as text): which operators it has, and which tensor of the FX graph each output is.
#pragma once

#include <cstddef>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "msprobe/status.h"

namespace msprobe::analysis::compare {

// An output of the FX graph: "add-aten.add.Tensor", 0.
struct FxOutput {
  std::string call;  // empty: none
  size_t number = 0;
};

struct GeNode {
  std::vector<FxOutput> outputs;  // by the number of the output
};

// By the name of the operator as files have it: '/', '.', '\' and blanks are '_'.
using GeGraph = std::map<std::string, GeNode, std::less<>>;

// Beyond this many levels or operators a text is refused.
inline constexpr size_t kDeepestGeGraph = 64;
inline constexpr size_t kMostGeNodes = 10'000'000;

// Adds the operators of a text to `graph`. What is not known is skipped. kBadFormat with the line
// for a text that ends inside of a block or a quoted word.
Status ReadGeGraph(std::string_view text, GeGraph& graph);

// The operators whose names make up `fused`, the longest known name first; nothing when a part of
// it is no known name.
std::vector<const GeNode*> SplitFused(const GeGraph& graph, std::string_view fused,
                                      std::vector<std::string>* names = nullptr);

}  // namespace msprobe::analysis::compare
