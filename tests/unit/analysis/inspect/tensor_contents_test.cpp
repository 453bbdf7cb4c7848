#include "src/analysis/inspect/tensor_contents.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstring>
#include <fstream>
#include <limits>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "msprobe/tensor_file.h"

#include "tests/unit/analysis/inspect/table_access.h"
#include "tests/unit/support/view_of.h"

namespace msprobe::analysis::inspect {
namespace {

using msprobe::test_support::ViewOf;
using ::testing::HasSubstr;
using ::testing::SizeIs;

// The header's length, the header, the bytes of all tensors.
std::string SafetensorsBytes(std::string_view header, std::string_view data) {
  const uint64_t length = header.size();
  std::string bytes(sizeof(length), '\0');
  std::memcpy(bytes.data(), &length, sizeof(length));
  bytes += header;
  bytes += data;
  return bytes;
}

TEST(InspectTensorFile, NamesABareTensorAfterItsFile) {
  const TemporaryFolder folder;
  const std::vector<float> values = {1.0F, -2.0F, 0.0F, 5.0F};
  ASSERT_TRUE(WritePtFile(folder.path() / "x.pt", ViewOf(values, {2, 2})).ok());
  const auto result = InspectPath(folder.path() / "x.pt");
  ASSERT_TRUE(result.ok()) << result.status().message();
  const report::Table& table = result->table;
  ASSERT_EQ(table.row_count(), 1U);
  EXPECT_EQ(At(table, 0, "Name"), "x.pt");
  EXPECT_EQ(At(table, 0, "Type"), "float32");
  EXPECT_EQ(At(table, 0, "Shape"), "[2, 2]");
  EXPECT_EQ(At(table, 0, "Bytes"), "16");
  EXPECT_EQ(At(table, 0, "Requires_grad"), "false");
  EXPECT_EQ(At(table, 0, "Max"), "no such column");
  ASSERT_THAT(result->summary, SizeIs(2));
  EXPECT_THAT(result->summary[1], HasSubstr("1 tensor: 1 x float32 (4 elements, 16 B)"));
}

TEST(InspectTensorFile, TellsWhereTheElementsAreWhenAsked) {
  const TemporaryFolder folder;
  const std::filesystem::path path = folder.path() / "x.safetensors";
  const std::string header =
      R"({"a":{"dtype":"F32","shape":[2],"data_offsets":[0,8]},"b":{"dtype":"I8","shape":[2,3],"data_offsets":[8,14]}})";
  std::ofstream(path, std::ios::binary) << SafetensorsBytes(header, std::string(14, 1));
  Options options;
  options.path = path;
  options.offsets = true;
  const auto result = inspect::Run(options);
  ASSERT_TRUE(result.ok()) << result.status().message();
  const std::string data = std::to_string(8 + header.size());
  EXPECT_EQ(At(result->table, 0, "Offset"), data);
  EXPECT_EQ(At(result->table, 0, "Strides"), "[1]");
  EXPECT_EQ(At(result->table, 0, "File"), "x.safetensors");
  EXPECT_EQ(At(result->table, 1, "Offset"), std::to_string(8 + header.size() + 8));
  EXPECT_EQ(At(result->table, 1, "Strides"), "[3, 1]");
}

TEST(InspectTensorFile, ComputesStatisticsWhenAsked) {
  const TemporaryFolder folder;
  const float nan = std::numeric_limits<float>::quiet_NaN();
  const float inf = std::numeric_limits<float>::infinity();
  ASSERT_TRUE(WriteNpyFile(folder.path() / "good.npy", ViewOf({3.0F, -4.0F, 0.0F}, {3})).ok());
  ASSERT_TRUE(WriteNpyFile(folder.path() / "bad.npy", ViewOf({nan, inf, -inf, 0.0F}, {4})).ok());
  const auto good = InspectPath(folder.path() / "good.npy", true);
  ASSERT_TRUE(good.ok());
  EXPECT_EQ(At(good->table, 0, "Max"), "3");
  EXPECT_EQ(At(good->table, 0, "Min"), "-4");
  EXPECT_EQ(At(good->table, 0, "Norm"), "5");
  EXPECT_EQ(At(good->table, 0, "Zeros"), "1");
  const auto bad = InspectPath(folder.path() / "bad.npy", true);
  ASSERT_TRUE(bad.ok());
  EXPECT_EQ(At(bad->table, 0, "Max"), "nan");
  EXPECT_EQ(At(bad->table, 0, "NaN"), "1");
  EXPECT_EQ(At(bad->table, 0, "Inf"), "2");
}

TEST(InspectTensorFile, ListsACheckpointAndLeavesEmptyTensorsWithoutStatistics) {
  const TemporaryFolder folder;
  const auto path = folder.Write(
      "model.safetensors",
      SafetensorsBytes(R"({"a.weight": {"dtype": "U8", "shape": [2, 1], "data_offsets": [0, 2]},)"
                       R"( "b.bias": {"dtype": "F32", "shape": [0], "data_offsets": [2, 2]}})",
                       std::string("\x01\x07", 2)));
  const auto result = InspectPath(path, true);
  ASSERT_TRUE(result.ok()) << result.status().message();
  EXPECT_EQ(At(result->table, "a.weight", "Max"), "7");
  EXPECT_EQ(At(result->table, "a.weight", "Type"), "uint8");
  EXPECT_EQ(At(result->table, "b.bias", "Max"), "");
  EXPECT_EQ(At(result->table, "b.bias", "NaN"), "0");
}

TEST(InspectTensorFolder, ReadsEveryTensorFileAndMarksTheBroken) {
  const TemporaryFolder folder;
  ASSERT_TRUE(WritePtFile(folder.path() / "a.pt", ViewOf({1.0F}, {1})).ok());
  ASSERT_TRUE(WriteNpyFile(folder.path() / "b.npy", ViewOf({2.0F, 3.0F}, {2})).ok());
  folder.Write("c.pt", "not a tensor");
  folder.Write("d.safetensors", SafetensorsBytes("{}", ""));
  folder.Write("notes.txt", "ignored");
  const auto result = InspectPath(folder.path(), true);
  ASSERT_TRUE(result.ok()) << result.status().message();
  ASSERT_EQ(result->table.row_count(), 4U);
  EXPECT_EQ(At(result->table, "d.safetensors", "Note"), "no tensors in it");
  EXPECT_EQ(result->table.fill(3), report::Fill::kNone);
  EXPECT_EQ(At(result->table, "b.npy", "Mean"), "2.5");
  EXPECT_EQ(result->table.fill(2), report::Fill::kRed);
  EXPECT_THAT(At(result->table, "c.pt", "Note"), HasSubstr("c.pt"));
  EXPECT_THAT(result->warnings, SizeIs(1));
}

TEST(InspectTensorFolder, FiltersAndLimitsFiles) {
  const TemporaryFolder folder;
  for (const char* name : {"a.0.pt", "a.1.pt", "b.0.pt"}) {
    ASSERT_TRUE(WritePtFile(folder.path() / name, ViewOf({1.0F}, {1})).ok());
  }
  Options options;
  options.path = folder.path();
  options.name_filter = "a.*";
  options.row_limit = 1;
  const auto result = inspect::Run(options);
  ASSERT_TRUE(result.ok());
  EXPECT_EQ(result->table.row_count(), 1U);
  EXPECT_EQ(result->rows_left_out, 1U);
}

TEST(StatisticsOf, GivesTheSameForAStridedViewAndItsCopy) {
  const TemporaryFolder folder;
  std::vector<float> values(3 * 70'000);
  for (size_t i = 0; i < values.size(); ++i) {
    values[i] = static_cast<float>(i % 1000) - 300.0F;
  }
  const TensorView whole = ViewOf(values, {70'000, 3});
  ASSERT_TRUE(WritePtFile(folder.path() / "x.pt", whole).ok());
  const auto file = TensorFile::Open(folder.path() / "x.pt");
  ASSERT_TRUE(file.ok());
  TensorView transposed = whole;
  std::swap(transposed.shape[0], transposed.shape[1]);
  std::swap(transposed.strides[0], transposed.strides[1]);
  std::vector<std::byte> scratch;
  const kernels::TensorStats strided = StatisticsOf(*file, transposed, scratch);
  const kernels::TensorStats plain = StatisticsOf(*file, (**file->Single()).view, scratch);
  EXPECT_EQ(strided.element_count, values.size());
  EXPECT_EQ(strided.max, plain.max);
  EXPECT_EQ(strided.min, plain.min);
  EXPECT_EQ(strided.zero_count, plain.zero_count);
  EXPECT_NEAR(strided.mean, plain.mean, 1e-9);
  EXPECT_LE(scratch.size(), size_t{1} << 20U);
}

}  // namespace
}  // namespace msprobe::analysis::inspect
