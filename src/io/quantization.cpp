#include "src/io/quantization.h"

#include <algorithm>
#include <cstring>
#include <vector>

#include <fmt/format.h>

#include "src/base/numbers.h"
#include "src/base/strings.h"
#include "src/io/byte_order.h"
#include "src/tensor/element_blocks.h"

namespace msprobe::io {
namespace {

float IntegerAt(DType dtype, const std::byte* element) {
  switch (dtype) {
    case DType::kInt8:
      return static_cast<float>(LoadLittle<int8_t>(element));
    case DType::kUInt8:
      return static_cast<float>(LoadLittle<uint8_t>(element));
    default:
      return static_cast<float>(LoadLittle<int32_t>(element));
  }
}

std::string RangeText(const std::vector<double>& values) {
  if (values.empty()) {
    return "none";
  }
  const auto [least, most] = std::minmax_element(values.begin(), values.end());
  return *least == *most ? fmt::format("{}", *least) : fmt::format("{} to {}", *least, *most);
}

}  // namespace

std::string QuantizationText(const Quantization& quantization) {
  return quantization.axis
             ? fmt::format("{} along axis {}: {}, zero points {}",
                           base::Plural(quantization.scales.size(), "scale"), *quantization.axis,
                           RangeText(quantization.scales), RangeText(quantization.zero_points))
             : fmt::format("scale {}, zero point {}", RangeText(quantization.scales),
                           RangeText(quantization.zero_points));
}

Result<tensor::TensorBuffer> Dequantize(const NamedTensor& tensor, size_t limit_bytes) {
  const Quantization& quantization = *tensor.quantization;
  const TensorView& view = tensor.view;
  const auto count = static_cast<uint64_t>(view.element_count());
  if (count > limit_bytes / sizeof(float)) {
    return UnsupportedError(
        fmt::format("a quantised tensor of {} elements is too large to be "
                    "dequantised in memory",
                    count));
  }
  tensor::TensorBuffer buffer(DType::kFloat32, view.shape);
  std::vector<float> scales(quantization.scales.begin(), quantization.scales.end());
  std::vector<float> zero_points(quantization.zero_points.begin(), quantization.zero_points.end());
  int64_t inner = 1;  // elements that share an index of the axis
  int64_t channels = 1;
  if (quantization.axis) {
    channels = view.shape[*quantization.axis];
    for (size_t axis = *quantization.axis + 1; axis < view.shape.size(); ++axis) {
      inner *= view.shape[axis];
    }
  }
  const size_t element_bytes = DTypeSize(view.dtype);
  std::vector<std::byte> scratch;
  const std::span<std::byte> out = buffer.mutable_bytes();
  tensor::ForEachBlock(
      view, tensor::kCopyBlockElements, scratch,
      [&](std::span<const std::byte> block, size_t first) {
        for (size_t i = 0; i < block.size() / element_bytes; ++i) {
          const auto channel =
              static_cast<size_t>(static_cast<int64_t>(first + i) / inner % channels);
          const float value =
              (IntegerAt(view.dtype, block.data() + i * element_bytes) - zero_points[channel]) *
              scales[channel];
          std::memcpy(out.data() + (first + i) * sizeof(float), &value, sizeof(float));
        }
      });
  return buffer;
}

}  // namespace msprobe::io
