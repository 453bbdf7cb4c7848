#include "src/analysis/kernel_dump/vector_measures.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include <fmt/format.h>

#include "msprobe/dtype.h"

#include "src/analysis/kernel_dump/number_reader.h"
#include "src/base/numbers.h"
#include "src/tensor/float_limits.h"

namespace msprobe::analysis::kernel_dump {
namespace {

constexpr std::array<std::string_view, kMeasureCount> kNames = {
    "CosineSimilarity",          "MaxAbsoluteError",          "AccumulatedRelativeError",
    "RelativeEuclideanDistance", "KullbackLeiblerDivergence", "StandardDeviation",
    "MeanAbsoluteError",         "RootMeanSquareError",       "MaxRelativeError",
    "MeanRelativeError"};

constexpr double kLeastShare =
    tensor::FormatOf(DType::kFloat32).epsilon();  // of float32, in which the vendor's tool counts
constexpr double kNaN = std::numeric_limits<double>::quiet_NaN();

struct SideSums {
  double sum = 0;
  double squares = 0;
  double least = std::numeric_limits<double>::infinity();
  double most = -std::numeric_limits<double>::infinity();
  double deviations = 0;  // squares of differences from the mean, in the second pass
  double shares = 0;

  void Add(double x) {
    sum += x;
    squares += x * x;
    least = SmallerOrNaN(least, x);
    most = LargerOrNaN(most, x);
  }
  // Moved and scaled to [0, 1].
  double Share(double x) const {
    const double range = most - least;
    return std::max(range == 0 ? 0.0 : (x - least) / range, kLeastShare);
  }
};

// Without the sign of a NaN or of a zero, which depend on the machine and on the order of sums.
std::string NumberText(double value, int digits) {
  if (std::isnan(value)) {
    return "nan";
  }
  std::string text = fmt::format("{:.{}f}", value, digits);
  const bool is_zero = text.find_first_not_of("-0.") == std::string::npos;
  return is_zero && text.front() == '-' ? text.substr(1) : text;
}

}  // namespace

std::string_view MeasureName(Measure measure) { return kNames[static_cast<size_t>(measure)]; }

std::optional<Measure> FindMeasure(std::string_view text) {
  for (size_t i = 0; i < kMeasureCount; ++i) {
    if (text == kNames[i] || base::ParseInt(text) == static_cast<int64_t>(i)) {
      return static_cast<Measure>(i);
    }
  }
  return std::nullopt;
}

Status CheckMeasurable(const TensorView& mine, const TensorView& golden) {
  for (const DType dtype : {mine.dtype, golden.dtype}) {
    if (GetDTypeInfo(dtype).kind == DTypeKind::kComplex) {
      return UnsupportedError("these measures are not defined for complex numbers");
    }
  }
  return {};
}

VectorMeasures MeasureVectors(const TensorView& mine, const TensorView& golden) {
  VectorMeasures measures;
  measures.elements = static_cast<uint64_t>(mine.element_count());
  measures.values.fill(kNaN);
  if (measures.elements == 0) {
    measures.means = measures.deviations = {kNaN, kNaN};
    return measures;
  }
  SideSums m;
  SideSums g;
  double dot = 0;
  double absolute = 0;
  double max_absolute = 0;
  double squares = 0;
  double relative = 0;
  double max_relative = 0;
  ForEachPair<double>(mine, golden, [&](double x, double y) {
    m.Add(x);
    g.Add(y);
    dot += x * y;
    const double difference = std::fabs(x - y);
    absolute += difference;
    squares += difference * difference;
    max_absolute = LargerOrNaN(max_absolute, difference);
    const double ratio = y == 0 ? 0 : difference / std::fabs(y);
    relative += ratio;
    max_relative = LargerOrNaN(max_relative, ratio);
  });
  const auto count = static_cast<double>(measures.elements);
  measures.means = {m.sum / count, g.sum / count};
  double entropy = 0;
  ForEachPair<double>(mine, golden, [&](double x, double y) {
    m.deviations += (x - measures.means[0]) * (x - measures.means[0]);
    g.deviations += (y - measures.means[1]) * (y - measures.means[1]);
    const double p = m.Share(x);
    const double q = g.Share(y);
    m.shares += p;
    g.shares += q;
    entropy += p == q ? 0 : p * std::log(p / q);
  });
  measures.deviations = {std::sqrt(m.deviations / count), std::sqrt(g.deviations / count)};
  measures.zero = m.most == 0 && m.least == 0;
  measures.golden_zero = g.most == 0 && g.least == 0;
  const auto set = [&](Measure measure, double value) {
    measures.values[static_cast<size_t>(measure)] = value;
  };
  set(Measure::kCosine, measures.zero && measures.golden_zero
                            ? 1
                            : dot / (std::sqrt(m.squares) * std::sqrt(g.squares)));
  set(Measure::kMaxAbsolute, max_absolute);
  set(Measure::kAccumulatedRelative, relative);
  set(Measure::kRelativeEuclidean, measures.golden_zero ? 0 : std::sqrt(squares / g.squares));
  // Where an element is not finite there are no shares: std::max would have hidden it.
  set(Measure::kKullbackLeibler, std::isfinite(m.most - m.least) && std::isfinite(g.most - g.least)
                                     ? entropy / m.shares - std::log(m.shares / g.shares)
                                     : kNaN);
  set(Measure::kMeanAbsolute, absolute / count);
  set(Measure::kRootMeanSquare, std::sqrt(squares / count));
  set(Measure::kMaxRelative, max_relative);
  set(Measure::kMeanRelative, relative / count);
  return measures;
}

std::string MeasureText(const VectorMeasures& measures, Measure measure) {
  if (measures.elements == 0) {
    return "NaN";
  }
  if (measure == Measure::kStandardDeviation) {
    return fmt::format("({};{}),({};{})", NumberText(measures.means[0], 3),
                       NumberText(measures.deviations[0], 3), NumberText(measures.means[1], 3),
                       NumberText(measures.deviations[1], 3));
  }
  if (measure == Measure::kCosine && (measures.zero || measures.golden_zero)) {
    return measures.zero && measures.golden_zero ? "1.0" : "NaN";
  }
  return NumberText(measures.value(measure), 6);
}

bool IsGood(const VectorMeasures& measures) {
  if (measures.elements == 0) {
    return true;
  }
  const bool one_is_zero = measures.zero != measures.golden_zero;
  return !one_is_zero && measures.value(Measure::kCosine) > 0.99 &&
         measures.value(Measure::kRelativeEuclidean) < 0.05 &&
         measures.value(Measure::kKullbackLeibler) < 0.005 &&
         measures.value(Measure::kRootMeanSquare) < 1 && measures.value(Measure::kMeanRelative) < 1;
}

}  // namespace msprobe::analysis::kernel_dump
