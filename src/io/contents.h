// The contents of a tensor file while it is being read: a TensorFile without the file itself.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <type_traits>
#include <vector>

#include "msprobe/status.h"
#include "msprobe/tensor_file.h"
#include "msprobe/tensor_view.h"

#include "src/io/pickle_value.h"
#include "src/io/zip.h"

namespace msprobe::io {

// Unaligned little- and big-endian loads from bytes that the caller has already checked to be
// there.

static_assert(__BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__, "msprobe runs on little-endian hosts");

template <typename Integer>
Integer LoadLittle(const std::byte* bytes) {
  static_assert(std::is_integral_v<Integer>);
  Integer value;
  std::memcpy(&value, bytes, sizeof value);
  return value;
}

template <typename Integer>
Integer LoadBig(const std::byte* bytes) {
  std::make_unsigned_t<Integer> value = 0;
  for (size_t i = 0; i < sizeof value; ++i) {
    value = static_cast<std::make_unsigned_t<Integer>>((static_cast<uint64_t>(value) << 8U) |
                                                       std::to_integer<uint64_t>(bytes[i]));
  }
  return static_cast<Integer>(value);
}

inline std::string_view AsText(const std::byte* bytes, size_t size) {
  return {reinterpret_cast<const char*>(bytes), size};
}

// a + b and a * b; false when the result does not fit.
template <typename Integer>
[[nodiscard]] bool CheckedAdd(Integer a, Integer b, Integer* out) {
  return !__builtin_add_overflow(a, b, out);
}
template <typename Integer>
[[nodiscard]] bool CheckedMultiply(Integer a, Integer b, Integer* out) {
  return !__builtin_mul_overflow(a, b, out);
}

// Views of tensors stored without gaps, and the arithmetic that keeps hostile shapes from
// overflowing.

inline constexpr size_t kMaxRank = 64;

// Bytes of a dense tensor. Refuses negative sizes, ranks above kMaxRank, and shapes whose product
// (zeros left out, so that strides fit too) or byte size does not fit in int64.
Result<int64_t> DenseBytes(const Shape& shape, size_t element_bytes);

// A view of `data`, which must hold the tensor but may be longer; column-major when
// `fortran_order`.
Result<TensorView> MakeDenseView(DType dtype, Shape shape, bool fortran_order,
                                 std::span<const std::byte> data);

// How much of a file is read at most, however often it names the same bytes.

// A view may repeat a few bytes without end (stride 0), and a file may name one storage a million
// times. This limits the bytes that are read for one file to a multiple of its size, so that no
// file keeps a machine busy for hours.
class ReadBudget {
 public:
  explicit ReadBudget(uint64_t file_bytes);

  // For what is held in memory: a tensor that is alone in its file, of which a command reads many
  // and holds some several times, widened or as text. Less of it is free.
  static ReadBudget ForMemory(uint64_t file_bytes);

  // Another file of the same checkpoint.
  void AddFile(uint64_t file_bytes);

  // Ok when the tensor still fits; otherwise the reason why it is left out.
  Status Take(const TensorView& view);

 private:
  ReadBudget(uint64_t file_bytes, uint64_t free_bytes);

  uint64_t left_bytes_;
};

struct TensorFileContents {
  TensorFileFormat format = TensorFileFormat::kPtZip;
  std::vector<NamedTensor> tensors;
  std::vector<NamedScalar> scalars;
  std::vector<std::string> warnings;

  // Memory that the views borrow from, in addition to the file's own bytes.
  std::vector<ZipBytes> inflated;
  uint64_t inflated_bytes = 0;  // of the members in it
  uint64_t opened_bytes = 0;    // of the members that OpenTensorMember was asked for, in the file
  std::vector<Pickle> pickles;
  std::vector<std::vector<std::byte>> unpacked;  // elements that take less than a byte in the file

  // A stored member whose checksum has not been checked yet; in order of address once the file is
  // open.
  struct UncheckedMember {
    std::span<const std::byte> bytes;
    ZipEntry entry;
  };
  std::vector<UncheckedMember> unchecked;
};

// Reads a whole tensor file from memory, whatever its format; `bytes` must outlive the contents.
Status ReadTensorBytes(std::span<const std::byte> bytes, const TensorFile::Options& options,
                       TensorFileContents& contents);

// One format each.
Status ReadPtZip(const ZipArchive& archive, const ZipEntry& data_pickle,
                 const TensorFile::Options& options, TensorFileContents& contents);
Status ReadPtLegacy(std::span<const std::byte> bytes, TensorFileContents& contents);
Status ReadNpy(std::span<const std::byte> bytes, const TensorFile::Options& options,
               TensorFileContents& contents);
Status ReadNpz(const ZipArchive& archive, const TensorFile::Options& options,
               TensorFileContents& contents);
Status ReadSafetensors(std::span<const std::byte> bytes, TensorFileContents& contents);
Status ReadMindSpore(std::span<const std::byte> bytes, const TensorFile::Options& options,
                     TensorFileContents& contents);
Status ReadGguf(std::span<const std::byte> bytes, TensorFileContents& contents);
Status ReadAtb(std::span<const std::byte> bytes, TensorFileContents& contents);
Status ReadKernelDumpTensors(std::span<const std::byte> bytes, const TensorFile::Options& options,
                             TensorFileContents& contents);
// Whether the first bytes can be those of a MindSpore checkpoint, which has no magic number.
bool LooksLikeMindSpore(std::span<const std::byte> bytes);

// The content of a member that tensors will borrow from: inflated under the options' limit,
// checksummed when small or inflated, otherwise noted as unchecked. To be asked for once per
// member: members that together are longer than the file overlap, and are refused.
Result<std::span<const std::byte>> OpenTensorMember(const ZipArchive& archive,
                                                    const ZipEntry& entry,
                                                    const TensorFile::Options& options,
                                                    TensorFileContents& contents);

}  // namespace msprobe::io
