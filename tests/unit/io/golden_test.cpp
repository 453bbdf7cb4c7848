// Every file of tests/data/formats against what expected.json says about it.
#include <algorithm>
#include <bit>
#include <cmath>
#include <filesystem>
#include <limits>
#include <string>
#include <vector>

#include <fmt/format.h>
#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include "msprobe/tensor_file.h"

#include "src/base/strings.h"
#include "src/io/contents.h"
#include "src/io/zip.h"
#include "src/json/config.h"
#include "src/kernels/sha256.h"
#include "src/tensor/float_bits.h"
#include "src/tensor/tensor_buffer.h"
#include "tests/unit/support/temporary_folder.h"

namespace msprobe {
namespace {

using json::Json;

std::string FormatsFolder() { return std::string(MSPROBE_TEST_DATA) + "/formats/"; }

Json Load(const std::string& path) {
  const Result<json::Config> config = json::LoadJsonConfig(path);
  EXPECT_TRUE(config.ok()) << config.status().message();
  return config.ok() ? config->root() : Json();
}

const Json& Expected() {
  static const Json expected = Load(FormatsFolder() + "expected.json");
  return expected;
}

const Json& ExpectedOfBad() {
  static const Json expected = Load(FormatsFolder() + "bad/expected.json");
  return expected;
}

// A member that must be there.
const Json& Member(const Json& object, std::string_view key) {
  static const Json missing;
  const Json* member = json::Find(object, key);
  EXPECT_NE(member, nullptr) << key;
  return member != nullptr ? *member : missing;
}

std::vector<std::string> KeysOf(const Json& object) {
  std::vector<std::string> keys;
  for (const auto& [key, value] : object.items()) {
    keys.push_back(key);
  }
  return keys;
}

// One scalar of contiguous little-endian data: real and imaginary part.
std::pair<double, double> ElementAt(DType dtype, const std::byte* bytes) {
  using io::LoadLittle;
  const auto as_double = [](const std::byte* at) {
    return std::bit_cast<double>(LoadLittle<uint64_t>(at));
  };
  const auto as_float = [](const std::byte* at) {
    return static_cast<double>(std::bit_cast<float>(LoadLittle<uint32_t>(at)));
  };
  const auto byte = std::to_integer<uint8_t>(*bytes);
  switch (dtype) {
    case DType::kFloat64:
      return {as_double(bytes), 0};
    case DType::kFloat32:
      return {as_float(bytes), 0};
    case DType::kFloat16:
      return {tensor::Float16ToFloat(LoadLittle<uint16_t>(bytes)), 0};
    case DType::kBFloat16:
      return {tensor::BFloat16ToFloat(LoadLittle<uint16_t>(bytes)), 0};
    case DType::kFloat8E4M3FN:
      return {tensor::Float8E4M3FNToFloat(byte), 0};
    case DType::kFloat8E5M2:
      return {tensor::Float8E5M2ToFloat(byte), 0};
    case DType::kFloat8E4M3FNUZ:
      return {tensor::Float8E4M3FNUZToFloat(byte), 0};
    case DType::kFloat8E5M2FNUZ:
      return {tensor::Float8E5M2FNUZToFloat(byte), 0};
    case DType::kInt64:
      return {static_cast<double>(LoadLittle<int64_t>(bytes)), 0};
    case DType::kInt32:
      return {LoadLittle<int32_t>(bytes), 0};
    case DType::kInt16:
      return {LoadLittle<int16_t>(bytes), 0};
    case DType::kInt8:
      return {LoadLittle<int8_t>(bytes), 0};
    case DType::kUInt64:
      return {static_cast<double>(LoadLittle<uint64_t>(bytes)), 0};
    case DType::kUInt32:
      return {LoadLittle<uint32_t>(bytes), 0};
    case DType::kUInt16:
      return {LoadLittle<uint16_t>(bytes), 0};
    case DType::kUInt8:
      return {byte, 0};
    case DType::kBool:
      return {byte, 0};
    case DType::kComplex64:
      return {as_float(bytes), as_float(bytes + 4)};
    case DType::kComplex128:
      return {as_double(bytes), as_double(bytes + 8)};
  }
  return {0, 0};
}

double NumberOf(const Json& value) {
  if (value.is_string()) {
    const std::string text = json::TextOf(value);
    const double infinity = std::numeric_limits<double>::infinity();
    return text == "inf"    ? infinity
           : text == "-inf" ? -infinity
                            : std::numeric_limits<double>::quiet_NaN();
  }
  return value.is_boolean() ? (json::BoolOf(value) ? 1 : 0) : json::NumberOf(value);
}

void ExpectSame(double actual, const Json& expected) {
  const double number = NumberOf(expected);
  if (std::isnan(number)) {
    EXPECT_TRUE(std::isnan(actual));
  } else {
    EXPECT_EQ(actual, number);
    EXPECT_EQ(std::signbit(actual), std::signbit(number));
  }
}

void ExpectElements(DType dtype, std::span<const std::byte> bytes, const Json& expected) {
  const size_t element_bytes = DTypeSize(dtype);
  ASSERT_LE(expected.size() * element_bytes, bytes.size());
  for (size_t i = 0; i < expected.size(); ++i) {
    SCOPED_TRACE(i);
    const auto [real, imaginary] = ElementAt(dtype, bytes.data() + i * element_bytes);
    const bool complex = expected[i].is_array();
    ExpectSame(real, complex ? expected[i][0] : expected[i]);
    if (complex) {
      ExpectSame(imaginary, expected[i][1]);
    }
  }
}

Shape ShapeOf(const Json& sizes) {
  Shape shape;
  for (const Json& size : sizes) {
    shape.push_back(json::IntOf(size));
  }
  return shape;
}

const NamedTensor* FindTensor(const TensorFile& file, const Json& path) {
  std::vector<std::string> wanted;
  for (const Json& part : path) {
    wanted.push_back(part.is_string() ? json::TextOf(part) : std::to_string(json::IntOf(part)));
  }
  for (const NamedTensor& tensor : file.tensors()) {
    if (tensor.path == wanted) {
      return &tensor;
    }
  }
  return nullptr;
}

void ExpectSum(DType dtype, std::span<const std::byte> bytes, const Json& expected) {
  double real = 0;
  double imaginary = 0;
  for (size_t at = 0; at < bytes.size(); at += DTypeSize(dtype)) {
    const auto [r, i] = ElementAt(dtype, bytes.data() + at);
    real += r;
    imaginary += i;
  }
  // Recorded exactly: doubles would round sums of large integers.
  if (dtype == DType::kInt64) {
    uint64_t sum = 0;
    for (size_t at = 0; at < bytes.size(); at += sizeof sum) {
      sum += io::LoadLittle<uint64_t>(bytes.data() + at);
    }
    EXPECT_EQ(static_cast<int64_t>(sum), json::IntOf(expected));
    return;
  }
  const Json& expected_real = expected.is_array() ? expected[0] : expected;
  const double number = NumberOf(expected_real);
  if (std::isnan(number)) {
    EXPECT_TRUE(std::isnan(real));
  } else if (std::isinf(number)) {
    EXPECT_EQ(real, number);
  } else {
    EXPECT_NEAR(real, number, std::abs(number) * 1e-12);
  }
  if (expected.is_array()) {
    EXPECT_NEAR(imaginary, json::NumberOf(expected[1]), 1e-9);
  }
}

void ExpectTensor(const TensorFile& file, const Json& expected) {
  const NamedTensor* tensor = FindTensor(file, Member(expected, "path"));
  ASSERT_NE(tensor, nullptr);
  ASSERT_TRUE(tensor->status.ok()) << tensor->status.message();
  const TensorView& view = tensor->view;
  const std::string dtype = json::TextOf(Member(expected, "dtype"));
  EXPECT_EQ(DTypeName(view.dtype), dtype == "void16" ? "bfloat16" : dtype);
  EXPECT_EQ(view.shape, ShapeOf(Member(expected, "shape")));
  if (json::Find(expected, "stride") != nullptr) {
    EXPECT_EQ(view.strides, ShapeOf(Member(expected, "stride")));
  }
  constexpr size_t kLimitBytes = 1 << 20;
  const Result<tensor::TensorBuffer> contiguous = tensor::MakeContiguous(view, kLimitBytes);
  ASSERT_TRUE(contiguous.ok()) << contiguous.status().message();
  const std::span<const std::byte> bytes = contiguous->view().bytes();
  if (json::Find(expected, "numel") != nullptr) {
    EXPECT_EQ(view.element_count(), json::IntOf(Member(expected, "numel")));
  }
  if (json::Find(expected, "sha256_le_contiguous") != nullptr) {
    kernels::Sha256 sha256;
    sha256.Add(bytes);
    std::string digest;
    for (const std::byte byte : sha256.Finish()) {
      digest += fmt::format("{:02x}", std::to_integer<int>(byte));
    }
    EXPECT_EQ(digest, json::TextOf(Member(expected, "sha256_le_contiguous")));
  }
  for (const char* values : {"first", "all_values", "first_bf16_hint"}) {
    if (json::Find(expected, values) != nullptr) {
      SCOPED_TRACE(values);
      ExpectElements(view.dtype, bytes, Member(expected, values));
    }
  }
  if (json::Find(expected, "sum") != nullptr) {
    ExpectSum(view.dtype, bytes, Member(expected, "sum"));
  }
}

std::string AsPathText(const Json& path) {
  std::string text;
  for (const Json& part : path) {
    text.push_back('/');
    text += part.is_string() ? json::TextOf(part) : std::to_string(json::IntOf(part));
  }
  return text;
}

std::string TestName(const ::testing::TestParamInfo<std::string>& info) {
  std::string name = info.param;
  std::replace_if(
      name.begin(), name.end(),
      [](char c) { return std::isalnum(static_cast<unsigned char>(c)) == 0; }, '_');
  return name;
}

TensorFileFormat FormatCalled(const std::string& name) {
  return name == "pt-zip"           ? TensorFileFormat::kPtZip
         : name == "pt-legacy"      ? TensorFileFormat::kPtLegacy
         : name == "npy"            ? TensorFileFormat::kNpy
         : name == "npz"            ? TensorFileFormat::kNpz
         : name == "mindspore-ckpt" ? TensorFileFormat::kMindSpore
                                    : TensorFileFormat::kSafetensors;
}

class GoldenFile : public ::testing::TestWithParam<std::string> {
 protected:
  // Both ways to open: read into a buffer, mapped.
  static void ExpectFile(const Json& expected, std::vector<std::byte>* scratch) {
    TensorFile::Options options;
    options.scratch = scratch;
    options.void16_is_bfloat16 = true;
    const Result<TensorFile> file = TensorFile::Open(FormatsFolder() + GetParam(), options);
    if (json::TextOf(Member(expected, "format")) == "npy-unsupported") {
      ASSERT_FALSE(file.ok());
      EXPECT_EQ(file.status().code(), StatusCode::kUnsupported) << file.status().message();
      return;
    }
    ASSERT_TRUE(file.ok()) << file.status().message();
    EXPECT_EQ(file->format(), FormatCalled(json::TextOf(Member(expected, "format"))));
    for (const char* list : {"tensors", "inert_tensors", "numpy"}) {
      if (json::Find(expected, list) != nullptr) {
        for (const Json& tensor : Member(expected, list)) {
          SCOPED_TRACE(AsPathText(Member(tensor, "path")));
          ExpectTensor(*file, tensor);
        }
      }
    }
    if (json::Find(expected, "tensor_count") != nullptr) {
      EXPECT_EQ(file->tensors().size(),
                static_cast<size_t>(json::IntOf(Member(expected, "tensor_count"))));
    }
  }
};

TEST_P(GoldenFile, HoldsWhatIsExpectedHoweverItIsOpened) {
  const Json& expected = Member(Expected(), GetParam());
  std::vector<std::byte> scratch;
  ExpectFile(expected, &scratch);
  ExpectFile(expected, nullptr);
}

std::vector<std::string> ReadableFiles() {
  std::vector<std::string> files;
  for (const std::string& key : KeysOf(Expected())) {
    if (key.starts_with("pt/") || key.starts_with("npy/") || key.starts_with("safetensors/") ||
        key.starts_with("mindspore/")) {
      files.push_back(key);
    }
  }
  return files;
}

INSTANTIATE_TEST_SUITE_P(Formats, GoldenFile, ::testing::ValuesIn(ReadableFiles()), TestName);

class BadFile : public ::testing::TestWithParam<std::string> {};

// The first reason why something in the file cannot be used, if there is one.
Status WorstOf(const Result<TensorFile>& file) {
  if (!file.ok()) {
    return file.status();
  }
  for (const NamedTensor& tensor : file->tensors()) {
    if (!tensor.status.ok()) {
      return tensor.status;
    }
  }
  return {};
}

bool SomethingWasExecuted() {
  for (const auto& entry :
       std::filesystem::directory_iterator(std::filesystem::temp_directory_path())) {
    if (entry.path().filename().string().starts_with("msprobe_pwned_")) {
      return true;
    }
  }
  return false;
}

TEST_P(BadFile, IsAnsweredAsItMustBe) {
  const std::string must = json::TextOf(Member(Member(ExpectedOfBad(), GetParam()), "must"));
  const Result<TensorFile> file = TensorFile::Open(FormatsFolder() + "bad/" + GetParam());
  const Status worst = WorstOf(file);
  if (must == "error") {
    EXPECT_FALSE(worst.ok());
  } else if (must == "ok") {
    EXPECT_TRUE(worst.ok()) << worst.message();
  }
  if (!worst.ok()) {
    EXPECT_FALSE(worst.message().empty());
    EXPECT_TRUE(worst.code() == StatusCode::kBadFormat || worst.code() == StatusCode::kUnsupported);
  }
  if (!file.ok()) {
    EXPECT_NE(file.status().message().find(GetParam()), std::string::npos)
        << "the message names the file";
  }
  if (must == "error_or_lazy" && worst.ok()) {
    for (const NamedTensor& tensor : file->tensors()) {
      EXPECT_FALSE(tensor::MakeContiguous(tensor.view, size_t{1} << 30U).ok());
    }
  }
  EXPECT_FALSE(SomethingWasExecuted());
}

std::vector<std::string> BadTensorFiles() {
  std::vector<std::string> files;
  for (const std::string& key : KeysOf(ExpectedOfBad())) {
    for (const char* suffix : {".pt", ".npy", ".npz", ".safetensors", ".ckpt"}) {
      if (key.ends_with(suffix)) {
        files.push_back(key);
      }
    }
  }
  return files;
}

INSTANTIATE_TEST_SUITE_P(Hostile, BadFile, ::testing::ValuesIn(BadTensorFiles()), TestName);

TEST(BadArchives, MembersThatWouldLeaveTheFolderAreNotSafeToExtract) {
  for (const std::string name :
       {"slip_dotdot.zip", "slip_absolute.zip", "slip_symlink.zip", "slip_backslash.zip"}) {
    SCOPED_TRACE(name);
    const std::string bytes = test_support::Slurp(FormatsFolder() + "bad/" + name);
    const Result<io::ZipArchive> archive = io::ZipArchive::Open(std::as_bytes(std::span(bytes)));
    ASSERT_TRUE(archive.ok()) << archive.status().message();
    EXPECT_TRUE(std::any_of(archive->entries().begin(), archive->entries().end(),
                            [](const io::ZipEntry& entry) { return !entry.IsSafeToExtract(); }));
  }
}

TEST(BadArchives, ThousandsOfMembersAreFoundByName) {
  const std::string bytes = test_support::Slurp(FormatsFolder() + "bad/bomb_many.zip");
  const Result<io::ZipArchive> archive = io::ZipArchive::Open(std::as_bytes(std::span(bytes)));
  ASSERT_TRUE(archive.ok()) << archive.status().message();
  ASSERT_GE(archive->entries().size(), 3000U);
  for (const io::ZipEntry& entry : archive->entries()) {
    EXPECT_NE(archive->Find(entry.name), nullptr);
  }
}

TEST(GoldenParameters, KeepTheirRequestForGradients) {
  const Result<TensorFile> file = TensorFile::Open(FormatsFolder() + "pt/parameter.pt");
  ASSERT_TRUE(file.ok()) << file.status().message();
  ASSERT_EQ(file->tensors().size(), 2U);
  EXPECT_TRUE(file->tensors()[0].requires_grad);
  EXPECT_TRUE(file->tensors()[1].requires_grad);
  const Result<TensorFile> plain = TensorFile::Open(FormatsFolder() + "pt/dtype_float32.pt");
  ASSERT_TRUE(plain.ok()) << plain.status().message();
  EXPECT_FALSE(plain->tensors()[0].requires_grad);
}

TEST(GoldenScalars, PlainValuesBesideTensorsAreListedAsPeopleWriteThem) {
  for (const char* name :
       {"pt/nested_everything.pt", "pt/nested_proto4.pt", "pt/nested_legacy.pt"}) {
    SCOPED_TRACE(name);
    const Result<TensorFile> file = TensorFile::Open(FormatsFolder() + name);
    ASSERT_TRUE(file.ok()) << file.status().message();
    const auto text_of = [&](const std::string& dotted) -> std::string {
      for (const NamedScalar& scalar : file->scalars()) {
        if (base::Join(scalar.path, ".") == dotted) {
          return scalar.type + " " + scalar.text;
        }
      }
      return "absent";
    };
    EXPECT_EQ(text_of("args.tensor_model_parallel_size"), "int 2");
    EXPECT_EQ(text_of("args.lr"), "float 0.0001");
    EXPECT_EQ(text_of("args.big"), "int 1180591620717411303424");
    EXPECT_EQ(text_of("args.neg_big"), "int -1099511627776");
    EXPECT_EQ(text_of("args.name"), "str 模型");
    EXPECT_EQ(text_of("args.dtype"), "torch.dtype torch.bfloat16");
    EXPECT_EQ(text_of("args.kind"), "megatron_like_enums.Color RED");
    EXPECT_EQ(text_of("args.betas"), "tuple (0.9, 0.95)");
    EXPECT_EQ(text_of("size"), "torch.Size [2, 3]");
    EXPECT_EQ(text_of("device1"), "torch.device cuda:1");
    EXPECT_EQ(text_of("npscalar"), "numpy.float64 2.5");
    EXPECT_EQ(text_of("npi"), "numpy.int64 7");
    EXPECT_EQ(text_of("cplx"), "complex 1.0+2.0j");
    EXPECT_TRUE(file->warnings().empty());
  }
}

}  // namespace
}  // namespace msprobe
