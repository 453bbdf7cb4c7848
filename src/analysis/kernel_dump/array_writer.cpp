#include "src/analysis/kernel_dump/array_writer.h"

#include <string>
#include <vector>

#include <fmt/format.h>

#include "msprobe/tensor_file.h"

#include "src/base/files.h"
#include "src/io/npy.h"
#include "src/io/tensor_output.h"
#include "src/tensor/element_blocks.h"
#include "src/tensor/float_bits.h"

namespace msprobe::analysis::kernel_dump {
namespace {

namespace kd = io::kernel_dump;

constexpr int64_t kPieceElements = int64_t{1} << 20U;
constexpr uint64_t kLargestWholeTensor = uint64_t{16} << 30U;

bool IsFloat8(DType dtype) { return dtype == DType::kFloat8E4M3FN || dtype == DType::kFloat8E5M2; }

// The element types of .npy files, and a block of elements as one of them.
std::string_view NpyDescr(DType dtype) {
  if (IsFloat8(dtype)) {
    return GetDTypeInfo(DType::kFloat64).numpy_descr;
  }
  const std::string_view own = GetDTypeInfo(dtype).numpy_descr;
  return own.empty() ? GetDTypeInfo(DType::kFloat32).numpy_descr : own;
}

class Widener {
 public:
  explicit Widener(DType dtype) : dtype_(dtype) {}

  std::span<const std::byte> operator()(std::span<const std::byte> block) {
    if (IsFloat8(dtype_)) {
      wide_.clear();
      for (const std::byte bits : block) {
        const auto value = std::to_integer<uint8_t>(bits);
        wide_.push_back(static_cast<double>(dtype_ == DType::kFloat8E4M3FN
                                                ? tensor::Float8E4M3FNToFloat(value)
                                                : tensor::Float8E5M2ToFloat(value)));
      }
      return std::as_bytes(std::span(wide_));
    }
    if (dtype_ == DType::kBFloat16) {
      floats_.resize(block.size() / 2);
      for (size_t i = 0; i < floats_.size(); ++i) {
        uint16_t bits = 0;
        std::memcpy(&bits, block.data() + i * 2, sizeof bits);
        floats_[i] = tensor::BFloat16ToFloat(bits);
      }
      return std::as_bytes(std::span(floats_));
    }
    return block;
  }

 private:
  const DType dtype_;
  std::vector<double> wide_;
  std::vector<float> floats_;
};

}  // namespace

std::string_view SuffixOf(ArrayFile kind) {
  switch (kind) {
    case ArrayFile::kNpy:
      return "npy";
    case ArrayFile::kPt:
      return "pt";
    case ArrayFile::kBin:
      break;
  }
  return "bin";
}

Status WriteArray(const std::filesystem::path& path, ArrayFile kind, const TensorView& view) {
  MSP_ASSIGN_OR_RETURN(base::AtomicFile file, base::AtomicFile::Create(path));
  if (kind == ArrayFile::kPt) {
    MSP_RETURN_IF_ERROR(io::WritePtTo(file, view, std::nullopt));
  } else if (kind == ArrayFile::kNpy && !IsFloat8(view.dtype)) {
    MSP_RETURN_IF_ERROR(io::WriteNpyTo(file, view));
  } else {
    if (kind == ArrayFile::kNpy) {
      MSP_RETURN_IF_ERROR(file.Write(io::FormatNpyHeader(NpyDescr(view.dtype), view.shape)));
    }
    Widener widen(kind == ArrayFile::kNpy ? view.dtype : DType::kUInt8);
    std::vector<std::byte> scratch;
    MSP_RETURN_IF_ERROR(tensor::ForEachBlock(
        view, tensor::kCopyBlockElements, scratch,
        [&](std::span<const std::byte> block, size_t) { return file.Write(widen(block)); }));
  }
  return file.Commit();
}

Status WriteConverted(const std::filesystem::path& path, ArrayFile kind, const TensorView& device,
                      const kd::Layout& layout) {
  const size_t element_bytes = DTypeSize(device.dtype);
  const auto elements = static_cast<uint64_t>(ElementCount(layout.plain_shape));
  if (kind == ArrayFile::kPt) {
    if (elements > kLargestWholeTensor / element_bytes) {
      return UnsupportedError(
                 fmt::format("a tensor of {} elements is too large for a .pt file here", elements))
          .WithHint("convert it to .npy, which is written piece by piece");
    }
    std::vector<std::byte> plain(static_cast<size_t>(elements) * element_bytes);
    kd::ToPlainRows(layout, element_bytes, device.bytes(), plain);
    TensorView view;
    view.dtype = device.dtype;
    view.shape = layout.plain_shape;
    view.strides = ContiguousStrides(view.shape);
    view.data = plain.data();
    view.extent_bytes = plain.size();
    return WriteArray(path, kind, view);
  }
  MSP_ASSIGN_OR_RETURN(base::AtomicFile file, base::AtomicFile::Create(path));
  if (kind == ArrayFile::kNpy) {
    MSP_RETURN_IF_ERROR(
        file.Write(io::FormatNpyHeader(NpyDescr(device.dtype), layout.plain_shape)));
  }
  Widener widen(kind == ArrayFile::kNpy ? device.dtype : DType::kUInt8);
  std::vector<std::byte> plain;
  MSP_RETURN_IF_ERROR(kd::ForEachPiece(layout, kPieceElements, [&](const kd::LayoutPiece& piece) {
    plain.resize(static_cast<size_t>(ElementCount(piece.layout.plain_shape)) * element_bytes);
    kd::ToPlainRows(piece.layout, element_bytes,
                    device.bytes().subspan(static_cast<size_t>(piece.device_first) * element_bytes),
                    plain);
    return file.Write(widen(plain));
  }));
  return file.Commit();
}

}  // namespace msprobe::analysis::kernel_dump
