#include "src/analysis/rl/pair_metrics.h"

#include <algorithm>
#include <cmath>
#include <span>

#include "src/analysis/rl/arrays.h"

namespace msprobe::analysis::rl {
namespace {

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
  BlockReader first_reader(first);
  BlockReader second_reader(second);
  const int64_t total = first.element_count();
  for (int64_t at = 0; at < total; at += kBlockElements) {
    const int64_t count = std::min(kBlockElements, total - at);
    const std::span<const double> a = first_reader.Read(at, count);
    const std::span<const double> b = second_reader.Read(at, count);
    for (size_t i = 0; i < a.size(); ++i) {
      sums.Add(a[i], b[i]);
    }
  }
  return sums.Finish();
}

}  // namespace

Result<PairMetrics> ComparePair(const TensorView& first, const TensorView& second, bool compat) {
  MSP_ASSIGN_OR_RETURN(const Shape common, CommonShape(first.shape, second.shape));
  const TensorView a = Crop(first, common);
  const TensorView b = Crop(second, common);
  PairMetrics metrics = IsNarrowFloat(first.dtype) && IsNarrowFloat(second.dtype)
                            ? CompareAs<float>(a, b, compat)
                            : CompareAs<double>(a, b, compat);
  metrics.shapes_differ = first.shape != second.shape;
  return metrics;
}

}  // namespace msprobe::analysis::rl
