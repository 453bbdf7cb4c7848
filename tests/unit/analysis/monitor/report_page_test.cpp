#include <filesystem>
#include <fstream>
#include <iomanip>
#include <random>
#include <string>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "src/analysis/monitor/report/report.h"

namespace msprobe::analysis::monitor {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

class ReportPage : public testing::Test {
 protected:
  // A run of one table with three statistics that hardly compress.
  void SetUp() override {
    std::filesystem::remove_all(root_);
    const std::filesystem::path folder = root_ / "run/Nov21_09-58-35-rank0-1a2b";
    std::filesystem::create_directories(folder);
    std::ofstream table(folder / "actv_0-399.csv");
    table << "vpp_stage,name,step,norm,min,max\n";
    std::mt19937 generator(1);
    std::uniform_real_distribution<double> value(0.1, 9.0);
    for (int step = 0; step < 400; ++step) {
      for (const char* const name : {"a.output", "b.output"}) {
        table << "0," << name << ',' << step;
        for (int column = 0; column < 3; ++column) {
          table << ',' << std::setprecision(12) << value(generator);
        }
        table << '\n';
      }
    }
  }
  void TearDown() override { std::filesystem::remove_all(root_); }

  // A page that may have `most_bytes`.
  Result<ReportResult> Write(uint64_t most_bytes) const {
    ReportOptions options;
    options.run = root_ / "run";
    options.output = root_ / "report.html";
    std::filesystem::remove(options.output);  // of an earlier one
    options.most_bytes = most_bytes;
    return RunReport(options);
  }

  const std::filesystem::path root_ =
      std::filesystem::path(testing::TempDir()) /
      (std::string("report_page_") + testing::UnitTest::GetInstance()->current_test_info()->name());
};

TEST_F(ReportPage, LeavesStatisticsOutOfAPageThatIsTooLargeAndSaysWhich) {
  const Result<ReportResult> whole = Write(64'000'000);
  if (whole.status().code() == StatusCode::kUnsupported) {
    GTEST_SKIP() << whole.status().message();
  }
  ASSERT_TRUE(whole.ok()) << whole.status().message();
  EXPECT_THAT(whole->warnings, IsEmpty());
  const Result<ReportResult> part = Write(whole->size_bytes - 1);
  ASSERT_TRUE(part.ok()) << part.status().message();
  EXPECT_LT(part->size_bytes, whole->size_bytes);
  EXPECT_EQ(part->rows, whole->rows);
  EXPECT_THAT(part->warnings, ElementsAre(HasSubstr("larger than")));
  EXPECT_THAT(part->warnings[0], HasSubstr("left out of the page"));
  EXPECT_THAT(part->warnings[0], HasSubstr("--statistics"));
}

TEST_F(ReportPage, SaysThatAPageIsTooLargeWhenNothingCanBeLeftOut) {
  const Result<ReportResult> page = Write(1);
  if (page.status().code() == StatusCode::kUnsupported) {
    GTEST_SKIP() << page.status().message();
  }
  ASSERT_TRUE(page.ok()) << page.status().message();
  EXPECT_THAT(page->warnings,
              ElementsAre(HasSubstr("left out"), HasSubstr("may take a browser long to open")));
}

}  // namespace
}  // namespace msprobe::analysis::monitor
