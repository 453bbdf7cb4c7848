#include "src/io/npy.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "src/io/contents.h"
#include "src/tensor/tensor_buffer.h"
#include "tests/unit/io/test_bytes.h"

namespace msprobe::io {
namespace {

using test_support::Bytes;
using test_support::MakeZip;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using namespace std::string_literals;  // NOLINT: texts with zero bytes

std::string Npy(const std::string& header, const std::string& data) {
  std::string out = "\x93NUMPY\x01\x00"s;
  test_support::PutLittle(out, static_cast<uint16_t>(header.size()));
  return out + header + data;
}

std::string ErrorOf(const std::string& header) {
  const Result<NpyHeader> parsed = ParseNpyHeader(Bytes(Npy(header, "")));
  return parsed.ok() ? "no error" : parsed.status().message();
}

TEST(NpyHeader, EveryWayToSpellItIsRead) {
  for (const std::string& header :
       {"{'descr': '<f4', 'fortran_order': False, 'shape': (2, 3), }\n"s,
        "{\"shape\":(2,3),\"fortran_order\":False,\"descr\":\"<f4\"}"s,
        "  { 'shape' : ( 2L , 3L , ) , 'descr' : '<f4' , 'fortran_order' : False , }  "s}) {
    const std::string bytes = Npy(header, "");
    const Result<NpyHeader> parsed = ParseNpyHeader(Bytes(bytes));
    ASSERT_TRUE(parsed.ok()) << parsed.status().message();
    EXPECT_EQ(parsed->descr, "<f4");
    EXPECT_FALSE(parsed->fortran_order);
    EXPECT_THAT(parsed->shape, ElementsAre(2, 3));
    EXPECT_EQ(parsed->data_offset, bytes.size());
  }
}

TEST(NpyHeader, AnythingButTheThreeLiteralsIsAnError) {
  EXPECT_THAT(ErrorOf("{'descr': '<f4', 'fortran_order': False}"), HasSubstr("are needed"));
  EXPECT_THAT(ErrorOf("{'descr': '<f4', 'descr': '<f4', 'fortran_order': False, 'shape': ()}"),
              HasSubstr("twice"));
  EXPECT_THAT(ErrorOf("{'descr': '<f4', 'fortran_order': 0, 'shape': ()}"),
              HasSubstr("True or False"));
  EXPECT_THAT(ErrorOf("{'descr': '<f4', 'fortran_order': False, 'shape': (2*3,)}"),
              HasSubstr("shape"));
  EXPECT_THAT(ErrorOf("{'descr': '<f4', 'fortran_order': False, 'shape': [2]}"),
              HasSubstr("tuple"));
  EXPECT_THAT(ErrorOf("{'descr': '<f4', 'fortran_order': False, 'shape': (99999999999999999999,)}"),
              HasSubstr("64 bits"));
  EXPECT_THAT(ErrorOf("{'descr': '<f4', 'fortran_order': False, 'shape': (), 'x': 1}"),
              HasSubstr("unknown key"));
  EXPECT_THAT(ErrorOf("{'descr': '<f4', 'fortran_order': False, 'shape': ()} + 1"),
              HasSubstr("follows"));
  EXPECT_THAT(ErrorOf("{'descr': '\\x3cf4', 'fortran_order': False, 'shape': ()}"),
              HasSubstr("plain quoted"));
  EXPECT_THAT(ErrorOf("{'descr': [('a', '<f4')], 'fortran_order': False, 'shape': ()}"),
              HasSubstr("structured"));
  EXPECT_THAT(ErrorOf("__import__('os')"), HasSubstr("dict"));
  EXPECT_THAT(ErrorOf(""), HasSubstr("dict"));
}

TEST(NpyHeader, EveryTruncationIsAnError) {
  const std::string bytes =
      Npy("{'descr': '<f4', 'fortran_order': False, 'shape': (1,), }\n", "1234");
  ASSERT_TRUE(ReadNpyArray(Bytes(bytes), false).ok());
  for (size_t size = 0; size < bytes.size(); ++size) {
    EXPECT_FALSE(ReadNpyArray(Bytes(bytes).first(size), false).ok()) << size;
  }
}

TEST(NpyDType, ByteOrdersAndUnsupportedTypesAreToldApart) {
  EXPECT_TRUE(ParseNumpyDType(">f4")->byte_swapped);
  EXPECT_FALSE(ParseNumpyDType("=f4")->byte_swapped);
  EXPECT_FALSE(ParseNumpyDType(">u1")->byte_swapped) << "one byte has no order";
  EXPECT_EQ(ParseNumpyDType("<c16")->dtype, DType::kComplex128);
  EXPECT_EQ(ParseNumpyDType("|V2", true)->dtype, DType::kBFloat16);
  EXPECT_EQ(ParseNumpyDType("|V2").status().code(), StatusCode::kUnsupported);
  for (const char* descr : {"<f16", "<U5", "|S3", "|O", "<M8[ns]", "<m8", "<f5"}) {
    EXPECT_EQ(ParseNumpyDType(descr).status().code(), StatusCode::kUnsupported) << descr;
  }
  for (const char* descr : {"", "<", "<x4", "4"}) {
    EXPECT_EQ(ParseNumpyDType(descr).status().code(), StatusCode::kBadFormat) << descr;
  }
}

TEST(NpyArray, FortranOrderIsAMatterOfStrides) {
  const std::string bytes =
      Npy("{'descr': '|u1', 'fortran_order': True, 'shape': (2, 3)}", "\x01\x02\x03\x04\x05\x06");
  const Result<TensorView> view = ReadNpyArray(Bytes(bytes), false);
  ASSERT_TRUE(view.ok()) << view.status().message();
  EXPECT_THAT(view->strides, ElementsAre(1, 2));
  std::vector<std::byte> row_major(6);
  tensor::CopyElements(*view, 0, 6, row_major.data());
  EXPECT_THAT(row_major, ElementsAre(std::byte{1}, std::byte{3}, std::byte{5}, std::byte{2},
                                     std::byte{4}, std::byte{6}));
}

TEST(NpyHeader, AShapeOfOneSizeHasItsComma) {
  EXPECT_THAT(ErrorOf("{'descr': '<f4', 'fortran_order': False, 'shape': (3)}"), HasSubstr("(3,)"));
}

TEST(NpyArray, HostileShapesDoNotOverflow) {
  const auto error = [](const std::string& shape) {
    return ReadNpyArray(
               Bytes(Npy("{'descr': '<f4', 'fortran_order': False, 'shape': (" + shape + ")}",
                         "12345678")),
               false)
        .status()
        .message();
  };
  EXPECT_THAT(error("4294967296, 4294967296"), HasSubstr("larger than any memory"));
  EXPECT_THAT(error("0, 4294967296, 4294967296"), HasSubstr("larger than any memory"))
      << "strides would overflow";
  EXPECT_THAT(error("-2,"), HasSubstr("negative"));
  EXPECT_THAT(error("3,"), HasSubstr("needs 12 bytes, there are 8"));
  EXPECT_EQ(error("0, 5"), "ok");
  std::string ones;
  for (int i = 0; i < 65; ++i) {
    ones += "1, ";
  }
  EXPECT_FALSE(
      ReadNpyArray(
          Bytes(Npy("{'descr': '<f4', 'fortran_order': False, 'shape': (" + ones + ")}", "1234")),
          false)
          .ok());
}

TEST(Npz, OneBadMemberLeavesTheOthersReadable) {
  const std::string good = Npy("{'descr': '|u1', 'fortran_order': False, 'shape': (3,)}", "abc");
  const std::string bytes = MakeZip({{.name = "a.npy", .content = good},
                                     {.name = "sub/b.npy", .content = good, .deflate = true},
                                     {.name = "c.npy", .content = "no array"},
                                     {.name = "d.npy", .content = good, .wrong_crc = true}});
  TensorFileContents contents;
  const Status status = ReadTensorBytes(Bytes(bytes), {}, contents);
  ASSERT_TRUE(status.ok()) << status.message();
  ASSERT_EQ(contents.tensors.size(), 4U);
  EXPECT_EQ(contents.tensors[1].name(), "sub/b");
  EXPECT_TRUE(contents.tensors[0].status.ok());
  EXPECT_TRUE(contents.tensors[1].status.ok());
  EXPECT_THAT(contents.tensors[2].status.message(), HasSubstr("c.npy"));
  EXPECT_THAT(contents.tensors[3].status.message(), HasSubstr("damaged"));
}

TEST(Npz, InflatedMembersTogetherAreLimited) {
  const std::string array =
      Npy("{'descr': '|u1', 'fortran_order': False, 'shape': (1000,)}", std::string(1000, 'x'));
  std::vector<test_support::TestMember> members;
  for (int i = 0; i < 6; ++i) {
    members.push_back({.name = std::to_string(i) + ".npy", .content = array, .deflate = true});
  }
  const std::string bytes = MakeZip(members);
  TensorFile::Options options;
  options.max_inflated_bytes = array.size();
  TensorFileContents contents;
  ASSERT_TRUE(ReadTensorBytes(Bytes(bytes), options, contents).ok());
  EXPECT_TRUE(contents.tensors[3].status.ok());
  EXPECT_EQ(contents.tensors[4].status.code(), StatusCode::kUnsupported);
}

}  // namespace
}  // namespace msprobe::io
