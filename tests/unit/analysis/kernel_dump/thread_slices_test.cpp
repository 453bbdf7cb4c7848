// Operators that FFTS+ ran as threads, each with a part of the tensors.
#include <string>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "src/analysis/kernel_dump/vector_compare.h"
#include "src/analysis/kernel_dump/vector_side.h"
#include "src/base/files.h"
#include "tests/unit/support/temporary_folder.h"

namespace msprobe::analysis::kernel_dump {
namespace {

namespace fs = std::filesystem;
using test_support::TemporaryFolder;

std::string VarintText(uint64_t value) {
  std::string text;
  for (; value >= 0x80; value >>= 7U) {
    text.push_back(static_cast<char>(value | 0x80U));
  }
  text.push_back(static_cast<char>(value));
  return text;
}
std::string VarintField(uint32_t field, uint64_t value) {
  return VarintText(field << 3U) + VarintText(value);
}
std::string BytesField(uint32_t field, const std::string& text) {
  return VarintText(field << 3U | 2U) + VarintText(text.size()) + text;
}

constexpr uint64_t kFloat = 1;
constexpr uint64_t kBits = 29;  // UINT1

// A tensor with four bytes for each element of its shape.
std::string TensorMessage(uint32_t field, uint32_t size_field, const Shape& shape, uint64_t format,
                          uint64_t type) {
  std::string sizes;
  for (const int64_t size : shape) {
    sizes += VarintText(static_cast<uint64_t>(size));
  }
  return BytesField(
      field, VarintField(1, type) + VarintField(2, format) + BytesField(3, BytesField(1, sizes)) +
                 VarintField(size_field, static_cast<uint64_t>(ElementCount(shape)) * 4));
}

struct ThreadFile {
  std::string slices;  // what the attribute says
  Shape input;
  Shape output;
  std::vector<float> values;
  uint64_t format = 2;
  uint64_t type = kFloat;  // of the output
};

void WriteThread(const fs::path& path, const ThreadFile& of) {
  const std::string header = TensorMessage(3, 6, of.output, of.format, of.type) +
                             TensorMessage(4, 5, of.input, 2, kFloat) +
                             BytesField(7, BytesField(1, "ffts") + BytesField(2, of.slices));
  std::string length(8, '\0');
  length[0] = static_cast<char>(header.size() & 0xFF);
  length[1] = static_cast<char>(header.size() >> 8);
  fs::create_directories(path.parent_path());
  ASSERT_TRUE(base::WriteFileAtomically(
                  path, length + header +
                            std::string(reinterpret_cast<const char*>(of.values.data()),
                                        of.values.size() * sizeof(float)))
                  .ok());
}

// Two threads: the input is whole in both, of an output of 3 x 2 one has the first two columns of
// row 0 and 1, the other row 2.
std::string Slices(const std::string& second_row_begins = "2", const std::string& threads = "2") {
  return R"({"threadMode": 1, "slice_instance_num": )" + threads +
         R"(, "inputCutList": [0], "outputCutList": [1], "input_tensor_slice": [[[]], [[]]],
            "output_tensor_slice": [[[{"lower": 0, "higher": 2}, {"lower": 0, "higher": 2}]],
                                    [[{"lower": )" +
         second_row_begins + R"(, "higher": 3}, {"lower": 0, "higher": 2}]]]})";
}

void WriteThreads(const fs::path& folder, const std::string& slices, uint64_t format = 2,
                  float last = 6, uint64_t type = kFloat) {
  WriteThread(folder / "Add.net_add.3.1.1700000000000002.4.0.0.0",
              {slices, {1}, {2, 2}, {9, 1, 2, 3, 4}, format, type});
  WriteThread(folder / "Add.net_add.3.1.1700000000000001.4.1.1.0",
              {slices, {1}, {1, 2}, {9, 5, last}, format, type});
}

std::vector<std::string> RowsOf(const VectorOptions& options) {
  const Result<VectorFindings> findings = CompareVectors(options);
  EXPECT_TRUE(findings.ok()) << findings.status().message();
  std::vector<std::string> lines;
  for (const VectorRow& row : findings.ok() ? findings->rows : std::vector<VectorRow>()) {
    lines.push_back(row.tensor + " " + ShapeText(row.shape) + " " +
                    (row.measures ? MeasureText(*row.measures, Measure::kMaxAbsolute) : "none"));
  }
  return lines;
}

TEST(ThreadSlices, ThreadsAreOneOperatorWhoseTensorsArePutTogether) {
  const TemporaryFolder scratch;
  WriteThreads(scratch / "mine", Slices());
  WriteThread(scratch / "golden/Add.net_add.1.1.1700000000000001",
              {"{}", {1}, {3, 2}, {9, 1, 2, 3, 4, 5, 7}});
  EXPECT_THAT(
      RowsOf({.mine = scratch / "mine", .golden = scratch / "golden", .output = scratch / "out"}),
      ::testing::ElementsAre("net_add:input:0 [1] 0.000000", "net_add:output:0 [3, 2] 1.000000"));
}

TEST(ThreadSlices, EachTimeThatThreadsRanIsAnOperator) {
  const TemporaryFolder scratch;
  for (const char* side : {"mine", "golden"}) {
    WriteThreads(scratch / side, Slices());
    WriteThreads(scratch / side / "later", Slices(), 2, std::string(side) == "mine" ? 6 : 8);
  }
  EXPECT_THAT(
      RowsOf({.mine = scratch / "mine", .golden = scratch / "golden", .output = scratch / "out"}),
      ::testing::ElementsAre("net_add:input:0 [1] 0.000000", "net_add:output:0 [3, 2] 0.000000",
                             "net_add:input:0 [1] 0.000000", "net_add:output:0 [3, 2] 2.000000"));
}

TEST(ThreadSlices, StayApartOnRequestAndWherePartsDoNotFit) {
  const TemporaryFolder scratch;
  const std::vector<std::string> apart = {
      "net_add:input:0 [1] 0.000000", "net_add:output:0 [1, 2] 0.000000",
      "net_add:input:0 [1] 0.000000", "net_add:output:0 [2, 2] 0.000000"};
  WriteThreads(scratch / "whole", Slices());
  EXPECT_EQ(RowsOf({.mine = scratch / "whole",
                    .golden = scratch / "whole",
                    .output = scratch / "a",
                    .thread_by_thread = true}),
            apart);
  size_t number = 0;
  for (const std::string& slices :
       {Slices("1"), Slices("3"), Slices("2", "3"), Slices("-9223372036854775808"),
        std::string("{"), std::string("[]"), std::string("{}")}) {
    const fs::path folder = scratch / std::to_string(number++);
    WriteThreads(folder, slices);
    EXPECT_EQ(RowsOf({.mine = folder, .golden = folder, .output = scratch / "b"}), apart) << slices;
  }
  // Parts of a device's own layout are no parts of the tensor.
  WriteThreads(scratch / "blocked", Slices(), 29);
  EXPECT_EQ(
      RowsOf({.mine = scratch / "blocked", .golden = scratch / "blocked", .output = scratch / "c"}),
      apart);
  // The shape of a tensor of bits counts bytes: it is not the one that its elements have.
  WriteThreads(scratch / "bits", Slices(), 2, 6, kBits);
  EXPECT_EQ(RowsOf({.mine = scratch / "bits", .golden = scratch / "bits", .output = scratch / "d"}),
            apart);
}

}  // namespace
}  // namespace msprobe::analysis::kernel_dump
