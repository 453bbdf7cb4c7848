// A tensor that somebody else owns: dtype, shape, strides and a pointer into mapped or pooled
// bytes.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "msprobe/dtype.h"

namespace msprobe {

// Sizes per axis; empty for a 0-d tensor. Readers guarantee that every size is >= 0 and the product
// fits in int64.
using Shape = std::vector<int64_t>;

int64_t ElementCount(const Shape& shape);     // 1 for a 0-d tensor
Shape ContiguousStrides(const Shape& shape);  // row-major, in elements
std::string ShapeText(const Shape& shape);    // "[2, 3]", "[]"
// Reads what ShapeText writes; spaces do not matter. nullopt for anything but a list of sizes, for
// more than kMostShapeAxes of them, and for more elements than fit in int64.
inline constexpr size_t kMostShapeAxes = 64;
std::optional<Shape> ParseShape(std::string_view text);

struct TensorView {
  DType dtype = DType::kFloat32;
  Shape shape;
  Shape strides;  // in elements, same length as shape; never negative
  const std::byte* data =
      nullptr;  // first logical element, little-endian unless byte_swapped; may be unaligned
  size_t extent_bytes =
      0;  // readable bytes from `data` on; covers every element the strides can reach
  bool byte_swapped = false;  // stored big-endian: swap each scalar (each half of a complex) on use
  bool conjugated = false;    // a lazy complex conjugate (PyTorch 2): flip imaginary signs on use
  bool negated = false;       // a lazy negation (PyTorch 2): flip signs on use

  int64_t element_count() const { return ElementCount(shape); }
  size_t size_bytes() const { return static_cast<size_t>(element_count()) * DTypeSize(dtype); }
  // True when the elements lie in row-major order without gaps and need no change on use: bytes()
  // is then valid.
  bool is_plain() const;
  std::span<const std::byte> bytes() const { return {data, size_bytes()}; }
};

}  // namespace msprobe
