// The folders that torchair dumps: kernel dumps of GE, arrays of FX.
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "msprobe/status.h"

#include "src/analysis/compare/line26/ge_graph.h"
#include "src/analysis/kernel_dump/vector_side.h"

namespace msprobe::analysis::compare {

struct GeKernel {
  int64_t token = 0;
  kernel_dump::VectorOperator op;
};

// An array of a call of the FX graph, by token, call ("add-aten.add.Tensor"), whether it is an
// output, and number.
struct FxKey {
  int64_t token = 0;
  std::string call;
  bool is_output = false;
  size_t number = 0;
  auto operator<=>(const FxKey&) const = default;
};

struct TorchairRank {
  std::vector<GeKernel> kernels;  // in the order of time
  std::map<FxKey, std::filesystem::path> arrays;
};

struct TorchairSide {
  GeGraph graph;
  std::map<std::optional<int64_t>, TorchairRank> ranks;  // by worldsize<W>_global_rank<R>

  bool is_ge() const { return !graph.empty(); }
};

// A side with a text of the graph is of GE, others of FX, whose tokens count from 1 and are
// numbered from 0 here. kNotFound when there is neither a kernel dump nor an array.
Result<TorchairSide> ReadTorchairSide(const std::filesystem::path& folder);

}  // namespace msprobe::analysis::compare
