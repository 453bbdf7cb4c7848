#include "src/analysis/monitor/analyse/analyse.h"

#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "src/base/output_files.h"
#include "tests/unit/support/temporary_folder.h"

namespace msprobe::analysis::monitor {
namespace {

using ::msprobe::test_support::Slurp;
using ::msprobe::test_support::TemporaryFolder;

std::string Entry(const std::string& key, const std::string& task, int step) {
  return "\"" + key + R"(": {"rank": 0, "step": )" + std::to_string(step) +
         R"(, "micro_step": 0, "pp_stage": 0, "vpp_stage": 0, "call_id": 1, "tag_name": "0:w/rank0/)" +
         task + R"(", "message": "m )" + key + R"(", "group_mates": [0]})";
}

std::vector<std::string> Keys(const AnalyseResult& result) {
  std::vector<std::string> keys;
  for (const msprobe::monitor::Anomaly& anomaly : result.top) {
    keys.push_back(anomaly.key);
  }
  return keys;
}

AnalyseResult Analyse(const TemporaryFolder& files, AnalyseOptions options = {}) {
  options.data = files.path();
  msprobe::base::SetExistingFiles(msprobe::base::Existing::kReplace);
  Result<AnalyseResult> result = RunAnalyse(options);
  EXPECT_TRUE(result.ok()) << result.status().message();
  return result.ok() ? *std::move(result) : AnalyseResult();
}

TEST(RunAnalyse, TakesRanksByNumberWhereAllElseIsEqual) {
  const TemporaryFolder files;
  for (const char* rank : {"10", "9", "100"}) {
    files.Write(std::string("rank") + rank + "/anomaly.json",
                "{" + Entry(std::string("of") + rank, "actv", 1) + "}");
  }
  EXPECT_EQ(Keys(Analyse(files)), (std::vector<std::string>{"of9", "of10", "of100"}));
}

TEST(RunAnalyse, PutsParametersWhereTheyComeAboutOnRequest) {
  const TemporaryFolder files;
  files.Write("rank0/anomaly.json", "{" + Entry("p", "param_updated", 1) + ", " +
                                        Entry("g", "post_grad", 1) + ", " + Entry("a", "actv", 1) +
                                        ", " + Entry("c", "post_0", 1) + "}");
  EXPECT_EQ(Keys(Analyse(files)), (std::vector<std::string>{"p", "c", "a", "g"}));
  AnalyseOptions causal;
  causal.order = AnomalyOrder::kCausal;
  EXPECT_EQ(Keys(Analyse(files, causal)), (std::vector<std::string>{"a", "g", "c", "p"}));
}

TEST(RunAnalyse, TakesKeysThatAreWrittenAlikeForOne) {
  const TemporaryFolder files;
  // A byte that is no UTF-8, and the half of a surrogate pair that stands for it.
  files.Write("rank0/anomaly.json",
              "{" + Entry("a\xbc", "actv", 1) + ", " + Entry("a\\udcbc", "actv", 2) + "}");
  const AnalyseResult result = Analyse(files);
  ASSERT_EQ(result.top.size(), 1U);
  EXPECT_EQ(result.top[0].step, 2);  // the last of a key counts, as in Python
}

TEST(RunAnalyse, KeepsTheStepsAskedFor) {
  const TemporaryFolder files;
  files.Write("rank0/anomaly.json",
              "{" + Entry("one", "actv", 1) + ", " + Entry("two", "actv", 2) + "}");
  AnalyseOptions second;
  second.steps = {2};
  const AnalyseResult result = Analyse(files, second);
  EXPECT_EQ(Keys(result), (std::vector<std::string>{"two"}));
  EXPECT_NE(Slurp(files / "anomaly_analyse.json").find("\n \"two\": {\n  \"rank\": 0,"),
            std::string::npos);
}

TEST(RunAnalyse, LeavesEntriesOfAnotherShapeOut) {
  const TemporaryFolder files;
  files.Write("rank0/anomaly.json",
              R"({"x": 1, "y": {"rank": 0}, "z": {"rank": "0", "step": [], "micro_step": 0,)"
              R"("pp_stage": 0, "vpp_stage": 0, "call_id": 1, "tag_name": 5, "message": "",)"
              R"("group_mates": {}}, )" +
                  Entry("good", "actv", 1) + "}");
  const AnalyseResult result = Analyse(files);
  EXPECT_EQ(Keys(result), (std::vector<std::string>{"good"}));
  EXPECT_EQ(result.warnings.size(), 3U);
}

TEST(RunAnalyse, ReadsTheAlertsBeforeTheEndOfACutFile) {
  const TemporaryFolder files;
  files.Write("rank0/anomaly.json",
              "{" + Entry("good", "actv", 1) + ", \"half\": {\"rank\": 0, \"ste");
  files.Write("rank1/anomaly.json", "[]");
  const AnalyseResult result = Analyse(files);
  EXPECT_EQ(Keys(result), (std::vector<std::string>{"good"}));
  ASSERT_EQ(result.warnings.size(), 2U);
  EXPECT_NE(result.warnings[0].find("is truncated"), std::string::npos);
  EXPECT_NE(result.warnings[1].find("is not a JSON object of alerts"), std::string::npos);
}

TEST(RunAnalyse, SaysWhereAlertsShouldBe) {
  const TemporaryFolder files;
  files.Write("anomaly_detected/rank0/anomaly.json", "{}");
  AnalyseOptions options;
  options.data = files.path();
  const Result<AnalyseResult> result = RunAnalyse(options);
  EXPECT_EQ(result.status().code(), StatusCode::kNotFound);
  EXPECT_NE(result.status().hint().find("anomaly_detected"), std::string::npos);
}

TEST(ParseStepList, TakesAListWithOrWithoutBrackets) {
  EXPECT_EQ(*ParseStepList("[1, 3]"), (std::vector<int64_t>{1, 3}));
  EXPECT_EQ(*ParseStepList("1,3"), (std::vector<int64_t>{1, 3}));
  EXPECT_TRUE(ParseStepList("[]")->empty());
  EXPECT_EQ(ParseStepList("[1").status().code(), StatusCode::kUsage);
  EXPECT_EQ(ParseStepList("{1}").status().code(), StatusCode::kUsage);
}

}  // namespace
}  // namespace msprobe::analysis::monitor
