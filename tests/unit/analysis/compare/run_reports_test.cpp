// summary.json, the JUnit report and the screen, made of summaries written by hand.
#include <limits>
#include <string>

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include "src/analysis/compare/document.h"
#include "src/analysis/compare/summary.h"
#include "src/base/strings.h"
#include "src/base/utf8.h"
#include "src/dump/stack_file.h"
#include "src/report/render.h"

namespace msprobe::analysis::compare {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;
using ::testing::StartsWith;

DivergencePoint Origin(OriginKind kind = OriginKind::kParameter) {
  DivergencePoint point;
  point.kind = kind;
  point.entry_name = "Functional.linear.2.forward";
  point.row_name = "Functional.linear.2.forward.input.1";
  point.layer = "blocks.0.mlp.fc1 (Linear)";
  point.parent_module = "Module.blocks.0.mlp.fc1.Linear.forward.0";
  point.input_error = 1e-3;
  point.output_error = 1.5e-3;
  point.amplification = 1.5;
  point.code_line = "models.py:43 in forward: return x";
  point.stack = {"File models.py"};
  return point;
}

PairSummary PairOf(int64_t rank, uint64_t differing) {
  PairSummary pair;
  pair.npu_path = "npu/dump.json";
  pair.bench_path = "bench/dump.json";
  pair.step = 0;
  pair.rank = rank;
  pair.task = "statistics";
  pair.level = "mix";
  pair.counts.rows = 100;
  pair.counts.matched = 100;
  pair.counts.identical = 60;
  pair.counts.agreeing = 100 - differing;
  pair.counts.differing = differing;
  pair.divergence.compared_entry_count = 30;
  pair.files = {"out/compare_result_20250101000000.xlsx"};
  if (differing > 0) {
    pair.divergence.first_of_kind[0] = Origin();
    pair.divergence.first_origin = Origin();
    pair.divergence.amplifiers = {Origin(OriginKind::kComputation)};
  }
  return pair;
}

RunSummary Summary(std::vector<PairSummary> pairs) {
  RunSummary summary;
  summary.pairs = std::move(pairs);
  FinishSummary(summary);
  return summary;
}

std::string ScreenReport(const RunSummary& summary, const report::ScreenOptions& options) {
  return report::RenderTerminal(MakeDocument(summary), options);
}

std::string JunitXml(const RunSummary& summary, const char* fail_on = nullptr) {
  return report::RenderJunit(MakeDocument(summary),
                             fail_on == nullptr ? report::Gate() : report::Gate({fail_on}));
}

bool ReportGateFails(const RunSummary& summary, const char* level) {
  return report::Gate({level}).Fails(MakeDocument(summary));
}

TEST(Verdict, IsTheWorstOfThePairs) {
  PairSummary equal = PairOf(0, 0);
  EXPECT_EQ(VerdictOf(equal), PairVerdict::kAgrees);
  equal.counts.identical = 100;
  EXPECT_EQ(VerdictOf(equal), PairVerdict::kIdentical);
  PairSummary drift = PairOf(1, 5);
  drift.divergence.first_origin.reset();
  drift.divergence.first_drift = Origin();
  drift.counts.drifting = drift.counts.differing;
  drift.counts.differing = 0;
  EXPECT_EQ(VerdictOf(drift), PairVerdict::kDrifts);
  PairSummary lonely = PairOf(2, 0);
  lonely.counts.npu_only = 1;
  EXPECT_EQ(VerdictOf(lonely), PairVerdict::kUnmatched);
  EXPECT_EQ(VerdictOf(Summary({equal, lonely, drift})), PairVerdict::kDrifts);
  EXPECT_THAT(JunitXml(Summary({drift})), HasSubstr("failures=\"0\""));
  EXPECT_THAT(JunitXml(Summary({drift}), "drift"), HasSubstr("failures=\"1\""));
  EXPECT_EQ(VerdictOf(Summary({equal, PairOf(3, 5), drift})), PairVerdict::kDiffers);
}

TEST(Verdict, ADifferingWeightDiffersEvenWhenNoResultLeavesTheNoise) {
  PairSummary pair = PairOf(0, 0);
  pair.divergence.first_origin = Origin();
  EXPECT_EQ(VerdictOf(pair), PairVerdict::kDiffers);
}

TEST(Verdict, ARankWithoutPartnerIsNotAgreement) {
  RunSummary summary = Summary({PairOf(0, 0)});
  summary.npu_only = {"step0/rank1"};
  EXPECT_EQ(VerdictOf(summary), PairVerdict::kUnmatched);
}

TEST(Gate, FailsWhereMostRowsOfASideStandAloneAndTheJunitReportAgrees) {
  PairSummary few = PairOf(0, 0);
  few.counts.bench_only = 99;
  EXPECT_FALSE(ReportGateFails(Summary({few}), "error"));
  EXPECT_TRUE(ReportGateFails(Summary({few}), "different")) << "rows without partner";
  EXPECT_THAT(JunitXml(Summary({few})), HasSubstr("failures=\"0\""));
  PairSummary most = PairOf(0, 0);
  most.counts.bench_only = 101;
  for (const char* const gate : {"error", "warning", "different", "drift"}) {
    EXPECT_TRUE(ReportGateFails(Summary({most}), gate)) << gate;
  }
  EXPECT_THAT(JunitXml(Summary({most})), HasSubstr("failures=\"1\""));
}

TEST(Gate, FailsWhereThereIsNoPairAtAll) { EXPECT_TRUE(ReportGateFails(RunSummary(), "error")); }

TEST(Verdict, AnUnreadableTensorFileIsNotAgreementAndFailsEveryGate) {
  PairSummary pair = PairOf(0, 0);
  pair.counts.unreadable = 1;
  EXPECT_EQ(VerdictOf(pair), PairVerdict::kUnreadable);
  const RunSummary summary = Summary({pair, PairOf(1, 0)});
  EXPECT_THAT(ScreenReport(summary, report::ScreenOptions()),
              StartsWith("AGREE IN PART: what could be read agrees, but 1 row has"));
  for (const char* level : {"error", "warning", "different", "drift"}) {
    EXPECT_TRUE(ReportGateFails(summary, level)) << level;
  }
  EXPECT_THAT(SummaryJson(summary, 0), HasSubstr("\"unreadable\": 1,"));
  pair = PairOf(0, 3);
  pair.counts.unreadable = 1;
  EXPECT_EQ(VerdictOf(pair), PairVerdict::kDiffers);  // what was found counts more
}

TEST(LeadingPair, IsTheRankWhoseOriginIsItsOwn) {
  PairSummary receiver = PairOf(0, 90);
  receiver.divergence.first_origin->from_other_rank = true;
  EXPECT_EQ(LeadingPair(Summary({receiver, PairOf(1, 10), PairOf(2, 0)})), 1U);
  EXPECT_EQ(LeadingPair(Summary({PairOf(0, 0)})), std::nullopt);
}

TEST(LeadingPair, IsInTheEarliestStep) {
  PairSummary later = PairOf(0, 90);
  later.step = 3;
  EXPECT_EQ(LeadingPair(Summary({later, PairOf(0, 1)})), 1U);
}

TEST(PairName, TellsStepAndRank) {
  PairSummary pair = PairOf(7, 0);
  EXPECT_EQ(PairName(pair), "step0/rank7");
  pair.is_debug = true;
  EXPECT_EQ(PairName(pair), "step0/rank7 (debug)");
  pair.step.reset();
  pair.rank.reset();
  EXPECT_EQ(PairName(pair), "dump.json");
}

TEST(SummaryJson, IsStrictJsonThatTellsVerdictCountsAndOrigin) {
  RunSummary summary = Summary({PairOf(0, 0), PairOf(1, 12)});
  summary.pairs[1].divergence.first_origin->output_error = std::numeric_limits<double>::infinity();
  const std::string text = SummaryJson(summary, 1);
  const nlohmann::json json = nlohmann::json::parse(text, nullptr, false);
  ASSERT_FALSE(json.is_discarded()) << text;
  EXPECT_EQ(json["schema_version"], 1);
  EXPECT_EQ(json["exit_code"], 1);
  EXPECT_EQ(json["verdict"], "differ");
  EXPECT_EQ(json["totals"]["differing"], 12);
  EXPECT_EQ(json["first_divergence_pair"], 1);
  EXPECT_EQ(json["pairs"][0]["verdict"], "agree");
  EXPECT_TRUE(json["pairs"][0]["first_divergence"].is_null());
  const nlohmann::json& origin = json["pairs"][1]["first_divergence"];
  EXPECT_EQ(origin["kind"], "parameter");
  EXPECT_EQ(origin["layer"], "blocks.0.mlp.fc1 (Linear)");
  EXPECT_TRUE(origin["output_error"].is_null()) << "infinity is no JSON number";
  EXPECT_EQ(json["pairs"][1]["counts"]["verdicts"].size(), kVerdictCount);
  EXPECT_FALSE(json["version"].get<std::string>().empty());
}

TEST(JunitXml, CountsFailuresAndErrors) {
  PairSummary broken;
  broken.npu_path = "npu/step0/rank2/dump.json";
  broken.step = 0;
  broken.rank = 2;
  broken.error = "cannot read <\"it\"> & more";
  RunSummary summary = Summary({PairOf(0, 0), PairOf(1, 12), broken});
  summary.bench_only = {"step0/rank3"};
  const std::string xml = JunitXml(summary);
  EXPECT_THAT(xml, StartsWith("<?xml"));
  EXPECT_THAT(xml, HasSubstr("tests=\"4\" failures=\"2\" errors=\"1\""));
  EXPECT_THAT(xml, HasSubstr("<testcase classname=\"compare\" name=\"step0/rank0\""));
  EXPECT_THAT(xml, HasSubstr("blocks.0.mlp.fc1 (Linear)"));
  EXPECT_THAT(xml, HasSubstr("cannot read &lt;&quot;it&quot;&gt; &amp; more"));
}

TEST(JunitXml, ControlCharactersInNamesDoNotBreakIt) {
  PairSummary pair = PairOf(0, 3);
  pair.divergence.first_origin->row_name = "a\x01\x1b[31m\xff";
  pair.divergence.first_of_kind[0] = pair.divergence.first_origin;
  const std::string xml = JunitXml(Summary({pair}));
  EXPECT_EQ(xml.find('\x01'), std::string::npos);
  EXPECT_EQ(xml.find('\x1b'), std::string::npos);
  EXPECT_EQ(xml.find('\xff'), std::string::npos);
}

TEST(ScreenReport, OpensWithTheVerdictAndTheOrigin) {
  const std::string text = ScreenReport(Summary({PairOf(0, 12)}), {});
  EXPECT_THAT(text,
              StartsWith("DIFFERENT: it starts with a parameter of blocks.0.mlp.fc1 (Linear)"));
  EXPECT_THAT(text, HasSubstr("models.py:43 in forward"));
  EXPECT_THAT(text, HasSubstr("out/compare_result_20250101000000.xlsx"));
  EXPECT_THAT(text, Not(HasSubstr("\x1b")));
}

TEST(ScreenReport, SaysHowToSeeTheLayerWhereTheCaptureRecordedNone) {
  constexpr const char* kHint = "capture with --level mix to see";
  const auto text = [](const char* level, const char* layer) {
    PairSummary pair = PairOf(0, 12);
    pair.level = level;
    pair.divergence.first_origin->layer = layer;
    return ScreenReport(Summary({pair}), {.has_edge = false});
  };
  EXPECT_THAT(text("L1", ""), HasSubstr(kHint));
  EXPECT_THAT(text("L1", "blocks.0 (Block)"), Not(HasSubstr(kHint)));
  EXPECT_THAT(text("mix", ""), Not(HasSubstr(kHint))) << "it is outside of all modules";
  EXPECT_THAT(ScreenReport(Summary({PairOf(0, 0)}), {}), Not(HasSubstr(kHint)));
}

TEST(ScreenReport, ColoursOnlyWhenAsked) {
  EXPECT_THAT(ScreenReport(Summary({PairOf(0, 12)}), {.color = true}),
              StartsWith("\x1b[1;31mDIFFERENT"));
}

TEST(ScreenReport, EqualRunsNeedOneLine) {
  PairSummary pair = PairOf(0, 0);
  pair.counts.identical = 100;
  const std::string text = ScreenReport(Summary({pair}), {});
  EXPECT_THAT(text, StartsWith("IDENTICAL: all 100 compared rows are equal\n"));
  EXPECT_THAT(text, Not(HasSubstr("Where it starts")));
}

TEST(ScreenReport, ListsManyRanksInGroupsThatPartAtTheSameCallWorstFirst) {
  std::vector<PairSummary> pairs;
  for (int64_t rank = 0; rank < 64; ++rank) {
    pairs.push_back(PairOf(rank, rank == 40 ? 30 : rank >= 7 && rank < 10 ? 12 : 0));
  }
  pairs[40].divergence.first_origin->entry_name = "Torch.mul.0.forward";
  pairs[40].divergence.first_origin->kind = OriginKind::kComputation;
  pairs[9].counts.differing = 11;
  const std::string text = ScreenReport(Summary(std::move(pairs)), {});
  const size_t worst = text.find("step0/rank40 ");
  const size_t second = text.find("step0/ranks 7-9 ");
  ASSERT_NE(worst, std::string::npos) << text;
  ASSERT_NE(second, std::string::npos) << text;
  EXPECT_LT(worst, second);
  EXPECT_THAT(text, HasSubstr("11-12 of 100 rows each  a parameter of"));
  EXPECT_THAT(text, HasSubstr("step0/ranks 0-6, 10-39, 41-63  agree"));
}

TEST(ScreenReport, KeepsToTheWidthAndToPrintableText) {
  PairSummary pair = PairOf(0, 12);
  std::string hostile = "\x1b]0;title\x07";
  for (int i = 0; i < 60; ++i) {
    hostile += "层";
  }
  pair.divergence.first_origin->layer = hostile;
  pair.divergence.first_of_kind[0] = pair.divergence.first_origin;
  const std::string text = ScreenReport(Summary({pair}), {.width = 60});
  EXPECT_THAT(text, Not(HasSubstr("\x1b")));
  for (const std::string_view line : base::Split(text, '\n')) {
    size_t characters = 0;
    for (size_t at = 0; at < line.size(); ++characters) {
      const base::Utf8Char character = base::DecodeUtf8(line.substr(at));
      EXPECT_TRUE(character.valid) << line;
      at += character.bytes;
    }
    EXPECT_LE(characters, 61U) << line;
  }
}

TEST(UserCodeLine, IsTheInnermostFrameOutsideTheFramework) {
  EXPECT_EQ(dump::UserCodeLine(
                {"File /opt/lib/python3.11/site-packages/torch/nn/linear.py, line 114, in "
                 "forward, \n return F.linear()",
                 "File /home/user/train/hooks.py, line 93, in _call_impl, \n result = "
                 "self.forward(*args)",
                 "File /home/user/train/models.py, line 43, in forward, \n return self.fc1(x)"}),
            "/home/user/train/models.py:43 in forward: return self.fc1(x)");
}

TEST(UserCodeLine, FallsBackToWhatIsThere) {
  EXPECT_EQ(dump::UserCodeLine({}), "");
  EXPECT_EQ(dump::UserCodeLine({"somewhere\nelse"}), "somewhere else");
  EXPECT_EQ(dump::UserCodeLine({"File /a/site-packages/x.py, line 1, in f, \n y"}),
            "/a/site-packages/x.py:1 in f: y");
}

}  // namespace
}  // namespace msprobe::analysis::compare
