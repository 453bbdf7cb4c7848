#include "src/analysis/compare/folders/folders.h"

#include <cmath>
#include <cstring>
#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "msprobe/tensor_file.h"

#include "src/analysis/kernel_dump/numbers.h"
#include "src/base/threads.h"
#include "tests/unit/analysis/compare/dump_fixture.h"
#include "tests/unit/support/view_of.h"

namespace msprobe::analysis::compare {
namespace {

namespace fs = std::filesystem;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::Pair;

void WriteArray(const fs::path& path, const std::vector<float>& values, Shape shape) {
  fs::create_directories(path.parent_path());
  ASSERT_TRUE(WriteNpyFile(path, msprobe::test_support::ViewOf(values, std::move(shape))).ok());
}

void WriteVector(const fs::path& path, const std::vector<float>& values) {
  WriteArray(path, values, {static_cast<int64_t>(values.size())});
}

std::string CellAt(const report::Table& table, size_t row, std::string_view column) {
  for (size_t i = 0; i < table.columns().size(); ++i) {
    if (table.columns()[i] == column) {
      return report::CellText(table.row(row)[i]);
    }
  }
  ADD_FAILURE() << "no column " << column;
  return {};
}

class FoldersTest : public ::testing::Test {
 protected:
  FoldersTest() : pool_(2) {
    options_.npu_path = folder_.path() / "npu";
    options_.bench_path = folder_.path() / "bench";
    fs::create_directories(options_.npu_path);
    fs::create_directories(options_.bench_path);
  }

  const test_support::TemporaryFolder folder_;
  base::ThreadPool pool_;
  Options options_;
};

constexpr const char* kStatisticHeader =
    "Op Type,Op Name,Task ID,Stream ID,Timestamp,IO,Slot,Data Size,Data Type,Shape,Max Value,"
    "Min Value,Avg Value,L2Norm Value\n";

TEST(PairKernels, PairsTheNthOfAKeyInTimeAndKeepsBothOrders) {
  const std::vector<KernelKey> npu = {{"a", "20"}, {"a", "9"}, {"n", "1"}};
  const std::vector<KernelKey> bench = {{"b", "1"}, {"a", "100"}, {"a", "99"}};
  const auto pairs = PairKernels(npu, bench);
  ASSERT_EQ(pairs.size(), 4U);
  EXPECT_EQ(pairs[0].bench, 1U) << "time 20 is the later one although it stands first";
  EXPECT_EQ(pairs[1].bench, 2U);
  EXPECT_EQ(pairs[2].bench, kNoKernel);
  EXPECT_EQ(pairs[3].npu, kNoKernel);
  EXPECT_EQ(pairs[3].bench, 0U);
}

TEST(HalveRows, CutsUntilEveryPartFits) {
  EXPECT_THAT(HalveRows(5, 10), ElementsAre(Pair(0, 5)));
  EXPECT_THAT(HalveRows(10, 3), ElementsAre(Pair(0, 2), Pair(2, 3), Pair(5, 2), Pair(7, 3)));
  EXPECT_THAT(HalveRows(0, 3), ElementsAre(Pair(0, 0)));
}

class GraphFoldersTest : public FoldersTest {
 protected:
  GraphFoldersTest() { options_.folders.rank_ids.emplace(); }

  fs::path Kernel(const std::string& side, const std::string& place, const std::string& name) {
    return folder_.path() / side / place / (name + ".DefaultFormat.npy");
  }
};

TEST_F(GraphFoldersTest, ComparesEqualKernelsAndShowsWhatOnlyOneSideHas) {
  const std::string place = "rank_3/Net/0/7";
  WriteVector(Kernel("npu", place, "Add.op1.5.0.100.output.0.0"), {1, 2, 4});
  WriteVector(Kernel("bench", place, "Add.op1.5.0.900.output.0.0"), {1, 2, 4});
  WriteVector(Kernel("npu", place, "Sub.op2.5.0.100.output.0.0"), {1});
  WriteVector(Kernel("bench", place, "Mul.op3.5.0.100.output.0.0"), {1});
  const auto comparison = CompareGraphFolders(options_, pool_);
  ASSERT_TRUE(comparison.ok()) << comparison.status().message();
  ASSERT_EQ(comparison->tables.size(), 1U);
  EXPECT_EQ(comparison->tables[0].name, "compare_result_3_7");
  EXPECT_TRUE(comparison->tables[0].styled_header);
  const report::Table& table = comparison->tables[0].table;
  EXPECT_EQ(table.name(), "Sheet1");
  ASSERT_EQ(table.row_count(), 3U);
  EXPECT_EQ(CellAt(table, 0, "Accuracy Reached or Not"), "Yes");
  EXPECT_EQ(CellAt(table, 0, "MaxAbsErr"), "0");
  EXPECT_EQ(CellAt(table, 0, "NPU Tensor Shape"), "(3,)");
  EXPECT_EQ(CellAt(table, 1, "Bench Name"), "");
  EXPECT_EQ(CellAt(table, 1, "Accuracy Reached or Not"), "");
  EXPECT_NE(CellAt(table, 1, "Err_message"), "");
  EXPECT_EQ(CellAt(table, 2, "NPU Name"), "");
  EXPECT_THAT(CellAt(table, 2, "Bench Name"), HasSubstr("Mul.op3"));
}

TEST_F(GraphFoldersTest, ObjectsToShapesScalarsAndNanOnOneSideWithoutMetrics) {
  const std::string place = "rank_0/Net/0/0";
  WriteArray(Kernel("npu", place, "A.a.1.0.1.output.0.0"), {1, 2}, {2});
  WriteArray(Kernel("bench", place, "A.a.1.0.1.output.0.0"), {1, 2}, {1, 2});
  WriteArray(Kernel("npu", place, "B.b.1.0.1.output.0.0"), {1}, {});
  WriteArray(Kernel("bench", place, "B.b.1.0.1.output.0.0"), {1}, {});
  WriteArray(Kernel("npu", place, "C.c.1.0.1.output.0.0"), {std::nanf(""), 1}, {2});
  WriteArray(Kernel("bench", place, "C.c.1.0.1.output.0.0"), {1, 1}, {2});
  const auto comparison = CompareGraphFolders(options_, pool_);
  ASSERT_TRUE(comparison.ok()) << comparison.status().message();
  const report::Table& table = comparison->tables[0].table;
  ASSERT_EQ(table.row_count(), 3U);
  for (size_t row = 0; row < 3; ++row) {
    EXPECT_EQ(CellAt(table, row, "Cosine"), "");
    EXPECT_EQ(CellAt(table, row, "Accuracy Reached or Not"), "");
    EXPECT_THAT(CellAt(table, row, "Err_message"), HasSubstr("\n"));
  }
  EXPECT_EQ(CellAt(table, 2, "NPU max"), "") << "NaN is a blank cell";
}

TEST_F(GraphFoldersTest, NameMapGivesShortFileNamesTheirFullOnes) {
  const std::string place = "rank_0/Net/0/0";
  WriteVector(folder_.path() / "npu" / place / "short1.npy", {1, 2});
  folder_.Write(fs::path("npu") / place / "mapping.csv",
                "id,name\nshort1.npy,Add.op1.5.0.100.output.0.0.DefaultFormat\n");
  WriteVector(Kernel("bench", place, "Add.op1.5.0.7.output.0.0"), {1, 2});
  const auto comparison = CompareGraphFolders(options_, pool_);
  ASSERT_TRUE(comparison.ok()) << comparison.status().message();
  const report::Table& table = comparison->tables[0].table;
  ASSERT_EQ(table.row_count(), 1U);
  EXPECT_THAT(CellAt(table, 0, "NPU Name"), HasSubstr("short1.npy"));
  EXPECT_THAT(CellAt(table, 0, "Bench Name"), HasSubstr("Add.op1"));
}

TEST_F(GraphFoldersTest, StatisticsGiveDifferencesAndPercentages) {
  const fs::path place = "rank_0/Net/0/1";
  const std::string tail = ",0,0,100,output,0,8,float32,(2),";
  folder_.Write("npu" / place / "statistic.csv",
                kStatisticHeader + ("Mul,m" + tail + "2,-1,null,nan\n"));
  folder_.Write("bench" / place / "statistic.csv",
                kStatisticHeader + ("Mul,m" + tail + "4,-2,null,nan\n"));
  const auto comparison = CompareGraphFolders(options_, pool_);
  ASSERT_TRUE(comparison.ok()) << comparison.status().message();
  const report::Table& table = comparison->tables[0].table;
  ASSERT_EQ(table.row_count(), 1U);
  EXPECT_THAT(CellAt(table, 0, "NPU Name"), HasSubstr("m.0.output.0 /"));
  EXPECT_EQ(CellAt(table, 0, "Max diff"), "2");
  EXPECT_EQ(CellAt(table, 0, "MaxRelativeErr"), "50.0%");
  EXPECT_EQ(CellAt(table, 0, "MinRelativeErr"), "0%") << "the bench minimum is not positive";
  EXPECT_EQ(CellAt(table, 0, "NPU mean"), "0");
  EXPECT_EQ(CellAt(table, 0, "NPU l2norm"), "");
  EXPECT_EQ(CellAt(table, 0, "L2norm diff"), "");
  EXPECT_EQ(CellAt(table, 0, "Accuracy Reached or Not"), "Yes") << "2 of 4 is the limit";
}

TEST_F(GraphFoldersTest, FiltersByRankAndStepAndWarnsOfMissingPartners) {
  for (const std::string place : {"rank_0/Net/0/1", "rank_0/Net/0/2", "rank_1/Net/0/1"}) {
    WriteVector(Kernel("npu", place, "A.a.1.0.1.output.0.0"), {1, 2});
    if (place != "rank_1/Net/0/1") {
      WriteVector(Kernel("bench", place, "A.a.1.0.1.output.0.0"), {1, 2});
    }
  }
  auto comparison = CompareGraphFolders(options_, pool_);
  ASSERT_TRUE(comparison.ok());
  EXPECT_EQ(comparison->tables.size(), 2U);
  EXPECT_THAT(comparison->warnings, ElementsAre(HasSubstr("rank 1, step 1")));
  options_.folders.step_ids = {2};
  comparison = CompareGraphFolders(options_, pool_);
  ASSERT_TRUE(comparison.ok());
  ASSERT_EQ(comparison->tables.size(), 1U);
  EXPECT_EQ(comparison->tables[0].name, "compare_result_0_2");
  options_.folders.rank_ids = std::vector<int64_t>{5};
  EXPECT_EQ(CompareGraphFolders(options_, pool_).status().code(), StatusCode::kNotFound);
}

TEST_F(GraphFoldersTest, TensorsAgainstStatisticsAreAnError) {
  const std::string place = "rank_0/Net/0/1";
  WriteVector(Kernel("npu", place, "A.a.1.0.1.output.0.0"), {1, 2});
  folder_.Write(fs::path("bench") / place / "statistic.csv", kStatisticHeader);
  const auto comparison = CompareGraphFolders(options_, pool_);
  ASSERT_FALSE(comparison.ok());
  EXPECT_EQ(comparison.status().code(), StatusCode::kMismatch);
}

class CommonFoldersTest : public FoldersTest {};

TEST_F(CommonFoldersTest, PairsGroupsByNameOrMapAndFilesByNumber) {
  const fs::path npu = options_.npu_path / "step0";
  const fs::path bench = options_.bench_path / "step0";
  WriteVector(npu / "out_float32_9.npy", {1, 2});
  WriteVector(npu / "out_float32_10.npy", {3, 4});
  WriteVector(bench / "out_float32_2.npy", {1, 2});
  WriteVector(bench / "out_float32_3.npy", {3, 4});
  WriteVector(npu / "input_float32_0.npy", {5, 6});
  WriteVector(bench / "x_float32_0.npy", {5, 7});
  options_.folders.common_map = {{"input", "x"}};
  const auto comparison = CompareCommonFolders(options_, pool_);
  ASSERT_TRUE(comparison.ok()) << comparison.status().message();
  ASSERT_EQ(comparison->tables.size(), 1U);
  EXPECT_EQ(comparison->tables[0].folder, "step0");
  EXPECT_EQ(comparison->tables[0].name, "result");
  EXPECT_TRUE(comparison->tables[0].is_csv);
  const report::Table& table = comparison->tables[0].table;
  ASSERT_EQ(table.row_count(), 3U);
  EXPECT_EQ(CellAt(table, 0, "Name"), "input_0");
  EXPECT_EQ(CellAt(table, 0, "MaxAbsErr"), "1");
  EXPECT_EQ(CellAt(table, 1, "Name"), "out_0");
  EXPECT_EQ(CellAt(table, 1, "MaxAbsErr"), "0");
  EXPECT_EQ(CellAt(table, 2, "Name"), "out_1");
  EXPECT_EQ(CellAt(table, 2, "MaxAbsErr"), "0");
}

TEST_F(CommonFoldersTest, AGroupWithoutPartnerIsARowWithAReason) {
  WriteVector(options_.npu_path / "a" / "only_float32_0.npy", {1, 2});
  WriteVector(options_.bench_path / "a" / "other_float32_0.npy", {1, 2});
  const auto comparison = CompareCommonFolders(options_, pool_);
  ASSERT_TRUE(comparison.ok()) << comparison.status().message();
  const report::Table& table = comparison->tables[0].table;
  ASSERT_EQ(table.row_count(), 1U);
  EXPECT_EQ(CellAt(table, 0, "Bench Dtype"), "N/A");
  EXPECT_EQ(CellAt(table, 0, "Cosine"), "unsupported");
  EXPECT_NE(CellAt(table, 0, "Err_message"), "");
  EXPECT_FALSE(comparison->warnings.empty());
}

TEST_F(CommonFoldersTest, AnUnreadableFileMarksItsRowOnly) {
  WriteVector(options_.npu_path / "a" / "x_float32_0.npy", {1, 2});
  WriteVector(options_.npu_path / "a" / "x_float32_1.npy", {1, 2});
  folder_.Write("bench/a/x_float32_0.npy", "not an array");
  WriteVector(options_.bench_path / "a" / "x_float32_1.npy", {1, 2});
  const auto comparison = CompareCommonFolders(options_, pool_);
  ASSERT_TRUE(comparison.ok()) << comparison.status().message();
  const report::Table& table = comparison->tables[0].table;
  ASSERT_EQ(table.row_count(), 2U);
  EXPECT_THAT(CellAt(table, 0, "Err_message"), HasSubstr("x_float32_0.npy"));
  EXPECT_EQ(CellAt(table, 1, "Accuracy Reached or Not"), "Yes");
}

TEST_F(CommonFoldersTest, NothingInCommonIsAnError) {
  WriteVector(options_.npu_path / "a" / "x_float32_0.npy", {1});
  EXPECT_EQ(CompareCommonFolders(options_, pool_).status().code(), StatusCode::kMismatch);
}

TEST(NumpyShapeText, IsWrittenAsPythonPrintsATuple) {
  EXPECT_EQ(kernel_dump::TupleText({}), "()");
  EXPECT_EQ(kernel_dump::TupleText({3}), "(3,)");
  EXPECT_EQ(kernel_dump::TupleText({3, 4}), "(3, 4)");
}

TEST(ArrayStatCell, ShortFormNamesTheValueInItsOwnDType) {
  ArraySummary summary;
  summary.stats = {static_cast<double>(0.1F), 0, 0, HUGE_VAL};
  EXPECT_EQ(report::CellText(ArrayStatCell(summary, kMax, Digits::kShortest)), "0.1");
  EXPECT_EQ(report::CellText(ArrayStatCell(summary, kMax)), "0.1000000014901161");
  EXPECT_EQ(report::CellText(ArrayStatCell(summary, kNorm, Digits::kShortest)), "inf");
  summary.dtype = DType::kFloat16;
  summary.stats[kMax] = 4.11328125;
  EXPECT_EQ(report::CellText(ArrayStatCell(summary, kMax, Digits::kShortest)), "4.113");
  summary.dtype = DType::kBool;
  summary.stats[kMax] = 1;
  EXPECT_EQ(report::CellText(ArrayStatCell(summary, kMax)), "True");
}

}  // namespace
}  // namespace msprobe::analysis::compare
