#include "src/analysis/graph/build.h"

#include <string>
#include <vector>

#include <fmt/format.h>
#include <gtest/gtest.h>

#include "tests/unit/analysis/graph/small_dump.h"

namespace msprobe::analysis::graph {
namespace {

Graph BuildOf(const RankDump& dump, Edition edition, std::vector<std::string>* warnings = nullptr) {
  std::vector<std::string> own;
  BuildOptions options;
  options.edition = edition;
  return BuildGraph(dump, options, warnings == nullptr ? own : *warnings);
}

TEST(BuildGraph, ABackwardCallWithoutParentStandsBelowTheBackwardOfItsForwardsParent) {
  const test_support::TemporaryFolder scratch;
  const RankDump dump = LoadDump(scratch, "a", R"(
      "Module.a.A.forward.0": null,
      "Functional.linear.0.forward": "Module.a.A.forward.0",
      "Module.a.A.backward.0": null,
      "Module.a.b.B.forward.0": "Module.a.A.forward.0",
      "Module.a.b.B.backward.0": null,
      "Functional.linear.0.backward": null)");
  const Graph graph = BuildOf(dump, Edition::kV8);
  EXPECT_EQ(ParentNameOf(graph, "Module.a.b.B.backward.0"), "Module.a.A.backward.0");
  EXPECT_EQ(ParentNameOf(graph, "Functional.linear.0.backward"), "Module.a.A.backward.0");
  EXPECT_EQ(ParentNameOf(graph, "Module.a.A.backward.0"), kRootName);
}

TEST(BuildGraph, RunsOfCallsBetweenModulesAreGathered) {
  const test_support::TemporaryFolder scratch;
  const RankDump dump = LoadDump(scratch, "a", R"(
      "Torch.add.0.forward": "", "Torch.add.1.forward": null,
      "Module.a.A.forward.0": null,
      "Torch.add.2.forward": null)");
  const Graph graph = BuildOf(dump, Edition::kV26);
  EXPECT_EQ(ParentNameOf(graph, "Torch.add.1.forward"), "Apis_Between_Modules.0");
  EXPECT_EQ(ParentNameOf(graph, "Torch.add.2.forward"), kRootName);
  EXPECT_EQ(graph.Find("Apis_Between_Modules.1"), kNone);
  EXPECT_EQ(graph.nodes[kRoot].children.size(), 3U);
}

TEST(BuildGraph, ACallThatIsNamedLikeACollectionKeepsItsName) {
  const test_support::TemporaryFolder scratch;
  const RankDump dump = LoadDump(scratch, "a", R"(
      "Apis_Between_Modules.0": null, "Torch.add.0.forward": null, "Torch.add.1.forward": null)");
  const Graph graph = BuildOf(dump, Edition::kV26);
  EXPECT_EQ(ParentNameOf(graph, "Torch.add.1.forward"), "Apis_Between_Modules.1");
  EXPECT_EQ(graph.nodes.size(), 5U);
}

TEST(BuildGraph, ParentsInACircleAreBrokenWithAWarning) {
  const test_support::TemporaryFolder scratch;
  const RankDump dump = LoadDump(scratch, "a", R"(
      "Module.a.A.forward.0": "Module.b.B.forward.0",
      "Module.b.B.forward.0": "Module.a.A.forward.0",
      "Module.c.C.forward.0": "Module.c.C.forward.0")");
  std::vector<std::string> warnings;
  const Graph graph = BuildOf(dump, Edition::kV26, &warnings);
  ASSERT_EQ(warnings.size(), 1U);
  EXPECT_NE(warnings[0].find("circle"), std::string::npos);
  EXPECT_EQ(graph.PostOrder().size(), graph.nodes.size());
  EXPECT_EQ(ParentNameOf(graph, "Module.c.C.forward.0"), kRootName);
}

TEST(BuildGraph, OfManyChildrenOfACircleTheFirstAreNamed) {
  const test_support::TemporaryFolder scratch;
  constexpr size_t kChildren = 200'000;  // to take each out of its siblings would take minutes
  std::string construct;
  for (size_t i = 0; i < kChildren; ++i) {
    construct += fmt::format(R"("d{}": "c{}",)", i, i);
  }
  for (size_t i = 0; i < kChildren; ++i) {
    construct += fmt::format(R"("c{}": "b",)", i);
  }
  const RankDump dump = LoadDump(scratch, "a", construct + R"("b": "a", "a": "b")");
  std::vector<std::string> warnings;
  const Graph graph = BuildOf(dump, Edition::kV8, &warnings);
  ASSERT_EQ(warnings.size(), 9U);
  EXPECT_NE(warnings[7].find("the parents of c7 form a circle"), std::string::npos) << warnings[7];
  EXPECT_NE(warnings[8].find("199,993 nodes"), std::string::npos) << warnings[8];
  EXPECT_EQ(graph.PostOrder().size(), graph.nodes.size());
  EXPECT_EQ(ParentNameOf(graph, "d7"), "c7");
  EXPECT_EQ(ParentNameOf(graph, "a"), "b");
}

TEST(BuildGraph, StacksThatManyNodesShareAreLeftOutBeyondTheirLimit) {
  const test_support::TemporaryFolder scratch;
  constexpr size_t kNodes = 400;
  std::string construct;
  std::string names;
  for (size_t i = 0; i < kNodes; ++i) {
    construct += fmt::format(R"({}"Module.m{}.M.forward.0": null)", i == 0 ? "" : ",", i);
    names += fmt::format(R"({}"Module.m{}.M.forward.0")", i == 0 ? "" : ",", i);
  }
  const std::string line(size_t{1} << 20U, 'x');
  const RankDump dump =
      LoadDump(scratch, "a", construct, "", fmt::format(R"("0": [[{}], ["{}"]])", names, line));
  std::vector<std::string> warnings;
  const Graph graph = BuildOf(dump, Edition::kV26, &warnings);
  ASSERT_EQ(graph.nodes.size(), kNodes + 1);
  EXPECT_EQ(graph.nodes[1].stack[0], line);
  EXPECT_NE(graph.nodes.back().stack[0].find("see stack.json"), std::string::npos);
  uint64_t bytes = 0;
  for (const Node& node : graph.nodes) {
    for (const std::string& text : node.stack) {
      bytes += text.size();
    }
  }
  EXPECT_LT(bytes, uint64_t{300} << 20U);
  ASSERT_EQ(warnings.size(), 1U);
  EXPECT_NE(warnings[0].find("144 nodes"), std::string::npos) << warnings[0];
}

TEST(BuildGraph, AParentThatIsNotListedStandsAtTheTop) {
  const test_support::TemporaryFolder scratch;
  const RankDump dump =
      LoadDump(scratch, "a", R"("Torch.add.0.forward": "Module.gone.G.forward.0")");
  const Graph graph = BuildOf(dump, Edition::kV8);
  EXPECT_EQ(ParentNameOf(graph, "Torch.add.0.forward"), "Module.gone.G.forward.0");
  EXPECT_EQ(ParentNameOf(graph, "Module.gone.G.forward.0"), kRootName);
}

TEST(BuildGraph, GradientsStandBelowTheLastBackwardOfTheirModule) {
  const test_support::TemporaryFolder scratch;
  const RankDump dump = LoadDump(
      scratch, "a",
      R"("Module.a.A.backward.0": null, "Module.a.A.backward.10": null, "Module.a.A.backward.9": null)",
      R"("Module.a.A.parameters_grad": {"weight": [null]}, "Module.b.B.parameters_grad": {"w": [null]},
         "Module.a.A.parameters_grad.3": {"weight": [null]})");
  EXPECT_EQ(ParentNameOf(BuildOf(dump, Edition::kV8), "Module.a.A.parameters_grad"),
            "Module.a.A.backward.10");
  EXPECT_EQ(ParentNameOf(BuildOf(dump, Edition::kV8), "Module.a.A.parameters_grad.3"), "not there");
  const Graph newer = BuildOf(dump, Edition::kV26);
  EXPECT_EQ(ParentNameOf(newer, "Module.a.A.parameters_grad.3"), "Module.a.A.backward.10");
  EXPECT_EQ(ParentNameOf(newer, "Module.b.B.parameters_grad"), "not there");
}

TEST(BuildGraph, MicroStepsAreCountedByForwardsAfterBackwards) {
  const test_support::TemporaryFolder scratch;
  const RankDump dump = LoadDump(scratch, "a", R"(
      "Module.a.A.forward.0": null, "Module.a.A.backward.0": null,
      "Module.a.A.forward.1": null, "Torch.add.0.forward": "Module.a.A.forward.1")");
  const Graph older = BuildOf(dump, Edition::kV8);
  EXPECT_EQ(older.micro_step_count, 2);
  EXPECT_EQ(older.nodes[older.Find("Module.a.A.forward.1")].micro_step, 1);
  EXPECT_EQ(older.nodes[older.Find("Torch.add.0.forward")].micro_step, std::nullopt);
  const Graph newer = BuildOf(dump, Edition::kV26);
  EXPECT_EQ(newer.nodes[newer.Find("Torch.add.0.forward")].micro_step, 1);
}

TEST(BuildGraph, MegatronTellsItsMicroStepsItself) {
  const test_support::TemporaryFolder scratch;
  const RankDump dump = LoadDump(scratch, "a", R"(
      "Module.a.A.forward.0": [null, 2], "Torch.add.0.forward": ["Module.a.A.forward.0", 2],
      "megatron_micro_step_number": 3)");
  const Graph graph = BuildOf(dump, Edition::kV26);
  EXPECT_EQ(graph.micro_step_count, 4);
  EXPECT_EQ(graph.nodes[graph.Find("Torch.add.0.forward")].micro_step, 2);
  EXPECT_EQ(graph.Find("megatron_micro_step_number"), kNone);
}

}  // namespace
}  // namespace msprobe::analysis::graph
