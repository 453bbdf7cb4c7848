#include "src/analysis/rl/pair_metrics.h"

#include <algorithm>
#include <cmath>
#include <vector>

#include <fmt/format.h>

#include "src/kernels/convert.h"
#include "src/tensor/tensor_buffer.h"

namespace msprobe::analysis::rl {
namespace {

constexpr int64_t kBlockElements = int64_t{1} << 16U;

// The part of a view that lies in `shape`; axes of `shape` are no longer than its own.
TensorView Crop(const TensorView& view, const Shape& shape) {
  TensorView part = view;
  part.shape = shape;
  return part;
}

bool IsNarrowFloat(DType dtype) {
  const DTypeInfo& info = GetDTypeInfo(dtype);
  return info.kind == DTypeKind::kFloat && info.size_bytes <= sizeof(float);
}

// Sums over all blocks; Value is the type in which elements are subtracted.
template <typename Value>
class Accumulator {
 public:
  explicit Accumulator(bool compat) : compat_(compat) {}

  void Add(double wide_a, double wide_b) {
    const auto a = static_cast<Value>(wide_a);
    const auto b = static_cast<Value>(wide_b);
    const bool a_nan = std::isnan(a);
    const bool b_nan = std::isnan(b);
    metrics_.first_nan_count += a_nan ? 1 : 0;
    metrics_.second_nan_count += b_nan ? 1 : 0;
    metrics_.nan_mismatch_count += a_nan != b_nan ? 1 : 0;
    const bool same = a == b || (!compat_ && a_nan && b_nan);
    if (same) {
      ++same_;
    } else if (!metrics_.first_mismatch) {
      metrics_.first_mismatch = metrics_.element_count;
    }
    ++metrics_.element_count;
    // Equal infinities differ by NaN in the Python tool.
    const Value difference = same && !compat_ ? Value{0} : std::fabs(a - b);
    const Value scale = a_nan || b_nan ? a + b : std::max(std::fabs(a), std::fabs(b));
    if (compat_ || !std::isnan(difference)) {
      const bool stays_nan = std::isnan(metrics_.max_abs) || std::isnan(difference);
      metrics_.max_abs =
          stays_nan ? std::nan("") : std::max(metrics_.max_abs, static_cast<double>(difference));
    }
    const Value relative = difference / scale;
    if (!std::isnan(relative)) {
      metrics_.max_relative = std::max(metrics_.max_relative, static_cast<double>(relative));
    }
    const bool counts = same && !compat_;
    within_thousandth_ += counts || difference <= Value(0.001) * scale ? 1 : 0;
    within_hundredth_ += counts || difference <= Value(0.01) * scale ? 1 : 0;
    if (std::isfinite(wide_a) && std::isfinite(wide_b)) {
      ++finite_;
      absolute_sum_ += std::fabs(wide_a - wide_b);
      dot_ += wide_a * wide_b;
      first_square_sum_ += wide_a * wide_a;
      second_square_sum_ += wide_b * wide_b;
    }
  }

  PairMetrics Finish() {
    const auto percent = [this](uint64_t count) {
      return 100.0 * static_cast<double>(count) / static_cast<double>(metrics_.element_count);
    };
    metrics_.same_percent = percent(same_);
    metrics_.within_thousandth_percent = percent(within_thousandth_);
    metrics_.within_hundredth_percent = percent(within_hundredth_);
    metrics_.mean_abs = finite_ == 0 ? 0 : absolute_sum_ / static_cast<double>(finite_);
    if (first_square_sum_ > 0 && second_square_sum_ > 0) {
      metrics_.cosine = dot_ / std::sqrt(first_square_sum_) / std::sqrt(second_square_sum_);
    }
    return metrics_;
  }

 private:
  const bool compat_;
  PairMetrics metrics_;
  uint64_t same_ = 0;
  uint64_t within_thousandth_ = 0;
  uint64_t within_hundredth_ = 0;
  uint64_t finite_ = 0;
  double absolute_sum_ = 0;
  double dot_ = 0;
  double first_square_sum_ = 0;
  double second_square_sum_ = 0;
};

template <typename Value>
PairMetrics CompareAs(const TensorView& first, const TensorView& second, bool compat) {
  Accumulator<Value> sums(compat);
  std::vector<std::byte> bytes;
  std::vector<double> a(static_cast<size_t>(kBlockElements));
  std::vector<double> b(static_cast<size_t>(kBlockElements));
  const int64_t total = first.element_count();
  for (int64_t at = 0; at < total; at += kBlockElements) {
    const int64_t count = std::min(kBlockElements, total - at);
    const auto widen = [&](const TensorView& view, std::vector<double>& out) {
      bytes.resize(static_cast<size_t>(count) * DTypeSize(view.dtype));
      tensor::CopyElements(view, at, count, bytes.data());
      kernels::WidenToDouble(view.dtype, bytes, std::span(out).first(static_cast<size_t>(count)));
    };
    widen(first, a);
    widen(second, b);
    for (size_t i = 0; i < static_cast<size_t>(count); ++i) {
      sums.Add(a[i], b[i]);
    }
  }
  return sums.Finish();
}

}  // namespace

Result<PairMetrics> ComparePair(const TensorView& first, const TensorView& second, bool compat) {
  if (first.shape.size() != second.shape.size()) {
    return MismatchError(fmt::format("shapes {} and {} have different numbers of axes",
                                     ShapeText(first.shape), ShapeText(second.shape)));
  }
  Shape common = first.shape;
  for (size_t axis = 0; axis < common.size(); ++axis) {
    common[axis] = std::min(common[axis], second.shape[axis]);
  }
  if (ElementCount(common) == 0) {
    return MismatchError(
        fmt::format("nothing to compare: shapes {} and {} have no element in "
                    "common",
                    ShapeText(first.shape), ShapeText(second.shape)));
  }
  const TensorView a = Crop(first, common);
  const TensorView b = Crop(second, common);
  PairMetrics metrics = IsNarrowFloat(first.dtype) && IsNarrowFloat(second.dtype)
                            ? CompareAs<float>(a, b, compat)
                            : CompareAs<double>(a, b, compat);
  metrics.shapes_differ = first.shape != second.shape;
  return metrics;
}

}  // namespace msprobe::analysis::rl
