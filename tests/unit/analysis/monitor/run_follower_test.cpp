#include "src/analysis/monitor/top/run_follower.h"

#include <algorithm>
#include <chrono>
#include <fstream>
#include <string>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "src/base/strings.h"
#include "src/commands/monitor_top_screen.h"
#include "src/report/render_terminal.h"
#include "tests/unit/support/temporary_folder.h"

namespace msprobe::analysis::monitor {
namespace {

using commands::TopScreen;
using commands::TopView;
using ::msprobe::test_support::TemporaryFolder;
using ::testing::HasSubstr;
using ::testing::Not;

constexpr const char* kFollowedHead = "vpp_stage,name,step,norm,nans\n";
constexpr const char* kFirstRank = "Nov21_09-58-35-rank0-1a197c9e/";
constexpr const char* kSecondRank = "Nov21_09-58-35-rank1-2a197c9e/";

class RunFollowing : public ::testing::Test {
 protected:
  void Append(const std::string& file, const std::string& text) {
    if (!std::filesystem::exists(files_.path() / file)) {
      files_.Write(file, "");
    }
    std::ofstream(files_.path() / file, std::ios::app) << text;
  }
  static FollowOptions OptionsFor(const std::filesystem::path& root, int64_t steps = 200) {
    FollowOptions options;
    options.root = root;
    options.window_steps = steps;
    return options;
  }
  void Look(RunFollower& run) {
    const Status status = run.Look(now_);
    EXPECT_TRUE(status.ok()) << status.message();
    now_ += std::chrono::seconds(1);
  }
  std::string Picture(const RunFollower& run, TopView view = {}) {
    return TopScreen("run", run, view);
  }

  TemporaryFolder files_;
  RunFollower::Clock::time_point now_;
};

TEST_F(RunFollowing, ReadsOnlyWhatIsNew) {
  const std::string file = std::string(kFirstRank) + "param_origin_0-99.csv";
  Append(file, std::string(kFollowedHead) + "0,w,0,1.5,0\n0,w,1,2");
  RunFollower run(OptionsFor(files_.path()));
  Look(run);
  ASSERT_EQ(run.series().size(), 1U);
  EXPECT_EQ(run.series()[0].history, (std::vector<double>{1.5}));  // half a line is none yet
  Append(file, ".5,0\n0,w,2,3.5,0\n");
  Look(run);
  EXPECT_EQ(run.series()[0].history, (std::vector<double>{1.5, 2.5, 3.5}));
  EXPECT_EQ(run.series()[0].last_step, 2);
  const uint64_t bytes = run.bytes_read();
  Look(run);
  EXPECT_EQ(run.bytes_read(), bytes);
}

TEST_F(RunFollowing, FindsRanksAndFilesThatComeLater) {
  Append(std::string(kFirstRank) + "param_origin_0-0.csv",
         std::string(kFollowedHead) + "0,w,0,1,0\n");
  RunFollower run(OptionsFor(files_.path()));
  Look(run);
  Append(std::string(kFirstRank) + "param_origin_1-1.csv",
         std::string(kFollowedHead) + "0,w,1,2,0\n");
  Append(std::string(kSecondRank) + "actv_0-0.csv",
         std::string(kFollowedHead) + "0,m.output,0,7,0\n");
  Look(run);
  EXPECT_EQ(run.ranks().size(), 2U);
  EXPECT_EQ(run.series().size(), 2U);
  EXPECT_EQ(run.ranks().at(0).last_step, 1);
  EXPECT_EQ(run.tables(), (std::vector<std::string>{"param_origin", "actv"}));
}

TEST_F(RunFollowing, CountsWhatBecameNotFiniteButNotWhatNeverWasANumber) {
  Append(std::string(kFirstRank) + "actv_grad_0-9.csv",
         std::string(kFollowedHead) +
             "0,a,0,1,0\n0,root.input,0,nan,nan\n0,a,1,nan,3\n0,root.input,1,nan,nan\n");
  RunFollower run(OptionsFor(files_.path()));
  Look(run);
  EXPECT_EQ(run.ranks().at(0).non_finite, 1U);
  EXPECT_EQ(run.series()[0].first_non_finite_step, 1);
  EXPECT_EQ(run.series()[1].non_finite, 0U);
  const std::string picture = Picture(run);
  EXPECT_THAT(picture, HasSubstr("@1"));
  EXPECT_THAT(picture, Not(HasSubstr("root.input")));
}

TEST_F(RunFollowing, LeavesOldFilesUnread) {
  for (int step = 0; step < 20; ++step) {
    const std::string number = std::to_string(step);
    Append(std::string(kFirstRank) + "actv_" + number + "-" + number + ".csv",
           std::string(kFollowedHead) + "0,a," + number + ",1,0\n");
  }
  RunFollower run(OptionsFor(files_.path(), 5));
  Look(run);
  EXPECT_EQ(run.series()[0].history.size(), 6U);
  EXPECT_EQ(run.series()[0].last_step, 19);
}

TEST_F(RunFollowing, StartsAnewWithAFileThatBecameShorter) {
  const std::string file = std::string(kFirstRank) + "actv_0-9.csv";
  Append(file, std::string(kFollowedHead) + "0,a,0,1,0\n0,a,1,2,0\n0,a,2,3,0\n");
  RunFollower run(OptionsFor(files_.path()));
  Look(run);
  files_.Write(file, std::string(kFollowedHead) + "0,a,0,9,0\n");
  Look(run);
  EXPECT_EQ(run.series()[0].history.back(), 9);
}

TEST_F(RunFollowing, TellsWhatItCannotRead) {
  Append(std::string(kFirstRank) + "actv_0-9.csv", "this is no table\nat all\n");
  Append(std::string(kFirstRank) + "param_origin_0-9.csv",
         std::string(kFollowedHead) + "0,w,zero,1,0\n0,w,0,1,0\n");
  RunFollower run(OptionsFor(files_.path()));
  Look(run);
  EXPECT_EQ(run.series().size(), 1U);
  EXPECT_EQ(run.bad_rows(), 2U);
  EXPECT_THAT(Picture(run), HasSubstr("actv_0-9.csv"));
}

TEST_F(RunFollowing, SaysThatThereIsNoRun) {
  RunFollower run(OptionsFor(files_.path()));
  EXPECT_FALSE(run.Look(now_).ok());
}

TEST_F(RunFollowing, JudgesAnotherStatisticWhenAsked) {
  Append(std::string(kFirstRank) + "actv_0-9.csv",
         std::string(kFollowedHead) + "0,a,0,1,5\n0,a,1,2,6\n");
  RunFollower run(OptionsFor(files_.path()));
  Look(run);
  EXPECT_EQ(run.JudgedOp("actv"), "norm");
  run.Judge("nans");
  Look(run);
  EXPECT_EQ(run.series()[0].history, (std::vector<double>{5, 6}));
}

TEST_F(RunFollowing, JudgesATableWithoutNormByItsFirstStatistic) {
  Append(std::string(kFirstRank) + "actv_0-9.csv",
         std::string(kFollowedHead) + "0,fc.output,0,1,0\n");
  Append(std::string(kFirstRank) + "linear_hook_0-9.csv",
         "vpp_stage,name,step,sr,kernel_norm\n0,fc,0,3.5,4\n0,fc,1,3.25,4\n");
  RunFollower run(OptionsFor(files_.path()));
  Look(run);
  EXPECT_EQ(run.JudgedOp("actv"), "norm");
  EXPECT_EQ(run.JudgedOp("linear_hook"), "sr");
  EXPECT_EQ(run.series()[1].history, (std::vector<double>{3.5, 3.25}));
  TopView view;
  EXPECT_THAT(Picture(run, view), HasSubstr("statistic norm, sr of linear_hook\n"));
  EXPECT_THAT(Picture(run, view), HasSubstr("3.25"));
  view.table = "linear_hook";
  EXPECT_THAT(Picture(run, view), HasSubstr("statistic sr\n"));
}

TEST_F(RunFollowing, LeavesOutTablesWithoutTheStatisticAskedFor) {
  Append(std::string(kFirstRank) + "actv_0-9.csv",
         std::string(kFollowedHead) +
             "0,fc.output,0,1,0\n0,broken.output,0,1,0\n0,broken.output,1,nan,2\n");
  Append(std::string(kFirstRank) + "linear_hook_0-9.csv",
         "vpp_stage,name,step,sr,kernel_norm\n0,fc,0,3.5,4\n");
  FollowOptions options = OptionsFor(files_.path());
  options.op = "kernel_norm";
  RunFollower run(options);
  Look(run);
  EXPECT_EQ(run.JudgedOp("actv"), "");
  const std::string picture = Picture(run);
  EXPECT_THAT(picture, HasSubstr("linear_hook"));
  EXPECT_THAT(picture, Not(HasSubstr("fc.output")));
  EXPECT_THAT(picture, HasSubstr("broken.output"));  // NaN is never hidden
}

TEST_F(RunFollowing, TakesAlertsAsTheyComeAndSpeedFromTheClock) {
  const std::string file = std::string(kFirstRank) + "actv_0-99.csv";
  Append(file, std::string(kFollowedHead) + "0,a,0,1,0\n");
  RunFollower run(OptionsFor(files_.path()));
  for (int step = 1; step <= 10; ++step) {
    Look(run);
    Append(file, "0,a," + std::to_string(step * 3) + ",1,0\n");
  }
  EXPECT_NEAR(run.ranks().at(0).steps_per_second, 3.0, 1e-9);
  files_.Write("anomaly_detected/rank0/anomaly.json",
               R"({"0:a/rank0/actv_step_3_call_0": {"rank": 0, "step": 3, "micro_step": 0,)"
               R"("pp_stage": 0, "vpp_stage": 0, "call_id": 0, "tag_name": "0:a/rank0/actv",)"
               R"("message": "Rule X reports", "group_mates": [0]}})");
  Look(run);
  ASSERT_EQ(run.alerts().size(), 1U);
  EXPECT_EQ(run.ranks().at(0).alerts, 1U);
  EXPECT_THAT(Picture(run), HasSubstr("step 3 rank 0: Rule X reports"));
}

TEST_F(RunFollowing, SaysHowOldTheLastRowIs) {
  const std::string file = std::string(kFirstRank) + "param_origin_0-99.csv";
  Append(file, std::string(kFollowedHead) + "0,w,0,1.5,0\n");
  RunFollower run(OptionsFor(files_.path()));
  Look(run);
  EXPECT_EQ(run.ranks().at(0).last_write, std::filesystem::last_write_time(files_.path() / file));
  TopView view;
  view.now = run.ranks().at(0).last_write + std::chrono::seconds(42);
  EXPECT_THAT(Picture(run, view), HasSubstr("42.00 s"));
}

TEST_F(RunFollowing, ShowsTheWorstFirstAndNothingThatSteersTheTerminal) {
  std::string rows = kFollowedHead;
  for (int step = 0; step < 12; ++step) {
    const std::string number = std::to_string(step);
    rows += "0,calm," + number + ",1." + std::to_string(step % 3) + ",0\n";
    rows += "0,jumps\x1b[2J," + number +
            (step == 11 ? ",50,0\n" : ",1." + std::to_string(step % 3) + ",0\n");
  }
  Append(std::string(kFirstRank) + "actv_0-99.csv", rows);
  RunFollower run(OptionsFor(files_.path()));
  Look(run);
  TopView view;
  view.width = 120;
  const std::string picture = Picture(run, view);
  EXPECT_LT(picture.find("jumps"), picture.find("calm"));
  EXPECT_EQ(picture.find('\x1b'), std::string::npos);
  view.search = "CALM";
  EXPECT_THAT(Picture(run, view), Not(HasSubstr("jumps")));
  view.search = "";
  view.utf8 = false;
  const std::string plain = Picture(run, view);
  EXPECT_TRUE(std::all_of(plain.begin(), plain.end(), [](char c) { return c >= 0; }));
}

TEST_F(RunFollowing, SpeaksChineseAndKeepsItsColumns) {
  Append(std::string(kFirstRank) + "actv_0-99.csv",
         std::string(kFollowedHead) + "0,layer,0,1.5,0\n0,layer,1,2.5,0\n");
  RunFollower run(OptionsFor(files_.path()));
  Look(run);
  TopView view;
  view.width = 80;
  view.keys = true;
  view.language = report::Language::kChinese;
  const std::string picture = Picture(run, view);
  for (const char* english : {"module", "score", "steps/s", "last row", "quit", "statistic"}) {
    EXPECT_THAT(picture, Not(HasSubstr(english)));
  }
  EXPECT_THAT(picture, HasSubstr("模块"));
  EXPECT_THAT(picture, HasSubstr("q 退出"));
  for (const std::string_view line : base::Split(picture, '\n')) {
    EXPECT_LE(report::ColumnsOf(line), view.width);
  }
}

TEST_F(RunFollowing, KeepsToTheHeightOfTheTerminal) {
  std::string rows = kFollowedHead;
  for (int i = 0; i < 100; ++i) {
    rows += "0,module" + std::to_string(i) + ",0,1,0\n";
  }
  Append(std::string(kFirstRank) + "actv_0-99.csv", rows);
  RunFollower run(OptionsFor(files_.path()));
  Look(run);
  TopView view;
  view.keys = true;
  for (const size_t height : {8U, 12U, 24U, 50U}) {
    view.height = height;
    const std::string picture = Picture(run, view);
    EXPECT_LE(static_cast<size_t>(std::count(picture.begin(), picture.end(), '\n')), height);
    EXPECT_THAT(picture, HasSubstr("module"));
  }
}

}  // namespace
}  // namespace msprobe::analysis::monitor
