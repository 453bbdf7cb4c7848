#include <bit>
#include <cmath>
#include <cstring>
#include <string>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "src/io/contents.h"
#include "src/io/kernel_dump/dump_file.h"
#include "src/io/kernel_dump/format.h"
#include "src/io/kernel_dump/overflow_record.h"

namespace msprobe::io::kernel_dump {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

std::string Varint(uint64_t value) {
  std::string text;
  while (value >= 0x80) {
    text.push_back(static_cast<char>(value | 0x80U));
    value >>= 7U;
  }
  text.push_back(static_cast<char>(value));
  return text;
}
std::string Number(uint32_t field, uint64_t value) { return Varint(field << 3U) + Varint(value); }
std::string Counted(uint32_t field, const std::string& text) {
  return Varint(field << 3U | 2U) + Varint(text.size()) + text;
}
std::string ShapeMessage(const Shape& shape) {
  std::string packed;
  for (const int64_t size : shape) {
    packed += Varint(static_cast<uint64_t>(size));
  }
  return Counted(1, packed);
}
std::string Input(uint32_t type, const Shape& shape, uint64_t size) {
  return Counted(
      4, Number(1, type) + Number(2, 2) + Counted(3, ShapeMessage(shape)) + Number(5, size));
}
std::string File(const std::string& header, const std::string& data) {
  const uint64_t size = header.size();
  std::string text(8, '\0');
  std::memcpy(text.data(), &size, sizeof size);
  return text + header + data;
}
std::span<const std::byte> Bytes(const std::string& text) {
  return std::as_bytes(std::span(text.data(), text.size()));
}
std::string MessageOf(const std::string& file) {
  const Result<KernelDump> dump = ReadKernelDump(Bytes(file));
  return dump.ok() ? "read" : dump.status().message();
}

TEST(KernelDump, InputsComeFirstInTheDataAndSecondInTheHeader) {
  const std::string output =
      Counted(3, Number(1, 7) + Counted(3, ShapeMessage({1})) + Number(6, 4) +
                     Counted(7, ShapeMessage({1, 1})) + Number(8, 5));
  const std::string file =
      File(Counted(1, "2.0") + output + Input(3, {2}, 2) + Counted(6, "net/Add"), "abcdef");
  ASSERT_TRUE(LooksLikeKernelDump(Bytes(file)));
  const Result<KernelDump> dump = ReadKernelDump(Bytes(file));
  ASSERT_TRUE(dump.ok()) << dump.status().message();
  EXPECT_EQ(dump->op_name, "net/Add");
  ASSERT_EQ(dump->inputs.size(), 1U);
  ASSERT_EQ(dump->outputs.size(), 1U);
  EXPECT_EQ(static_cast<char>(dump->inputs[0].data[0]), 'a');
  EXPECT_EQ(static_cast<char>(dump->outputs[0].data[0]), 'c');
  EXPECT_EQ(dump->outputs[0].original_shape, (Shape{1, 1}));
  EXPECT_EQ(dump->outputs[0].groups(), 5U);
}

TEST(KernelDump, WhatLiesBehindTheEndIsMarkedAndTheRestIsRead) {
  const std::string file = File(Input(3, {2}, 2) + Input(3, {4}, 4) + Input(3, {1}, 1), "abcd");
  const Result<KernelDump> dump = ReadKernelDump(Bytes(file));
  ASSERT_TRUE(dump.ok());
  EXPECT_TRUE(dump->inputs[0].status.ok());
  EXPECT_THAT(dump->inputs[1].status.message(), HasSubstr("input 1: 4 bytes at byte"));
  EXPECT_FALSE(dump->inputs[2].status.ok());
  TensorFileContents contents;
  ASSERT_TRUE(ReadKernelDumpTensors(Bytes(file), {}, contents).ok());
  ASSERT_EQ(contents.tensors.size(), 3U);
  EXPECT_TRUE(contents.tensors[0].status.ok());
  EXPECT_FALSE(contents.tensors[1].status.ok());
}

TEST(KernelDump, HeadersThatLieAreRefused) {
  EXPECT_THAT(MessageOf("abc"), HasSubstr("a file of 3 bytes"));
  std::string longer = File("ab", "");
  longer[0] = 100;
  EXPECT_THAT(MessageOf(longer), HasSubstr("a header of 100 bytes in a file of 10"));
  EXPECT_THAT(MessageOf(File(std::string("\x22\x7f", 2), "")), HasSubstr("beyond the message"));
  EXPECT_THAT(MessageOf(File(Counted(4, Counted(3, std::string("\x0a\x05\x01", 3))), "")),
              HasSubstr("beyond the message"));
  const std::string many_axes = Counted(4, Counted(3, Counted(1, std::string(65, '\x01'))));
  EXPECT_THAT(MessageOf(File(many_axes, "")), HasSubstr("more than 64 sizes"));
  std::string many;
  for (size_t i = 0; i < kMostKernelTensors + 2; ++i) {
    many += std::string("\x22\x00", 2);
  }
  EXPECT_THAT(MessageOf(File(many, "")), HasSubstr("more than 65536"));
  EXPECT_FALSE(LooksLikeKernelDump(Bytes(File(std::string("\x0b", 1), ""))));
}

TEST(KernelDump, ShapesThatDoNotFitTheirBytesAreMarked) {
  DumpedTensor tensor;
  tensor.data_type = 1;
  tensor.shape = Shape{INT64_MAX, 4};
  EXPECT_FALSE(ToPlain(tensor, 1000).ok());
  tensor.shape = Shape{3};
  const std::string data(8, 'x');
  tensor.data = Bytes(data);
  EXPECT_THAT(ToPlain(tensor, 1000).status().message(), HasSubstr("needs 12 bytes, there are 8"));
  tensor.data_type = 1000;
  EXPECT_THAT(ToPlain(tensor, 1000).status().message(), HasSubstr("1000 is not known"));
  // Without sizes: as many as the bytes hold.
  tensor.data_type = 2;
  tensor.shape = std::nullopt;
  EXPECT_EQ(ToPlain(tensor, 1000)->view.shape, (Shape{4}));
  tensor.data_type = 29;  // bits
  EXPECT_EQ(ToPlain(tensor, 1000)->view.shape, (Shape{64}));
  EXPECT_FALSE(ToPlain(tensor, 63).ok());
}

std::vector<int> Unpacked(uint32_t number, const std::string& packed, uint64_t count) {
  const std::vector<std::byte> bytes = Unpack(*FindDataType(number), Bytes(packed), count);
  std::vector<int> values;
  for (const std::byte byte : bytes) {
    values.push_back(static_cast<int>(static_cast<int8_t>(byte)));
  }
  return values;
}
std::vector<double> Doubles(uint32_t number, const std::string& packed, uint64_t count) {
  const std::vector<std::byte> bytes = Unpack(*FindDataType(number), Bytes(packed), count);
  std::vector<double> values(count);
  std::memcpy(values.data(), bytes.data(), bytes.size());
  return values;
}

TEST(KernelDumpTypes, PackedIntegersAreUnpacked) {
  EXPECT_THAT(Unpacked(28, "\x8f\x71", 4), ElementsAre(-1, -8, 1, 7));        // INT4
  EXPECT_THAT(Unpacked(29, "\xa1", 8), ElementsAre(1, 0, 1, 0, 0, 0, 0, 1));  // UINT1
  EXPECT_THAT(Unpacked(30, "\xe4", 4), ElementsAre(0, 1, -2, -1));            // INT2
  EXPECT_THAT(Unpacked(31, "\xe4", 4), ElementsAre(0, 1, 2, 3));              // UINT2
}

TEST(KernelDumpTypes, SmallFloatsAreExact) {
  // E2M1 has 0, 0.5, 1, 1.5, 2, 3, 4, 6 and their negatives (OCP Microscaling Formats 1.0).
  EXPECT_THAT(Doubles(39, "\x10\x32\x54\x76\xf9", 10),
              ElementsAre(0, 0.5, 1, 1.5, 2, 3, 4, 6, -0.5, -6));
  EXPECT_THAT(Doubles(40, std::string("\x10\x72", 2), 4), ElementsAre(0, 0.25, 0.5, 1.75));
  // E3M2: largest 28, smallest 2^-4 * ... subnormal 1/16; E2M3: largest 7.5, smallest 1/8.
  EXPECT_THAT(Doubles(37, std::string("\x5f\x00\x00", 3), 2), ElementsAre(28, 0.0625));
  EXPECT_THAT(Doubles(38, std::string("\x5f\x00\x00", 3), 2), ElementsAre(7.5, 0.125));
  EXPECT_THAT(Doubles(36, std::string("\x7f\x80\x00", 3), 3),
              ElementsAre(1, 2, std::ldexp(1, -127)));
  EXPECT_TRUE(std::isnan(Doubles(36, "\xff", 1)[0]));
}

TEST(KernelDumpTypes, HiFloat8HasAWidthOfExponentForEveryMagnitude) {
  EXPECT_EQ(HiFloat8ToDouble(0), 0);
  EXPECT_TRUE(std::isnan(HiFloat8ToDouble(0x80)));
  EXPECT_EQ(HiFloat8ToDouble(0x6F), INFINITY);
  EXPECT_EQ(HiFloat8ToDouble(0xEF), -INFINITY);
  EXPECT_EQ(HiFloat8ToDouble(0x01), std::ldexp(1, -22));  // denormal
  EXPECT_EQ(HiFloat8ToDouble(0x08), 1);                   // no exponent: 1 + m / 8
  EXPECT_EQ(HiFloat8ToDouble(0x0F), 1.875);
  EXPECT_EQ(HiFloat8ToDouble(0x10), 2);    // one bit: exponent 1
  EXPECT_EQ(HiFloat8ToDouble(0x18), 0.5);  // exponent -1
  EXPECT_EQ(HiFloat8ToDouble(0x20), 4);    // two bits: exponents 2 and 3
  EXPECT_EQ(HiFloat8ToDouble(0xA8), -8);
  EXPECT_EQ(HiFloat8ToDouble(0x6E), std::ldexp(1, 15));  // the largest
}

TEST(KernelDumpNames, FieldsAreToldApart) {
  const std::optional<DumpFileName> name =
      ParseDumpFileName("MatMul.Default_mm-1.4.1.1700000000001004");
  ASSERT_TRUE(name);
  EXPECT_EQ(name->op_type, "MatMul");
  EXPECT_EQ(name->op_name, "Default_mm-1");
  EXPECT_EQ(name->task_id, 4U);
  EXPECT_EQ(name->stream_id, 1U);
  EXPECT_EQ(name->timestamp, 1700000000001004U);
  const std::optional<DumpFileName> old = ParseDumpFileName("Add.x.5.170");
  ASSERT_TRUE(old);
  EXPECT_FALSE(old->stream_id);
  EXPECT_EQ(old->timestamp, 170U);
  const std::optional<DumpFileName> whole = ParseDumpFileName("Add.x.5.1.170.4.2.3.0");
  ASSERT_TRUE(whole);
  EXPECT_EQ(whole->context_id, 2U);
  EXPECT_EQ(whole->thread_id, 3U);
  EXPECT_TRUE(ParseDumpFileName("Opdebug.Node_OpDebug.9.1.170")->is_overflow());
  EXPECT_FALSE(ParseDumpFileName("Add.x.5"));
  EXPECT_FALSE(ParseDumpFileName("Add.x.5.1.170.npy"));
  EXPECT_FALSE(ParseDumpFileName("Add.x y.5.1.170"));
  EXPECT_FALSE(ParseDumpFileName("Add.x.5.1.99999999999999999999"));
}

std::string Words(std::initializer_list<uint32_t> words, std::initializer_list<uint64_t> numbers) {
  std::string text;
  for (const uint32_t word : words) {
    text.append(reinterpret_cast<const char*>(&word), sizeof word);
  }
  for (const uint64_t number : numbers) {
    text.append(reinterpret_cast<const char*>(&number), sizeof number);
  }
  return text;
}

TEST(OverflowRecords, UnitsOfTheNewerLayoutHaveTheirOwnFields) {
  const std::string dma =
      Words({0x5A5A5A5A, 0, 1, 3, 0, 80}, {7, 1, 5, 3, 65535, 65535, 0x10, 0x20, 2, 9});
  const Result<OverflowRecord> record = ReadOverflowRecord(Bytes(dma));
  ASSERT_TRUE(record.ok());
  EXPECT_EQ(record->entries[0].unit, "SDMA");
  EXPECT_EQ(record->entries[0].Value("channel_id"), 2U);
  EXPECT_THAT(record->entries[0].status, ElementsAre(9U));
  EXPECT_THAT(OverflowJson(*record), HasSubstr("\"src_addr\": \"0x10\""));
  const std::string cpu = Words({0x5A5A5A5A, 0, 0, 2, 0, 1}, {7, 1, 5, 3, 1, 2, 3, 0});
  const Result<OverflowRecord> other = ReadOverflowRecord(Bytes(cpu));
  ASSERT_TRUE(other.ok());
  EXPECT_FALSE(other->entries[0].overflowed());
  EXPECT_EQ(other->warnings.size(), 2U);
}

TEST(OverflowRecords, ShortAndUnknownOnesAreToldApart) {
  EXPECT_FALSE(ReadOverflowRecord(Bytes(std::string(2047, '\0'))).ok());
  EXPECT_TRUE(ReadOverflowRecord(Bytes(std::string(2048, '\0'))).ok());
  EXPECT_FALSE(ReadOverflowRecord(Bytes(Words({0x5A5A5A5A, 0, 1, 0, 0, 88}, {1, 2}))).ok());
  const Result<OverflowRecord> unknown =
      ReadOverflowRecord(Bytes(Words({0x5A5A5A5A, 0, 1, 77, 0, 0}, {})));
  ASSERT_TRUE(unknown.ok());
  EXPECT_THAT(unknown->warnings, ElementsAre("unit 77 is not known"));
}

std::string NanoTensor(bool is_output, uint64_t size, const std::vector<uint64_t>& shape) {
  std::string text =
      is_output ? Words({1, 2, 0, 0, 1, 2}, {0, 0, size}) : Words({1, 2, 0}, {0, 0, size});
  const auto shape_bytes = static_cast<uint32_t>(shape.size() * 8);
  text += Words({shape_bytes + 8, 0, shape_bytes}, {});
  for (const uint64_t number : shape) {
    text += Words({}, {number});
  }
  return text;
}

TEST(NanoDumps, TensorsHaveTheTypesOfAcl) {
  const std::string input = NanoTensor(false, 4, {2});
  const std::string output = NanoTensor(true, 2, {1});
  std::string head =
      Words({0x5A5A5A5A, 1, 4, static_cast<uint32_t>(input.size() + 4), 1}, {}) + input;
  head += Words({5, static_cast<uint32_t>(output.size() + 4), 1}, {}) + output;
  const std::string file = File(head, "abcdef");
  ASSERT_TRUE(LooksLikeKernelDump(Bytes(file)));
  const Result<KernelDump> dump = ReadKernelDump(Bytes(file));
  ASSERT_TRUE(dump.ok()) << dump.status().message();
  EXPECT_TRUE(dump->is_nano);
  ASSERT_EQ(dump->inputs.size(), 1U);
  ASSERT_EQ(dump->outputs.size(), 1U);
  EXPECT_EQ(DataTypeName(dump->inputs[0].data_type), "FLOAT16");
  EXPECT_EQ(dump->inputs[0].shape, (Shape{2}));
  EXPECT_EQ(static_cast<char>(dump->outputs[0].data[0]), 'e');
  for (size_t size = 12; size < file.size(); ++size) {
    const std::string cut = file.substr(0, size);
    static_cast<void>(ReadKernelDump(Bytes(cut)));
  }
}

}  // namespace
}  // namespace msprobe::io::kernel_dump
