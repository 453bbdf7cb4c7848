#include "src/analysis/accuracy/precision_compare/precision_compare.h"

#include <filesystem>
#include <map>
#include <string>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "src/analysis/accuracy/common/outcome.h"
#include "src/base/files.h"
#include "src/base/strings.h"
#include "src/report/document.h"
#include "tests/unit/support/temporary_folder.h"

namespace msprobe::analysis::accuracy {
namespace {

namespace fs = std::filesystem;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::Not;

std::string Whole(const fs::path& path) {
  const Result<std::string> text = base::ReadTextFile(path, uint64_t{1} << 26U);
  EXPECT_TRUE(text.ok()) << text.status().message();
  return text.ok() ? *text : std::string();
}

class PrecisionCompareTest : public ::testing::Test {
 protected:
  PrecisionCompareTest() { options_.output = folder_ / "out"; }

  // A details file: name, dtype, shape, and the metrics by their columns.
  static std::string Row(const std::string& name, const std::string& dtype,
                         const std::map<size_t, std::string>& cells,
                         const std::string& shape = "\"(2, 2)\"") {
    std::string row = name + ",torch.float64," + dtype + "," + shape;
    for (size_t column = detail_column::kCosine; column < detail_column::kCount; ++column) {
      const auto cell = cells.find(column);
      row += "," + (cell == cells.end() ? std::string(" ") : cell->second);
    }
    return row + "\r\n";
  }
  static std::string Header() {
    std::string header;
    for (const ColumnName& column : kDetailColumns) {
      header += (header.empty() ? "" : ",") + std::string(column.chinese);
    }
    return header + "\r\n";
  }
  static std::map<size_t, std::string> Benchmark(const std::string& rmse) {
    return {{detail_column::kSmallValue, "0"},
            {detail_column::kRmse, rmse},
            {detail_column::kMaxRelative, "0.001"},
            {detail_column::kMeanRelative, "0.0001"},
            {detail_column::kErrorBalance, "0"}};
  }

  Result<PrecisionComparison> Compare(const std::string& npu, const std::string& gpu) {
    options_.npu_file = folder_.Write("npu.csv", Header() + npu);
    options_.gpu_file = folder_.Write("gpu.csv", Header() + gpu);
    Result<PrecisionComparison> comparison = accuracy::Run(options_);
    if (comparison.ok()) {
      result_ = Whole(comparison->files[0]);
      details_ = Whole(comparison->files[1]);
    }
    return comparison;
  }

  test_support::TemporaryFolder folder_;
  PrecisionOptions options_;
  std::string result_;
  std::string details_;
};

TEST_F(PrecisionCompareTest, WritesTheFilesOfThePythonTool) {
  const fs::path data = fs::path(MSPROBE_TEST_DATA) / "accuracy/precision_compare";
  options_.npu_file = data / "npu.csv";
  options_.gpu_file = data / "gpu.csv";
  const Result<PrecisionComparison> comparison = accuracy::Run(options_);
  ASSERT_TRUE(comparison.ok()) << comparison.status().message();
  EXPECT_EQ(Whole(comparison->files[0]), Whole(data / "result.csv"));
  EXPECT_EQ(Whole(comparison->files[1]), Whole(data / "details.csv"));
  EXPECT_THAT(comparison->unmatched, ElementsAre("Torch.mul.907.forward.output.0"));
  EXPECT_EQ(comparison->operators.Of(Outcome::kError), 64U);
}

TEST_F(PrecisionCompareTest, NarrowsTheRatiosOfSomeOperatorsSince26) {
  const std::string npu =
      Row("Functional.layer_norm.0.forward.output.0", "torch.float32", Benchmark("0.0015")) +
      Row("Functional.softmax.0.forward.output.0", "torch.float32", Benchmark("0.0015"));
  const std::string gpu =
      Row("Functional.layer_norm.0.forward.output.0", "torch.float32", Benchmark("0.001")) +
      Row("Functional.softmax.0.forward.output.0", "torch.float32", Benchmark("0.001"));
  ASSERT_TRUE(Compare(npu, gpu).ok());
  EXPECT_THAT(result_, HasSubstr("Functional.layer_norm.0,pass"));
  options_.version = StandardVersion::k26;
  ASSERT_TRUE(Compare(npu, gpu).ok());
  EXPECT_THAT(result_, HasSubstr("Functional.layer_norm.0,error"));
  EXPECT_THAT(result_, HasSubstr("Functional.softmax.0,pass"));
}

TEST_F(PrecisionCompareTest, ChoosesTheStandardByTheCellsSince26) {
  options_.version = StandardVersion::k26;
  const std::string rows =
      Row("Torch.matmul.0.forward.output.0", "torch.float16", Benchmark("0.1")) +
      Row("Torch.mul.0.forward.output.0", "torch.float16", {{detail_column::kRelative, "0.5"}}) +
      Row("Torch.sum.0.forward.output.0", "torch.int64", {});
  ASSERT_TRUE(Compare(rows, rows).ok());
  EXPECT_THAT(details_, HasSubstr("标杆比对法"));
  EXPECT_THAT(details_, HasSubstr("绝对阈值法"));
  // A blank cell counts as 0.
  EXPECT_THAT(result_, HasSubstr("Torch.sum.0,pass"));
}

TEST_F(PrecisionCompareTest, TakesTheLastOfRowsThatStandTwice) {
  const std::string name = "Functional.softmax.0.forward.output.0";
  const std::string good = Row(name, "torch.float32", Benchmark("0.001"));
  const std::string bad = Row(name, "torch.float32", Benchmark("0.1"));
  const Result<PrecisionComparison> comparison = Compare(bad + good, good + good);
  ASSERT_TRUE(comparison.ok());
  EXPECT_EQ(comparison->duplicated.size(), 2U);
  EXPECT_THAT(result_, HasSubstr("Functional.softmax.0,pass, ,\r\n"));
  EXPECT_EQ(comparison->operators.total(), 1U);
}

TEST_F(PrecisionCompareTest, StrictTellsWhatIsMissing) {
  options_.strict = true;
  const std::string npu =
      Row("Torch.exp.0.forward.output.0", "torch.float32", Benchmark("0.1")) +
      Row("Torch.mul.0.forward.output.0", "torch.float32",
          {{detail_column::kMessage, "There is not bench calculation result."}}, "\"(3, 0)\"") +
      Row("Torch.add.0.forward.output.0", "torch.float32", {});
  ASSERT_TRUE(Compare(npu, npu.substr(npu.find('\n') + 1)).ok());
  EXPECT_THAT(result_, HasSubstr("Torch.exp.0,SKIP, ,GPU结果中没有该输出。"));
  EXPECT_THAT(result_, HasSubstr("Torch.mul.0,SKIP, ,There is not bench calculation result."));
  EXPECT_THAT(result_, HasSubstr("Torch.add.0,SKIP, ,ERROR: Input data is an empty string"));
  EXPECT_THAT(result_, Not(HasSubstr("output.0")));
}

TEST_F(PrecisionCompareTest, WritesEnglishWhenAsked) {
  options_.english = true;
  const std::string name = "Functional.softmax.0.forward.output.0";
  ASSERT_TRUE(Compare(Row(name, "torch.float32", Benchmark("0.1")),
                      Row(name, "torch.float32", Benchmark("0.001")))
                  .ok());
  for (const unsigned char c : details_.substr(3)) {
    ASSERT_LT(c, 0x80);
  }
  EXPECT_THAT(details_, HasSubstr("the ratio of RMSEs is above its limit"));
  EXPECT_THAT(details_, HasSubstr("RMSE: ratio"));
}

TEST_F(PrecisionCompareTest, NamesMissingColumnsAndInvalidNames) {
  options_.npu_file = folder_.Write("a.csv", "API Name,Shape\r\nx,y\r\n");
  options_.gpu_file = options_.npu_file;
  const Result<PrecisionComparison> missing = accuracy::Run(options_);
  ASSERT_FALSE(missing.ok());
  EXPECT_THAT(missing.status().message(), HasSubstr("DEVICE Dtype"));
  const std::string row = Row("too.short", "torch.float32", {});
  ASSERT_TRUE(Compare(row, row).ok());
  EXPECT_THAT(result_, HasSubstr("too.short,SKIP,SKIP,The API name too.short is invalid."));
}

TEST_F(PrecisionCompareTest, PassesNoGateWithoutAnOperator) {
  const Result<PrecisionComparison> comparison = Compare("", "");
  ASSERT_TRUE(comparison.ok());
  const report::Document document = MakeDocument(*comparison);
  EXPECT_EQ(report::Judge(document, report::Gate({"error"})), report::ExitClass::kFindings);
}

TEST_F(PrecisionCompareTest, TakesLimitsFromAFile) {
  const std::string name = "Functional.softmax.0.forward.output.0";
  const std::string npu = Row(name, "torch.float32", Benchmark("0.1"));
  const std::string gpu = Row(name, "torch.float32", Benchmark("0.001"));
  options_.standards_file =
      folder_.Write("limits.json", R"({"limits": {"ratio_rmse": {"L0": 1000}}})");
  const Result<PrecisionComparison> comparison = Compare(npu, gpu);
  ASSERT_TRUE(comparison.ok());
  EXPECT_EQ(comparison->operators.Of(Outcome::kPass), 1U);
  EXPECT_THAT(comparison->limits, HasSubstr("limits.json"));
  options_.standards_file = folder_.Write("bad.json", R"({"limits": {"ratio_rmze": 1}})");
  EXPECT_THAT(Compare(npu, gpu).status().message(), HasSubstr("ratio_rmze"));
}

TEST(Standards, BuiltInTableIsWhole) {
  const Standards& table = Standards::BuiltIn();
  EXPECT_EQ(table.Of("mul", "torch.float32"), Standard::kAbsolute);
  EXPECT_EQ(table.Of("mul", "torch.int32"), Standard::kBinary);
  EXPECT_EQ(table.Of("linear", ""), Standard::kUlp);
  EXPECT_EQ(table.Of("softmax", ""), Standard::kBenchmark);
  EXPECT_EQ(table.LevelOf("GELU"), 2U);
  EXPECT_EQ(table.LevelOf("gelu"), 0U);
  EXPECT_EQ(table.limits().mindspore_max_abs, 0.001);
  EXPECT_EQ(table.apis().never_run.size(), 7U);
}

}  // namespace
}  // namespace msprobe::analysis::accuracy
