#include "src/analysis/compare/line26/torchair_metrics.h"

#include <algorithm>
#include <cmath>

#include "src/analysis/kernel_dump/number_reader.h"

namespace msprobe::analysis::compare {
namespace {

constexpr float kSmallFloat = 0x1p-23F;

// What stands in the report is float32.
double AsFloat(double value) { return static_cast<double>(static_cast<float>(value)); }

}  // namespace

TorchairMetrics MeasureTorchair(const TensorView& golden, const TensorView& mine) {
  TorchairMetrics metrics;
  const auto count = static_cast<double>(golden.element_count());
  double dot = 0, golden_squares = 0, mine_squares = 0, squares = 0;
  double relative = 0, absolute = 0;
  float max_relative = 0, max_absolute = 0;
  float golden_most = -INFINITY, mine_most = -INFINITY;
  bool all_small = true;
  kernel_dump::ForEachPair<float>(golden, mine, [&](float a, float b) {
    metrics.golden_finite = metrics.golden_finite && std::isfinite(a);
    metrics.mine_finite = metrics.mine_finite && std::isfinite(b);
    const double x = static_cast<double>(a);
    const double y = static_cast<double>(b);
    dot += x * y;
    golden_squares += x * x;
    mine_squares += y * y;
    squares += (y - x) * (y - x);
    golden_most = std::max(golden_most, a);
    mine_most = std::max(mine_most, b);
    const float difference = std::fabs(b - a);
    max_absolute = std::max(max_absolute, difference);
    absolute += static_cast<double>(difference);
    if (std::fabs(a) > kSmallFloat) {
      all_small = false;
      const float ratio = std::fabs(b / a - 1.0F);
      max_relative = std::max(max_relative, ratio);
      relative += static_cast<double>(ratio);
    }
  });
  if (!metrics.golden_finite || !metrics.mine_finite) {
    return metrics;
  }
  const double golden_top = static_cast<double>(golden_most);
  const double mine_top = static_cast<double>(mine_most);
  double golden_sum = 0, mine_sum = 0;
  kernel_dump::ForEachPair<float>(golden, mine, [&](float a, float b) {
    golden_sum += std::exp(static_cast<double>(a) - golden_top);
    mine_sum += std::exp(static_cast<double>(b) - mine_top);
  });
  // log of p / q for p = exp(a - top) / sum and the same of q.
  const double offset = std::log(mine_sum) + mine_top - std::log(golden_sum) - golden_top;
  double divergence = 0;
  kernel_dump::ForEachPair<float>(golden, mine, [&](float a, float b) {
    const double x = static_cast<double>(a);
    divergence += std::exp(x - golden_top) / golden_sum * (x - static_cast<double>(b) + offset);
  });
  const bool both_zero = golden_squares == 0 && mine_squares == 0;
  const double cosine = both_zero ? 1 : dot / (std::sqrt(golden_squares) * std::sqrt(mine_squares));
  metrics.values = {std::isnan(cosine) ? 0 : std::round(cosine * 1e10) / 1e10,
                    static_cast<double>(max_relative),
                    AsFloat(relative / count),
                    static_cast<double>(max_absolute),
                    AsFloat(absolute / count),
                    AsFloat(std::max(divergence, 0.0)),
                    all_small ? 0 : AsFloat(std::sqrt(squares / golden_squares))};
  return metrics;
}

}  // namespace msprobe::analysis::compare
