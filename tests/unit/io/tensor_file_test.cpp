#include "msprobe/tensor_file.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "src/tensor/tensor_buffer.h"
#include "tests/unit/io/test_bytes.h"
#include "tests/unit/support/temporary_folder.h"

namespace msprobe {
namespace {

using io::test_support::MakeZip;
using test_support::Slurp;
using test_support::Spill;
using test_support::TemporaryFolder;
using ::testing::HasSubstr;
using namespace std::string_literals;  // NOLINT: texts with zero bytes

std::string ErrorOf(const TemporaryFolder& folder, const std::string& content) {
  Spill(folder / "file", content);
  return TensorFile::Open(folder / "file").status().message();
}

TEST(TensorFile, OtherFilesAreToldWhatTheyAre) {
  const TemporaryFolder folder;
  EXPECT_THAT(ErrorOf(folder, ""), HasSubstr("file is empty"));
  EXPECT_THAT(ErrorOf(folder, "hello"), HasSubstr("not a tensor file"));
  EXPECT_THAT(ErrorOf(folder, "\x80\x02}."), HasSubstr("plain pickle"));
  EXPECT_THAT(ErrorOf(folder, std::string(257, '\0') + "ustar" + std::string(300, '\0')),
              HasSubstr("tar file"));
  EXPECT_THAT(ErrorOf(folder, MakeZip({{.name = "xl/workbook.xml", .content = "x"}})),
              HasSubstr("without data.pkl"));
  EXPECT_THAT(ErrorOf(folder, MakeZip({})), HasSubstr("without data.pkl"));
  EXPECT_THAT(ErrorOf(folder, "\x93NUM"), HasSubstr("too short"));
}

TEST(TensorFile, ErrorsNameTheFile) {
  const TemporaryFolder folder;
  EXPECT_THAT(ErrorOf(folder, "hello"), HasSubstr((folder / "file").string()));
  const Status missing = TensorFile::Open(folder / "missing.pt").status();
  EXPECT_EQ(missing.code(), StatusCode::kNotFound);
  EXPECT_THAT(missing.message(), HasSubstr("missing.pt"));
}

TEST(TensorFile, TheContentDecidesNotTheSuffix) {
  const TemporaryFolder folder;
  const tensor::TensorBuffer buffer(DType::kFloat32, {2});
  ASSERT_TRUE(WriteNpyFile(folder / "a.pt", buffer.view()).ok());
  ASSERT_TRUE(WritePtFile(folder / "a.npy", buffer.view()).ok());
  EXPECT_EQ(TensorFile::Open(folder / "a.pt")->format(), TensorFileFormat::kNpy);
  EXPECT_EQ(TensorFile::Open(folder / "a.npy")->format(), TensorFileFormat::kPtZip);
}

TEST(TensorFile, SingleInsistsOnExactlyOneTensor) {
  const std::string formats = std::string(MSPROBE_TEST_DATA) + "/formats/";
  EXPECT_TRUE(TensorFile::Open(formats + "pt/dtype_float32.pt")->Single().ok());
  const Result<TensorFile> several = TensorFile::Open(formats + "npy/plain.npz");
  ASSERT_TRUE(several.ok());
  EXPECT_THAT(several->Single().status().message(), HasSubstr("3 tensors"));
}

// One float32 element that strides of 0 make into a vector of `count`.
std::string RepeatedElement(uint32_t count) {
  std::string pickle =
      "\x80\x02"
      "ctorch._utils\n_rebuild_tensor_v2\n((X\x07\0\0\0storagectorch\nFloatStorage\n"
      "X\x01\0\0\0\x30X\x03\0\0\0cpuK\x01tQK\0J"s;
  io::test_support::PutLittle(pickle, count);
  return MakeZip({{.name = "p/data.pkl", .content = pickle + "\x85K\0\x85\x89)tR."s},
                  {.name = "p/data/0", .content = "\0\0\x80\x3f"s}});
}

TEST(TensorFile, SingleRefusesATensorThatRepeatsItsBytesOutOfAllProportion) {
  const TemporaryFolder folder;
  Spill(folder / "few.pt", RepeatedElement(1'000'000));
  const Result<TensorFile> few = TensorFile::Open(folder / "few.pt");
  ASSERT_TRUE(few.ok()) << few.status().message();
  EXPECT_TRUE(few->Single().ok()) << few->Single().status().message();
  Spill(folder / "many.pt", RepeatedElement(1U << 27U));  // 512 MiB of 4 bytes
  const Result<TensorFile> many = TensorFile::Open(folder / "many.pt");
  ASSERT_TRUE(many.ok()) << many.status().message();
  EXPECT_EQ(many->Single().status().code(), StatusCode::kUnsupported);
  EXPECT_THAT(many->Single().status().message(), HasSubstr("too many repeated bytes"));
}

TEST(TensorFile, WarningsOfManyPartsAreLimited) {
  const TemporaryFolder folder;
  std::string file;
  std::vector<TensorFile::Part> parts;
  for (int i = 0; i < 100; ++i) {
    const std::string part = MakeZip(
        {{.name = "p/data.pkl", .content = "\x80\x02](cos\nf" + std::to_string(i) + "\ne."}});
    parts.push_back({file.size(), part.size()});
    file += part;
  }
  Spill(folder / "parts", file);
  const Result<TensorFile> opened = TensorFile::OpenParts(folder / "parts", parts, {});
  ASSERT_TRUE(opened.ok()) << opened.status().message();
  EXPECT_EQ(opened->warnings().size(), 20U);
  EXPECT_EQ(opened->warnings().back(), "further warnings are left out");
}

TEST(TensorFile, SmallFilesAreReadIntoTheScratchAndLargeOnesMapped) {
  const TemporaryFolder folder;
  std::vector<std::byte> scratch;
  TensorFile::Options options;
  options.scratch = &scratch;
  for (int64_t count : {10, 1000000}) {
    ASSERT_TRUE(
        WritePtFile(folder / "t.pt", tensor::TensorBuffer(DType::kFloat32, {count}).view()).ok());
    const Result<TensorFile> file = TensorFile::Open(folder / "t.pt", options);
    ASSERT_TRUE(file.ok()) << file.status().message();
    const std::byte* data = file->tensors()[0].view.data;
    const bool in_scratch =
        !scratch.empty() && data >= scratch.data() && data < scratch.data() + scratch.size();
    EXPECT_EQ(in_scratch, count == 10);
  }
}

// A file of one float32 vector whose last data byte is flipped after writing.
std::filesystem::path WriteDamaged(const TemporaryFolder& folder, int64_t count) {
  const auto path = folder / "damaged.pt";
  EXPECT_TRUE(WritePtFile(path, tensor::TensorBuffer(DType::kFloat32, {count}).view()).ok());
  const Result<TensorFile> file = TensorFile::Open(path);
  EXPECT_TRUE(file.ok()) << file.status().message();
  std::string bytes = Slurp(path);
  bytes[bytes.find("archive/version") - 200] ^= 1;  // zeros in front of the next member's header
  Spill(path, bytes);
  return path;
}

TEST(TensorFile, ChecksumsOfSmallMembersAreCheckedOnOpening) {
  const TemporaryFolder folder;
  const auto path = WriteDamaged(folder, 1000);
  EXPECT_THAT(TensorFile::Open(path).status().message(), HasSubstr("archive/data/0\" is damaged"));
  TensorFile::Options options;
  options.verify_checksums = false;
  const Result<TensorFile> file = TensorFile::Open(path, options);
  ASSERT_TRUE(file.ok()) << file.status().message();
  EXPECT_FALSE(file->VerifyChecksum(file->tensors()[0]).ok());
}

TEST(TensorFile, ChecksumsOfLargeMembersAreCheckedOnDemand) {
  const TemporaryFolder folder;
  const Result<TensorFile> damaged = TensorFile::Open(WriteDamaged(folder, 1000000));
  ASSERT_TRUE(damaged.ok()) << damaged.status().message();
  EXPECT_THAT(damaged->VerifyChecksum(damaged->tensors()[0]).message(), HasSubstr("damaged"));
  ASSERT_TRUE(
      WritePtFile(folder / "good.pt", tensor::TensorBuffer(DType::kFloat32, {1000000}).view())
          .ok());
  const Result<TensorFile> good = TensorFile::Open(folder / "good.pt");
  ASSERT_TRUE(good.ok()) << good.status().message();
  EXPECT_TRUE(good->VerifyChecksum(good->tensors()[0]).ok());
}

TEST(TensorFile, ReleasedPagesCanStillBeRead) {
  const TemporaryFolder folder;
  constexpr int64_t kCount = 1000000;
  tensor::TensorBuffer buffer(DType::kUInt8, {kCount});
  for (size_t i = 0; i < kCount; ++i) {
    buffer.mutable_bytes()[i] = static_cast<std::byte>(i);
  }
  ASSERT_TRUE(WritePtFile(folder / "t.pt", buffer.view()).ok());
  const Result<TensorFile> file = TensorFile::Open(folder / "t.pt");
  ASSERT_TRUE(file.ok()) << file.status().message();
  const TensorView& view = file->tensors()[0].view;
  for (int64_t first = 0; first < kCount; first += 100000) {
    file->ReleasePages(view, first, 100000);
  }
  EXPECT_TRUE(std::equal(view.bytes().begin(), view.bytes().end(), buffer.view().bytes().begin()));
}

}  // namespace
}  // namespace msprobe
