// A whole tensor whose elements are read from those of its pieces, block by block.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>

#include "msprobe/dtype.h"
#include "msprobe/status.h"
#include "msprobe/tensor_view.h"

#include "src/layout/placement.h"

namespace msprobe::layout {

// Gives the view of a piece, which stays valid as long as the whole is used.
using OpenPiece = std::function<Result<TensorView>(size_t piece)>;

// Shards beside each other in their dtype; summands added in float64 and rounded once along each
// axis, to float32 at least; floating values times a scale, rounded as sums are. Nothing is joined
// in memory: each block that is read is made of the pieces it lies in.
class WholeTensor {
 public:
  // `open` is called for the pieces that are needed: one of several copies. `cut`: the leading part
  // of the whole that is wanted. An error where the pieces do not fit each other.
  static Result<WholeTensor> Make(const Placement& placement, const OpenPiece& open,
                                  double scale = 1, const std::optional<Shape>& cut = std::nullopt);

  WholeTensor(WholeTensor&&) noexcept;
  WholeTensor& operator=(WholeTensor&&) noexcept;
  ~WholeTensor();

  DType dtype() const;
  const Shape& shape() const;
  int64_t element_count() const { return ElementCount(shape()); }
  // The piece that is the whole; null: it is made of several, or changed.
  const TensorView* piece() const;
  // Writes elements [first, first + count), counted in row-major order, as plain bytes.
  // Thread-safe.
  void Copy(int64_t first, int64_t count, std::byte* out) const;
  // The same as numbers; not of complex ones.
  void Read(int64_t first, std::span<double> values) const;

  struct Node;

 private:
  explicit WholeTensor(std::unique_ptr<const Node> node);
  std::unique_ptr<const Node> node_;
};

}  // namespace msprobe::layout
