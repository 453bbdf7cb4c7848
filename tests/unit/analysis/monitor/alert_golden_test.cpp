// The tables of trainings that the Python tool watched go through our judge in compat mode: its
// alerts must be the Python tool's. The tables are rounded to six decimals, so that what hangs on
// smaller numbers is left out of the comparison.
#include <cmath>
#include <cstdlib>
#include <filesystem>
#include <map>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include <gtest/gtest.h>

#include "src/analysis/monitor/common/anomaly_reader.h"
#include "src/analysis/monitor/common/monitored_run.h"
#include "src/base/numbers.h"
#include "src/monitor/alert_judge.h"
#include "tests/unit/support/temporary_folder.h"

namespace msprobe::analysis::monitor {
namespace {

namespace fs = std::filesystem;

constexpr double kLeast = 1e-3;

const std::map<std::string, std::string>& Tasks() {
  static const std::map<std::string, std::string> kTasks = {{"actv", "actv"},
                                                            {"actv_grad", "actv_grad"},
                                                            {"grad_unreduced", "acc_grad"},
                                                            {"grad_reduced", "post_grad"},
                                                            {"exp_avg", "exp_avg"},
                                                            {"exp_avg_sq", "exp_avg_sq"},
                                                            {"param_origin", "param_origin"},
                                                            {"param_updated", "param_updated"}};
  return kTasks;
}

// Every number of the run, in the order of steps.
void JudgeAll(const MonitoredRun& run, msprobe::monitor::AlertJudge& judge) {
  std::set<int64_t> steps;
  for (const Series& series : run.series) {
    steps.insert(series.steps.begin(), series.steps.end());
  }
  for (const int64_t step : steps) {
    for (const Series& series : run.series) {
      msprobe::monitor::Batch batch;
      batch.table = series.table;
      batch.step = step;
      msprobe::monitor::Row row;
      row.tag = std::to_string(series.stage) + ":" + series.name;
      row.tag += series.micro_step >= 0 ? ":" + std::to_string(series.micro_step) : "";
      row.tag += "/rank0/" + Tasks().at(series.table);
      for (size_t i = 0; i < series.steps.size(); ++i) {
        if (series.steps[i] != step) {
          continue;
        }
        for (const std::string& op : run.ops.at(series.table)) {
          batch.columns.push_back(*msprobe::monitor::FindStatistic(op));
          row.values.emplace_back(series.values.find(op)->second[i]);
        }
        batch.rows = {row};
        judge.See(batch);
      }
    }
    ASSERT_TRUE(judge.EndStep(step).ok());
  }
}

double NumberBehind(const std::string& text, const std::string& words) {
  const size_t at = text.find(words) + words.size();
  return base::ParseDouble(text.substr(at, text.find_first_of(", ", at) - at))
      .value_or(std::nan(""));
}

// Step, tag and statistic of the entries that rounding cannot change; of all entries without the
// statistic.
struct Facts {
  std::set<std::string> sure;
  std::set<std::string> alerted;
};

Facts FactsOf(const fs::path& path) {
  const Result<AnomalyFile> file = ReadAnomalyFile(path);
  EXPECT_TRUE(file.ok()) << file.status().message();
  Facts facts;
  for (const msprobe::monitor::Anomaly& entry : file->entries) {
    const double value = std::fabs(NumberBehind(entry.message, "current value "));
    const std::string place = std::to_string(entry.step) + " " + entry.tag_name + " ";
    facts.alerted.insert(place);
    std::string mean_text = entry.message;
    mean_text.pop_back();  // the full stop
    const double mean = NumberBehind(mean_text, "history mean ");
    if (value < kLeast || mean < kLeast) {
      continue;
    }
    const size_t begin = entry.message.find("', '") + 4;
    facts.sure.insert(place + entry.message.substr(begin, entry.message.find('\'', begin) - begin));
  }
  return facts;
}

void ExpectTheSameAlerts(const std::string& name, const msprobe::monitor::AlertRule& rule,
                         size_t least) {
  const char* golden = std::getenv("MSPROBE_GOLDEN");
  const fs::path output =
      (golden != nullptr ? fs::path(golden)
                         : fs::path(MSPROBE_TEST_DATA "/../../../shared/golden")) /
      "monitor" / name / "output";
  if (!fs::exists(output)) {
    GTEST_SKIP() << "no golden run in " << output << " (set MSPROBE_GOLDEN)";
  }
  const Result<MonitoredRun> run = ReadMonitoredRun(output);
  ASSERT_TRUE(run.ok()) << run.status().message();
  const ::msprobe::test_support::TemporaryFolder files;
  msprobe::monitor::AlertSettings settings;
  settings.rules = {rule};
  settings.dump = true;
  settings.compat = true;
  msprobe::monitor::AlertJudge judge(settings, {}, files.path(), [](std::string_view) {});
  JudgeAll(*run, judge);
  const Facts expected = FactsOf(output / "anomaly_detected/rank0/anomaly.json");
  const Facts got = FactsOf(files / "anomaly_detected/rank0/anomaly.json");
  EXPECT_GE(expected.sure.size(), least);
  for (const std::string& fact : expected.sure) {
    EXPECT_TRUE(got.sure.count(fact) == 1) << "missing: " << fact;
  }
  // A mean near 0, which rounding has lost, overwrites the entry of the norm before it.
  for (const std::string& fact : got.sure) {
    EXPECT_TRUE(expected.alerted.count(fact.substr(0, fact.rfind(' ') + 1)) == 1)
        << "too many: " << fact;
  }
}

TEST(AlertJudge, FindsTheTurbulenceThatThePythonToolFinds) {
  ExpectTheSameAlerts("alert_turbulence", {msprobe::monitor::AlertRule::Kind::kTurbulence, 5.0, {}},
                      50);
}

TEST(AlertJudge, FindsTheNansThatThePythonToolFinds) {
  ExpectTheSameAlerts("alert_nan", {msprobe::monitor::AlertRule::Kind::kNan, 1e10, {}}, 1);
}

}  // namespace
}  // namespace msprobe::analysis::monitor
