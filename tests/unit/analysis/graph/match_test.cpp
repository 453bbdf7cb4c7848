#include "src/analysis/graph/match.h"

#include <optional>
#include <string>
#include <vector>

#include <fmt/format.h>
#include <gtest/gtest.h>

#include "src/analysis/graph/build.h"
#include "tests/unit/analysis/graph/small_dump.h"

namespace msprobe::analysis::graph {
namespace {

struct Sides {
  test_support::TemporaryFolder scratch;
  std::optional<RankDump> npu_dump;
  std::optional<RankDump> bench_dump;
  Graph npu;
  Graph bench;

  void Load(std::string_view npu_construct, std::string_view npu_data,
            std::string_view bench_construct, std::string_view bench_data) {
    npu_dump = LoadDump(scratch, "npu", npu_construct, npu_data);
    bench_dump = LoadDump(scratch, "bench", bench_construct, bench_data);
  }

  void Match(Edition edition, bool fuzzy = false) {
    std::vector<std::string> warnings;
    npu = BuildGraph(*npu_dump, {.edition = edition}, warnings);
    bench = BuildGraph(*bench_dump, {.edition = edition}, warnings);
    MatchNodes(*npu_dump, *bench_dump, {.edition = edition, .fuzzy = fuzzy}, npu, bench);
  }

  std::string PartnerOf(std::string_view name) const {
    const uint32_t match = npu.nodes[npu.Find(name)].match;
    return match == kNone ? "none" : std::string(bench.nodes[match].name);
  }
};

TEST(MatchNodes, ByTheOlderRulesShapesMustBeEqual) {
  constexpr std::string_view kTree = R"("Module.a.A.forward.0": null,
      "Torch.add.0.forward": "Module.a.A.forward.0")";
  Sides sides;
  sides.Load(kTree, fmt::format(R"("Torch.add.0.forward": {})", Call("[2, 3]")), kTree,
             fmt::format(R"("Torch.add.0.forward": {})", Call("[2, 4]")));
  sides.Match(Edition::kV8);
  EXPECT_EQ(sides.PartnerOf("Module.a.A.forward.0"), "Module.a.A.forward.0");
  EXPECT_EQ(sides.PartnerOf("Torch.add.0.forward"), "none");
  sides.Match(Edition::kV26);
  EXPECT_EQ(sides.PartnerOf("Torch.add.0.forward"), "Torch.add.0.forward");
}

TEST(MatchNodes, ANodeThatStandsElsewhereHasNoPartner) {
  Sides sides;
  sides.Load(R"("Module.a.A.forward.0": null, "Torch.add.0.forward": "Module.a.A.forward.0")", "",
             R"("Module.a.A.forward.0": null, "Torch.add.0.forward": null)", "");
  sides.Match(Edition::kV26);
  EXPECT_EQ(sides.PartnerOf("Torch.add.0.forward"), "none");
}

TEST(MatchNodes, FuzzilyTheOrderOfCallsCountsAndNotTheirNumbers) {
  Sides sides;
  sides.Load(R"("Module.a.A.forward.0": null,
                "Torch.add.3.forward": "Module.a.A.forward.0",
                "Torch.mul.9.forward": "Module.a.A.forward.0",
                "Torch.add.4.forward": "Module.a.A.forward.0")",
             "",
             R"("Module.a.A.forward.0": null,
                "Torch.add.0.forward": "Module.a.A.forward.0",
                "Torch.add.1.forward": "Module.a.A.forward.0")",
             "");
  sides.Match(Edition::kV26, /*fuzzy=*/true);
  EXPECT_EQ(sides.PartnerOf("Torch.add.3.forward"), "Torch.add.0.forward");
  EXPECT_EQ(sides.PartnerOf("Torch.add.4.forward"), "Torch.add.1.forward");
  EXPECT_EQ(sides.PartnerOf("Torch.mul.9.forward"), "none");
}

}  // namespace
}  // namespace msprobe::analysis::graph
