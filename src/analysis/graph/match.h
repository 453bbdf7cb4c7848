// Which nodes of two graphs are one.
#pragma once

#include <string_view>
#include <unordered_map>

#include "src/analysis/graph/model.h"
#include "src/analysis/graph/options.h"

namespace msprobe::analysis::graph {

struct MatchOptions {
  Edition edition = Edition::k26;
  bool ignore_shapes = false;
  bool fuzzy = false;  // calls below matched modules pair by their order, whatever their numbers
  // The bench call beside each NPU call; null: no mapping. Others keep their own names.
  const std::unordered_map<std::string_view, std::string_view>* mapping = nullptr;
};

// Sets Node::match on both sides, and the micro steps of the bench nodes after those of the NPU
// side. Without a mapping nodes of equal names match where the names above them are equal too; by
// the rules of 8.1.1 the types and shapes of their values must be equal as well.
void MatchNodes(const RankDump& npu_dump, const RankDump& bench_dump, const MatchOptions& options,
                Graph& npu, Graph& bench);

}  // namespace msprobe::analysis::graph
