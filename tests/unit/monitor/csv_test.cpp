// Cells of a batch, and the files they go to.
#include <cmath>
#include <limits>
#include <random>

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "src/base/numbers.h"
#include "src/monitor/writer.h"
#include "tests/unit/support/child_process.h"
#include "tests/unit/support/temporary_folder.h"

namespace msprobe::monitor {
namespace {

using test_support::Slurp;
using test_support::Spill;
using test_support::TemporaryFolder;
using ::testing::HasSubstr;

constexpr double kCsvNan = std::numeric_limits<double>::quiet_NaN();
constexpr double kCsvInfinity = std::numeric_limits<double>::infinity();

Batch ColumnOf(std::vector<Value> values) {
  Batch batch;
  batch.table = "actv";
  batch.columns = {Statistic::kMin};
  for (Value& value : values) {
    Row row;
    row.name = "a";
    row.values.push_back(std::move(value));
    batch.rows.push_back(std::move(row));
  }
  return batch;
}

// The cells of one column, joined by blanks.
std::string Cells(std::vector<Value> values, const CsvRules& rules = {}) {
  std::string text;
  AppendCsvRows(ColumnOf(std::move(values)), rules, text);
  std::string cells;
  size_t at = 0;
  while (at < text.size()) {
    const size_t end = text.find('\n', at);
    const std::string line = text.substr(at, end - at);
    cells += (cells.empty() ? "" : " ") + line.substr(std::string("0,a,0,").size());
    at = end + 1;
  }
  return cells;
}

TEST(CsvCells, AreWholeWhenAllAre) { EXPECT_EQ(Cells({int64_t{3}, int64_t{-7}}), "3 -7"); }

TEST(CsvCells, BecomeFloatsBesideAFloatOrNothing) {
  EXPECT_EQ(Cells({int64_t{3}, 0.5}), "3.0 0.5");
  EXPECT_EQ(Cells({int64_t{3}, Value()}), "3.0 nan");
  EXPECT_EQ(Cells({(int64_t{1} << 53U) + 1, Value()}), "9007199254740992.0 nan");
}

TEST(CsvCells, AreNotRoundedBesideABool) {
  EXPECT_EQ(Cells({true, int64_t{4}, 1.0 / 3}), "True 4 0.3333333333333333");
}

TEST(CsvCells, RoundToEvenOnTheScaledValue) {
  EXPECT_EQ(Cells({0.0000005, 0.0000015, 2.5e-6}), "0.0 2e-06 2e-06");
  EXPECT_EQ(Cells({-1e-9}), "-0.0");
  EXPECT_EQ(Cells({kCsvNan, kCsvInfinity, -kCsvInfinity}), "nan inf -inf");
  EXPECT_EQ(Cells({2.5, 3.5}, {.digits = 0}), "2.0 4.0");
}

// By hand: four digits from the first that is not 0; from 0.001 on six decimals are as many.
TEST(CsvCells, KeepFourDigitsOfNumbersThatAreTooSmallForSixDecimals) {
  const CsvRules rules = CsvRulesOf(Settings());
  EXPECT_EQ(Cells({4.12349e-7, -3.0e-12, 0.00012345678}, rules), "4.123e-07 -3e-12 0.0001235");
  EXPECT_EQ(Cells({0.0012345678, 0.999999949, -0.5, 0.0, -0.0}, rules),
            "0.001235 1.0 -0.5 0.0 -0.0");
  EXPECT_EQ(Cells({9.9999e-4, 1e-300, 5e-324}, rules), "0.001 1e-300 5e-324");
  EXPECT_EQ(Cells({kCsvNan, kCsvInfinity, Value()}, rules), "nan inf nan");
  Settings named;
  named.significant_digits = 0;
  EXPECT_EQ(Cells({4.12349e-7}, CsvRulesOf(named)), "0.0");
  Settings compat;
  compat.compat = true;
  EXPECT_EQ(Cells({6.1e-7}, CsvRulesOf(compat)), "1e-06");
}

TEST(CsvCells, KeepNumbersTooLargeToBeRounded) {
  EXPECT_EQ(Cells({1e300}, {.digits = 12}), "1e+300");
  EXPECT_EQ(Cells({1e300}, {.digits = 12, .compat = true}), "inf");
}

TEST(CsvCells, AreWhatPythonShowsOfTheRoundedNumber) {
  std::mt19937_64 random(1);
  std::uniform_real_distribution<double> mantissa(-10, 10);
  std::uniform_int_distribution<int> exponent(-22, 18);
  std::vector<double> numbers = {0.0,    -0.0, 0.1,  1e-4,   9.9999e-5,        0.00012, 0.5, -0.5,
                                 1000.0, 1e9,  1e15, 999e12, 123456789.123456, 99.5,    1e16};
  for (int i = 0; i < 2000; ++i) {
    numbers.push_back(mantissa(random) * std::pow(10.0, exponent(random)));
  }
  for (const int32_t digits : {0, 1, 3, 4, 5, 6, 9, 15, 16, 20}) {
    const double scale = std::pow(10.0, digits);
    for (const double number : numbers) {
      const std::string expected = base::PythonFloatRepr(std::nearbyint(number * scale) / scale);
      ASSERT_EQ(Cells({number}, {.digits = digits}), expected) << number << ", digits " << digits;
    }
  }
}

TEST(CsvCells, AreQuotedWhereTheyHoldCommasQuotesOrLineEnds) {
  EXPECT_EQ(Cells({std::string("[2, 4]"), Value(), std::string("[8]")}), "\"[2, 4]\" nan [8]");
  Batch batch = ColumnOf({1.0});
  batch.rows[0].name = "a\"b\nnan,";
  std::string text;
  AppendCsvRows(batch, {}, text);
  EXPECT_EQ(text, "0,\"a\"\"b\nnan,\",0,1.0\n");
}

TEST(CsvRows, HaveAMicroStepOnlyWhereTheTableHasOne) {
  Batch batch = ColumnOf({1.0});
  batch.step = 7;
  batch.rows[0].stage = 2;
  batch.rows[0].micro_step = 5;
  std::string text;
  AppendCsvHeader(batch, text);
  AppendCsvRows(batch, {}, text);
  EXPECT_EQ(text, "vpp_stage,name,step,min\n2,a,7,1.0\n");
  batch.has_micro_step = true;
  text.clear();
  AppendCsvHeader(batch, text);
  AppendCsvRows(batch, {}, text);
  EXPECT_EQ(text, "vpp_stage,name,step,micro_step,min\n2,a,7,5,1.0\n");
}

TEST(CsvWriter, AlignsFilesToStepZero) {
  const TemporaryFolder folder;
  const auto writer = MakeCsvWriter(folder.path(), {}, 3);
  for (const int64_t step : {4, 5, 6}) {
    Batch batch = ColumnOf({1.0});
    batch.step = step;
    EXPECT_TRUE(writer->Write(batch).ok());
    EXPECT_TRUE(writer->EndStep(step).ok());
  }
  EXPECT_TRUE(writer->Close().ok());
  EXPECT_EQ(Slurp(folder / "actv_3-5.csv"), "vpp_stage,name,step,min\n0,a,4,1.0\n0,a,5,1.0\n");
  EXPECT_EQ(Slurp(folder / "actv_6-8.csv"), "vpp_stage,name,step,min\n0,a,6,1.0\n");
}

TEST(CsvWriter, HasEverythingInTheFilesAtTheEndOfAStep) {
  const TemporaryFolder folder;
  const auto writer = MakeCsvWriter(folder.path(), {}, 100);
  EXPECT_TRUE(writer->Write(ColumnOf({1.0})).ok());
  EXPECT_TRUE(writer->EndStep(0).ok());
  EXPECT_EQ(Slurp(folder / "actv_0-99.csv"), "vpp_stage,name,step,min\n0,a,0,1.0\n");
}

TEST(CsvWriter, ContinuesAFileAndCutsItsUnfinishedLine) {
  const TemporaryFolder folder;
  Spill(folder / "actv_0-0.csv", "vpp_stage,name,step,min\n0,b,0,2.0\n0,c,0,3.");
  Spill(folder / "other_0-0.csv", "vpp_st");
  const auto writer = MakeCsvWriter(folder.path(), {}, 1);
  EXPECT_TRUE(writer->Write(ColumnOf({1.0})).ok());
  Batch other = ColumnOf({1.0});
  other.table = "other";
  EXPECT_TRUE(writer->Write(other).ok());
  EXPECT_TRUE(writer->Close().ok());
  EXPECT_EQ(Slurp(folder / "actv_0-0.csv"), "vpp_stage,name,step,min\n0,b,0,2.0\n0,a,0,1.0\n");
  EXPECT_EQ(Slurp(folder / "other_0-0.csv"), "vpp_stage,name,step,min\n0,a,0,1.0\n");
}

TEST(CsvWriter, LeavesAFileWithOtherColumnsAlone) {
  const TemporaryFolder folder;
  const std::string_view before = "vpp_stage,name,step,norm\n0,b,0,2.0\n";
  Spill(folder / "actv_0-0.csv", before);
  const auto writer = MakeCsvWriter(folder.path(), {}, 1);
  EXPECT_TRUE(writer->Write(ColumnOf({1.0})).ok());
  const Status status = writer->EndStep(0);
  EXPECT_THAT(status.message(), HasSubstr("other columns"));
  EXPECT_EQ(Slurp(folder / "actv_0-0.csv"), before);
}

TEST(CsvWriter, WritesWhatADiskRefusedAsSoonAsItTakesIt) {
  const TemporaryFolder folder;
  const auto writer = MakeCsvWriter(folder / "gone", {}, 1);
  EXPECT_TRUE(writer->Write(ColumnOf({1.0})).ok());
  EXPECT_THAT(writer->EndStep(0).message(), HasSubstr("cannot write"));
  std::filesystem::create_directory(folder / "gone");
  EXPECT_TRUE(writer->EndStep(1).ok());
  EXPECT_EQ(Slurp(folder / "gone/actv_0-0.csv"), "vpp_stage,name,step,min\n0,a,0,1.0\n");
}

TEST(CsvWriter, FollowsNoLinkAtTheNameOfAFile) {
  const TemporaryFolder folder;
  Spill(folder / "precious", "");
  std::filesystem::create_symlink(folder / "precious", folder / "actv_0-0.csv");
  const auto writer = MakeCsvWriter(folder.path(), {}, 1);
  EXPECT_TRUE(writer->Write(ColumnOf({1.0})).ok());
  EXPECT_THAT(writer->EndStep(0).message(), HasSubstr("cannot write"));
  EXPECT_EQ(Slurp(folder / "precious"), "");
}

TEST(CsvWriter, FindsItsFolderThatWasDeletedAndMadeAnew) {
  const TemporaryFolder folder;
  const std::filesystem::path inner = folder / "inner";
  std::filesystem::create_directory(inner);
  const auto writer = MakeCsvWriter(inner, {}, 1);
  for (const int64_t step : {0, 1}) {
    Batch batch = ColumnOf({1.0});
    batch.step = step;
    EXPECT_TRUE(writer->Write(batch).ok());
    EXPECT_TRUE(writer->EndStep(step).ok());
    EXPECT_EQ(Slurp(inner / fmt::format("actv_{0}-{0}.csv", step)),
              fmt::format("vpp_stage,name,step,min\n0,a,{},1.0\n", step));
    std::filesystem::remove_all(inner);
    std::filesystem::create_directory(inner);
  }
}

TEST(CsvWriter, FollowsItsFolderToAnotherName) {
  const TemporaryFolder folder;
  std::filesystem::create_directory(folder / "before");
  const auto writer = MakeCsvWriter(folder / "before", {}, 1);
  Batch batch = ColumnOf({1.0});
  EXPECT_TRUE(writer->Write(batch).ok());
  EXPECT_TRUE(writer->EndStep(0).ok());
  std::filesystem::rename(folder / "before", folder / "after");
  batch.step = 1;
  EXPECT_TRUE(writer->Write(batch).ok());
  EXPECT_TRUE(writer->EndStep(1).ok());
  EXPECT_EQ(Slurp(folder / "after/actv_1-1.csv"), "vpp_stage,name,step,min\n0,a,1,1.0\n");
}

TEST(CsvWriter, TellsOfRowsThatAreTooManyToWait) {
  const TemporaryFolder folder;
  const auto writer = MakeCsvWriter(folder / "gone", {}, 1);
  Batch many = ColumnOf({1.0});
  many.rows[0].name.assign(size_t{65} << 20U, 'a');
  EXPECT_THAT(writer->Write(many).message(), HasSubstr("are lost"));
  EXPECT_TRUE(writer->Write(ColumnOf({2.0})).ok());
  std::filesystem::create_directory(folder / "gone");
  EXPECT_TRUE(writer->EndStep(0).ok());
  EXPECT_EQ(Slurp(folder / "gone/actv_0-0.csv"), "vpp_stage,name,step,min\n0,a,0,2.0\n");
}

}  // namespace
}  // namespace msprobe::monitor
