#include <cstring>
#include <string>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "src/io/contents.h"

namespace msprobe::io {
namespace {

using ::testing::HasSubstr;

std::string File(std::string_view attributes, size_t data_bytes) {
  return "$Version=1.0\n$Object.Count=1\n" + std::string(attributes) + "$End=1\n" +
         std::string(data_bytes, '\x01');
}

Status Read(const std::string& text, TensorFileContents& contents) {
  return ReadTensorBytes({reinterpret_cast<const std::byte*>(text.data()), text.size()}, {},
                         contents);
}

TEST(ReadAtb, ReadsDtypeAndSizesFromTheHeader) {
  const std::string file = File("format=2\ndtype=1\ndims=2,3\n$Object.data=0,12\n", 12);
  TensorFileContents contents;
  const Status status = Read(file, contents);
  ASSERT_TRUE(status.ok()) << status.message();
  EXPECT_EQ(contents.format, TensorFileFormat::kAtb);
  ASSERT_EQ(contents.tensors.size(), 1U);
  EXPECT_EQ(contents.tensors[0].view.dtype, DType::kFloat16);
  EXPECT_EQ(contents.tensors[0].view.shape, (Shape{2, 3}));
  EXPECT_EQ(contents.tensors[0].view.bytes().size(), 12U);
}

TEST(ReadAtb, ReadsASingleValueAndNotesBytesBehindIt) {
  const std::string file = File("dtype=9\ndims=\n", 9);
  TensorFileContents contents;
  ASSERT_TRUE(Read(file, contents).ok());
  EXPECT_TRUE(contents.tensors[0].view.shape.empty());
  EXPECT_THAT(contents.warnings, ::testing::ElementsAre("1 bytes after the tensor"));
}

TEST(ReadAtb, RefusesWhatDoesNotFit) {
  const auto message = [](const std::string& file) {
    TensorFileContents contents;
    const Status status = Read(file, contents);
    return status.ok() ? std::string("read") : std::string(status.message());
  };
  EXPECT_THAT(message(File("dtype=0\ndims=2,3\n", 23)), HasSubstr("24 bytes, but only 23"));
  EXPECT_THAT(message(File("dtype=0\ndims=9223372036854775807,9223372036854775807\n", 4)),
              ::testing::Not("read"));
  EXPECT_THAT(message(File("dtype=0\ndims=-1\n", 4)), HasSubstr("dims"));
  EXPECT_THAT(message(File("dtype=29\ndims=1\n", 4)), HasSubstr("aclDataType 29"));
  EXPECT_THAT(message(File("dtype=0\n", 4)), HasSubstr("dtype and dims are needed"));
  EXPECT_THAT(message(File("dtype=0\ndims=1\ndata=/etc/passwd\n", 4)),
              HasSubstr("which is not read"));
  EXPECT_THAT(message("$Version=1.0\ndtype=0\ndims=1\n"), HasSubstr("no line $End=1"));
  EXPECT_THAT(message("$Version=1.0\nnothing\n$End=1\n"), HasSubstr("is not a line key=value"));
}

}  // namespace
}  // namespace msprobe::io
