#include "src/analysis/grad/sign_file.h"

#include <utility>

#include <fmt/format.h>

#include "src/kernels/signs.h"
#include "src/tensor/element_blocks.h"

namespace msprobe::analysis::grad {
namespace {

constexpr size_t kMostAxes = 64;

const NamedTensor* Member(const TensorFile& file, std::string_view name) {
  for (const NamedTensor& tensor : file.tensors()) {
    if (tensor.name() == name) {
      return &tensor;
    }
  }
  return nullptr;
}

// What the member `shape` says, checked against the bits that there are.
Result<Shape> ReadShape(const std::string& path, const TensorView& sizes, const TensorView& bits) {
  if (sizes.dtype != DType::kInt64 || sizes.shape.size() != 1 ||
      sizes.element_count() > static_cast<int64_t>(kMostAxes) || bits.dtype != DType::kUInt8 ||
      bits.shape.size() != 1) {
    return BadFormatError(
        fmt::format("{}: the members are bits, of uint8, and shape, of int64", path));
  }
  Shape shape(static_cast<size_t>(sizes.element_count()));
  tensor::CopyElements(sizes, 0, sizes.element_count(), reinterpret_cast<std::byte*>(shape.data()));
  int64_t count = 1;
  for (const int64_t size : shape) {
    if (size < 0 || __builtin_mul_overflow(count, size, &count)) {
      return BadFormatError(fmt::format("{}: {} is no shape", path, ShapeText(shape)));
    }
  }
  if (bits.element_count() != count / 8 + (count % 8 != 0 ? 1 : 0)) {
    return BadFormatError(fmt::format("{}: {} bytes of bits are not those of shape {}", path,
                                      bits.element_count(), ShapeText(shape)));
  }
  return shape;
}

}  // namespace

SignFile::SignFile(TensorFile file, TensorView view, Shape shape, bool is_packed)
    : file_(std::move(file)),
      view_(std::move(view)),
      shape_(std::move(shape)),
      is_packed_(is_packed) {}

Result<SignFile> SignFile::Open(const std::filesystem::path& path,
                                std::vector<std::byte>& scratch) {
  TensorFile::Options options;
  options.scratch = &scratch;
  MSP_ASSIGN_OR_RETURN(TensorFile file, TensorFile::Open(path, options));
  if (file.format() == TensorFileFormat::kNpz) {
    const NamedTensor* const bits = Member(file, "bits");
    const NamedTensor* const sizes = Member(file, "shape");
    if (bits == nullptr || sizes == nullptr) {
      return BadFormatError(fmt::format("{}: a member bits or shape is missing", path.string()));
    }
    MSP_RETURN_IF_ERROR(Status(bits->status));
    MSP_RETURN_IF_ERROR(Status(sizes->status));
    TensorView view = bits->view;
    MSP_ASSIGN_OR_RETURN(Shape shape, ReadShape(path.string(), sizes->view, view));
    return SignFile(std::move(file), std::move(view), std::move(shape), true);
  }
  MSP_ASSIGN_OR_RETURN(const NamedTensor* const tensor, file.Single());
  MSP_RETURN_IF_ERROR(Status(tensor->status));
  TensorView view = tensor->view;
  if (view.dtype != DType::kBool) {
    return BadFormatError(
        fmt::format("{} holds {}, not bool", path.string(), DTypeName(view.dtype)));
  }
  Shape shape = view.shape;
  return SignFile(std::move(file), std::move(view), std::move(shape), false);
}

std::span<const std::byte> SignFile::Flags(size_t first, size_t count, Scratch& scratch) const {
  return tensor::BlockReader(view_, scratch.flags).Read(first, count);
}

std::span<const std::byte> SignFile::Bits(size_t first, size_t count, Scratch& scratch) const {
  const size_t bytes = (count + 7) / 8;
  if (is_packed_) {
    return tensor::BlockReader(view_, scratch.flags).Read(first / 8, bytes);
  }
  scratch.bits.resize(bytes);
  kernels::PackFlags(Flags(first, count, scratch), scratch.bits);
  return scratch.bits;
}

void SignFile::Release(size_t first, size_t count) const {
  const size_t unit = is_packed_ ? 8 : 1;
  file_.ReleasePages(view_, static_cast<int64_t>(first / unit),
                     static_cast<int64_t>((count + unit - 1) / unit));
}

}  // namespace msprobe::analysis::grad
