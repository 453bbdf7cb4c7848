// What the writers write, the readers read; and PyTorch and NumPy would have written the same.
#include <cstring>

#include <gtest/gtest.h>
#include <sys/stat.h>

#include "msprobe/tensor_file.h"

#include "src/io/zip.h"
#include "src/tensor/tensor_buffer.h"
#include "tests/unit/io/test_bytes.h"
#include "tests/unit/support/temporary_folder.h"

namespace msprobe {
namespace {

using test_support::Slurp;
using test_support::TemporaryFolder;

std::string MemberOf(const std::string& zip, std::string_view suffix) {
  const Result<io::ZipArchive> archive = io::ZipArchive::Open(io::test_support::Bytes(zip));
  EXPECT_TRUE(archive.ok()) << archive.status().message();
  for (const io::ZipEntry& entry : archive->entries()) {
    if (entry.name.ends_with(suffix)) {
      return std::string(archive->Read(entry, 1 << 20, true)->text());
    }
  }
  return "no such member";
}

tensor::TensorBuffer Counting(DType dtype, const Shape& shape) {
  tensor::TensorBuffer buffer(dtype, shape);
  uint8_t next = 0;
  for (std::byte& byte : buffer.mutable_bytes()) {
    byte = std::byte{next++};
  }
  return buffer;
}

std::vector<std::byte> Content(const TensorView& view) {
  std::vector<std::byte> bytes(view.size_bytes());
  tensor::CopyElements(view, 0, view.element_count(), bytes.data());
  return bytes;
}

TEST(WritePtFile, EveryElementTypeComesBack) {
  const TemporaryFolder folder;
  for (int i = 0; i < kDTypeCount; ++i) {
    const auto dtype = static_cast<DType>(i);
    SCOPED_TRACE(DTypeName(dtype));
    const tensor::TensorBuffer buffer = Counting(dtype, {2, 3});
    const auto path = folder / "t.pt";
    ASSERT_TRUE(WritePtFile(path, buffer.view()).ok());
    const Result<TensorFile> file = TensorFile::Open(path);
    ASSERT_TRUE(file.ok()) << file.status().message();
    const Result<const NamedTensor*> tensor = file->Single();
    ASSERT_TRUE(tensor.ok()) << tensor.status().message();
    EXPECT_EQ((*tensor)->view.dtype, dtype);
    EXPECT_EQ((*tensor)->view.shape, (Shape{2, 3}));
    EXPECT_EQ(Content((*tensor)->view), Content(buffer.view()));
  }
}

TEST(WritePtFile, EveryRankComesBack) {
  const TemporaryFolder folder;
  for (const Shape& shape :
       {Shape{}, Shape{0}, Shape{3}, Shape{2, 0}, Shape{1, 300}, Shape{1, 2, 3}, Shape{1, 2, 1, 2},
        Shape{2, 1, 2, 1, 2, 1, 2}, Shape{70000}}) {
    SCOPED_TRACE(ShapeText(shape));
    const tensor::TensorBuffer buffer = Counting(DType::kInt16, shape);
    ASSERT_TRUE(WritePtFile(folder / "t.pt", buffer.view()).ok());
    const Result<TensorFile> file = TensorFile::Open(folder / "t.pt");
    ASSERT_TRUE(file.ok()) << file.status().message();
    EXPECT_EQ(file->tensors()[0].view.shape, shape);
    EXPECT_EQ(Content(file->tensors()[0].view), Content(buffer.view()));
  }
}

TEST(WritePtFile, ThePickleIsWhatPyTorchWrites) {
  const TemporaryFolder folder;
  const std::string formats = std::string(MSPROBE_TEST_DATA) + "/formats/pt/";
  for (const char* name : {"dtype_float32.pt", "dtype_bool.pt", "dtype_complex128.pt",
                           "scalar_0d.pt", "empty.pt", "dims7.pt", "dtype_bfloat16.pt"}) {
    SCOPED_TRACE(name);
    const Result<TensorFile> original = TensorFile::Open(formats + name);
    ASSERT_TRUE(original.ok()) << original.status().message();
    ASSERT_TRUE(WritePtFile(folder / "t.pt", original->tensors()[0].view).ok());
    const std::string ours = Slurp(folder / "t.pt");
    const std::string theirs = Slurp(formats + name);
    EXPECT_EQ(MemberOf(ours, "/data.pkl"), MemberOf(theirs, "/data.pkl"));
    EXPECT_EQ(MemberOf(ours, "/data/0"), MemberOf(theirs, "/data/0"));
    EXPECT_EQ(MemberOf(ours, "/version"), MemberOf(theirs, "/version"));
  }
}

TEST(WritePtFile, DataIsAlignedTo64Bytes) {
  const TemporaryFolder folder;
  ASSERT_TRUE(WritePtFile(folder / "t.pt", Counting(DType::kFloat32, {5}).view()).ok());
  const std::string zip = Slurp(folder / "t.pt");
  const Result<io::ZipArchive> archive = io::ZipArchive::Open(io::test_support::Bytes(zip));
  ASSERT_TRUE(archive.ok()) << archive.status().message();
  EXPECT_EQ(archive->entries().size(), 4U);
  for (const io::ZipEntry& entry : archive->entries()) {
    EXPECT_EQ((archive->RawBytes(entry)->data() - io::test_support::Bytes(zip).data()) % 64, 0)
        << entry.name;
    EXPECT_NE(entry.crc32, 0U) << entry.name;
  }
}

TEST(WritePtFile, StridedSwappedAndNegatedViewsAreMadePlain) {
  const TemporaryFolder folder;
  const tensor::TensorBuffer buffer = Counting(DType::kFloat32, {300, 200});
  TensorView view = buffer.view();
  view.shape = {200, 300};
  view.strides = {1, 200};
  view.byte_swapped = true;
  view.negated = true;
  for (const char* name : {"t.pt", "t.npy"}) {
    const auto path = folder / name;
    ASSERT_TRUE(
        (path.extension() == ".pt" ? WritePtFile(path, view) : WriteNpyFile(path, view)).ok());
    const Result<TensorFile> file = TensorFile::Open(path);
    ASSERT_TRUE(file.ok()) << file.status().message();
    EXPECT_TRUE(file->tensors()[0].view.is_plain());
    EXPECT_EQ(Content(file->tensors()[0].view), Content(view));
  }
}

TEST(WriteNpyFile, TheFileIsByteForByteNumPys) {
  const TemporaryFolder folder;
  const std::string formats = std::string(MSPROBE_TEST_DATA) + "/formats/npy/";
  for (const char* name :
       {"float16.npy", "float32.npy", "float64.npy", "int8.npy", "int16.npy", "int32.npy",
        "int64.npy", "uint8.npy", "uint16.npy", "uint32.npy", "uint64.npy", "complex64.npy",
        "complex128.npy", "bool.npy", "scalar.npy", "empty.npy", "one_d.npy", "special.npy"}) {
    SCOPED_TRACE(name);
    const Result<TensorFile> original = TensorFile::Open(formats + name);
    ASSERT_TRUE(original.ok()) << original.status().message();
    ASSERT_TRUE(WriteNpyFile(folder / "t.npy", original->tensors()[0].view).ok());
    EXPECT_EQ(Slurp(folder / "t.npy"), Slurp(formats + name));
  }
}

TEST(WriteNpyFile, HeadersGrowInStepsOf64WithRoomForTheFirstAxis) {
  // Lengths of NumPy 1.24's files for float32 arrays of ones in so many axes.
  const TemporaryFolder folder;
  for (const auto& [shape, header_bytes] : std::initializer_list<std::pair<Shape, size_t>>{
           {Shape(14, 1), 128},
           {Shape(15, 1), 192},
           {{1, 10, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1}, 128},
           {{1, 100, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1}, 192}}) {
    const tensor::TensorBuffer buffer = Counting(DType::kFloat32, shape);
    ASSERT_TRUE(WriteNpyFile(folder / "t.npy", buffer.view()).ok());
    EXPECT_EQ(Slurp(folder / "t.npy").size(), header_bytes + buffer.view().size_bytes())
        << ShapeText(shape);
  }
}

TEST(WriteNpyFile, TypesThatNumPyLacksAreWidened) {
  const TemporaryFolder folder;
  const std::string formats = std::string(MSPROBE_TEST_DATA) + "/formats/pt/";
  for (const char* name : {"dtype_bfloat16.pt", "float8_e4m3fn.pt", "float8_e5m2.pt",
                           "float8_e4m3fnuz.pt", "float8_e5m2fnuz.pt"}) {
    const Result<TensorFile> original = TensorFile::Open(formats + name);
    ASSERT_TRUE(original.ok()) << original.status().message();
    ASSERT_TRUE(WriteNpyFile(folder / "t.npy", original->tensors()[0].view).ok());
    const Result<TensorFile> file = TensorFile::Open(folder / "t.npy");
    ASSERT_TRUE(file.ok()) << file.status().message();
    EXPECT_EQ(file->tensors()[0].view.dtype, DType::kFloat32);
    EXPECT_EQ(file->tensors()[0].view.shape, original->tensors()[0].view.shape);
  }
  const uint16_t bits[] = {0x3FC0, 0xC000};  // 1.5 and -2 in bfloat16
  TensorView view;
  view.dtype = DType::kBFloat16;
  view.shape = {2};
  view.strides = {1};
  view.data = reinterpret_cast<const std::byte*>(bits);
  view.extent_bytes = sizeof bits;
  ASSERT_TRUE(WriteNpyFile(folder / "t.npy", view).ok());
  const Result<TensorFile> file = TensorFile::Open(folder / "t.npy");
  ASSERT_TRUE(file.ok()) << file.status().message();
  float values[2];
  std::memcpy(values, file->tensors()[0].view.data, sizeof values);
  EXPECT_EQ(values[0], 1.5F);
  EXPECT_EQ(values[1], -2.0F);
}

TEST(Writers, FilesAreReadableByTheGroupAtMostAndFailuresLeaveNothing) {
  const TemporaryFolder folder;
  const tensor::TensorBuffer buffer = Counting(DType::kFloat32, {3});
  for (const char* name : {"t.pt", "t.npy"}) {
    const auto path = folder / name;
    const auto write = [&](const std::filesystem::path& target) {
      return path.extension() == ".pt" ? WritePtFile(target, buffer.view())
                                       : WriteNpyFile(target, buffer.view());
    };
    ASSERT_TRUE(write(path).ok());
    struct stat info {};
    ASSERT_EQ(::stat(path.c_str(), &info), 0);
    EXPECT_EQ(info.st_mode & 0027U, 0U);
    EXPECT_FALSE(write(folder / "missing" / name).ok());
  }
  EXPECT_EQ(folder.EntryCount(), 2U);
}

}  // namespace
}  // namespace msprobe
