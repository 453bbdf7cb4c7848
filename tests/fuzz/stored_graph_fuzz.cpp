// A .vis.db that is served: all parts of its first ranks.
#include <cstdint>

#include "src/analysis/graph/stored_graph.h"
#include "tests/fuzz/input_folder.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  static const msprobe::fuzz::InputFolder folder;
  const auto graph = msprobe::analysis::graph::StoredGraph::Open(*msprobe::base::InputFile::Open(
      folder.Write("compare.vis.db", msprobe::fuzz::TextOf(data, size))));
  if (!graph.ok()) {
    return 0;
  }
  graph->Listing("");
  for (size_t rank = 0; rank < graph->ranks().size() && rank < 2; ++rank) {
    (void)graph->Tree(rank);
    (void)graph->Tensors(rank);
  }
  return 0;
}
