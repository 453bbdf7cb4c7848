#include <vector>

#include <gtest/gtest.h>

#include "src/dump/dump_file.h"
#include "tests/unit/support/temporary_folder.h"

namespace msprobe::dump {
namespace {

std::vector<std::string> LeafNames(std::string_view entry_name, std::string_view value) {
  const test_support::TemporaryFolder folder;
  const auto path = folder.Write(
      "dump.json", "{\"data\": {\"" + std::string(entry_name) + "\": " + std::string(value) + "}}");
  std::vector<std::string> names;
  LeafWalker walker;
  const auto header = ReadDumpFile(path, {}, [&](std::string_view name, const EntryTree& tree) {
    walker.ForEach(name, tree, [&](std::string_view leaf, uint32_t) { names.emplace_back(leaf); });
    return OkStatus();
  });
  EXPECT_TRUE(header.ok()) << header.status().message();
  return names;
}

using Names = std::vector<std::string>;

TEST(LeafWalker, NamesValuesAsAComparisonDoes) {
  EXPECT_EQ(
      LeafNames("Torch.f.0.forward",
                R"({"input_args": [{"type": "int"}, [{"type": "a"}, [{"k": {"type": "b"}}]], null],
                          "input_kwargs": {"dim": {"type": "int"}}, "is_recompute": false,
                          "output": [{"type": "torch.Tensor"}]})"),
      (Names{"Torch.f.0.forward.input.0", "Torch.f.0.forward.input.1.0",
             "Torch.f.0.forward.input.1.1.0.k", "Torch.f.0.forward.input.2",
             "Torch.f.0.forward.input.dim", "Torch.f.0.forward.output.0"}));
}

TEST(LeafWalker, LeavesListPositionsOutBelowParameterGradients) {
  EXPECT_EQ(
      LeafNames("Module.fc.Linear.parameters_grad",
                R"({"weight": [{"type": "t"}], "bias": [null]})"),
      (Names{"Module.fc.Linear.parameters_grad.weight", "Module.fc.Linear.parameters_grad.bias"}));
}

TEST(LeafWalker, WalksDebugValuesFromTheTop) {
  EXPECT_EQ(LeafNames("x.0.debug", R"({"type": "torch.Tensor"})"), (Names{"x.0.debug"}));
  EXPECT_EQ(LeafNames("x.0.debug", R"({"a": [{"type": "t"}, 5], "is_recompute": null})"),
            (Names{"x.0.debug.a.0", "x.0.debug.a.1", "x.0.debug.is_recompute"}));
}

TEST(LeafWalker, FindsNothingInEmptyContainersAndSurvivesOddEntries) {
  EXPECT_EQ(LeafNames("a.0.forward", R"({"input_args": [], "output": [[], {}]})"), Names());
  EXPECT_EQ(LeafNames("a.0.forward", "3"), (Names{"a.0.forward"}));
  EXPECT_EQ(LeafNames("a.0.forward", "[null]"), (Names{"a.0.forward.0"}));
}

TEST(LeafWalker, WalksDeepNestingWithoutRecursion) {
  const std::string deep = std::string(450, '[') + "1" + std::string(450, ']');
  const Names names = LeafNames("a.0.forward", "{\"output\": " + deep + "}");
  ASSERT_EQ(names.size(), 1U);
  EXPECT_EQ(names[0].size(), std::string("a.0.forward.output").size() + 2 * 450);
}

}  // namespace
}  // namespace msprobe::dump
