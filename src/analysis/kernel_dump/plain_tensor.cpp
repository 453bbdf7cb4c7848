#include "src/analysis/kernel_dump/plain_tensor.h"

#include "src/io/kernel_dump/format.h"
#include "src/io/kernel_dump/layout.h"

namespace msprobe::analysis::kernel_dump {

namespace kd = io::kernel_dump;

Result<tensor::TensorBuffer> ReadPlainTensor(const kd::DumpedTensor& dumped) {
  MSP_ASSIGN_OR_RETURN(const kd::PlainTensor plain, kd::ToPlain(dumped, kMostPlainBytes));
  if (plain.is_opaque) {
    return UnsupportedError("elements of a type that cannot be read");
  }
  const TensorView& view = plain.view;
  if (!kd::IsPlainFormat(dumped.format) && dumped.original_shape) {
    const Shape& original = *dumped.original_shape;
    const uint32_t to = kd::NaturalPlainFormat(dumped.format, original.size());
    const Result<kd::Layout> layout =
        kd::FindLayout({dumped.format, to, dumped.groups(), &view.shape, &original});
    if (layout.ok()) {
      tensor::TensorBuffer buffer(view.dtype, layout->plain_shape);
      kd::ToPlainRows(*layout, DTypeSize(view.dtype), view.bytes(), buffer.mutable_bytes());
      return buffer;
    }
  }
  return tensor::MakeContiguous(view, kMostPlainBytes);
}

}  // namespace msprobe::analysis::kernel_dump
