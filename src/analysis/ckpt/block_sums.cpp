#include "src/analysis/ckpt/block_sums.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <limits>
#include <numeric>
#include <optional>
#include <span>
#include <utility>

#include <fmt/format.h>

#include "src/analysis/ckpt/metrics.h"
#include "src/analysis/ckpt/result.h"
#include "src/base/mapped_reads.h"
#include "src/kernels/convert.h"
#include "src/tensor/tensor_buffer.h"

namespace msprobe::analysis::ckpt {
namespace {

// Elements that a double does not hold, one by one: complex numbers and integers of 64 bits. They
// are rare in checkpoints, so exactness counts here and speed does not; the SIMD kernels keep to
// floats.

// An element of any dtype.
struct WideElement {
  ExtendedFloat real = 0;
  ExtendedFloat imaginary = 0;

  bool is_finite() const { return IsFinite(real) && IsFinite(imaginary); }
  bool is_nan() const { return IsNan(real) || IsNan(imaginary); }
  ExtendedFloat square() const { return real * real + imaginary * imaginary; }
  ExtendedFloat magnitude() const {
    return imaginary == 0 ? Magnitude(real) : SquareRoot(square());
  }
  bool operator==(const WideElement& other) const = default;
  WideElement operator-(const WideElement& other) const {
    return {real - other.real, imaginary - other.imaginary};
  }
};

using checkpoint::Parameter;
using checkpoint::Piece;

// The part of a piece that covers `shape` elements from `offset` (of the whole) on.
Piece Cut(const Piece& piece, const Shape& offset, const Shape& shape) {
  Piece part = piece;
  int64_t skipped = 0;
  for (size_t axis = 0; axis < shape.size(); ++axis) {
    skipped += (offset[axis] - piece.offset[axis]) * piece.view.strides[axis];
  }
  part.Advance(skipped);
  part.view.shape = shape;
  return part;
}

std::optional<Box> Intersect(const Piece& a, const Piece& b) {
  for (size_t axis = 0; axis < a.offset.size(); ++axis) {
    if (a.offset[axis] >= b.offset[axis] + b.view.shape[axis] ||
        b.offset[axis] >= a.offset[axis] + a.view.shape[axis]) {
      return std::nullopt;
    }
  }
  Box box;
  Shape shape(a.offset.size());
  box.offset.resize(a.offset.size());
  for (size_t axis = 0; axis < shape.size(); ++axis) {
    const int64_t begin = std::max(a.offset[axis], b.offset[axis]);
    const int64_t end =
        std::min(a.offset[axis] + a.view.shape[axis], b.offset[axis] + b.view.shape[axis]);
    box.offset[axis] = begin;
    shape[axis] = end - begin;
  }
  const Piece part_a = Cut(a, box.offset, shape);
  const Piece part_b = Cut(b, box.offset, shape);
  box.a = part_a.view;
  box.b = part_b.view;
  box.coded_a = part_a.coded.get();
  box.coded_b = part_b.coded.get();
  box.coded_first_a = part_a.coded_first;
  box.coded_first_b = part_b.coded_first;
  box.plain_a = box.a.is_plain();
  box.plain_b = box.b.is_plain();
  return box;
}

// Pieces in a tree of boxes around them, so that those which meet another piece are found without
// a look at all: tilings of either side may be cut along any axis, and into any number of pieces.
class PieceTree {
 public:
  explicit PieceTree(const std::vector<Piece>& pieces)
      : pieces_(pieces),
        order_(pieces.size()),
        rank_(pieces.empty() ? 0 : pieces[0].offset.size()) {
    std::iota(order_.begin(), order_.end(), size_t{0});
    if (!pieces.empty()) {
      Build(0, order_.size());
    }
  }

  // Calls visit(number of the piece) for all whose boxes meet that of `piece`, and some more.
  template <typename Visit>
  void ForEachNear(const Piece& piece, Visit&& visit) const {
    std::vector<size_t> pending;
    if (!nodes_.empty()) {
      pending.push_back(0);
    }
    while (!pending.empty()) {
      const Node& node = nodes_[pending.back()];
      pending.pop_back();
      if (!Meets(node, piece)) {
        continue;
      }
      if (node.right != 0) {
        pending.push_back(node.left);
        pending.push_back(node.right);
        continue;
      }
      std::for_each(order_.begin() + static_cast<std::ptrdiff_t>(node.begin),
                    order_.begin() + static_cast<std::ptrdiff_t>(node.end), visit);
    }
  }

 private:
  static constexpr size_t kLeafPieces = 8;

  struct Node {
    size_t begin = 0;  // in order_
    size_t end = 0;
    size_t left = 0;  // of a leaf both are 0
    size_t right = 0;
    size_t bounds = 0;  // in bounds_: the first element and the end on every axis
  };

  bool Meets(const Node& node, const Piece& piece) const {
    const int64_t* bounds = bounds_.data() + node.bounds;
    for (size_t axis = 0; axis < rank_; ++axis) {
      if (piece.offset[axis] >= bounds[2 * axis + 1] ||
          piece.offset[axis] + piece.view.shape[axis] <= bounds[2 * axis]) {
        return false;
      }
    }
    return true;
  }

  // Halves on the axis where most places begin, down to a few pieces: no deeper than the logarithm
  // of their number.
  size_t Build(size_t begin, size_t end) {
    const size_t number = nodes_.size();
    nodes_.push_back({begin, end, 0, 0, bounds_.size()});
    size_t widest = 0;
    double most = 0;
    for (size_t axis = 0; axis < rank_; ++axis) {
      int64_t first = INT64_MAX;
      int64_t last_begin = 0;
      int64_t last = 0;
      double length = 0;
      for (size_t i = begin; i < end; ++i) {
        const Piece& piece = pieces_[order_[i]];
        first = std::min(first, piece.offset[axis]);
        last_begin = std::max(last_begin, piece.offset[axis]);
        last = std::max(last, piece.offset[axis] + piece.view.shape[axis]);
        length += static_cast<double>(piece.view.shape[axis]);
      }
      bounds_.push_back(first);
      bounds_.push_back(last);
      const double spread = static_cast<double>(last_begin - first) / std::max(length, 1.0);
      if (spread > most) {
        most = spread;
        widest = axis;
      }
    }
    if (end - begin <= kLeafPieces || most == 0) {
      return number;
    }
    const size_t middle = begin + (end - begin) / 2;
    const auto at = [this](size_t place) {
      return order_.begin() + static_cast<std::ptrdiff_t>(place);
    };
    std::nth_element(at(begin), at(middle), at(end), [&](size_t x, size_t y) {
      return pieces_[x].offset[widest] < pieces_[y].offset[widest];
    });
    const size_t left = Build(begin, middle);
    const size_t right = Build(middle, end);
    nodes_[number].left = left;
    nodes_[number].right = right;
    return number;
  }

  const std::vector<Piece>& pieces_;
  std::vector<size_t> order_;
  size_t rank_;
  std::vector<Node> nodes_;
  std::vector<int64_t> bounds_;
};

}  // namespace

Result<std::vector<Box>> Refine(const Parameter& a, const Parameter& b, size_t most_boxes) {
  constexpr size_t kBoxesPerPiece = 8;
  most_boxes += kBoxesPerPiece * (a.pieces.size() + b.pieces.size());
  const PieceTree tree(b.pieces);
  std::vector<Box> boxes;
  for (size_t i = 0; i < a.pieces.size(); ++i) {
    const Piece& piece = a.pieces[i];
    tree.ForEachNear(piece, [&](size_t j) {
      if (boxes.size() > most_boxes) {
        return;
      }
      if (std::optional<Box> box = Intersect(piece, b.pieces[j])) {
        box->piece_a = i;
        box->piece_b = j;
        boxes.push_back(*std::move(box));
      }
    });
    if (boxes.size() > most_boxes) {
      return UnsupportedError(fmt::format("its {} and {} pieces meet in more than {} places",
                                          a.pieces.size(), b.pieces.size(), most_boxes));
    }
  }
  std::stable_sort(boxes.begin(), boxes.end(),
                   [](const Box& x, const Box& y) { return x.offset < y.offset; });
  return boxes;
}

namespace {

template <class Value>
Value LoadAs(const std::byte* element) {
  Value value;
  std::memcpy(&value, element, sizeof(value));
  return value;
}

// As the kernels: a bench of 0 is taken as the smallest step from 1.
double RelativeError(const WideElement& a, const WideElement& b) {
  constexpr double kEpsilon = std::numeric_limits<double>::epsilon();
  const WideElement divisor = b.magnitude() == 0 ? WideElement{kEpsilon, 0} : b;
  return static_cast<double>((a - b).magnitude() / divisor.magnitude());
}

void AddNotFinite(const WideElement& a, const WideElement& b, PairSums& sums) {
  const bool inf_a = !a.is_nan() && !a.is_finite();
  const bool inf_b = !b.is_nan() && !b.is_finite();
  sums.nan_count_a += a.is_nan() ? 1U : 0U;
  sums.nan_count_b += b.is_nan() ? 1U : 0U;
  sums.inf_count_a += inf_a ? 1U : 0U;
  sums.inf_count_b += inf_b ? 1U : 0U;
  sums.same_inf_count += inf_a && a == b ? 1U : 0U;
  if ((a.is_nan() && b.is_nan()) || (inf_a && inf_b)) {
    ++sums.finite.nonfinite_match_count;
    sums.finite.opposite_inf_count += inf_a && !(a == b) ? 1U : 0U;
  } else {
    ++sums.finite.nonfinite_mismatch_count;
  }
}

// A little-endian element at any alignment.
WideElement LoadWide(DType dtype, const std::byte* element) {
  switch (dtype) {
    case DType::kInt64:
      return {static_cast<ExtendedFloat>(LoadAs<int64_t>(element)), 0};
    case DType::kUInt64:
      return {static_cast<ExtendedFloat>(LoadAs<uint64_t>(element)), 0};
    case DType::kComplex64:
      return {LoadAs<float>(element), LoadAs<float>(element + sizeof(float))};
    case DType::kComplex128:
      return {LoadAs<double>(element), LoadAs<double>(element + sizeof(double))};
    default: {
      double value = 0;
      kernels::WidenToDouble(dtype, {element, DTypeSize(dtype)}, {&value, 1});
      return {value, 0};
    }
  }
}

// What SumsOfBlock tells, equal bits aside, of elements that lie in row-major order. Of complex
// numbers errors are magnitudes of the difference, and the sums are of the real part.
PairSums WideStepSums(const Box& box, const std::byte* stored_a, const std::byte* stored_b,
                      size_t count, const Tolerance& tolerance, bool means) {
  PairSums sums;
  kernels::ComparePartial& finite = sums.finite;
  WideSums wide;
  finite.element_count = count;
  for (size_t i = 0; i < count; ++i) {
    const WideElement a = LoadWide(box.a.dtype, stored_a + i * DTypeSize(box.a.dtype));
    const WideElement b = LoadWide(box.b.dtype, stored_b + i * DTypeSize(box.b.dtype));
    wide.square_sum_a += a.is_finite() ? a.square() : 0;
    wide.square_sum_b += b.is_finite() ? b.square() : 0;
    sums.sum_a += means ? static_cast<double>(a.real) : 0;
    sums.sum_b += means ? static_cast<double>(b.real) : 0;
    if (!a.is_finite() || !b.is_finite()) {
      AddNotFinite(a, b, sums);
      const bool agrees = a == b || (a.is_nan() && b.is_nan());
      sums.exceeding_count += tolerance.given() && !agrees ? 1U : 0U;
      continue;
    }
    const auto error = static_cast<double>((a - b).magnitude());
    const double relative = RelativeError(a, b);
    wide.dot += a.real * b.real + a.imaginary * b.imaginary;
    wide.difference_square_sum += (a - b).square();
    finite.max_abs_error = std::max(finite.max_abs_error, error);
    finite.max_relative_error = std::max(finite.max_relative_error, relative);
    finite.below_one_thousandth_count += relative < 0.001 ? 1U : 0U;
    finite.below_five_thousandths_count += relative < 0.005 ? 1U : 0U;
    finite.different_count += a == b ? 0U : 1U;
    const double allowed =
        tolerance.absolute + tolerance.relative * static_cast<double>(b.magnitude());
    sums.exceeding_count += tolerance.given() && error > allowed ? 1U : 0U;
  }
  finite.dot = static_cast<double>(wide.dot);
  finite.npu_square_sum = static_cast<double>(wide.square_sum_a);
  finite.bench_square_sum = static_cast<double>(wide.square_sum_b);
  finite.difference_square_sum = static_cast<double>(wide.difference_square_sum);
  return sums;
}

// The block's elements in row-major order: where they lie or read from their file, or copied when
// they do not lie so.
const std::byte* Stored(const TensorView& view, bool plain, int64_t first, int64_t count,
                        std::vector<std::byte>& scratch) {
  const size_t element_bytes = DTypeSize(view.dtype);
  if (plain) {
    return base::ReadMapped({view.data + static_cast<size_t>(first) * element_bytes,
                             static_cast<size_t>(count) * element_bytes},
                            scratch)
        .data();
  }
  scratch.resize(static_cast<size_t>(count) * element_bytes);
  tensor::CopyElements(view, first, count, scratch.data());
  return scratch.data();
}

// Codes of a block, decoded in the row-major order of its box: run by run along the axis whose
// elements lie side by side, so that matrices that were turned are not decoded one by one.
void DecodeBlock(const io::CodedTensor& coded, int64_t coded_first, const TensorView& view,
                 bool plain, int64_t first, int64_t count, DType partner,
                 std::vector<float>& values, std::vector<float>& bounds,
                 std::vector<float>& turned) {
  values.resize(static_cast<size_t>(count));
  bounds.resize(static_cast<size_t>(count));
  if (plain) {
    coded.Decode(coded_first + first, static_cast<size_t>(count), partner, values.data(),
                 bounds.data());
    return;
  }
  const size_t rank = view.shape.size();
  const auto place_of = [&](int64_t element) {
    int64_t place = coded_first;
    for (size_t axis = rank; axis-- > 0;) {
      place += element % view.shape[axis] * view.strides[axis];
      element /= view.shape[axis];
    }
    return place;
  };
  const int64_t columns = view.shape[rank - 1];
  const int64_t column_stride = view.strides[rank - 1];
  const int64_t rows = rank < 2 ? 1 : view.shape[rank - 2];
  const bool is_turned = column_stride != 1 && rank >= 2 && view.strides[rank - 2] == 1;
  for (int64_t at = 0; at < count;) {
    const int64_t element = first + at;
    const int64_t column = element % columns;
    const int64_t row = element / columns % rows;
    if (is_turned && column == 0 && count - at >= columns) {
      // Whole rows: each column of them is one run of codes.
      const int64_t height = std::min((count - at) / columns, rows - row);
      turned.resize(static_cast<size_t>(2 * height));
      for (int64_t c = 0; c < columns; ++c) {
        coded.Decode(place_of(element + c), static_cast<size_t>(height), partner, turned.data(),
                     turned.data() + height);
        for (int64_t r = 0; r < height; ++r) {
          const auto to = static_cast<size_t>(at + r * columns + c);
          values[to] = turned[static_cast<size_t>(r)];
          bounds[to] = turned[static_cast<size_t>(height + r)];
        }
      }
      at += height * columns;
      continue;
    }
    const int64_t run = column_stride == 1 ? std::min(count - at, columns - column) : int64_t{1};
    coded.Decode(place_of(element), static_cast<size_t>(run), partner,
                 values.data() + static_cast<size_t>(at), bounds.data() + static_cast<size_t>(at));
    at += run;
  }
}

std::span<const float> Widened(DType dtype, const std::byte* stored, size_t count,
                               std::vector<float>& scratch) {
  scratch.resize(count);
  kernels::WidenToFloat(dtype, {stored, count * DTypeSize(dtype)}, scratch);
  return scratch;
}

// Dtypes of which every value is a float32, so that the kernels may read them as stored. Others
// lose digits on the way to float32, as they do in the Python tool; a pair of float16 would be
// compared in float16 arithmetic.
bool IsReadAsStored(DType dtype, DType other) {
  if (dtype == DType::kFloat16) {
    return other != DType::kFloat16 && IsReadAsStored(other, DType::kFloat32);
  }
  return GetDTypeInfo(dtype).kind == DTypeKind::kFloat && dtype != DType::kFloat64;
}

struct Operand {
  DType dtype;
  const std::byte* data;
};

Operand AsFloat32Values(DType dtype, DType other, const std::byte* stored, size_t count,
                        std::vector<float>& scratch) {
  if (IsReadAsStored(dtype, other)) {
    return {dtype, stored};
  }
  const std::span<const float> values = Widened(dtype, stored, count, scratch);
  return {DType::kFloat32, reinterpret_cast<const std::byte*>(values.data())};
}

// What the kernel leaves out of its sums: a finite element whose partner is not still belongs to
// the norm of its side.
template <class Value>
void AddNonFinite(std::span<const Value> a, std::span<const Value> b, PairSums& sums) {
  const auto square = [](Value value) {
    return static_cast<double>(value) * static_cast<double>(value);
  };
  for (size_t i = 0; i < a.size(); ++i) {
    const bool finite_a = std::isfinite(a[i]);
    const bool finite_b = std::isfinite(b[i]);
    if (finite_a && finite_b) {
      continue;
    }
    sums.nan_count_a += std::isnan(a[i]) ? 1U : 0U;
    sums.nan_count_b += std::isnan(b[i]) ? 1U : 0U;
    sums.inf_count_a += std::isinf(a[i]) ? 1U : 0U;
    sums.inf_count_b += std::isinf(b[i]) ? 1U : 0U;
    sums.same_inf_count += std::isinf(a[i]) && a[i] == b[i] ? 1U : 0U;
    sums.finite.npu_square_sum += finite_a ? square(a[i]) : 0;
    sums.finite.bench_square_sum += finite_b ? square(b[i]) : 0;
  }
}

template <class Value>
uint64_t CountExceeding(std::span<const Value> a, std::span<const Value> b,
                        const Tolerance& tolerance) {
  uint64_t exceeding = 0;
  for (size_t i = 0; i < a.size(); ++i) {
    const double x = a[i];
    const double y = b[i];
    const bool agrees =
        x == y || (std::isnan(x) && std::isnan(y)) ||
        (std::isfinite(x) && std::isfinite(y) &&
         std::fabs(x - y) <= tolerance.absolute + tolerance.relative * std::fabs(y));
    exceeding += agrees ? 0U : 1U;
  }
  return exceeding;
}

double SumOf(const Operand& side, size_t count) {
  const kernels::StatsPartial stats =
      kernels::StatsOfBlock(side.dtype, {side.data, count * DTypeSize(side.dtype)});
  return stats.sum;
}

std::span<const double> InDouble(DType dtype, const std::byte* stored, size_t count,
                                 std::vector<double>& scratch) {
  scratch.resize(count);
  kernels::WidenToDouble(dtype, {stored, count * DTypeSize(dtype)}, scratch);
  return scratch;
}

// Whether one side may be the other one rounded.
bool IsRounded(const Box& box) {
  return box.coded_a != nullptr || box.coded_b != nullptr ||
         (box.a.dtype != box.b.dtype && GetDTypeInfo(box.a.dtype).kind == DTypeKind::kFloat &&
          GetDTypeInfo(box.b.dtype).kind == DTypeKind::kFloat);
}

uint64_t DifferingElements(const kernels::ComparePartial& finite) {
  return finite.different_count + finite.nonfinite_mismatch_count + finite.opposite_inf_count;
}

// How far a number that was rounded to `dtype` may lie from `value`, a number of that dtype: half
// the gap to the next one.
double HalfGap(DType dtype, double value) {
  int digits = 0;  // of the fraction
  int lowest = 0;  // exponent of the smallest normal number
  switch (dtype) {
    case DType::kFloat32:
      digits = 23;
      lowest = -126;
      break;
    case DType::kFloat16:
      digits = 10;
      lowest = -14;
      break;
    case DType::kBFloat16:
      digits = 7;
      lowest = -126;
      break;
    case DType::kFloat8E4M3FN:
      digits = 3;
      lowest = -6;
      break;
    case DType::kFloat8E5M2:
      digits = 2;
      lowest = -14;
      break;
    case DType::kFloat8E4M3FNUZ:
      digits = 3;
      lowest = -7;
      break;
    case DType::kFloat8E5M2FNUZ:
      digits = 2;
      lowest = -15;
      break;
    default:
      return 0;
  }
  const int exponent = value == 0 ? lowest : std::max(std::ilogb(value), lowest);
  return std::ldexp(1.0, exponent - digits - 1);
}

// Elements that lie farther apart than rounding to the format of a side explains; what is not
// finite agrees with its like only.
void CountBeyond(std::span<const double> a, std::span<const double> b, const Box& box,
                 const BlockScratch& scratch, PairSums& sums) {
  for (size_t i = 0; i < a.size(); ++i) {
    if (a[i] == b[i] || (std::isnan(a[i]) && std::isnan(b[i]))) {
      continue;
    }
    const double apart = std::fabs(a[i] - b[i]);
    if (box.coded_a != nullptr || box.coded_b != nullptr) {
      const double bound = (box.coded_a != nullptr ? static_cast<double>(scratch.bounds_a[i]) : 0) +
                           (box.coded_b != nullptr ? static_cast<double>(scratch.bounds_b[i]) : 0);
      const uint64_t beyond = apart <= bound ? 0 : 1;
      sums.beyond_a += beyond;
      sums.beyond_b += beyond;
    } else {
      sums.beyond_a += apart <= HalfGap(box.a.dtype, a[i]) ? 0U : 1U;
      sums.beyond_b += apart <= HalfGap(box.b.dtype, b[i]) ? 0U : 1U;
    }
  }
}

// The same of finite elements of codes, in float32: one pass that compilers make wide.
uint64_t CountBeyondBounds(std::span<const float> a, std::span<const float> b,
                           std::span<const float> bounds_a, std::span<const float> bounds_b) {
  const bool both = !bounds_a.empty() && !bounds_b.empty();
  const float* const x = a.data();
  const float* const y = b.data();
  const float* const first = bounds_a.empty() ? bounds_b.data() : bounds_a.data();
  const float* const second = bounds_b.data();
  constexpr size_t kRun = 4096;  // counts fit into 32 bits
  uint64_t beyond = 0;
  for (size_t begin = 0; begin < a.size(); begin += kRun) {
    const size_t end = std::min(a.size(), begin + kRun);
    uint32_t count = 0;
    if (both) {
      for (size_t i = begin; i < end; ++i) {
        count += std::fabs(x[i] - y[i]) <= first[i] + second[i] ? 0U : 1U;
      }
    } else {
      for (size_t i = begin; i < end; ++i) {
        count += std::fabs(x[i] - y[i]) <= first[i] ? 0U : 1U;
      }
    }
    beyond += count;
  }
  return beyond;
}

// Whether every value is a double, so that the kernels lose nothing.
bool FitsDouble(DType dtype) {
  return dtype != DType::kInt64 && dtype != DType::kUInt64 &&
         GetDTypeInfo(dtype).kind != DTypeKind::kComplex;
}

// Codes are decoded into float32.
std::pair<const std::byte*, const std::byte*> StoredSides(const Box& box, int64_t first,
                                                          int64_t count, BlockScratch& scratch) {
  const std::byte* stored_a = nullptr;
  const std::byte* stored_b = nullptr;
  if (box.coded_a != nullptr) {
    DecodeBlock(*box.coded_a, box.coded_first_a, box.a, box.plain_a, first, count, box.b.dtype,
                scratch.decoded_a, scratch.bounds_a, scratch.turned);
    stored_a = reinterpret_cast<const std::byte*>(scratch.decoded_a.data());
  } else {
    stored_a = Stored(box.a, box.plain_a, first, count, scratch.stored_a);
  }
  if (box.coded_b != nullptr) {
    DecodeBlock(*box.coded_b, box.coded_first_b, box.b, box.plain_b, first, count, box.a.dtype,
                scratch.decoded_b, scratch.bounds_b, scratch.turned);
    stored_b = reinterpret_cast<const std::byte*>(scratch.decoded_b.data());
  } else {
    stored_b = Stored(box.b, box.plain_b, first, count, scratch.stored_b);
  }
  return {stored_a, stored_b};
}

bool HaveOneFormat(const Box& box) {
  return box.coded_a == nullptr || box.coded_b == nullptr
             ? box.coded_a == box.coded_b
             : box.coded_a->format() == box.coded_b->format();
}

// Whether codes may be decoded and compared run by run while they lie in a cache.
bool IsComparedInRuns(const Box& box, const Tolerance& tolerance, bool float32) {
  const auto fits = [](DType dtype) {
    return GetDTypeInfo(dtype).kind == DTypeKind::kFloat && dtype != DType::kFloat64;
  };
  return (box.coded_a != nullptr || box.coded_b != nullptr) && !float32 && !tolerance.given() &&
         box.plain_a && box.plain_b && fits(box.a.dtype) && fits(box.b.dtype);
}

// One side of a run: codes as float32, what is stored as it lies there where the kernels read it.
class RunReader {
 public:
  RunReader(const io::CodedTensor* coded, int64_t coded_first, const TensorView& view,
            const std::byte* stored, DType partner, const io::CodedTensor::ReadCodes& read)
      : coded_(coded),
        first_(coded_first),
        dtype_(view.dtype),
        stored_(stored),
        partner_(partner),
        read_(read) {}

  bool is_bfloat16() const { return coded_ == nullptr && dtype_ == DType::kBFloat16; }

  // Codes as they lie there, for kernels that decode them. nullptr: they have to be read.
  const kernels::CodedRun* Describe(size_t first, size_t count) {
    return coded_ != nullptr && coded_->DescribeRun(read_, first_ + static_cast<int64_t>(first),
                                                    count, described_)
               ? &described_
               : nullptr;
  }

  const std::byte* Read(size_t first, size_t count, float* bounds) {
    if (coded_ != nullptr) {
      coded_->DecodeFrom(read_.bytes.empty() ? nullptr : &read_,
                         first_ + static_cast<int64_t>(first), count, partner_, values_.data(),
                         bounds);
      return reinterpret_cast<const std::byte*>(values_.data());
    }
    const std::byte* stored = stored_ + first * DTypeSize(dtype_);
    if (is_bfloat16() || dtype_ == DType::kFloat32) {
      return stored;
    }
    kernels::WidenToFloat(dtype_, {stored, count * DTypeSize(dtype_)},
                          std::span(values_).first(count));
    return reinterpret_cast<const std::byte*>(values_.data());
  }

 private:
  const io::CodedTensor* coded_;
  int64_t first_;
  DType dtype_;
  const std::byte* stored_;
  DType partner_;
  const io::CodedTensor::ReadCodes& read_;
  kernels::CodedRun described_;
  alignas(64) std::array<float, kernels::kBoundedRunElements> values_;
};

// The sums of a block in one walk over its codes. nullopt where squares leave float32's range.
std::optional<PairSums> SumsInRuns(const Box& box, int64_t first, int64_t count, bool means,
                                   BlockScratch& scratch) {
  // Codes are read for the whole block, as stored numbers are.
  const auto reader = [&](const io::CodedTensor* coded, int64_t coded_first, const TensorView& view,
                          DType partner, std::vector<std::byte>& bytes,
                          io::CodedTensor::ReadCodes& codes) {
    const std::byte* stored = nullptr;
    if (coded == nullptr) {
      stored = Stored(view, /*plain=*/true, first, count, bytes);
    } else {
      coded->Read(coded_first + first, static_cast<size_t>(count), codes);
    }
    return RunReader(coded, coded_first + first, view, stored, partner, codes);
  };
  RunReader a =
      reader(box.coded_a, box.coded_first_a, box.a, box.b.dtype, scratch.stored_a, scratch.codes_a);
  RunReader b =
      reader(box.coded_b, box.coded_first_b, box.b, box.a.dtype, scratch.stored_b, scratch.codes_b);
  alignas(64) std::array<float, kernels::kBoundedRunElements> bounds;
  alignas(64) std::array<float, kernels::kBoundedRunElements> other_bounds;
  const bool both = box.coded_a != nullptr && box.coded_b != nullptr;
  bool equal_bits = HaveOneFormat(box) && box.a.dtype == box.b.dtype;
  const kernels::BoundedForm form = a.is_bfloat16()   ? kernels::BoundedForm::kBFloat16Npu
                                    : b.is_bfloat16() ? kernels::BoundedForm::kBFloat16Bench
                                                      : kernels::BoundedForm::kFloat32;
  const kernels::BoundedPartial partial = kernels::CompareBounded(
      box.a.dtype, box.b.dtype, form, static_cast<size_t>(count), means,
      [&](size_t begin, size_t size) -> kernels::BoundedRun {
        if (form != kernels::BoundedForm::kFloat32) {
          RunReader& coded = a.is_bfloat16() ? b : a;
          if (const kernels::CodedRun* codes = coded.Describe(begin, size)) {
            return {a.is_bfloat16() ? a.Read(begin, size, nullptr) : nullptr,
                    a.is_bfloat16() ? nullptr : b.Read(begin, size, nullptr), nullptr, codes};
          }
        }
        const std::byte* of_a = a.Read(begin, size, bounds.data());
        const std::byte* of_b = b.Read(begin, size, both ? other_bounds.data() : bounds.data());
        for (size_t i = 0; both && i < size; ++i) {
          bounds[i] += other_bounds[i];
        }
        equal_bits =
            equal_bits && std::memcmp(of_a, of_b, size * sizeof(float)) == 0;  // both coded
        return {of_a, of_b, bounds.data()};
      });
  if (!partial.in_range) {
    return std::nullopt;
  }
  PairSums sums;
  sums.finite = partial.sums;
  sums.sum_a = partial.npu_sum;
  sums.sum_b = partial.bench_sum;
  sums.beyond_a = sums.beyond_b = sums.finite.different_count > 0 ? partial.beyond : 0;
  sums.equal_bits = equal_bits && sums.finite.different_count == 0;
  return sums;
}

}  // namespace

PairSums SumsOfBlock(const Box& box, int64_t first, int64_t count, const Tolerance& tolerance,
                     bool means, bool float32, BlockScratch& scratch) {
  if (IsComparedInRuns(box, tolerance, float32)) {
    if (std::optional<PairSums> sums = SumsInRuns(box, first, count, means, scratch)) {
      return *std::move(sums);
    }
  }
  const auto size = static_cast<size_t>(count);
  const auto [stored_a, stored_b] = StoredSides(box, first, count, scratch);
  PairSums sums;
  const kernels::ComparePartial& finite = sums.finite;
  bool is_counted = false;
  if (!float32 && (!FitsDouble(box.a.dtype) || !FitsDouble(box.b.dtype))) {
    sums = WideStepSums(box, stored_a, stored_b, size, tolerance, means);
  } else {
    Operand a{box.a.dtype, stored_a};
    Operand b{box.b.dtype, stored_b};
    // A pair of float16 would be compared in float16 arithmetic.
    if (float32 || (a.dtype == DType::kFloat16 && b.dtype == DType::kFloat16)) {
      a = AsFloat32Values(box.a.dtype, box.b.dtype, stored_a, size, scratch.float_a);
      b = AsFloat32Values(box.b.dtype, box.a.dtype, stored_b, size, scratch.float_b);
    }
    sums.finite = kernels::CompareBlock(a.dtype, a.data, b.dtype, b.data, size);
    // Calls with the elements of both sides as spans of float or double.
    const auto with_values = [&](const auto& call) {
      if (float32) {
        call(Widened(box.a.dtype, stored_a, size, scratch.float_a),
             Widened(box.b.dtype, stored_b, size, scratch.float_b));
      } else {
        call(InDouble(box.a.dtype, stored_a, size, scratch.double_a),
             InDouble(box.b.dtype, stored_b, size, scratch.double_b));
      }
    };
    if (finite.nonfinite_match_count + finite.nonfinite_mismatch_count > 0) {
      with_values([&](const auto& x, const auto& y) { AddNonFinite(x, y, sums); });
    }
    if (tolerance.given() && DifferingElements(finite) > 0) {
      with_values([&](const auto& x, const auto& y) {
        sums.exceeding_count = CountExceeding(x, y, tolerance);
      });
    }
    is_counted = !float32 && IsRounded(box) && finite.different_count > 0;
    const bool is_coded = box.coded_a != nullptr || box.coded_b != nullptr;
    const bool all_finite = finite.nonfinite_match_count + finite.nonfinite_mismatch_count == 0;
    if (is_counted && is_coded && all_finite && box.a.dtype != DType::kFloat64 &&
        box.b.dtype != DType::kFloat64) {
      const auto values = [&](const io::CodedTensor* coded, const std::vector<float>& decoded,
                              DType dtype, const std::byte* stored, std::vector<float>& wide) {
        return coded != nullptr ? std::span<const float>(decoded)
                                : Widened(dtype, stored, size, wide);
      };
      const std::span<const float> none;
      const uint64_t beyond = CountBeyondBounds(
          values(box.coded_a, scratch.decoded_a, box.a.dtype, stored_a, scratch.float_a),
          values(box.coded_b, scratch.decoded_b, box.b.dtype, stored_b, scratch.float_b),
          box.coded_a != nullptr ? std::span<const float>(scratch.bounds_a) : none,
          box.coded_b != nullptr ? std::span<const float>(scratch.bounds_b) : none);
      sums.beyond_a = sums.beyond_b = beyond;
    } else if (is_counted) {
      CountBeyond(InDouble(box.a.dtype, stored_a, size, scratch.double_a),
                  InDouble(box.b.dtype, stored_b, size, scratch.double_b), box, scratch, sums);
    }
    if (means) {
      sums.sum_a = SumOf(a, size);
      sums.sum_b = SumOf(b, size);
    }
  }
  if (!is_counted) {
    sums.beyond_a = sums.beyond_b = DifferingElements(finite);
  }
  sums.equal_bits = DifferingElements(finite) == 0 && HaveOneFormat(box) &&
                    box.a.dtype == box.b.dtype &&
                    std::memcmp(stored_a, stored_b, size * DTypeSize(box.a.dtype)) == 0;
  return sums;
}

std::pair<std::span<const double>, std::span<const double>> DoublesOfBlock(const Box& box,
                                                                           int64_t first,
                                                                           int64_t count,
                                                                           BlockScratch& scratch) {
  const auto size = static_cast<size_t>(count);
  const auto [stored_a, stored_b] = StoredSides(box, first, count, scratch);
  return {InDouble(box.a.dtype, stored_a, size, scratch.double_a),
          InDouble(box.b.dtype, stored_b, size, scratch.double_b)};
}

void WideSumsOfBlock(const Box& box, int64_t first, int64_t count, BlockScratch& scratch,
                     WideSums& sums) {
  const auto size = static_cast<size_t>(count);
  const auto [stored_a, stored_b] = StoredSides(box, first, count, scratch);
  for (size_t i = 0; i < size; ++i) {
    const WideElement a = LoadWide(box.a.dtype, stored_a + i * DTypeSize(box.a.dtype));
    const WideElement b = LoadWide(box.b.dtype, stored_b + i * DTypeSize(box.b.dtype));
    sums.square_sum_a += a.is_finite() ? a.square() : 0;
    sums.square_sum_b += b.is_finite() ? b.square() : 0;
    if (a.is_finite() && b.is_finite()) {
      sums.dot += a.real * b.real + a.imaginary * b.imaginary;
      sums.difference_square_sum += (a - b).square();
    }
  }
}

void FlushedSumsOfBlock(const Box& box, int64_t first, int64_t count, BlockScratch& scratch,
                        kernels::ComparePartial& sums) {
  const auto size = static_cast<size_t>(count);
  const auto [stored_a, stored_b] = StoredSides(box, first, count, scratch);
  const std::span<const float> a = Widened(box.a.dtype, stored_a, size, scratch.float_a);
  const std::span<const float> b = Widened(box.b.dtype, stored_b, size, scratch.float_b);
  for (size_t i = 0; i < size; ++i) {
    FlushedStep(a[i], b[i], sums);
  }
}

}  // namespace msprobe::analysis::ckpt
