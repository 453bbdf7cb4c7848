#include "src/analysis/inspect/dump_contents.h"

#include <string>

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/unit/analysis/inspect/table_access.h"

namespace msprobe::analysis::inspect {
namespace {

using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::SizeIs;

constexpr const char* kCnn = MSPROBE_TEST_DATA "/dump/cnn_tensor_mix/dump/step0/rank/dump.json";

TEST(InspectDumpFile, ListsTensorsAndScalarsWithWhatWasRecorded) {
  const TemporaryFolder folder;
  const auto result = InspectPath(folder.Write("dump.json", R"({
    "task": "statistics", "level": "L1", "framework": "pytorch", "dump_data_dir": null,
    "data": {"Torch.f.0.forward": {
      "input_args": [{"type": "torch.Tensor", "dtype": "torch.float16", "shape": [2, 3], "Max": 1.5, "Min": -Infinity,
                      "Mean": NaN, "Norm": null, "requires_grad": true, "md5": "00ff"}],
      "input_kwargs": {"dim": {"type": "int", "value": -1}, "s": {"type": "slice", "value": [1, null, 2]},
                       "f": {"type": "torch.memory_format", "format": "channels_last"}, "n": null},
      "output": [{"type": "bool", "value": true}]}}})"));
  ASSERT_TRUE(result.ok()) << result.status().message();
  const report::Table& table = result->table;
  ASSERT_EQ(table.row_count(), 6U);
  EXPECT_EQ(At(table, 0, "Name"), "Torch.f.0.forward.input.0");
  EXPECT_EQ(At(table, 0, "Type"), "torch.float16");
  EXPECT_EQ(At(table, 0, "Shape"), "[2, 3]");
  EXPECT_EQ(At(table, 0, "Max"), "1.5");
  EXPECT_EQ(At(table, 0, "Min"), "-inf");
  EXPECT_EQ(At(table, 0, "Mean"), "nan");
  EXPECT_EQ(At(table, 0, "Norm"), "");
  EXPECT_EQ(At(table, 0, "Requires_grad"), "true");
  EXPECT_EQ(At(table, 0, "Md5"), "00ff");
  EXPECT_EQ(At(table, "Torch.f.0.forward.input.dim", "Value"), "-1");
  EXPECT_EQ(At(table, "Torch.f.0.forward.input.s", "Value"), "[1, null, 2]");
  EXPECT_EQ(At(table, "Torch.f.0.forward.input.f", "Value"), "channels_last");
  EXPECT_EQ(At(table, "Torch.f.0.forward.input.n", "Type"), "null");
  EXPECT_EQ(At(table, "Torch.f.0.forward.output.0", "Value"), "true");
  EXPECT_THAT(result->summary, SizeIs(2));
  EXPECT_THAT(result->summary[0], HasSubstr("task statistics, level L1, framework pytorch"));
  EXPECT_THAT(result->summary[1], HasSubstr("1 entry (1 forward, 0 backward"));
}

TEST(InspectDumpFile, ComputesStatisticsFromTheTensorFiles) {
  const auto recorded = InspectPath(kCnn);
  const auto computed = InspectPath(kCnn, true);
  ASSERT_TRUE(recorded.ok() && computed.ok());
  ASSERT_EQ(computed->table.row_count(), recorded->table.row_count());
  EXPECT_THAT(computed->warnings, IsEmpty());
  const std::string conv = "Functional.conv2d.0.forward.input.0";
  EXPECT_EQ(At(computed->table, conv, "NaN"), "0");
  EXPECT_EQ(At(computed->table, conv, "Max"), At(recorded->table, conv, "Max"));
  EXPECT_NEAR(std::stod(At(computed->table, conv, "Norm")),
              std::stod(At(recorded->table, conv, "Norm")), 1e-4);
  EXPECT_EQ(At(recorded->table, conv, "NaN"), "");
}

TEST(InspectDumpFile, ReadsAFileOnceHoweverManyRowsNameIt) {
  const TemporaryFolder folder;
  // 20,000 times 16 MiB would take minutes.
  constexpr size_t kRows = 20'000;
  constexpr size_t kElements = size_t{1} << 24U;
  std::string header =
      fmt::format("{{'descr': '|u1', 'fortran_order': False, 'shape': ({},), }}", kElements);
  header.resize(117, ' ');
  header += '\n';
  folder.Write("dump_tensor_data/a.npy", std::string("\x93NUMPY\x01\x00\x76\x00", 10) + header +
                                             std::string(kElements, '\1'));
  std::string leaves;
  for (size_t i = 0; i < kRows; ++i) {
    leaves += i == 0 ? "" : ",";
    leaves += R"({"type": "torch.Tensor", "dtype": "torch.uint8", "data_name": "a.npy"})";
  }
  const auto result = InspectPath(
      folder.Write("dump.json", fmt::format(R"({{"data": {{"Torch.add.0.forward": {{"output":
          [{}]}}}}}})",
                                            leaves)),
      true);
  ASSERT_TRUE(result.ok()) << result.status().message();
  ASSERT_EQ(result->table.row_count(), kRows);
  EXPECT_THAT(result->warnings, IsEmpty());
  for (const size_t row : {size_t{0}, kRows - 1}) {
    EXPECT_EQ(At(result->table, row, "Max"), "1");
    EXPECT_EQ(At(result->table, row, "Zeros"), "0");
  }
}

TEST(InspectDumpFile, SaysThatStatisticsAreTheRecordedOnesWithoutTensorFiles) {
  const auto result =
      InspectPath(MSPROBE_TEST_DATA "/dump/gpt_statistics_L1/dump/step0/rank/dump.json", true);
  ASSERT_TRUE(result.ok());
  EXPECT_THAT(result->warnings, SizeIs(1));
  EXPECT_GT(result->table.row_count(), 100U);
}

TEST(InspectDumpFile, MarksTensorFilesThatAreMissingOrOutsideTheFolder) {
  const TemporaryFolder folder;
  const auto result = InspectPath(folder.Write("dump.json", R"({"data": {
    "a.0.debug": {"type": "torch.Tensor", "dtype": "torch.int8", "shape": [1], "data_name": "a.pt"},
    "b.0.debug": {"type": "torch.Tensor", "dtype": "torch.int8", "shape": [1], "data_name": "../../secret.pt"}}})"),
                                  true);
  ASSERT_TRUE(result.ok());
  EXPECT_EQ(result->table.fill(0), report::Fill::kRed);
  EXPECT_THAT(At(result->table, 0, "Note"), HasSubstr("a.pt"));
  EXPECT_THAT(At(result->table, 1, "Note"), HasSubstr("points outside"));
}

TEST(InspectDumpFile, ShowsTheCompleteEntriesOfATruncatedFile) {
  const TemporaryFolder folder;
  const auto result = InspectPath(folder.Write(
      "dump.json",
      R"({"task": "tensor", "data": {"a.0.debug": {"type": "int", "value": 1}, "b": {)"));
  ASSERT_TRUE(result.ok()) << result.status().message();
  EXPECT_EQ(result->table.row_count(), 1U);
  ASSERT_THAT(result->warnings, SizeIs(1));
  EXPECT_THAT(result->warnings[0], HasSubstr("is truncated"));
}

TEST(InspectDumpFile, RefusesJsonThatIsNoDump) {
  const TemporaryFolder folder;
  const auto result = InspectPath(folder.Write("stack.json", R"({"0": [["a"], ["b"]]})"));
  ASSERT_FALSE(result.ok());
  EXPECT_THAT(result.status().message(), HasSubstr("no object \"data\""));
}

TEST(InspectDumpFile, CutsNamesAndValuesThatNoDumpHas) {
  const TemporaryFolder folder;
  const std::string huge(100'000, 'x');
  const auto result = InspectPath(folder.Write(
      "dump.json", "{\"data\": {\"" + huge + "\": {\"output\": [{\"type\": \"str\", \"value\": \"" +
                       huge + "\"}]}}}"));
  ASSERT_TRUE(result.ok());
  EXPECT_LT(At(result->table, 0, "Name").size(), 1100U);
  EXPECT_LT(At(result->table, 0, "Value").size(), 300U);
}

TEST(InspectDumpFile, FiltersAndLimitsRows) {
  Options options;
  options.path = kCnn;
  options.name_filter = "Module.*.parameters.*";
  const auto filtered = inspect::Run(options);
  ASSERT_TRUE(filtered.ok());
  ASSERT_GT(filtered->table.row_count(), 3U);
  options.row_limit = 2;
  const auto limited = inspect::Run(options);
  EXPECT_EQ(limited->table.row_count(), 2U);
  EXPECT_EQ(limited->rows_left_out, filtered->table.row_count() - 2);
}

}  // namespace
}  // namespace msprobe::analysis::inspect
