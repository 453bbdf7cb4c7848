// Dumps of a few calls, written down as the members of their three files.
#pragma once

#include <filesystem>
#include <string>
#include <string_view>

#include <fmt/format.h>
#include <gtest/gtest.h>

#include "src/analysis/graph/model.h"
#include "tests/unit/support/temporary_folder.h"

namespace msprobe::analysis::graph {

// {"input_args": [tensor], "output": [tensor]}
inline std::string Call(std::string_view shape = "[2, 3]") {
  const std::string tensor = fmt::format(
      R"({{"type": "torch.Tensor", "dtype": "torch.float32", "shape": {}, "Max": 1.0, "Min": 0.0, "Mean": 0.5, "Norm": 1.5}})",
      shape);
  return fmt::format(R"({{"input_args": [{}], "input_kwargs": {{}}, "output": [{}]}})", tensor,
                     tensor);
}

inline RankDump LoadDump(const test_support::TemporaryFolder& scratch, std::string_view name,
                         std::string_view construct, std::string_view data = "",
                         std::string_view stacks = "") {
  const std::filesystem::path folder = scratch / name;
  scratch.Write(folder / "construct.json", fmt::format("{{{}}}", construct));
  scratch.Write(
      folder / "dump.json",
      fmt::format(R"({{"task": "statistics", "framework": "pytorch", "data": {{{}}}}})", data));
  scratch.Write(folder / "stack.json", fmt::format("{{{}}}", stacks));
  Result<RankDump> dump = RankDump::Load(folder);
  EXPECT_TRUE(dump.ok()) << dump.status().message();
  return *std::move(dump);
}

inline std::string ParentNameOf(const Graph& graph, std::string_view name) {
  const uint32_t node = graph.Find(name);
  if (node == kNone) {
    return "not there";
  }
  const uint32_t parent = graph.nodes[node].parent;
  return parent == kNone ? "none" : std::string(graph.nodes[parent].name);
}

}  // namespace msprobe::analysis::graph
