#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "src/analysis/graph/merge.h"

namespace msprobe::analysis::graph {
namespace {

std::string OnlyLine(std::string_view name, const std::vector<std::string>& lines) {
  const StackLines kept = ShortStack(name, lines);
  return kept.size() == 1 ? kept[0] : std::to_string(kept.size()) + " lines";
}

TEST(StackLines, OfAnApiTheLineBehindTheRecorderIsKept) {
  EXPECT_EQ(
      OnlyLine("Torch.add.0.forward", {"a", "return TensorOPTemplate(op)(x)", "y = x + 1", "main"}),
      "y = x + 1");
  EXPECT_EQ(OnlyLine("Torch.add.0.forward", {"api_template(f)", "y", "z"}), "y");
  EXPECT_EQ(OnlyLine("Torch.add.0.forward", {"my_api_template(f)", "y"}), "2 lines");
  EXPECT_EQ(OnlyLine("Torch.add.0.forward", {"Template(f)", "smallTemplate(f)", "y"}), "3 lines");
  EXPECT_EQ(OnlyLine("Torch.add.0.forward", {"y", "return OPTemplate(op)(x)"}), "2 lines");
}

TEST(StackLines, OfAModuleTheLineThatCallsItIsKept) {
  EXPECT_EQ(OnlyLine("Module.layer3.0.bn2.BatchNorm2d.forward.0",
                     {"hook", "y = self.bn2(x)", "z = self.bn2(y)"}),
            "y = self.bn2(x)");
  EXPECT_EQ(OnlyLine("Module.bn2", {"a", "b"}), "2 lines");
}

TEST(StackLines, RecomputationShowsInTheFramesOfCheckpoints) {
  const std::string function = "File /a/torch/autograd/function.py, line 3, in apply, \n f(x)";
  EXPECT_TRUE(ShowsRecomputation(std::vector<std::string>{
      "File /a/torch/utils/checkpoint.py, line 1, in recompute_fn, \n f(x)"}));
  EXPECT_FALSE(ShowsRecomputation(
      std::vector<std::string>{"File /a/other.py, line 1, in recompute_fn, \n f(x)"}));
  EXPECT_TRUE(ShowsRecomputation(
      std::vector<std::string>{"File /a/b.py, line 1, in backward, \n f(x)", "between", function}));
  EXPECT_FALSE(ShowsRecomputation(std::vector<std::string>{
      "File /a/b.py, line 1, in backward, \n f(x)", "one", "two", function}));
  EXPECT_FALSE(ShowsRecomputation(std::vector<std::string>{
      "File /a/b.py, line 1, in checkpoint_function_backward, \n f(x)", function}));
  EXPECT_TRUE(ShowsRecomputation(std::vector<std::string>{
      "File /megatron/b.py, line 1, in checkpoint_function_backward, \n f(x)", function}));
}

}  // namespace
}  // namespace msprobe::analysis::graph
