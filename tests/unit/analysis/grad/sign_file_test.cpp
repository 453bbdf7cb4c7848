#include <cstring>
#include <filesystem>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "src/analysis/grad/grad.h"
#include "src/base/files.h"
#include "src/grad_probe/probe.h"
#include "src/io/npy.h"
#include "src/io/zip.h"

namespace msprobe::analysis::grad {
namespace {

namespace fs = std::filesystem;

class SignFiles : public ::testing::Test {
 protected:
  void SetUp() override {
    folder_ = fs::path(::testing::TempDir()) /
              (std::string("sign_file_") +
               ::testing::UnitTest::GetInstance()->current_test_info()->name());
    fs::remove_all(folder_);
    fs::create_directories(folder_);
  }
  void TearDown() override { fs::remove_all(folder_); }

  template <typename Value>
  static std::string Member(DType dtype, const std::vector<Value>& values) {
    std::string member =
        io::FormatNpyHeader(GetDTypeInfo(dtype).numpy_descr, {static_cast<int64_t>(values.size())});
    member.append(reinterpret_cast<const char*>(values.data()), values.size() * sizeof(Value));
    return member;
  }

  fs::path Write(const std::vector<uint8_t>& bits, const std::vector<int64_t>& shape) const {
    const fs::path path = folder_ / "signs.npz";
    base::AtomicFile file = *base::AtomicFile::Create(path, base::Existing::kReplace);
    io::ZipWriter zip(file);
    EXPECT_TRUE(zip.AddStored("bits.npy", Member(DType::kUInt8, bits)).ok());
    EXPECT_TRUE(zip.AddStored("shape.npy", Member(DType::kInt64, shape)).ok());
    EXPECT_TRUE(zip.Finish().ok());
    EXPECT_TRUE(file.Commit().ok());
    return path;
  }

  fs::path folder_;
  std::vector<std::byte> scratch_;
};

TEST_F(SignFiles, BitsAndBytesOfOneGradientAreTheSameSignsAcrossBlocks) {
  const size_t count = 2 * SignFile::kBlockElements + 13;
  std::vector<float> values(count);
  for (size_t i = 0; i < count; ++i) {
    values[i] = static_cast<float>(i * 2654435761U % 7) - 3;
  }
  TensorView view;
  view.shape = {static_cast<int64_t>(count)};
  view.strides = {1};
  view.data = reinterpret_cast<const std::byte*>(values.data());
  view.extent_bytes = count * sizeof(float);
  for (const auto format : {grad_probe::SignFormat::kNpy, grad_probe::SignFormat::kPacked}) {
    grad_probe::Settings settings;
    settings.dump_path = folder_.string();
    settings.sign_format = format;
    grad_probe::Probe probe(settings);
    ASSERT_TRUE(probe.BeginStep(0, 0).ok());
    ASSERT_TRUE(probe.Put("w", view).ok());
    ASSERT_TRUE(probe.EndStep().ok());
    ASSERT_TRUE(probe.Flush().ok());
  }
  std::vector<std::byte> other_scratch;
  const Result<SignFile> bytes = SignFile::Open(folder_ / "rank0/step0/w.npy", scratch_);
  const Result<SignFile> bits = SignFile::Open(folder_ / "rank0/step0/w.npz", other_scratch);
  ASSERT_TRUE(bytes.ok());
  ASSERT_TRUE(bits.ok()) << bits.status().message();
  EXPECT_FALSE(bytes->is_packed());
  EXPECT_TRUE(bits->is_packed());
  EXPECT_EQ(bytes->shape(), bits->shape());
  SignFile::Scratch scratch[2];
  for (size_t at = 0; at < count; at += SignFile::kBlockElements) {
    const size_t part = std::min(SignFile::kBlockElements, count - at);
    const std::span<const std::byte> a = bytes->Bits(at, part, scratch[0]);
    const std::span<const std::byte> b = bits->Bits(at, part, scratch[1]);
    ASSERT_EQ(a.size(), b.size());
    EXPECT_EQ(std::memcmp(a.data(), b.data(), a.size()), 0);
    EXPECT_EQ((a[0] & std::byte{0x80}) != std::byte{0}, values[at] > 0);
  }
}

TEST_F(SignFiles, BitsThatAreNotThoseOfTheShapeAreRefused) {
  EXPECT_TRUE(SignFile::Open(Write({1, 2, 3}, {3, 7}), scratch_).ok());
  EXPECT_TRUE(SignFile::Open(Write({0x80}, {}), scratch_).ok());
  EXPECT_FALSE(SignFile::Open(Write({1, 2}, {3, 7}), scratch_).ok());
  EXPECT_FALSE(SignFile::Open(Write({1, 2, 3}, {-3, -7}), scratch_).ok());
  EXPECT_FALSE(SignFile::Open(Write({1}, {int64_t{1} << 40, int64_t{1} << 40}), scratch_).ok());
  EXPECT_FALSE(SignFile::Open(Write({1}, std::vector<int64_t>(100, 1)), scratch_).ok());
}

}  // namespace
}  // namespace msprobe::analysis::grad
