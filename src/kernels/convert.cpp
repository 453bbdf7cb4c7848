#include "src/kernels/convert.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <complex>
#include <cstring>
#include <limits>

#include "src/kernels/kernel_table.h"
#include "src/tensor/float_bits.h"

namespace msprobe::kernels {
namespace {

template <class T, class Out>
void WidenPlain(const std::byte* data, std::span<Out> out, size_t stride_bytes = sizeof(T)) {
  for (size_t i = 0; i < out.size(); ++i) {
    T value;
    std::memcpy(&value, data + i * stride_bytes, sizeof(value));
    out[i] = static_cast<Out>(value);
  }
}

template <class Out>
void WidenBool(const std::byte* data, std::span<Out> out) {
  for (size_t i = 0; i < out.size(); ++i) {
    out[i] = data[i] != std::byte{0} ? Out{1} : Out{0};
  }
}

void WidenBFloat16(const std::byte* data, std::span<double> out) {
  for (size_t i = 0; i < out.size(); ++i) {
    uint16_t bits;
    std::memcpy(&bits, data + 2 * i, sizeof(bits));
    out[i] = tensor::BFloat16ToFloat(bits);
  }
}

void WidenBFloat16(const std::byte* data, std::span<float> out) {
  const size_t grouped = out.size() / internal::kGroupElements * internal::kGroupElements;
  internal::ActiveTable().widen_bfloat16(data, grouped, out.data());
  internal::PlainTable().widen_bfloat16(data + 2 * grouped, out.size() - grouped,
                                        out.data() + grouped);
}

void WidenFloat16(const std::byte* data, std::span<float> out) {
  const size_t grouped = out.size() / internal::kGroupElements * internal::kGroupElements;
  internal::ActiveTable().widen_float16(data, grouped, out.data());
  internal::PlainTable().widen_float16(data + 2 * grouped, out.size() - grouped,
                                       out.data() + grouped);
}

void WidenFloat16(const std::byte* data, std::span<double> out) {
  std::array<float, 512> floats;
  while (!out.empty()) {
    const size_t count = std::min(out.size(), floats.size());
    WidenFloat16(data, std::span(floats).first(count));
    std::copy_n(floats.data(), count, out.data());
    data += 2 * count;
    out = out.subspan(count);
  }
}

using Float8Table = std::array<float, 256>;

template <float (*kDecode)(uint8_t)>
const Float8Table& TableOf() {
  static const Float8Table table = [] {
    Float8Table values;
    for (size_t bits = 0; bits < values.size(); ++bits) {
      values[bits] = kDecode(static_cast<uint8_t>(bits));
    }
    return values;
  }();
  return table;
}

template <class Out>
void WidenFloat8(const Float8Table& table, const std::byte* data, std::span<Out> out) {
  for (size_t i = 0; i < out.size(); ++i) {
    out[i] = table[static_cast<size_t>(data[i])];
  }
}

template <class Out>
void Widen(DType dtype, const std::byte* data, std::span<Out> out) {
  switch (dtype) {
    case DType::kFloat64:
      return WidenPlain<double>(data, out);
    case DType::kFloat32:
      return WidenPlain<float>(data, out);
    case DType::kFloat16:
      return WidenFloat16(data, out);
    case DType::kBFloat16:
      return WidenBFloat16(data, out);
    case DType::kFloat8E4M3FN:
      return WidenFloat8(TableOf<tensor::Float8E4M3FNToFloat>(), data, out);
    case DType::kFloat8E5M2:
      return WidenFloat8(TableOf<tensor::Float8E5M2ToFloat>(), data, out);
    case DType::kFloat8E4M3FNUZ:
      return WidenFloat8(TableOf<tensor::Float8E4M3FNUZToFloat>(), data, out);
    case DType::kFloat8E5M2FNUZ:
      return WidenFloat8(TableOf<tensor::Float8E5M2FNUZToFloat>(), data, out);
    case DType::kInt64:
      return WidenPlain<int64_t>(data, out);
    case DType::kInt32:
      return WidenPlain<int32_t>(data, out);
    case DType::kInt16:
      return WidenPlain<int16_t>(data, out);
    case DType::kInt8:
      return WidenPlain<int8_t>(data, out);
    case DType::kUInt64:
      return WidenPlain<uint64_t>(data, out);
    case DType::kUInt32:
      return WidenPlain<uint32_t>(data, out);
    case DType::kUInt16:
      return WidenPlain<uint16_t>(data, out);
    case DType::kUInt8:
      return WidenPlain<uint8_t>(data, out);
    case DType::kBool:
      return WidenBool(data, out);
    case DType::kComplex64:
      return WidenPlain<float>(data, out, 2 * sizeof(float));
    case DType::kComplex128:
      return WidenPlain<double>(data, out, 2 * sizeof(double));
  }
}

// The rounding error of value * value, exactly (Dekker 1971).
double SquareError(double value, double square) {
  const double scaled = value * 0x1.0000002p27;
  const double high = scaled - (scaled - value);
  const double low = value - high;
  return ((high * high - square) + 2 * high * low) + low * low;
}

template <class T>
void Magnitudes(const std::byte* data, std::span<double> out) {
  for (size_t i = 0; i < out.size(); ++i) {
    T parts[2];
    std::memcpy(parts, data + i * sizeof(parts), sizeof(parts));
    out[i] = Hypotenuse(static_cast<double>(parts[0]), static_cast<double>(parts[1]));
  }
}

}  // namespace

double Hypotenuse(double x, double y) {
  x = std::fabs(x);
  y = std::fabs(y);
  if (std::isinf(x) || std::isinf(y)) {
    return std::numeric_limits<double>::infinity();
  }
  const double large = std::max(x, y);
  const double small = std::min(x, y);
  if (std::isnan(x) || std::isnan(y) || small <= large * 0x1p-54) {
    return x + y;
  }
  // Squares and their errors stay normal numbers.
  const double scale = large > 0x1p500 ? 0x1p-600 : large < 0x1p-400 ? 0x1p600 : 1;
  const double a = large * scale;
  const double b = small * scale;
  const double root = std::sqrt(a * a + b * b);
  const double rest =
      ((a * a - root * root) + b * b) +
      ((SquareError(a, a * a) - SquareError(root, root * root)) + SquareError(b, b * b));
  return (root + rest / (2 * root)) / scale;
}

void WidenToFloat(DType dtype, std::span<const std::byte> data, std::span<float> out) {
  Widen(dtype, data.data(), out);
}

void WidenToDouble(DType dtype, std::span<const std::byte> data, std::span<double> out) {
  Widen(dtype, data.data(), out);
}

void ComplexMagnitudes(DType dtype, std::span<const std::byte> data, std::span<double> out) {
  if (dtype == DType::kComplex64) {
    Magnitudes<float>(data.data(), out);
  } else {
    Magnitudes<double>(data.data(), out);
  }
}

}  // namespace msprobe::kernels
