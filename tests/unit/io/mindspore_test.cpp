#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "src/io/contents.h"
#include "src/tensor/tensor_buffer.h"
#include "tests/unit/io/test_bytes.h"
#include "tests/unit/io/test_mindspore.h"

namespace msprobe::io {
namespace {

using test_support::Bytes;
using test_support::Counted;
using test_support::MindSporeValue;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

struct Parsed {
  std::string bytes;  // what the views borrow from
  TensorFileContents contents;
  Status status;
};

std::unique_ptr<Parsed> Parse(std::string bytes, bool gather = true,
                              uint64_t limit_bytes = 1 << 20) {
  auto parsed = std::make_unique<Parsed>();
  parsed->bytes = std::move(bytes);
  TensorFile::Options options;
  options.gather_slices = gather;
  options.max_inflated_bytes = limit_bytes;
  parsed->status = ReadTensorBytes(Bytes(parsed->bytes), options, parsed->contents);
  return parsed;
}

TEST(MindSpore, ListsParametersInFileOrder) {
  const auto parsed = Parse(MindSporeValue("b", {2, 1}, "Int16", "abcd") +
                            MindSporeValue("a", {}, "Float64", "12345678"));
  ASSERT_TRUE(parsed->status.ok()) << parsed->status.message();
  EXPECT_EQ(parsed->contents.format, TensorFileFormat::kMindSpore);
  ASSERT_EQ(parsed->contents.tensors.size(), 2U);
  EXPECT_EQ(parsed->contents.tensors[0].name(), "b");
  EXPECT_THAT(parsed->contents.tensors[0].view.shape, ElementsAre(2, 1));
  EXPECT_EQ(parsed->contents.tensors[1].view.dtype, DType::kFloat64);
  EXPECT_TRUE(parsed->contents.tensors[1].view.shape.empty());
}

TEST(MindSpore, AScalarMayBeStoredAsOneEmptyDimension) {
  const auto parsed = Parse(MindSporeValue("step", {0}, "Int32", "abcd") +
                            MindSporeValue("none", {0}, "Int32", ""));
  ASSERT_TRUE(parsed->status.ok()) << parsed->status.message();
  EXPECT_TRUE(parsed->contents.tensors[0].view.shape.empty());
  EXPECT_THAT(parsed->contents.tensors[1].view.shape, ElementsAre(0));
}

TEST(MindSpore, PackedDimensionsAreAccepted) {
  const std::string tensor = Counted(1, "\x02\x03") + Counted(2, "Int8") + Counted(3, "abcdef");
  const auto parsed = Parse(Counted(1, Counted(1, "w") + Counted(2, tensor)));
  ASSERT_TRUE(parsed->status.ok()) << parsed->status.message();
  EXPECT_THAT(parsed->contents.tensors[0].view.shape, ElementsAre(2, 3));
}

TEST(MindSpore, UnknownFieldsAreSkipped) {
  const std::string unknown = std::string("\x48\x96\x01", 3) + Counted(10, "later versions") +
                              std::string("\x5d\1\2\3\4", 5) +
                              std::string("\x61\1\2\3\4\5\6\7\0", 9);
  const auto parsed = Parse(MindSporeValue("w", {1}, "Int8", "x", unknown) + unknown);
  ASSERT_TRUE(parsed->status.ok()) << parsed->status.message();
  EXPECT_EQ(parsed->contents.tensors.size(), 1U);
}

TEST(MindSpore, GroupsAreRefused) {
  const auto parsed = Parse(MindSporeValue("w", {1}, "Int8", "x") + "\x0b");
  EXPECT_THAT(parsed->status.message(), HasSubstr("wire type 3"));
}

TEST(MindSpore, SlicesOfOneNameAreJoinedInFileOrder) {
  const std::string bytes = MindSporeValue("w", {3, 2}, "Int8", "abc") +
                            MindSporeValue("other", {1}, "Int8", "x") +
                            MindSporeValue("w", {3, 2}, "Int8", "def");
  const auto joined = Parse(bytes);
  ASSERT_TRUE(joined->status.ok()) << joined->status.message();
  ASSERT_EQ(joined->contents.tensors.size(), 2U);
  const std::span<const std::byte> content = joined->contents.tensors[0].view.bytes();
  EXPECT_EQ(std::string(reinterpret_cast<const char*>(content.data()), content.size()), "abcdef");

  const auto apart = Parse(bytes, false);
  ASSERT_EQ(apart->contents.tensors[0].slices.size(), 2U);
  EXPECT_EQ(apart->contents.tensors[0].view.data, nullptr);
  EXPECT_TRUE(apart->contents.inflated.empty());
}

TEST(MindSpore, SlicesAreJoinedOnlyUpToTheLimit) {
  const auto parsed =
      Parse(MindSporeValue("w", {4}, "Int8", "ab") + MindSporeValue("w", {4}, "Int8", "cd") +
                MindSporeValue("small", {1}, "Int8", "x"),
            true, 3);
  ASSERT_TRUE(parsed->status.ok()) << parsed->status.message();
  EXPECT_EQ(parsed->contents.tensors[0].status.code(), StatusCode::kUnsupported);
  EXPECT_TRUE(parsed->contents.tensors[1].status.ok());
}

TEST(MindSpore, SlicesThatDisagreeAreNotJoined) {
  const auto parsed =
      Parse(MindSporeValue("w", {4}, "Int8", "ab") + MindSporeValue("w", {5}, "Int8", "cd") +
            MindSporeValue("good", {1}, "Int8", "x"));
  ASSERT_TRUE(parsed->status.ok()) << parsed->status.message();
  EXPECT_THAT(parsed->contents.tensors[0].status.message(), HasSubstr("disagree"));
}

TEST(MindSpore, TextsAreListedAsPlainValues) {
  const auto parsed = Parse(MindSporeValue("w", {1}, "Int8", "x") +
                            MindSporeValue("append_info", {5}, "str", "hello"));
  ASSERT_TRUE(parsed->status.ok()) << parsed->status.message();
  ASSERT_EQ(parsed->contents.scalars.size(), 1U);
  EXPECT_EQ(parsed->contents.scalars[0].text, "hello");
  EXPECT_EQ(parsed->contents.tensors.size(), 1U);
}

TEST(MindSpore, UnreadableParametersDoNotSpoilTheOthers) {
  const auto parsed =
      Parse(MindSporeValue("good", {1}, "Int8", "x") + MindSporeValue("short", {2}, "Int8", "x") +
            MindSporeValue("odd", {1}, "Int4", "x") +
            MindSporeValue("huge", {INT64_MAX, INT64_MAX}, "Int8", "x") +
            Counted(1, Counted(1, "table") + Counted(3, "")));
  ASSERT_TRUE(parsed->status.ok()) << parsed->status.message();
  ASSERT_EQ(parsed->contents.tensors.size(), 5U);
  EXPECT_TRUE(parsed->contents.tensors[0].status.ok());
  EXPECT_THAT(parsed->contents.tensors[1].status.message(), HasSubstr("needs 2 bytes"));
  EXPECT_THAT(parsed->contents.tensors[2].status.message(), HasSubstr("Int4"));
  EXPECT_EQ(parsed->contents.tensors[3].status.code(), StatusCode::kBadFormat);
  EXPECT_EQ(parsed->contents.tensors[4].status.code(), StatusCode::kUnsupported);
}

TEST(MindSpore, ATruncatedFileKeepsWhatLiesBeforeTheCut) {
  const std::string first = MindSporeValue("first", {4}, "Int8", "abcd");
  const std::string whole = first + MindSporeValue("second", {4}, "Int8", "efgh");
  for (size_t size = first.size() + 1; size < whole.size(); ++size) {
    SCOPED_TRACE(size);
    const auto parsed = Parse(whole.substr(0, size));
    ASSERT_TRUE(parsed->status.ok()) << parsed->status.message();
    EXPECT_FALSE(parsed->contents.warnings.empty());
    ASSERT_GE(parsed->contents.tensors.size(), 1U);
    EXPECT_TRUE(parsed->contents.tensors[0].status.ok());
    if (parsed->contents.tensors.size() > 1) {
      EXPECT_THAT(parsed->contents.tensors[1].status.message(), HasSubstr("the file ends"));
    }
  }
}

TEST(MindSpore, TheChecksumAtTheEndIsNoValue) {
  const auto parsed =
      Parse(MindSporeValue("w", {1}, "Int8", "x") + "crc_num" + std::string(10, '\x01'));
  ASSERT_TRUE(parsed->status.ok()) << parsed->status.message();
  EXPECT_EQ(parsed->contents.tensors.size(), 1U);
}

TEST(MindSpore, AFileWithNothingReadableIsAnError) {
  const auto parsed = Parse(MindSporeValue("w", {10}, "Float32", "12345678"));
  EXPECT_THAT(parsed->status.message(), HasSubstr("needs 40 bytes"));
}

}  // namespace
}  // namespace msprobe::io
