// Small dumps made on the spot for tests.
#pragma once

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <string>
#include <string_view>

#include <gtest/gtest.h>
#include <unistd.h>

#include "src/analysis/compare/side.h"
#include "tests/unit/support/temporary_folder.h"

namespace msprobe::analysis::compare::test_support {

using msprobe::test_support::TemporaryFolder;

// A dump.json of the task given, whose "data" object holds `entries` (JSON members, without the
// braces).
inline std::string DumpText(std::string_view entries, std::string_view task = "statistics",
                            std::string_view framework = "pytorch") {
  return "{\"task\": \"" + std::string(task) + "\", \"level\": \"L1\", \"framework\": \"" +
         std::string(framework) + "\", \"dump_data_dir\": null, \"data\": {" +
         std::string(entries) + "}}";
}

// A tensor leaf with equal Max, Min, Mean and Norm.
inline std::string TensorText(double value, std::string_view shape = "[2, 3]",
                              std::string_view dtype = "torch.float32") {
  const std::string number = std::to_string(value);
  return "{\"type\": \"torch.Tensor\", \"dtype\": \"" + std::string(dtype) +
         "\", \"shape\": " + std::string(shape) + ", \"Max\": " + number + ", \"Min\": " + number +
         ", \"Mean\": " + number + ", \"Norm\": " + number + ", \"requires_grad\": false}";
}

// A forward entry of an API: one input, one output.
inline std::string CallText(std::string_view name, std::string_view input,
                            std::string_view output) {
  return "\"" + std::string(name) + "\": {\"input_args\": [" + std::string(input) +
         "], \"input_kwargs\": {}, \"is_recompute\": false, \"output\": [" + std::string(output) +
         "]}";
}

inline Side SideFromEntries(std::string_view entries, std::string_view task = "statistics",
                            std::string_view framework = "pytorch") {
  const TemporaryFolder folder;
  Result<Side> side = LoadSide(folder.Write("dump.json", DumpText(entries, task, framework)));
  EXPECT_TRUE(side.ok()) << side.status().message();
  return side.ok() ? *std::move(side) : Side();
}

}  // namespace msprobe::analysis::compare::test_support
