#include "src/analysis/graph/explorer_file.h"

#include <filesystem>
#include <string>
#include <vector>

#include <fmt/format.h>
#include <gtest/gtest.h>

#include "src/analysis/graph/build.h"
#include "src/analysis/graph/step_views.h"
#include "tests/unit/analysis/graph/small_dump.h"

namespace msprobe::analysis::graph {
namespace {

using test_support::Slurp;

TEST(WriteExplorerFile, ANodeNamesNoMoreOfWhatItStandsInThanTheLimit) {
  const test_support::TemporaryFolder scratch;
  constexpr size_t kLevels = 900;
  constexpr size_t kCalls = 2000;
  const auto module = [](size_t level) {
    return fmt::format("Module.{}{}.A.forward.0", std::string(300, 'x'), level);
  };
  std::string construct = fmt::format(R"("{}": null)", module(0));
  for (size_t level = 1; level < kLevels; ++level) {
    construct += fmt::format(R"(,"{}": "{}")", module(level), module(level - 1));
  }
  for (size_t call = 0; call < kCalls; ++call) {
    construct += fmt::format(R"(,"Torch.a{}.0.forward": "{}")", call, module(kLevels - 1));
  }
  RankView view;
  const RankDump dump = LoadDump(scratch, "a", construct);
  view.npu.dump = &dump;
  std::vector<std::string> warnings;
  view.npu.graph = BuildGraph(dump, {}, warnings);
  view.npu.scores.resize(view.npu.graph.nodes.size());
  const std::filesystem::path path = scratch / "g.explorer.json";
  ASSERT_TRUE(WriteExplorerFile(path, view).ok());
  const std::string text = Slurp(path);
  // All names above each call would be 560 MB.
  EXPECT_LT(text.size(), size_t{48} << 20U);
  EXPECT_NE(text.find(module(0) + "/" + module(1)), std::string::npos);
  EXPECT_EQ(text.find(module(kLevels - 2) + "/"), std::string::npos);
  EXPECT_NE(text.find(fmt::format("Torch.a{}.0.forward", kCalls - 1)), std::string::npos);
}

}  // namespace
}  // namespace msprobe::analysis::graph
