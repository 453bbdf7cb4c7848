// Writes one tensor as numpy.save would write the row-major array.
#include <cstring>
#include <vector>

#include "msprobe/tensor_file.h"

#include "src/base/files.h"
#include "src/io/npy.h"
#include "src/io/tensor_output.h"
#include "src/tensor/element_blocks.h"
#include "src/tensor/float_bits.h"

namespace msprobe {
namespace {

// Only called for types that NumPy lacks.
float WidenElement(DType dtype, const std::byte* bytes) {
  if (dtype == DType::kBFloat16) {
    uint16_t bits = 0;
    std::memcpy(&bits, bytes, sizeof bits);
    return tensor::BFloat16ToFloat(bits);
  }
  const auto bits = std::to_integer<uint8_t>(*bytes);
  switch (dtype) {
    case DType::kFloat8E4M3FN:
      return tensor::Float8E4M3FNToFloat(bits);
    case DType::kFloat8E5M2:
      return tensor::Float8E5M2ToFloat(bits);
    case DType::kFloat8E4M3FNUZ:
      return tensor::Float8E4M3FNUZToFloat(bits);
    default:
      return tensor::Float8E5M2FNUZToFloat(bits);
  }
}

Status WriteWidened(base::AtomicFile& file, DType dtype, std::span<const std::byte> block,
                    std::vector<float>& widened) {
  widened.clear();
  for (size_t at = 0; at < block.size(); at += DTypeSize(dtype)) {
    widened.push_back(WidenElement(dtype, block.data() + at));
  }
  return file.Write(std::as_bytes(std::span(widened)));
}

}  // namespace

Status io::WriteNpyTo(base::AtomicFile& file, const TensorView& view) {
  const std::string_view own_descr = GetDTypeInfo(view.dtype).numpy_descr;
  const bool widen = own_descr.empty();
  const std::string_view descr = widen ? GetDTypeInfo(DType::kFloat32).numpy_descr : own_descr;
  const std::string header = io::FormatNpyHeader(descr, view.shape);
  if (!widen && view.is_plain()) {
    return WriteParts(file, header, view.bytes(), {});
  }
  MSP_RETURN_IF_ERROR(file.Write(header));
  std::vector<std::byte> scratch;
  std::vector<float> widened;
  return tensor::ForEachBlock(
      view, tensor::kCopyBlockElements, scratch, [&](std::span<const std::byte> block, size_t) {
        return widen ? WriteWidened(file, view.dtype, block, widened) : file.Write(block);
      });
}

Status WriteNpyFile(const std::filesystem::path& path, const TensorView& tensor) {
  MSP_ASSIGN_OR_RETURN(base::AtomicFile file,
                       base::AtomicFile::Create(path, base::Existing::kReplace));
  MSP_RETURN_IF_ERROR(io::WriteNpyTo(file, tensor));
  return file.Commit();
}

}  // namespace msprobe
