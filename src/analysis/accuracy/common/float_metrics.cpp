#include "src/analysis/accuracy/common/float_metrics.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <type_traits>
#include <vector>

#include "src/kernels/convert.h"
#include "src/tensor/element_blocks.h"
#include "src/tensor/float_bits.h"
#include "src/tensor/float_limits.h"

namespace msprobe::analysis::accuracy {
namespace {

constexpr double kNan = std::numeric_limits<double>::quiet_NaN();

bool IsFloat8Type(DType dtype) { return DTypeSize(dtype) == 1; }

// The format in whose units in the last place errors are counted: everything else counts as
// float32.
tensor::FloatFormat UnitsOf(DType dtype) {
  const bool narrow = dtype == DType::kFloat16 || dtype == DType::kBFloat16;
  return tensor::FormatOf(narrow ? dtype : DType::kFloat32);
}

// NaN wins, as in NumPy's max().
void TakeLargest(double value, double& largest) {
  if (std::isnan(value) || value > largest) {
    largest = value;
  }
}

// The arithmetic of NumPy for two arrays: in `Real`, and for two float16 arrays with every result
// rounded to float16.
template <typename Real, bool kHalf>
class Arithmetic {
 public:
  static Real Round(Real value) {
    if constexpr (kHalf) {
      return tensor::Float16ToFloat(tensor::FloatToFloat16(static_cast<float>(value)));
    } else {
      return value;
    }
  }
  static MetricNumber Number(double value) {
    return {static_cast<double>(Round(static_cast<Real>(value))),
            kHalf                         ? MetricNumber::Form::kHalf
            : std::is_same_v<Real, float> ? MetricNumber::Form::kSingle
                                          : MetricNumber::Form::kDouble};
  }
};

template <typename Real, bool kHalf>
class Measurement {
  using Math = Arithmetic<Real, kHalf>;

 public:
  Measurement(const TensorView& device, const TensorView& bench, const Limits& limits,
              const FloatMetricsOptions& options)
      : device_(device), bench_(bench), options_(options), dtype_(device.dtype) {
    // Of the bench's dtype, but for bfloat16 devices.
    const bool has_own = bench.dtype == DType::kFloat64 || bench.dtype == DType::kFloat16;
    const double eps = dtype_ == DType::kBFloat16
                           ? tensor::FormatOf(dtype_).unit
                           : tensor::FormatOf(has_own ? bench.dtype : DType::kFloat32).epsilon();
    eps_ = static_cast<Real>(eps);
    const bool wide = options.standard == Standard::kAccumulative;
    small_value_ = wide ? limits.small_value_accumulative : limits.small_value.For(dtype_);
    rtol_ = (wide ? limits.accumulative_bound : limits.absolute_rtol).For(dtype_);
    atol_ = (wide                                       ? limits.accumulative_bound
             : options.standard == Standard::kBenchmark ? limits.benchmark_atol
                                                        : limits.absolute_atol)
                .For(dtype_);
    ulp_large_ = IsFloat8Type(dtype_) ? limits.ulp_large.half : limits.ulp_large.For(dtype_);
    largest_finite_ = UnitsOf(dtype_).largest;
    // bfloat16 is compared as float32.
    cast_ = dtype_ == DType::kBFloat16 || IsFloat8Type(dtype_) ? DType::kFloat32 : dtype_;
  }

  FloatMetrics Measure() {
    ForEachPair([this](double device, double bench) { Add(device, bench); });
    const double scale_device = out_.largest_device;
    const double scale_bench = out_.largest_bench;
    double dot = 0;
    double device_squares = 0;
    double bench_squares = 0;
    ForEachPair([&](double device, double bench) {
      if (!IsLeftOut(device, bench)) {
        const double a = device / scale_device;
        const double b = bench / scale_bench;
        dot += a * b;
        device_squares += a * a;
        bench_squares += b * b;
      }
    });
    const double cosine = dot / (std::sqrt(device_squares) * std::sqrt(bench_squares));
    out_.cosine = std::isnan(cosine) ? kNan : std::clamp(cosine, -1.0, 1.0);
    Finish();
    return out_;
  }

 private:
  template <typename Visit>
  void ForEachPair(Visit visit) {
    tensor::BlockReader device(device_, device_scratch_);
    tensor::BlockReader bench(bench_, bench_scratch_);
    const auto count = static_cast<size_t>(device_.element_count());
    device_values_.resize(std::min(count, tensor::kCopyBlockElements));
    bench_values_.resize(device_values_.size());
    for (size_t first = 0; first < count; first += tensor::kCopyBlockElements) {
      const size_t size = std::min(count - first, tensor::kCopyBlockElements);
      kernels::WidenToDouble(device_.dtype, device.Read(first, size),
                             std::span(device_values_).first(size));
      kernels::WidenToDouble(bench_.dtype, bench.Read(first, size),
                             std::span(bench_values_).first(size));
      for (size_t i = 0; i < size; ++i) {
        visit(device_values_[i], bench_values_[i]);
      }
    }
  }

  static bool IsSameNonFinite(double device, double bench) {
    return (std::isnan(device) && std::isnan(bench)) || (std::isinf(device) && device == bench);
  }
  bool IsLeftOut(double device, double bench) const {
    return options_.finite_part && IsSameNonFinite(device, bench);
  }

  void Add(double device, double bench) {
    if (!std::isfinite(device) || !std::isfinite(bench)) {
      ++(IsSameNonFinite(device, bench) ? same_non_finite_ : other_non_finite_);
    }
    if (IsLeftOut(device, bench)) {
      return;
    }
    ++out_.count;
    TakeLargest(std::fabs(device), out_.largest_device);
    TakeLargest(std::fabs(bench), out_.largest_bench);
    const auto d = static_cast<Real>(device);
    const auto b = static_cast<Real>(bench);
    const Real error = std::fabs(Math::Round(d - b));
    const Real relative = Math::Round(error / Math::Round(std::fabs(b) + eps_));
    TakeLargest(static_cast<double>(error), max_abs_);
    below_hundredth_ += relative < static_cast<Real>(0.01) ? 1 : 0;
    below_thousandth_ += relative < static_cast<Real>(0.001) ? 1 : 0;
    below_ten_thousandth_ += relative < static_cast<Real>(0.0001) ? 1 : 0;
    if (options_.with_standard) {
      AddOfStandard(device, bench, static_cast<double>(error), static_cast<double>(relative));
    }
  }

  void AddOfStandard(double device, double bench, double error, double relative) {
    switch (options_.standard) {
      case Standard::kBinary:
        unequal_ += static_cast<Real>(device) == static_cast<Real>(bench) ? 0 : 1;
        return;
      case Standard::kUlp:
        AddUlp(device, bench);
        return;
      case Standard::kThousandth:
        return;
      case Standard::kAbsolute:
      case Standard::kAccumulative:
      case Standard::kBenchmark:
        break;
    }
    const double cast = tensor::RoundToDType(cast_, bench);
    positive_ += device - cast > 0 ? 1 : 0;
    negative_ += device - cast < 0 ? 1 : 0;
    if (!std::isfinite(device) || !std::isfinite(cast)) {
      AddNonFinite(device, cast);
    } else if (std::fabs(bench) <= small_value_) {
      ++small_;
      small_wrong_ += error > atol_ ? 1 : 0;
    } else {
      ++normal_;
      normal_wrong_ += relative > rtol_ ? 1 : 0;
      squares_ += error * error;
      relative_sum_ += relative;
      max_relative_ = std::max(max_relative_, relative);
    }
  }

  void AddNonFinite(double device, double cast) {
    ++bad_;
    if (std::isnan(device) || std::isnan(cast)) {
      bad_wrong_ += std::isnan(device) && std::isnan(cast) ? 0 : 1;
      return;
    }
    const double d = std::clamp(device, -largest_finite_, largest_finite_);
    const double b = std::clamp(cast, -largest_finite_, largest_finite_);
    bad_wrong_ += std::fabs(d - b) / (std::fabs(b) + static_cast<double>(eps_)) <= rtol_ ? 0 : 1;
  }

  void AddUlp(double device, double bench) {
    // A float32 device is measured in float64, others in float32.
    const double ulp = IsFloat8Type(dtype_) ? Float8Ulp(device, bench)
                       : dtype_ == DType::kFloat32
                           ? Ulp(device, bench)
                           : static_cast<double>(static_cast<float>(Ulp(device, bench)));
    const double magnitude = std::fabs(ulp);
    TakeLargest(magnitude, ulp_max_);
    ulp_sum_ += magnitude;
    ulp_above_ += magnitude > ulp_large_ ? 1 : 0;
  }

  double Ulp(double device, double bench) const {
    const tensor::FloatFormat format = UnitsOf(dtype_);
    int exponent = bench == 0 || !std::isfinite(bench) ? 0 : std::ilogb(bench);
    if (!std::isfinite(bench)) {
      return kNan;
    }
    exponent = std::max(exponent, std::ilogb(format.normal));
    return std::ldexp(device - bench, -std::ilogb(format.epsilon()) - exponent);
  }

  // The mantissa of HiFloat8 narrows with the exponent; 26.x measures all 8-bit floats so.
  static double Float8Ulp(double device, double bench) {
    if (!std::isfinite(bench)) {
      return kNan;
    }
    const int exponent = std::max(bench == 0 ? -22 : std::ilogb(bench), -22);
    const int size = std::abs(exponent);
    if (size > 15) {
      const auto signed_log = [](double value) {
        const double log = value == 0 ? -22 : std::log2(std::fabs(value));
        return std::signbit(value) ? -log : log;
      };
      return signed_log(device) - signed_log(bench);
    }
    const int mantissa = size <= 3 ? 3 : size <= 7 ? 2 : 1;
    return std::ldexp(device - bench, mantissa - exponent);
  }

  static MetricNumber Share(uint64_t part, uint64_t whole) {
    return whole == 0
               ? MetricNumber::Zero()
               : MetricNumber::Double(static_cast<double>(part) / static_cast<double>(whole));
  }

  void Finish() {
    const auto n = static_cast<double>(out_.count);
    out_.has_equal_non_finite = same_non_finite_ > 0 && other_non_finite_ == 0;
    out_.max_abs = Math::Number(max_abs_);
    out_.hundredth = static_cast<double>(below_hundredth_) / n;
    out_.thousandth = static_cast<double>(below_thousandth_) / n;
    out_.ten_thousandth = static_cast<double>(below_ten_thousandth_) / n;
    if (!options_.with_standard) {
      return;
    }
    const double balance =
        std::fabs(static_cast<double>(positive_) - static_cast<double>(negative_)) / n;
    switch (options_.standard) {
      case Standard::kBinary:
        out_.error_rate = MetricNumber::Double(static_cast<double>(unequal_) / n);
        break;
      case Standard::kThousandth:
        break;
      case Standard::kUlp: {
        using Form = MetricNumber::Form;
        const Form form = dtype_ == DType::kFloat32 ? Form::kDouble : Form::kSingle;
        const auto number = [form](double value) {
          return MetricNumber{
              form == Form::kSingle ? static_cast<double>(static_cast<float>(value)) : value, form};
        };
        out_.ulp_max = number(ulp_max_);
        out_.ulp_mean = number(ulp_sum_ / n);
        out_.ulp_share = MetricNumber::Double(static_cast<double>(ulp_above_) / n);
        break;
      }
      case Standard::kAccumulative:
        out_.error_balance = MetricNumber::Double(balance);
        [[fallthrough]];
      case Standard::kAbsolute:
        out_.inf_nan = Share(bad_wrong_, bad_);
        out_.relative = Share(normal_wrong_, normal_);
        out_.absolute = Share(small_wrong_, small_);
        break;
      case Standard::kBenchmark: {
        const auto masked = static_cast<double>(bad_ + small_);
        out_.error_balance = MetricNumber::Double(balance);
        out_.rmse =
            MetricNumber::Double(std::sqrt(squares_ / n * (n / (n - masked + 0.0001) + 0.0001)));
        out_.small_value = Share(small_wrong_, small_);
        out_.max_relative = normal_ == 0 ? MetricNumber::Zero() : Math::Number(max_relative_);
        out_.mean_relative = normal_ == 0
                                 ? MetricNumber::Zero()
                                 : Math::Number(relative_sum_ / static_cast<double>(normal_));
        break;
      }
    }
  }

  const TensorView& device_;
  const TensorView& bench_;
  const FloatMetricsOptions& options_;
  const DType dtype_;
  DType cast_ = DType::kFloat32;
  Real eps_ = 0;
  double small_value_ = 0;
  double rtol_ = 0;
  double atol_ = 0;
  double ulp_large_ = 0;
  double largest_finite_ = 0;
  FloatMetrics out_;
  double max_abs_ = 0;
  double max_relative_ = 0;
  double squares_ = 0;
  double relative_sum_ = 0;
  double ulp_max_ = 0;
  double ulp_sum_ = 0;
  uint64_t below_hundredth_ = 0;
  uint64_t below_thousandth_ = 0;
  uint64_t below_ten_thousandth_ = 0;
  uint64_t unequal_ = 0;
  uint64_t positive_ = 0;
  uint64_t negative_ = 0;
  uint64_t bad_ = 0;
  uint64_t bad_wrong_ = 0;
  uint64_t small_ = 0;
  uint64_t small_wrong_ = 0;
  uint64_t normal_ = 0;
  uint64_t normal_wrong_ = 0;
  uint64_t ulp_above_ = 0;
  uint64_t same_non_finite_ = 0;
  uint64_t other_non_finite_ = 0;
  std::vector<std::byte> device_scratch_;
  std::vector<std::byte> bench_scratch_;
  std::vector<double> device_values_;
  std::vector<double> bench_values_;
};

}  // namespace

FloatMetrics MeasureFloats(const TensorView& device, const TensorView& bench, const Limits& limits,
                           const FloatMetricsOptions& options) {
  if (device.dtype == DType::kFloat64 || bench.dtype == DType::kFloat64) {
    return Measurement<double, false>(device, bench, limits, options).Measure();
  }
  if (device.dtype == DType::kFloat16 && bench.dtype == DType::kFloat16) {
    return Measurement<float, true>(device, bench, limits, options).Measure();
  }
  return Measurement<float, false>(device, bench, limits, options).Measure();
}

}  // namespace msprobe::analysis::accuracy
