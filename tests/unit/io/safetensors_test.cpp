#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "src/io/contents.h"
#include "tests/unit/io/test_bytes.h"

namespace msprobe::io {
namespace {

using test_support::Bytes;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

// The views point into bytes that are gone: only names, shapes and errors may be looked at.
struct ParsedSafetensors {
  TensorFileContents contents;
  Status status;
};

ParsedSafetensors ParseSafetensors(const std::string& header, size_t data_bytes) {
  std::string bytes;
  test_support::PutLittle<uint64_t>(bytes, header.size());
  bytes += header;
  bytes.append(data_bytes, 'x');
  ParsedSafetensors parsed;
  parsed.status = ReadSafetensors(Bytes(bytes), parsed.contents);
  return parsed;
}

std::string SafetensorsErrorOf(const std::string& header, size_t data_bytes = 8) {
  return ParseSafetensors(header, data_bytes).status.message();
}

TEST(Safetensors, TensorsKeepHeaderOrderAndMayLieInAnyOrder) {
  const ParsedSafetensors parsed = ParseSafetensors(
      R"({"b":{"dtype":"F32","shape":[1],"data_offsets":[4,8]},"a":{"data_offsets":[0,4],"shape":[2,1],"dtype":"BF16"}}  )",
      8);
  ASSERT_TRUE(parsed.status.ok()) << parsed.status.message();
  ASSERT_EQ(parsed.contents.tensors.size(), 2U);
  EXPECT_EQ(parsed.contents.tensors[0].name(), "b");
  EXPECT_EQ(parsed.contents.tensors[1].view.dtype, DType::kBFloat16);
  EXPECT_THAT(parsed.contents.tensors[1].view.shape, ElementsAre(2, 1));
}

TEST(Safetensors, MetadataIsListedAsPlainValues) {
  const ParsedSafetensors parsed =
      ParseSafetensors(R"({"__metadata__":{"format":"pt","x":"y"}})", 0);
  ASSERT_TRUE(parsed.status.ok()) << parsed.status.message();
  ASSERT_EQ(parsed.contents.scalars.size(), 2U);
  EXPECT_THAT(parsed.contents.scalars[0].path, ElementsAre("__metadata__", "format"));
  EXPECT_EQ(parsed.contents.scalars[0].text, "pt");
}

TEST(Safetensors, EmptyAndScalarTensorsAreFine) {
  const ParsedSafetensors parsed = ParseSafetensors(
      R"({"e":{"dtype":"F32","shape":[0,7],"data_offsets":[0,0]},"s":{"dtype":"I64","shape":[],"data_offsets":[0,8]}})",
      8);
  ASSERT_TRUE(parsed.status.ok()) << parsed.status.message();
  EXPECT_EQ(parsed.contents.tensors[1].view.element_count(), 1);
}

TEST(Safetensors, ElementsWithoutADTypeHereAreBytes) {
  const auto read = [](std::string_view dtype, std::string_view shape, int bytes) {
    return ParseSafetensors(
        fmt::format(
            R"({{"__metadata__":null,"w":{{"dtype":"{}","shape":[{}],"data_offsets":[0,{}]}}}})",
            dtype, shape, bytes),
        static_cast<size_t>(bytes));
  };
  const ParsedSafetensors f4 = read("F4", "4,16", 32);
  ASSERT_TRUE(f4.status.ok()) << f4.status.message();
  EXPECT_EQ(f4.contents.tensors[0].raw_dtype, "F4");
  EXPECT_EQ(f4.contents.tensors[0].view.dtype, DType::kUInt8);
  EXPECT_THAT(f4.contents.tensors[0].view.shape, ElementsAre(32));
  const ParsedSafetensors f6 = read("F6_E3M2", "4", 3);
  ASSERT_TRUE(f6.status.ok()) << f6.status.message();
  EXPECT_THAT(f6.contents.tensors[0].view.shape, ElementsAre(3));
  const ParsedSafetensors scales = read("F8_E8M0", "2,4", 8);
  ASSERT_TRUE(scales.status.ok()) << scales.status.message();
  EXPECT_THAT(scales.contents.tensors[0].view.shape, ElementsAre(2, 4));
  EXPECT_THAT(read("F4", "4,16", 31).status.message(), HasSubstr("needs 32 bytes"));
  EXPECT_THAT(read("F4", "3", 2).status.message(), HasSubstr("do not fill whole bytes"));
  EXPECT_THAT(read("F6_E2M3", "4,9223372036854775807", 3).status.message(), HasSubstr("w"));
}

TEST(Safetensors, RangesMustTileTheData) {
  const auto two = [](int begin) {
    return R"({"a":{"dtype":"U8","shape":[4],"data_offsets":[0,4]},"b":{"dtype":"U8","shape":[2],"data_offsets":[)" +
           std::to_string(begin) + "," + std::to_string(begin + 2) + "]}}";
  };
  EXPECT_THAT(SafetensorsErrorOf(two(2)), HasSubstr("overlap at byte 2"));
  EXPECT_THAT(SafetensorsErrorOf(two(6)), HasSubstr("hole at byte 4"));
  const ParsedSafetensors rest = ParseSafetensors(two(4), 8);
  EXPECT_TRUE(rest.status.ok()) << rest.status.message();
  EXPECT_THAT(rest.contents.warnings, ElementsAre("2 bytes after the last tensor"));
}

TEST(Safetensors, EveryOffenceOfTheHeaderIsNamed) {
  EXPECT_THAT(SafetensorsErrorOf(R"({"a":{"dtype":"U8","shape":[8]}})"),
              HasSubstr("needs dtype, shape"));
  EXPECT_THAT(SafetensorsErrorOf(R"({"a":{"dtype":"U8","shape":[8],"data_offsets":[0,8,9]}})"),
              HasSubstr("needs dtype, shape"));
  EXPECT_THAT(
      SafetensorsErrorOf(R"({"a":{"dtype":"U8","dtype":"U8","shape":[8],"data_offsets":[0,8]}})"),
      HasSubstr("field twice"));
  EXPECT_THAT(SafetensorsErrorOf(R"({"a":{"kind":1}})"), HasSubstr("unknown field"));
  EXPECT_THAT(SafetensorsErrorOf(R"({"a":1})"), HasSubstr("unexpected place"));
  EXPECT_THAT(SafetensorsErrorOf(R"({"a":{"dtype":"U8","shape":[8.5],"data_offsets":[0,8]}})"),
              HasSubstr("unexpected place"));
  EXPECT_THAT(SafetensorsErrorOf(R"({"a":{"dtype":"U8","shape":[[8]],"data_offsets":[0,8]}})"),
              HasSubstr("unexpected place"));
  EXPECT_THAT(SafetensorsErrorOf(
                  R"({"a":{"dtype":"U8","shape":[8],"data_offsets":[0,18446744073709551616]}})"),
              HasSubstr("64-bit"));
  EXPECT_THAT(SafetensorsErrorOf(R"({"a":{"dtype":"U8","shape":[8],"data_offsets":[-8,0]}})"),
              HasSubstr("not in the data"));
  EXPECT_THAT(SafetensorsErrorOf(R"({"a":{"dtype":"U8","shape":[8],"data_offsets":[0,8]}} x)"),
              HasSubstr("header"));
  EXPECT_THAT(SafetensorsErrorOf("{"), HasSubstr("header"));
}

TEST(Safetensors, AHeaderThatIsNotUtf8IsRefused) {
  EXPECT_THAT(
      SafetensorsErrorOf("{\"\xff\":{\"dtype\":\"U8\",\"shape\":[8],\"data_offsets\":[0,8]}}"),
      HasSubstr("not UTF-8"));
}

TEST(Safetensors, ATruncatedFileKeepsWhatLiesBeforeTheCut) {
  const ParsedSafetensors parsed = ParseSafetensors(
      R"({"a":{"dtype":"F32","shape":[2],"data_offsets":[0,8]},"b":{"dtype":"F32","shape":[2],"data_offsets":[8,16]}})",
      12);
  ASSERT_TRUE(parsed.status.ok()) << parsed.status.message();
  ASSERT_EQ(parsed.contents.tensors.size(), 2U);
  EXPECT_TRUE(parsed.contents.tensors[0].status.ok());
  EXPECT_THAT(parsed.contents.tensors[1].status.message(), HasSubstr("not in the data of 12"));
  EXPECT_THAT(parsed.contents.tensors[1].view.shape, ElementsAre(2));
  EXPECT_EQ(parsed.contents.tensors[1].view.data, nullptr);
  EXPECT_THAT(parsed.contents.warnings, ElementsAre(HasSubstr("4 bytes are missing")));
}

}  // namespace
}  // namespace msprobe::io
