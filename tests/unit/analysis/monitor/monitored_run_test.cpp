#include "src/analysis/monitor/common/monitored_run.h"

#include <cmath>
#include <string>

#include <fmt/format.h>
#include <gtest/gtest.h>

#include "tests/unit/support/temporary_folder.h"

namespace msprobe::analysis::monitor {
namespace {

using ::msprobe::test_support::TemporaryFolder;

constexpr const char* kFolder = "Nov21_09-58-35-rank0-1a197c9e";

MonitoredRun Read(const std::filesystem::path& root, const ReadOptions& options = {}) {
  Result<MonitoredRun> run = ReadMonitoredRun(root, options);
  EXPECT_TRUE(run.ok()) << run.status().message();
  return run.ok() ? *std::move(run) : MonitoredRun();
}

std::filesystem::path In(std::string_view folder, std::string_view file) {
  return std::filesystem::path(folder) / file;
}

TEST(ReadMonitoredRun, ATableWithAHoleOfAnySizeIsLeftOutAtOnce) {
  const TemporaryFolder files;
  const std::string head = "vpp_stage,name,step,norm\n";
  files.Write(In(kFolder, "param_origin_0-0.csv"), head + "0,w,0,1.5\n");
  files.Write(In(kFolder, "grad_reduced_0-0.csv"), head + "0,w,0,1.5\n");
  files.Write(In(kFolder, "exp_avg_0-0.csv"), "vpp_stage,name");
  const std::filesystem::path folder = files.path() / kFolder;
  // Behind its rows, and before its first line end: sparse, and longer than could be read.
  std::filesystem::resize_file(folder / "grad_reduced_0-0.csv", uint64_t{200} << 30U);
  std::filesystem::resize_file(folder / "exp_avg_0-0.csv", uint64_t{200} << 30U);
  const auto run = Read(files.path());
  EXPECT_EQ(run.rows, 1U);
  ASSERT_EQ(run.warnings.size(), 2U);
  for (const std::string& warning : run.warnings) {
    EXPECT_NE(warning.find("a line of more than 1048576 bytes at byte "), std::string::npos)
        << warning;
  }
}

TEST(LeaveOutUnmeasured, KeepsWhatWasMeasuredAndNamesTheRest) {
  const TemporaryFolder files;
  files.Write(In(kFolder, "actv_grad_0-1.csv"),
              "vpp_stage,name,step,norm,id,shape,dtype\n"
              "0,.input,0,nan,nan,nan,nan\n0,x,0,nan,nan,nan,nan\n0,y,0,nan,nan,[2],torch.float32\n"
              "0,.input,1,nan,nan,nan,nan\n0,x,1,2.5,nan,[2],torch.float32\n");
  MonitoredRun run = Read(files.path());
  LeaveOutUnmeasured(run);
  ASSERT_EQ(run.series.size(), 2U);
  EXPECT_EQ(run.series[0].name, "x");
  EXPECT_EQ(run.series[0].steps, std::vector<int64_t>{1});
  EXPECT_EQ(run.series[0].values.size(), 1U);  // no id
  EXPECT_EQ(run.series[1].name, "y");
  EXPECT_TRUE(std::isnan(run.series[1].values.at("norm")[0]));  // of a tensor: shown
  EXPECT_EQ(run.unmeasured, std::vector<std::string>{"(root).input of actv_grad"});
}

TEST(ReadMonitoredRun, KnowsWhatItsNumbersAreRoundedTo) {
  const auto rounding = [](const char* text) {
    const TemporaryFolder files;
    files.Write(In(kFolder, "actv_0-0.csv"), "vpp_stage,name,step,norm\n0,w,0,1.5\n");
    if (*text != 0) {
      files.Write(In(kFolder, "monitor.json"), text);
    }
    return Read(files.path()).folders.at(0).rounding;
  };
  EXPECT_EQ(rounding(""), std::nullopt);
  EXPECT_EQ(rounding(R"({"settings": {}})"), 0);
  EXPECT_DOUBLE_EQ(*rounding(R"({"settings": {"ndigits": 4}})"), 1e-4);
  EXPECT_DOUBLE_EQ(*rounding(R"({"settings": {"compat": true}})"), 1e-6);
  EXPECT_EQ(rounding(R"({"settings": {"ndigits": -400}})"), 0);
}

TEST(ReadMonitoredRun, LeavesATableOfVeryManyStatisticsOut) {
  const TemporaryFolder files;
  const auto table = [](size_t statistics) {
    std::string head = "vpp_stage,name,step";
    std::string row = "0,w,0";
    for (size_t i = 0; i < statistics; ++i) {
      head += ",s" + std::to_string(i);
      row += ",1";
    }
    return head + "\n" + row + "\n";
  };
  files.Write(In(kFolder, "actv_0-0.csv"), table(61));
  files.Write(In(kFolder, "actv_grad_0-0.csv"), table(62));
  const auto run = Read(files.path());
  ASSERT_EQ(run.series.size(), 1U);
  EXPECT_EQ(run.series[0].values.size(), 61U);
  ASSERT_EQ(run.warnings.size(), 1U);
  EXPECT_NE(run.warnings[0].find("names 65 columns; a table of the monitor has 64 at most"),
            std::string::npos)
      << run.warnings[0];
  EXPECT_EQ(run.unread_files, 1U);
}

TEST(ReadMonitoredRun, GivesOneSeriesPerNameAndMicroStep) {
  const TemporaryFolder files;
  files.Write(In(kFolder, "actv_0-1.csv"),
              "vpp_stage,name,step,micro_step,norm,nans,shape,dtype\n"
              "0,layers.10.input,0,0,1.5,0,\"[2, 4]\",torch.float32\n"
              "0,layers.2.input,0,0,2.5,0,[8],torch.float32\n"
              "0,layers.2.input,0,1,3.5,0,[],torch.float32\n"
              "0,layers.2.input,1,0,nan,1,\"[2, 4]\",torch.float32\n");
  const auto run = Read(files.path());
  EXPECT_EQ(run.rows, 4U);
  EXPECT_TRUE(run.warnings.empty());
  ASSERT_EQ(run.series.size(), 3U);
  EXPECT_EQ(run.series[0].name, "layers.2.input");
  EXPECT_EQ(run.series[0].micro_step, 0);
  EXPECT_EQ(run.series[0].steps, (std::vector<int64_t>{0, 1}));
  EXPECT_EQ(run.series[0].values.at("norm")[0], 2.5);
  EXPECT_TRUE(std::isnan(run.series[0].values.at("norm")[1]));
  EXPECT_EQ(run.series[0].values.at("nans")[1], 1.0);
  EXPECT_EQ(run.series[1].micro_step, 1);
  EXPECT_EQ(run.series[2].name, "layers.10.input");
  EXPECT_EQ(run.series[2].values.count("shape"), 0U);
  EXPECT_EQ(run.ops.at("actv"), (std::vector<std::string>{"norm", "nans"}));
}

TEST(ReadMonitoredRun, LetsTheLaterRunOfARankWin) {
  const TemporaryFolder files;
  files.Write("Nov21_09-00-00-rank0-aaaaaaaa/param_origin_0-2.csv",
              "vpp_stage,name,step,norm\n0,w,0,1\n0,w,1,2\n0,w,2,3\n");
  files.Write("Nov21_10-00-00-rank0-00000000/param_origin_0-2.csv",
              "vpp_stage,name,step,norm\n0,w,2,30\n0,w,3,40\n");
  const auto run = Read(files.path());
  ASSERT_EQ(run.series.size(), 1U);
  EXPECT_EQ(run.series[0].steps, (std::vector<int64_t>{0, 1, 2, 3}));
  EXPECT_EQ(run.series[0].values.at("norm"), (std::vector<double>{1, 2, 30, 40}));
  ASSERT_EQ(run.warnings.size(), 1U);
  EXPECT_NE(run.warnings[0].find("1 row has"), std::string::npos) << run.warnings[0];
}

TEST(ReadMonitoredRun, KnowsThatJanuaryFollowsDecember) {
  const TemporaryFolder files;
  files.Write("Jan01_00-10-00-rank0-aaaaaaaa/param_origin_5-5.csv", "name,step,norm\nw,5,2\n");
  files.Write("Dec31_23-50-00-rank0-aaaaaaaa/param_origin_5-5.csv", "name,step,norm\nw,5,1\n");
  const auto run = Read(files.path());
  ASSERT_EQ(run.series.size(), 1U);
  EXPECT_EQ(run.series[0].values.at("norm"), (std::vector<double>{2}));
}

TEST(ReadMonitoredRun, SortsRowsOfSeveralRanksByStep) {
  const TemporaryFolder files;
  for (const char* rank : {"10", "2"}) {
    files.Write(std::string("Nov21_09-00-00-rank") + rank + "-aaaaaaaa/exp_avg_0-1.csv",
                std::string("vpp_stage,name,step,norm\n0,w,0,") + rank + "\n0,w,1," + rank + "\n");
  }
  const auto run = Read(files.path());
  ASSERT_EQ(run.series.size(), 1U);
  EXPECT_EQ(run.series[0].steps, (std::vector<int64_t>{0, 0, 1, 1}));
  EXPECT_EQ(run.series[0].ranks, (std::vector<int32_t>{2, 10, 2, 10}));
  EXPECT_EQ(run.series[0].values.at("norm"), (std::vector<double>{2, 10, 2, 10}));
}

TEST(ReadMonitoredRun, LeavesBrokenRowsOutAndTellsTheLine) {
  const TemporaryFolder files;
  files.Write(In(kFolder, "other_0-0.csv"),
              "vpp_stage,name,step,norm,min,shape\n"
              "all_reduce,1.5,0,-0.2,7,8,9\n"
              "0,w,zero,1,1,[8]\n"
              "0,\"w,1,1,[8]\n"
              "0,w,0,many,1,[8]\n"
              "\n"
              "0,nan,0,2,True,[8]\n");
  const auto run = Read(files.path());
  EXPECT_EQ(run.rows, 2U);
  ASSERT_EQ(run.warnings.size(), 4U);
  EXPECT_NE(run.warnings[0].find("other_0-0.csv:2: 7 cells where the header has 6"),
            std::string::npos);
  EXPECT_NE(run.warnings[1].find(":3: the step is not an integer: zero"), std::string::npos);
  EXPECT_NE(run.warnings[2].find(":4: unterminated quoted cell"), std::string::npos);
  EXPECT_NE(run.warnings[3].find(":5: many in column norm is not a number"), std::string::npos);
  ASSERT_EQ(run.series.size(), 2U);
  EXPECT_EQ(run.series[0].name, "nan");
  EXPECT_EQ(run.series[0].values.at("min"), (std::vector<double>{1}));
}

TEST(ReadMonitoredRun, KeepsNamesWithCommasAndQuotesWhole) {
  const TemporaryFolder files;
  files.Write(In(kFolder, "actv_0-0.csv"),
              "vpp_stage,name,step,norm\n0,\"a,b\",0,1\n0,\"say \"\"c\"\"\",0,2\n"
              "0,\"say \"\"d\"\"\",0,3\n0,\"say \"\"c\"\"\",1,4\n");
  const auto run = Read(files.path());
  ASSERT_EQ(run.series.size(), 3U);
  EXPECT_EQ(run.series[0].name, "a,b");
  EXPECT_EQ(run.series[1].name, "say \"c\"");
  EXPECT_EQ(run.series[1].values.at("norm"), (std::vector<double>{2, 4}));
  EXPECT_EQ(run.series[2].name, "say \"d\"");
}

// Also where a large file is cut into pieces: every other line is the rest of a name.
TEST(ReadMonitoredRun, KeepsNamesWithLineEndsWhole) {
  constexpr int kSteps = 150'000;
  const TemporaryFolder files;
  std::string text = "vpp_stage,name,step,norm,shape\n";
  for (int step = 0; step < kSteps; ++step) {
    text +=
        fmt::format("0,\"layers.0\n,1,of \"\"two\"\" lines\",{},{},\"[2, 4]\"\n", step, step / 2.0);
  }
  files.Write(In(kFolder, "actv_0-149999.csv"), text + "0,broken,1\n");
  const auto run = Read(files.path());
  ASSERT_EQ(run.warnings.size(), 1U) << run.warnings[0];
  EXPECT_NE(run.warnings[0].find(":300002: 3 cells where the header has 5"), std::string::npos)
      << run.warnings[0];
  EXPECT_EQ(run.rows, uint64_t{kSteps});
  ASSERT_EQ(run.series.size(), 1U);
  EXPECT_EQ(run.series[0].name, "layers.0\n,1,of \"two\" lines");
  EXPECT_EQ(run.series[0].values.at("norm").back(), (kSteps - 1) / 2.0);
}

TEST(ReadMonitoredRun, LeavesTheHalfLineOfALivingWriterOutInSilence) {
  const TemporaryFolder files;
  files.Write(In(kFolder, "actv_0-0.csv"), "vpp_stage,name,step,norm\n0,w,0,1\n0,w,1,2.7");
  files.Write(In(kFolder, "actv_1-1.csv"), "vpp_stage,na");
  files.Write(In(kFolder, "actv_2-2.csv"), "");
  const auto run = Read(files.path());
  EXPECT_EQ(run.rows, 1U);
  EXPECT_TRUE(run.warnings.empty());
}

TEST(ReadMonitoredRun, WarnsOfStepsThatGoBackWithinAFile) {
  const TemporaryFolder files;
  files.Write(In(kFolder, "actv_0-9.csv"), "vpp_stage,name,step,norm\n0,w,8,1\n0,w,9,2\n0,w,3,5\n");
  const auto run = Read(files.path());
  ASSERT_EQ(run.warnings.size(), 1U);
  EXPECT_NE(run.warnings[0].find(":4: steps decrease from 9 to 3"), std::string::npos);
  EXPECT_EQ(run.series.at(0).steps, (std::vector<int64_t>{3, 8, 9}));
}

TEST(ReadMonitoredRun, ReadsOnlyTheTablesAndOpsAskedFor) {
  const TemporaryFolder files;
  files.Write(In(kFolder, "actv_0-0.csv"), "vpp_stage,name,step,norm,max\n0,w,0,1,2\n");
  files.Write(In(kFolder, "exp_avg_0-0.csv"), "vpp_stage,name,step,norm,max\n0,w,0,1,2\n");
  ReadOptions options;
  options.tables = {"exp_avg"};
  options.ops = {"max"};
  const auto run = Read(files.path(), options);
  ASSERT_EQ(run.series.size(), 1U);
  EXPECT_EQ(run.series[0].table, "exp_avg");
  EXPECT_EQ(run.series[0].values.size(), 1U);
  EXPECT_EQ(run.series[0].values.at("max"), (std::vector<double>{2}));
}

TEST(ReadMonitoredRun, TakesTheFolderOfOneRankWithItsAlerts) {
  const TemporaryFolder files;
  files.Write(In(kFolder, "actv_0-0.csv"), "vpp_stage,name,step,norm\n0,w,0,1\n");
  files.Write(In(kFolder, "monitor.json"),
              R"({"rank": 0, "world_size": 4, "pipeline_stage": 1, "tensor_ranks": [0, 1]})");
  const std::string entry =
      R"({"rank": 0, "step": 3, "micro_step": 0, "pp_stage": 0, "vpp_stage": 0, "call_id": 1,
          "tag_name": "0:w/rank0/actv", "message": "m", "group_mates": [0]})";
  files.Write("anomaly_detected/rank0/anomaly.json", R"({"a": )" + entry + "}");
  files.Write("anomaly_detected/rank1/anomaly.json", R"({"b": )" + entry + "}");
  const auto run = Read(files / kFolder);
  EXPECT_EQ(run.rows, 1U);
  ASSERT_EQ(run.alerts.size(), 1U);
  EXPECT_EQ(run.alerts[0].key, "a");
  ASSERT_EQ(run.folders.size(), 1U);
  ASSERT_TRUE(run.folders[0].topology.has_value());
  EXPECT_EQ(run.folders[0].topology->world_size, 4);
  EXPECT_EQ(run.folders[0].topology->tensor_ranks, (std::vector<int64_t>{0, 1}));
}

TEST(FindRankFolders, KeepsThoseBetweenTwoTimes) {
  const TemporaryFolder files;
  for (const char* name : {"Nov21_09-00-00-rank0-a", "Nov21_10-00-00-rank0-a",
                           "Nov21_11-00-00-rank0-a", "some-rank1-b", "norank", "a-rank123456-b"}) {
    std::filesystem::create_directories(files / name);
  }
  EXPECT_EQ(FindRankFolders(files.path())->size(), 4U);
  const Result<std::vector<RankFolder>> some =
      FindRankFolders(files.path(), {"Nov21_10-00-00", "Nov21_11-00-00"});
  ASSERT_TRUE(some.ok());
  ASSERT_EQ(some->size(), 2U);
  EXPECT_EQ((*some)[0].stamp, "Nov21_10-00-00");
  EXPECT_EQ(FindRankFolders(files.path(), {"Nov22_10-00-00", ""}).status().code(),
            StatusCode::kNotFound);
  EXPECT_EQ(FindRankFolders(files.path(), {"Nov32_10-00-00", ""}).status().code(),
            StatusCode::kUsage);
  EXPECT_EQ(FindRankFolders(files.path(), {"Nov22_10-00-00", "Nov21_10-00-00"}).status().code(),
            StatusCode::kUsage);
}

TEST(FindRankFolders, SaysWhatItLookedFor) {
  const TemporaryFolder files;
  const Result<std::vector<RankFolder>> none = FindRankFolders(files.path());
  ASSERT_FALSE(none.ok());
  EXPECT_NE(none.status().message().find("contains no monitored run"), std::string::npos);
  EXPECT_NE(none.status().hint().find("rank0"), std::string::npos);
}

}  // namespace
}  // namespace msprobe::analysis::monitor
