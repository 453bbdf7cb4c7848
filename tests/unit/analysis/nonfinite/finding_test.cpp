#include <string>

#include <gtest/gtest.h>

#include "src/analysis/nonfinite/nan.h"
#include "tests/unit/support/temporary_folder.h"

namespace msprobe::analysis::nonfinite {
namespace {

// Walking all modules around each operator would be 9 * 10^8 steps.
TEST(ResolveContainers, WalksADeepChainOfModulesOnce) {
  constexpr uint32_t kCount = 30'000;
  const test_support::TemporaryFolder folder;
  std::string construct = "{";
  for (uint32_t i = 0; i < kCount; ++i) {
    const std::string module = "Module.m" + std::to_string(i) + ".A.forward.0";
    const std::string parent =
        i == 0 ? "null" : "\"Module.m" + std::to_string(i - 1) + ".A.forward.0\"";
    construct += "\"" + module + "\": " + parent + ", ";
    construct += "\"Torch.f." + std::to_string(i) + ".forward\": \"Module.m" +
                 std::to_string(kCount - 1) + ".A.forward.0\"";
    construct += i + 1 < kCount ? ", " : "}";
  }
  folder.Write("construct.json", construct);
  std::vector<RankDump> ranks(1);
  ranks[0].folder = folder.path();
  SearchResult result;
  const auto add = [&](const std::string& name) {
    Operator op;
    op.name = ranks[0].names->Keep(name);
    ranks[0].operators.push_back(op);
    Origin origin;
    origin.operator_place = static_cast<uint32_t>(ranks[0].operators.size() - 1);
    return origin;
  };
  result.origins.push_back(add("Module.m0.A.forward.0"));
  for (uint32_t i = 0; i < kCount; ++i) {
    Origin origin = add("Torch.f." + std::to_string(i) + ".forward");
    origin.kind = OriginKind::kExternalInput;
    origin.behind_module = i % 2 == 0;
    result.weak.push_back(origin);
  }
  Origin outside = add("Torch.g.0.forward");
  outside.kind = OriginKind::kExternalInput;
  outside.behind_module = true;
  result.weak.push_back(outside);
  ResolveContainers(ranks, result);
  // The first operator inside explains the module; the others stay, but for the one outside.
  ASSERT_EQ(result.origins.size(), 1U);
  EXPECT_EQ(result.origins[0].kind, OriginKind::kUnrecorded);
  EXPECT_EQ(ranks[0].operators[result.origins[0].operator_place].name, "Torch.f.0.forward");
  EXPECT_EQ(result.weak.size(), kCount - 1);
}

TEST(ResolveContainers, EndsWhereModulesGoRoundInACircle) {
  const test_support::TemporaryFolder folder;
  folder.Write("construct.json", R"({"Torch.f.0.forward": "Module.a.A.forward.0",
      "Module.a.A.forward.0": "Module.b.B.forward.0",
      "Module.b.B.forward.0": "Module.a.A.forward.0"})");
  std::vector<RankDump> ranks(1);
  ranks[0].folder = folder.path();
  SearchResult result;
  for (const char* name : {"Module.c.C.forward.0", "Torch.f.0.forward"}) {
    Operator op;
    op.name = name;
    ranks[0].operators.push_back(op);
    Origin origin;
    origin.operator_place = static_cast<uint32_t>(ranks[0].operators.size() - 1);
    origin.kind = OriginKind::kExternalInput;
    (result.origins.empty() ? result.origins : result.weak).push_back(origin);
  }
  ResolveContainers(ranks, result);
  EXPECT_EQ(result.origins.size(), 1U);
  EXPECT_EQ(result.weak.size(), 1U);
}

}  // namespace
}  // namespace msprobe::analysis::nonfinite
