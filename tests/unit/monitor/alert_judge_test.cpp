#include "src/monitor/alert_judge.h"

#include <cmath>
#include <limits>
#include <string>
#include <vector>

#include <fcntl.h>
#include <gtest/gtest.h>
#include <nlohmann/json.hpp>
#include <sys/file.h>
#include <unistd.h>

#include "src/json/document.h"
#include "tests/unit/support/temporary_folder.h"

namespace msprobe::monitor {
namespace {

using ::msprobe::test_support::Slurp;
using ::msprobe::test_support::TemporaryFolder;

constexpr double kNan = std::numeric_limits<double>::quiet_NaN();
constexpr double kInfinity = std::numeric_limits<double>::infinity();

AlertSettings Turbulence(double threshold) {
  AlertSettings settings;
  settings.rules = {{AlertRule::Kind::kTurbulence, threshold, {}}};
  settings.dump = true;
  return settings;
}

AlertSettings Nan() {
  AlertSettings settings;
  settings.rules = {{AlertRule::Kind::kNan, std::nullopt, {}}};
  settings.dump = true;
  return settings;
}

class Judged {
 public:
  explicit Judged(AlertSettings settings, AlertOrigin place = {})
      : judge_(std::move(settings), std::move(place), files.path(),
               [this](std::string_view text) { said.emplace_back(text); }) {}

  // One row of one step.
  void See(int64_t step, Statistic op, Value value, const std::string& tag = "0:w/rank0/actv") {
    Batch batch;
    batch.table = "actv";
    batch.step = step;
    batch.columns = {op};
    Row row;
    row.tag = tag;
    row.call_id = 3;
    row.micro_step = 1;
    row.values = {std::move(value)};
    batch.rows = {row};
    judge_.See(batch);
    status = judge_.EndStep(step);
  }
  void SeeAll(Statistic op, const std::vector<double>& values) {
    for (const double value : values) {
      See(next_step_++, op, value);
    }
  }
  std::string File() const { return Slurp(files / "anomaly_detected/rank0/anomaly.json"); }

  TemporaryFolder files;
  std::vector<std::string> said;
  Status status;

 private:
  AlertJudge judge_;
  int64_t next_step_ = 0;
};

TEST(AlertJudge, WritesTheEntryOfThePythonToolUnderCompat) {
  AlertSettings settings = Turbulence(5);
  settings.compat = true;
  Judged judged(settings, {.rank = 0, .pipeline_stage = 2, .group_mates = {0, 4}});
  judged.See(0, Statistic::kMean, 9.342329576611519e-09);
  judged.See(1, Statistic::kMean, 0.0007894716982264072);
  EXPECT_EQ(judged.File(),
            "{\n \"0:w/rank0/actv_step_1_call_3\": {\n  \"rank\": 0,\n  \"step\": 1,\n"
            "  \"micro_step\": 0,\n  \"pp_stage\": 2,\n  \"vpp_stage\": 0,\n  \"call_id\": 3,\n"
            "  \"tag_name\": \"0:w/rank0/actv\",\n"
            "  \"message\": \"Rule AnomalyTurbulence reports anomaly signal in ('0:w/rank0/actv', "
            "'mean') at step 1, current value 0.0007894716982264072, history mean "
            "9.342329576611519e-09.\",\n  \"group_mates\": [\n   0,\n   4\n  ]\n }\n}");
}

TEST(AlertJudge, AveragesAsThePythonToolUnderCompat) {
  AlertSettings settings = Turbulence(1);
  settings.compat = true;
  Judged judged(settings);
  judged.SeeAll(Statistic::kNorm, {1, 3, 2.05, 2.03});
  ASSERT_EQ(judged.said.size(), 2U);  // averages before: 1, 1, 1.02, 1.0303
  EXPECT_NE(judged.said[1].find("at step 2, current value 2.05, history mean 1.02."),
            std::string::npos)
      << judged.said[1];
}

TEST(AlertJudge, DropsTurbulenceOfOtherStatisticsWithLaterRulesUnderCompat) {
  AlertSettings settings = Turbulence(1);
  settings.rules.push_back({AlertRule::Kind::kNan, 5.0, {}});
  settings.compat = true;
  Judged judged(settings);
  judged.SeeAll(Statistic::kMax, {1, 100});
  EXPECT_TRUE(judged.said.empty());
  settings.compat = false;
  Judged ours(settings);
  ours.SeeAll(Statistic::kMax, {1, 100});
  EXPECT_EQ(ours.said.size(), 1U);
}

TEST(AlertJudge, WaitsForAHistory) {
  Judged judged(Turbulence(1));
  judged.SeeAll(Statistic::kNorm, {0.001, 5, 1, 1, 1});
  EXPECT_TRUE(judged.said.empty());
  judged.SeeAll(Statistic::kNorm, {50});
  ASSERT_EQ(judged.said.size(), 1U);
  EXPECT_NE(judged.said[0].find("current value 50.0, history mean 1.0."), std::string::npos)
      << judged.said[0];
}

TEST(AlertJudge, ToleratesTheNoiseThatItHasSeen) {
  Judged judged(Turbulence(0.5));
  judged.SeeAll(Statistic::kMean, {0.001, 0.1, 0.04, 0.2, 0.01, 0.09, 0.3, 0.15, 0.25});
  EXPECT_TRUE(judged.said.empty());
}

TEST(AlertJudge, IsNotSpoiltByNan) {
  Judged judged(Turbulence(1));
  judged.SeeAll(Statistic::kNorm, {1, 1, kNan, 1, 1, 1, kNan, 100});
  EXPECT_EQ(judged.said.size(), 1U);
}

TEST(AlertJudge, AlwaysTellsAnInfinity) {
  Judged judged(Turbulence(1));
  judged.SeeAll(Statistic::kNorm, {kInfinity});
  EXPECT_EQ(judged.said.size(), 1U);
}

TEST(AlertJudge, TellsOnceUntilItIsWellAgain) {
  Judged judged(Nan());
  judged.SeeAll(Statistic::kNorm, {1, kNan, kNan, kNan, 1, kNan});
  ASSERT_EQ(judged.said.size(), 3U);
  EXPECT_NE(
      judged.said[1].find("is back to normal at step 4 with 1.0; 2 alerts in between not shown"),
      std::string::npos)
      << judged.said[1];
}

TEST(AlertJudge, SaysTheFirstAlertsOfAStepAndHowManyMore) {
  TemporaryFolder files;
  std::vector<std::string> said;
  AlertJudge judge(Nan(), {}, files.path(),
                   [&said](std::string_view text) { said.emplace_back(text); });
  Batch batch;
  batch.step = 6;
  batch.columns = {Statistic::kNorm};
  for (int i = 0; i < 10; ++i) {
    Row row;
    row.tag = "0:w" + std::to_string(i) + "/rank0/actv";
    row.values = {kNan};
    batch.rows.push_back(row);
  }
  judge.See(batch);
  ASSERT_TRUE(judge.EndStep(6).ok());
  ASSERT_EQ(said.size(), 5U);
  EXPECT_NE(said[3].find("w3"), std::string::npos) << said[3];
  EXPECT_NE(said[4].find("6 more messages of rank 0 at step 6; all alerts are in"),
            std::string::npos)
      << said[4];
  const std::string file = Slurp(files / "anomaly_detected/rank0/anomaly.json");
  EXPECT_NE(file.find("0:w9/rank0/actv_step_6"), std::string::npos) << file;

  said.clear();  // the next step counts anew
  batch.step = 7;
  batch.rows[0].values = {1.0};
  judge.See(batch);
  batch.step = 8;
  batch.rows[0].values = {kNan};
  judge.See(batch);
  ASSERT_TRUE(judge.EndStep(8).ok());
  ASSERT_EQ(said.size(), 1U);
  EXPECT_NE(said[0].find("w0"), std::string::npos) << said[0];
}

TEST(AlertJudge, TakesALevelThatStaysForTheNewHistory) {
  Judged judged(Turbulence(1));
  judged.SeeAll(Statistic::kNorm, {1, 1, 1, 1, 1, 10, 10, 10, 10, 10, 10, 10, 10, 10, 10, 10});
  ASSERT_EQ(judged.said.size(), 2U);
  EXPECT_NE(judged.said[1].find("is back to normal"), std::string::npos) << judged.said[1];
  judged.SeeAll(Statistic::kNorm, {100});
  EXPECT_EQ(judged.said.size(), 3U);
}

TEST(AlertJudge, LeavesRowsOfNoneAlone) {
  Judged judged(Nan());
  judged.See(0, Statistic::kNorm, std::monostate());
  judged.See(1, Statistic::kShape, std::string("[2]"));
  EXPECT_TRUE(judged.said.empty());
  AlertSettings settings = Nan();
  settings.compat = true;
  Judged python(settings);
  python.See(0, Statistic::kNorm, std::monostate());
  EXPECT_EQ(python.said.size(), 1U);
}

TEST(AlertJudge, TakesACountOfNansForNan) {
  Judged judged(Nan());
  judged.See(0, Statistic::kNans, int64_t{0});
  EXPECT_TRUE(judged.said.empty());
  judged.See(1, Statistic::kNans, int64_t{2});
  EXPECT_EQ(judged.said.size(), 1U);
}

TEST(AlertJudge, WarmsUpInSilence) {
  AlertSettings settings = Nan();
  settings.warm_up_steps = 3;
  Judged judged(settings);
  judged.SeeAll(Statistic::kNorm, {kNan, kNan, kNan});
  EXPECT_TRUE(judged.said.empty());
  judged.SeeAll(Statistic::kNorm, {kNan});
  EXPECT_EQ(judged.said.size(), 1U);
}

TEST(AlertJudge, KeysEntriesByStatisticAndTellsTheMicroStep) {
  Judged judged(Nan());
  judged.See(4, Statistic::kNorm, kNan);
  judged.See(4, Statistic::kMax, kNan);
  const std::string text = judged.File();
  const Result<json::Json> tree = json::ParseDocument(text);
  ASSERT_TRUE(tree.ok()) << text;
  const json::Json* norm = json::Find(*tree, "0:w/rank0/actv_step_4_call_3_norm");
  ASSERT_NE(norm, nullptr) << text;
  EXPECT_EQ(json::IntOf(json::Member(*norm, "micro_step")), 1);
  EXPECT_NE(json::Find(*tree, "0:w/rank0/actv_step_4_call_3_max"), nullptr);
}

TEST(AlertJudge, LeavesAnEmptyObjectWhereNothingIsWrong) {
  Judged judged(Nan());
  judged.See(0, Statistic::kNorm, 1.0);
  EXPECT_EQ(judged.File(), "{}");
}

TEST(AlertJudge, ReplacesTheAlertsOfAnEarlierRun) {
  Judged judged(Nan());
  judged.files.Write("anomaly_detected/rank0/anomaly.json", "{\"old\": 1, \"much\": \"longer\"}");
  judged.See(0, Statistic::kNorm, 1.0);
  EXPECT_EQ(judged.File(), "{}");
  ASSERT_EQ(judged.said.size(), 1U);
  EXPECT_NE(judged.said[0].find("earlier run is replaced"), std::string::npos);
}

TEST(AlertJudge, LeavesTheFileOfAnotherProcessAlone) {
  Judged judged(Nan());
  const auto path = judged.files.Write("anomaly_detected/rank0/anomaly.json", "{}");
  const int other = ::open(path.c_str(), O_RDWR | O_CLOEXEC);
  ASSERT_EQ(::flock(other, LOCK_EX | LOCK_NB), 0);
  judged.See(0, Statistic::kNorm, kNan);
  EXPECT_EQ(judged.status.code(), StatusCode::kIo);
  EXPECT_EQ(judged.File(), "{}");
  EXPECT_EQ(judged.said.size(), 1U);
  judged.See(1, Statistic::kNorm, kNan);
  EXPECT_TRUE(judged.status.ok());  // told once
  ::close(other);
}

}  // namespace
}  // namespace msprobe::monitor
