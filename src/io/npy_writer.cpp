// Writes one tensor as numpy.save would write the row-major array.
#include <cstring>
#include <vector>

#include "msprobe/tensor_file.h"

#include "src/base/files.h"
#include "src/io/element_blocks.h"
#include "src/io/npy.h"
#include "src/io/tensor_output.h"
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

Status WriteWidened(base::AtomicFile& file, DType dtype, std::span<const std::byte> block) {
  const size_t element_bytes = DTypeSize(dtype);
  std::vector<float> widened;
  // Plain tensors arrive in one piece of any size: widen a bounded part at a time.
  while (!block.empty()) {
    const std::span<const std::byte> part = block.first(
        std::min(block.size(), static_cast<size_t>(io::kBlockElements) * element_bytes));
    widened.clear();
    for (size_t at = 0; at < part.size(); at += element_bytes) {
      widened.push_back(WidenElement(dtype, part.data() + at));
    }
    MSP_RETURN_IF_ERROR(file.Write(std::as_bytes(std::span(widened))));
    block = block.subspan(part.size());
  }
  return {};
}

}  // namespace

Status io::WriteNpyTo(base::AtomicFile& file, const TensorView& tensor) {
  const std::string_view own_descr = GetDTypeInfo(tensor.dtype).numpy_descr;
  const bool widen = own_descr.empty();
  const std::string_view descr = widen ? GetDTypeInfo(DType::kFloat32).numpy_descr : own_descr;
  const std::string header = io::FormatNpyHeader(descr, tensor.shape);
  if (!widen && tensor.is_plain()) {
    return WriteParts(file, header, tensor.bytes(), {});
  }
  MSP_RETURN_IF_ERROR(file.Write(header));
  return io::ForEachBlock(tensor, [&](std::span<const std::byte> block) {
    return widen ? WriteWidened(file, tensor.dtype, block) : file.Write(block);
  });
}

Status WriteNpyFile(const std::filesystem::path& path, const TensorView& tensor) {
  MSP_ASSIGN_OR_RETURN(base::AtomicFile file,
                       base::AtomicFile::Create(path, base::Existing::kReplace));
  MSP_RETURN_IF_ERROR(io::WriteNpyTo(file, tensor));
  return file.Commit();
}

}  // namespace msprobe
