#include <cstring>
#include <string>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "src/io/contents.h"
#include "src/io/gguf/blocks.h"
#include "tests/unit/io/test_bytes.h"

namespace msprobe::io {
namespace {

using test_support::Bytes;
using test_support::PutLittle;
using ::testing::HasSubstr;

void PutText(std::string& out, std::string_view text) {
  PutLittle<uint64_t>(out, text.size());
  out += text;
}

struct TestTensor {
  std::string name = "w";
  std::vector<uint64_t> sizes = {32};
  uint32_t type = 8;  // q8_0
  uint64_t offset = 0;
};

// A head with one number of metadata, and zeros for data.
std::string GgufFile(const std::vector<TestTensor>& tensors, size_t data_bytes,
                     uint32_t alignment = 32) {
  std::string file = "GGUF";
  PutLittle<uint32_t>(file, 3);
  PutLittle<uint64_t>(file, tensors.size());
  PutLittle<uint64_t>(file, 1);
  PutText(file, "general.alignment");
  PutLittle<uint32_t>(file, 4);
  PutLittle<uint32_t>(file, alignment);
  for (const TestTensor& tensor : tensors) {
    PutText(file, tensor.name);
    PutLittle<uint32_t>(file, static_cast<uint32_t>(tensor.sizes.size()));
    for (const uint64_t size : tensor.sizes) {
      PutLittle<uint64_t>(file, size);
    }
    PutLittle<uint32_t>(file, tensor.type);
    PutLittle<uint64_t>(file, tensor.offset);
  }
  while (file.size() % 32 != 0) {
    file.push_back('\0');
  }
  return file + std::string(data_bytes, '\0');
}

Status ReadText(const std::string& file, TensorFileContents& contents) {
  return ReadGguf(Bytes(file), contents);
}

TEST(ReadGguf, NamesTheSizesFromTheOutside) {
  const std::string file = GgufFile({{"blk.0.w", {64, 3}, 8, 0}}, 34 * 6);
  TensorFileContents contents;
  ASSERT_TRUE(ReadText(file, contents).ok());
  ASSERT_EQ(contents.tensors.size(), 1U);
  ASSERT_TRUE(contents.tensors[0].status.ok()) << contents.tensors[0].status.message();
  ASSERT_NE(contents.tensors[0].coded, nullptr);
  EXPECT_EQ(contents.tensors[0].coded->shape(), (Shape{3, 64}));
  EXPECT_EQ(contents.tensors[0].coded->format(), "q8_0");
  EXPECT_EQ(contents.scalars.at(0).text, "32");
}

TEST(ReadGguf, MarksTensorsBeyondTheEndAndReadsTheOthers) {
  const std::string file = GgufFile({{"a", {32}, 8, 0}, {"b", {32}, 8, 64}}, 34);
  TensorFileContents contents;
  ASSERT_TRUE(ReadText(file, contents).ok());
  EXPECT_TRUE(contents.tensors[0].status.ok());
  EXPECT_THAT(contents.tensors[1].status.message(), HasSubstr("truncated"));
}

TEST(ReadGguf, RefusesHeadsThatCannotBe) {
  TensorFileContents contents;
  EXPECT_THAT(ReadText(GgufFile({{"a", {32}, 8, 0}, {"b", {32}, 8, 2}}, 68), contents).message(),
              HasSubstr("overlap"));
  EXPECT_THAT(ReadText(GgufFile({{"a", {32}, 8, 0}, {"a", {32}, 8, 64}}, 128), contents).message(),
              HasSubstr("twice"));
  EXPECT_THAT(ReadText(GgufFile({{"a", {1, 1, 1, 1, 32}, 8, 0}}, 34), contents).message(),
              HasSubstr("dimensions"));
  EXPECT_THAT(ReadText(GgufFile({{"a", {~uint64_t{0}}, 8, 0}}, 34), contents).message(),
              HasSubstr("negative"));
  EXPECT_THAT(ReadText(GgufFile({}, 0, 48), contents).message(), HasSubstr("alignment"));
  std::string file = GgufFile({{"a", {32}, 8, 0}}, 34);
  file.replace(8, 8, std::string(8, '\x7f'));  // the number of tensors
  EXPECT_THAT(ReadText(file, contents).message(), HasSubstr("do not fit"));
  file = GgufFile({}, 0);
  file[4] = 1;
  EXPECT_THAT(ReadText(file, contents).message(), HasSubstr("version 1"));
  for (size_t size = 4; size < 60; ++size) {
    EXPECT_FALSE(ReadText(GgufFile({{"a", {32}, 8, 0}}, 34).substr(0, size), contents).ok())
        << size;
  }
}

TEST(ReadGguf, RefusesRowsThatAreNoWholeBlocks) {
  TensorFileContents contents;
  ASSERT_TRUE(
      ReadText(GgufFile({{"a", {33}, 8, 0}, {"b", {uint64_t{1} << 62U, 32}, 0, 0}}, 34), contents)
          .ok());
  EXPECT_THAT(contents.tensors[0].status.message(), HasSubstr("whole blocks"));
  EXPECT_FALSE(contents.tensors[1].status.ok());
}

TEST(MakeGgufBlocks, DecodesWithTheBoundOfRounding) {
  // d = 0.5, codes 0 to 31.
  std::string block;
  PutLittle<uint16_t>(block, 0x3800);
  for (int i = 0; i < 32; ++i) {
    block.push_back(static_cast<char>(i));
  }
  const Result<std::shared_ptr<const CodedTensor>> coded =
      MakeGgufBlocks(*FindGgufType(8), {32}, Bytes(block));
  ASSERT_TRUE(coded.ok());
  std::vector<float> values(8);
  std::vector<float> bounds(8);
  (*coded)->Decode(10, 8, DType::kFloat32, values.data(), bounds.data());
  EXPECT_EQ(values[0], 5.0F);
  EXPECT_EQ(values[7], 8.5F);
  // Half a step, and what the rounding of the scale moves the code by.
  EXPECT_GE(bounds[0], 0.25F);
  EXPECT_LT(bounds[0], 0.26F);
}

TEST(MakeGgufBlocks, RefusesTooFewBytes) {
  const std::string block(33, '\0');
  EXPECT_FALSE(MakeGgufBlocks(*FindGgufType(8), {32}, Bytes(block)).ok());
  EXPECT_FALSE(MakeGgufBlocks(*FindGgufType(16), {256}, Bytes(block)).ok());
}

}  // namespace
}  // namespace msprobe::io
