#include "src/analysis/accuracy/common/output_judge.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>
#include <type_traits>
#include <utility>
#include <vector>

#include <fmt/format.h>

#include "src/analysis/accuracy/common/outcome.h"
#include "src/base/numbers.h"
#include "src/base/strings.h"
#include "src/kernels/convert.h"
#include "src/kernels/element_pairs.h"
#include "src/tensor/element_blocks.h"
#include "src/tensor/float_bits.h"
#include "src/tensor/float_limits.h"
#include "src/tensor/tensor_buffer.h"

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
    // By the bench's dtype, but for bfloat16 devices.
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
    kernels::ForEachPair<double>(device_, bench_,
                                 [this](double device, double bench) { Add(device, bench); });
    const double scale_device = out_.largest_device;
    const double scale_bench = out_.largest_bench;
    double dot = 0;
    double device_squares = 0;
    double bench_squares = 0;
    kernels::ForEachPair<double>(device_, bench_, [&](double device, double bench) {
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

namespace {

// The words of the results; programs read them.
constexpr std::string_view kScalarData =
    "All the data in device dump data is scalar. Please refer to other compare algorithms.";
constexpr std::string_view kBothZero = "All the data in device and bench outputs are zero.";
constexpr std::string_view kDeviceZero = "All the data is zero in device dump data.";
constexpr std::string_view kBenchZero = "All the data is zero in bench dump data.";
constexpr std::string_view kCosineNan = "Dump data has NaN when comparing with Cosine Similarity.";
constexpr std::string_view kSkipOthers = "skip other check and set to SPACE.\n";
constexpr std::string_view kTypesDiffer = "bench and npu output type is different.";
constexpr std::string_view kStructuresDiffer = "bench and npu output structure is different.";
constexpr std::string_view kNoBench = "There is not bench calculation result.";
constexpr std::string_view kOnlyHere = "; inf and NaN are the same on both sides and left out.\n";

// Up to this all values count as zero: the spacing of float64 at 1.
constexpr double kZero = 0x1p-52;
constexpr int64_t kLeastDropoutElements = 100;
constexpr double kDropoutShare = 0.1;
constexpr size_t kMostOutputDepth = 10;

std::string TorchDType(DType dtype) { return fmt::format("torch.{}", DTypeName(dtype)); }

// bfloat16 is float32 for NumPy, which both sides pass through.
std::string_view NumpyName(const TensorView& tensor, bool device_is_bfloat16) {
  return device_is_bfloat16 && (tensor.dtype == DType::kBFloat16 || tensor.dtype == DType::kFloat32)
             ? "float32"
             : DTypeName(tensor.dtype);
}

enum class DTypeClass : uint8_t { kFloat, kBool, kInteger, kOther };
DTypeClass ClassOf(DType dtype, bool all_integers) {
  switch (GetDTypeInfo(dtype).kind) {
    case DTypeKind::kFloat:
      return DTypeClass::kFloat;
    case DTypeKind::kBool:
      return DTypeClass::kBool;
    case DTypeKind::kSigned:
    case DTypeKind::kUnsigned:
      if (dtype == DType::kUInt8) {
        return DTypeClass::kBool;
      }
      return all_integers || dtype == DType::kInt32 || dtype == DType::kInt64 ? DTypeClass::kInteger
                                                                              : DTypeClass::kOther;
    case DTypeKind::kComplex:
      break;
  }
  return DTypeClass::kOther;
}

// Elements as 64-bit integers; uint64 keeps its bits.
int64_t IntegerAt(DType dtype, const std::byte* data) {
  const auto load = [data](auto value) {
    std::memcpy(&value, data, sizeof(value));
    return static_cast<int64_t>(value);
  };
  switch (dtype) {
    case DType::kInt32:
      return load(int32_t{});
    case DType::kInt16:
      return load(int16_t{});
    case DType::kInt8:
      return load(int8_t{});
    case DType::kUInt32:
      return load(uint32_t{});
    case DType::kUInt16:
      return load(uint16_t{});
    case DType::kUInt8:
    case DType::kBool:
      return load(uint8_t{});
    default:
      return load(int64_t{});
  }
}

struct IntegerDifferences {
  uint64_t unequal = 0;
  double largest = 0;
};
IntegerDifferences CompareIntegers(const TensorView& device, const TensorView& bench) {
  IntegerDifferences differences;
  std::vector<std::byte> scratch[2];
  using Bytes = std::span<const std::byte>;
  kernels::ForEachByteRun(
      {device, scratch[0]}, {bench, scratch[1]}, 0, static_cast<size_t>(device.element_count()),
      tensor::kCopyBlockElements, [&](Bytes a, Bytes b, size_t) {
        const size_t step[] = {DTypeSize(device.dtype), DTypeSize(bench.dtype)};
        for (size_t i = 0; i < a.size() / step[0]; ++i) {
          const int64_t x = IntegerAt(device.dtype, a.data() + i * step[0]);
          const int64_t y = IntegerAt(bench.dtype, b.data() + i * step[1]);
          differences.unequal += x == y ? 0 : 1;
          differences.largest = std::max(
              differences.largest, std::fabs(static_cast<double>(x) - static_cast<double>(y)));
        }
      });
  return differences;
}

int64_t CountZeros(const TensorView& view) {
  int64_t zeros = 0;
  std::vector<std::byte> scratch;
  std::vector<double> values;
  tensor::ForEachBlock(view, tensor::kCopyBlockElements, scratch,
                       [&](std::span<const std::byte> block, size_t /*first*/) {
                         values.resize(block.size() / DTypeSize(view.dtype));
                         kernels::WidenToDouble(view.dtype, block, values);
                         zeros += std::count(values.begin(), values.end(), 0.0);
                       });
  return zeros;
}

class OutputsJudge {
 public:
  OutputsJudge(std::string_view operator_name, std::string_view direction,
               const Standards& standards, const OutputJudgeOptions& options)
      : prefix_(fmt::format("{}.{}.output.", operator_name, direction)),
        standards_(standards),
        limits_(standards.limits()),
        options_(options) {
    const std::optional<OperatorName> name = ParseOperatorName(operator_name);
    api_ = name ? name->api : std::string_view();
  }

  Result<JudgedOutputs> Judge(const OutputValue& bench, const OutputValue& device) {
    if (bench.kind != OutputValue::Kind::kList) {
      JudgeValue(bench, device, 0);
    } else if (device.kind != OutputValue::Kind::kList ||
               (options_.strict && bench.items.size() != device.items.size())) {
      AddRow(Outcome::kError, std::string(kStructuresDiffer));
    } else if (bench.items.size() > device.items.size()) {
      return MismatchError("list index out of range");
    } else {
      for (size_t i = 0; i < bench.items.size(); ++i) {
        JudgeValue(bench.items[i], device.items[i], 1);
      }
    }
    out_.only_equal_non_finite = errors_ > 0 && errors_ == explained_errors_;
    return std::move(out_);
  }

 private:
  using Cells = std::array<std::string, detail_column::kCount>;

  void AddRow(Outcome outcome, std::string message, Cells* cells = nullptr) {
    DetailRow row = BlankDetailRow(prefix_ + std::to_string(out_.rows.size()), outcome,
                                   std::move(message), options_.version);
    if (cells != nullptr) {
      for (size_t column = detail_column::kBenchDtype; column < detail_column::kStatus; ++column) {
        if (!(*cells)[column].empty()) {
          row.cells[column] = std::move((*cells)[column]);
        }
      }
    }
    out_.rows.push_back(std::move(row));
    // A later warning takes the place of an error in the results of the Python tool.
    const bool hidden =
        options_.strict && outcome == Outcome::kWarning && out_.outcome == Outcome::kError;
    if (!hidden && (outcome == Outcome::kError || outcome == Outcome::kWarning)) {
      out_.outcome = outcome;
    }
    errors_ += outcome == Outcome::kError ? 1 : 0;
  }

  void JudgeValue(const OutputValue& bench, const OutputValue& device, size_t depth) {
    using Kind = OutputValue::Kind;
    const bool both_lists = bench.kind == Kind::kList && device.kind == Kind::kList;
    if (bench.kind != device.kind || (!both_lists && bench.type != device.type)) {
      AddRow(Outcome::kError, std::string(kTypesDiffer));
      return;
    }
    switch (bench.kind) {
      case Kind::kNone:
        AddRow(Outcome::kSkip, "Bench output is None, skip this test.");
        return;
      case Kind::kTensor:
        JudgeTensor(bench.tensor, device.tensor);
        return;
      case Kind::kScalar:
        JudgeScalar(bench, device);
        return;
      case Kind::kDict:
        if (bench.keys != device.keys) {
          AddRow(Outcome::kError, "bench and npu output dict keys are different.");
          return;
        }
        [[fallthrough]];
      case Kind::kList:
        if (options_.strict && depth < kMostOutputDepth) {
          JudgeItems(bench, device, depth);
          return;
        }
        break;
      case Kind::kOther:
        break;
    }
    AddRow(Outcome::kError,
           fmt::format("Unexpected output type in compare_core: <class '{}'>", bench.type));
  }

  void JudgeItems(const OutputValue& bench, const OutputValue& device, size_t depth) {
    if (bench.items.size() != device.items.size()) {
      AddRow(Outcome::kError, std::string(kStructuresDiffer));
      return;
    }
    for (size_t i = 0; i < bench.items.size(); ++i) {
      JudgeValue(bench.items[i], device.items[i], depth + 1);
    }
  }

  void JudgeScalar(const OutputValue& bench, const OutputValue& device) {
    Cells cells;
    cells[detail_column::kBenchDtype] = fmt::format("<class '{}'>", bench.type);
    cells[detail_column::kDeviceDtype] = fmt::format("<class '{}'>", device.type);
    const bool equal = bench.text == device.text;
    if (equal) {
      cells[detail_column::kErrorRate] = "0";
    }
    AddRow(equal ? Outcome::kPass : Outcome::kError, "", &cells);
  }

  void JudgeTensor(const TensorView& bench, const TensorView& device) {
    Cells cells;
    cells[detail_column::kBenchDtype] = TorchDType(bench.dtype);
    cells[detail_column::kDeviceDtype] = TorchDType(device.dtype);
    cells[detail_column::kShape] = TupleText(device.shape);
    if (bench.shape != device.shape) {
      AddRow(Outcome::kError,
             fmt::format("The shape of benchtorch.Size({}) and nputorch.Size({}) not equal.",
                         ShapeText(bench.shape), ShapeText(device.shape)),
             &cells);
      return;
    }
    const bool is_26 = options_.version == StandardVersion::k26;
    const bool is_complex = GetDTypeInfo(bench.dtype).kind == DTypeKind::kComplex &&
                            GetDTypeInfo(device.dtype).kind == DTypeKind::kComplex;
    if (device.element_count() == 0 && (is_26 || options_.strict)) {
      AddRow(Outcome::kSkip, std::string(kNoBench), &cells);
      return;
    }
    if (is_complex && options_.strict) {
      std::vector<std::byte> scratch[2];
      JudgeFloats(tensor::AsReals(bench, scratch[0]), tensor::AsReals(device, scratch[1]), cells);
      return;
    }
    const bool all_integers = is_26 || options_.strict;
    const DTypeClass kind = ClassOf(bench.dtype, all_integers);
    if (kind == DTypeClass::kOther || kind != ClassOf(device.dtype, all_integers)) {
      const bool half = device.dtype == DType::kBFloat16;
      AddRow(Outcome::kError,
             fmt::format("Bench out dtype is {} but npu output dtype is {}, cannot compare.",
                         NumpyName(bench, half), NumpyName(device, half)),
             &cells);
      return;
    }
    if (device.element_count() == 0) {
      AddRow(Outcome::kError, std::string(kNoBench), &cells);
    } else if (kind == DTypeClass::kFloat) {
      JudgeFloats(bench, device, cells);
    } else {
      JudgeIntegers(bench, device, cells);
    }
  }

  void JudgeIntegers(const TensorView& bench, const TensorView& device, Cells& cells) {
    const IntegerDifferences differences = CompareIntegers(device, bench);
    const bool is_26 = options_.version == StandardVersion::k26;
    if (is_26 && base::IsOneOf(api_, standards_.apis().quantised) &&
        GetDTypeInfo(device.dtype).kind != DTypeKind::kBool) {
      const bool passes = differences.largest <= 1;
      cells[detail_column::kMaxAbs] =
          CellOf(MetricNumber::Double(differences.largest), options_.decimals);
      AddRow(passes ? Outcome::kPass : Outcome::kError,
             fmt::format("Quantization type: Max abs error is {:.2f}, {} 1, consider as {}.\n",
                         differences.largest, passes ? "less than or equal to" : "greater than",
                         passes ? "pass" : "error"),
             &cells);
      return;
    }
    const double rate =
        static_cast<double>(differences.unequal) / static_cast<double>(device.element_count());
    cells[detail_column::kErrorRate] = CellOf(MetricNumber::Double(rate), options_.decimals);
    const std::string_view name = DTypeName(bench.dtype);
    AddRow(rate == 0 ? Outcome::kPass : Outcome::kError,
           is_26 ? fmt::format("Current {} data, only perform binary comparison.", name)
                 : fmt::format("Compare algorithm is not supported for {} data. Only judged by "
                               "Error Rate.\n",
                               name),
           &cells);
  }

  Standard ChooseStandard(DType device) const {
    if (options_.version == StandardVersion::k811) {
      return standards_.Of(api_, "");
    }
    if (DTypeSize(device) == 1) {
      return Standard::kUlp;
    }
    return options_.has_float8_input ? Standard::kAbsolute : Standard::kBenchmark;
  }

  void JudgeFloats(const TensorView& bench, const TensorView& device, Cells& cells) {
    FloatMetricsOptions measured;
    measured.standard = ChooseStandard(device.dtype);
    measured.with_standard = device.dtype != DType::kFloat64;
    FloatMetrics metrics = MeasureFloats(device, bench, limits_, measured);
    std::string message;
    if (!measured.with_standard) {
      message = fmt::format("The data type {} is not supported for new precision standard.",
                            TorchDType(device.dtype));
    }
    std::string finite_message;
    Cells finite_cells = cells;
    Outcome outcome = CheckFloats(device.dtype, metrics, cells, message);
    if (metrics.has_equal_non_finite && outcome == Outcome::kError) {
      measured.finite_part = true;
      const FloatMetrics finite = MeasureFloats(device, bench, limits_, measured);
      const Outcome finite_outcome =
          finite.count == 0 ? Outcome::kPass
                            : CheckFloats(device.dtype, finite, finite_cells, finite_message);
      explained_errors_ += finite_outcome != Outcome::kError && !options_.strict ? 1 : 0;
      if (options_.strict) {
        outcome = finite_outcome;
        message = std::string(base::Trim(finite_message)) + std::string(kOnlyHere);
        metrics = finite;
        cells = std::move(finite_cells);
      }
    }
    FillStandard(metrics, cells);
    if (measured.standard == Standard::kThousandth && measured.with_standard) {
      cells[detail_column::kThousandth] =
          CellOf(MetricNumber::Double(metrics.thousandth), options_.decimals);
    }
    AddRow(outcome, std::move(message), &cells);
  }

  void FillStandard(const FloatMetrics& metrics, Cells& cells) const {
    const std::pair<size_t, const MetricNumber&> numbers[] = {
        {detail_column::kErrorRate, metrics.error_rate},
        {detail_column::kErrorBalance, metrics.error_balance},
        {detail_column::kRmse, metrics.rmse},
        {detail_column::kSmallValue, metrics.small_value},
        {detail_column::kMaxRelative, metrics.max_relative},
        {detail_column::kMeanRelative, metrics.mean_relative},
        {detail_column::kInfNan, metrics.inf_nan},
        {detail_column::kRelative, metrics.relative},
        {detail_column::kAbsolute, metrics.absolute},
        {detail_column::kUlpMax, metrics.ulp_max},
        {detail_column::kUlpMean, metrics.ulp_mean},
        {detail_column::kUlpShare, metrics.ulp_share}};
    for (const auto& [column, number] : numbers) {
      if (number.form != MetricNumber::Form::kNone) {
        cells[column] = CellOf(number, options_.decimals);
      }
    }
  }

  // Whether the directions agree; with the cell and the text.
  bool CheckCosine(const FloatMetrics& metrics, Cells& cells, std::string& message) const {
    bool passes = true;
    if (metrics.count == 1) {
      message += kScalarData;
    } else if (metrics.largest_device <= kZero && metrics.largest_bench <= kZero) {
      message += kBothZero;
    } else if (metrics.largest_device <= kZero) {
      message += kDeviceZero;
      passes = false;
    } else if (metrics.largest_bench <= kZero) {
      message += kBenchZero;
      passes = false;
    } else {
      cells[detail_column::kCosine] =
          CellOf(MetricNumber::Double(metrics.cosine), options_.decimals);
      if (std::isnan(metrics.cosine)) {
        message += kCosineNan;
        passes = options_.version == StandardVersion::k26;
      } else {
        passes = metrics.cosine > limits_.status_cosine;
      }
    }
    message += '\n';
    return passes;
  }

  Outcome CheckFloats(DType device, const FloatMetrics& metrics, Cells& cells,
                      std::string& message) {
    if (!CheckCosine(metrics, cells, message)) {
      message +=
          fmt::format("Cosine similarity is less than 0.99, consider as error, {}", kSkipOthers);
      return Outcome::kError;
    }
    cells[detail_column::kMaxAbs] = CellOf(metrics.max_abs, options_.decimals);
    TakeMaxAbs(metrics.max_abs.value);
    if (metrics.max_abs.value < limits_.status_max_abs) {
      message += fmt::format("Max abs error is less than 0.001, consider as pass, {}", kSkipOthers);
      return Outcome::kPass;
    }
    const auto cell = [this](double share) {
      return CellOf(MetricNumber::Double(share), options_.decimals);
    };
    if (device == DType::kFloat16 || device == DType::kBFloat16) {
      cells[detail_column::kHundredth] = cell(metrics.hundredth);
      if (!(metrics.hundredth > 1 - limits_.status_hundredth)) {
        message +=
            fmt::format("Relative error is greater than 0.01, consider as error, {}", kSkipOthers);
        return Outcome::kError;
      }
      cells[detail_column::kThousandth] = cell(metrics.thousandth);
      if (metrics.thousandth > 1 - limits_.status_thousandth) {
        message +=
            fmt::format("Relative error is less than 0.001, consider as pass, {}", kSkipOthers);
        return Outcome::kPass;
      }
      message +=
          fmt::format("Relative error is greater than 0.001, consider as warning, {}", kSkipOthers);
      return Outcome::kWarning;
    }
    cells[detail_column::kThousandth] = cell(metrics.thousandth);
    cells[detail_column::kTenThousandth] = cell(metrics.ten_thousandth);
    if (!(metrics.thousandth > 1 - limits_.status_thousandth)) {
      message +=
          fmt::format("Relative error is greater than 0.001, consider as error, {}", kSkipOthers);
      return Outcome::kError;
    }
    if (!(metrics.ten_thousandth > 1 - limits_.status_ten_thousandth)) {
      message += fmt::format("Relative error is greater than 0.0001, consider as warning, {}",
                             kSkipOthers);
      return Outcome::kWarning;
    }
    message += "Relative error is less than 0.0001, consider as pass.\n";
    return Outcome::kPass;
  }

  void TakeMaxAbs(double value) {
    if (std::isnan(value) || value > out_.max_abs) {
      out_.max_abs = value;
    }
  }

  const std::string prefix_;
  const Standards& standards_;
  const Limits& limits_;
  const OutputJudgeOptions& options_;
  std::string_view api_;
  JudgedOutputs out_;
  uint64_t errors_ = 0;
  uint64_t explained_errors_ = 0;  // by inf and NaN that are the same on both sides
};

// The dropped elements are random: only their number can be compared.
Result<JudgedOutputs> JudgeDropout(const OutputValue& bench, const OutputValue& device) {
  const auto first = [](const OutputValue& value) -> const OutputValue& {
    return value.kind == OutputValue::Kind::kList && !value.items.empty() ? value.items[0] : value;
  };
  const OutputValue& b = first(bench);
  const OutputValue& d = first(device);
  JudgedOutputs out;
  if (b.kind != OutputValue::Kind::kTensor || d.kind != OutputValue::Kind::kTensor) {
    return MismatchError("the output of a dropout is not a tensor");
  }
  const int64_t count = b.tensor.element_count();
  if (count >= kLeastDropoutElements) {
    const double share =
        static_cast<double>(std::llabs(CountZeros(b.tensor) - CountZeros(d.tensor))) /
        static_cast<double>(count);
    out.outcome = share < kDropoutShare ? Outcome::kPass : Outcome::kError;
  }
  return out;
}

}  // namespace

std::string TupleText(const Shape& shape) {
  std::string text = "(";
  for (size_t i = 0; i < shape.size(); ++i) {
    text += fmt::format("{}{}", i > 0 ? ", " : "", shape[i]);
  }
  return text + (shape.size() == 1 ? ",)" : ")");
}

DetailRow BlankDetailRow(std::string name, Outcome outcome, std::string message,
                         StandardVersion version) {
  DetailRow row;
  row.cells.fill(std::string(kBlank));
  row.cells[detail_column::kApiName] = std::move(name);
  row.cells[detail_column::kStatus] = OutcomeText(outcome, version == StandardVersion::k26);
  row.cells[detail_column::kMessage] = std::move(message);
  row.outcome = outcome;
  return row;
}

std::string FirstError(const std::vector<DetailRow>& rows) {
  for (const DetailRow& row : rows) {
    if (row.outcome != Outcome::kError) {
      continue;
    }
    if (std::string line = FirstLine(row.cells[detail_column::kMessage]); !line.empty()) {
      return line;
    }
  }
  return {};
}

Result<JudgedOutputs> JudgeOutputs(std::string_view operator_name, std::string_view direction,
                                   const OutputValue& bench, const OutputValue& device,
                                   const Standards& standards, const OutputJudgeOptions& options) {
  if (operator_name.find("dropout") != std::string_view::npos) {
    return JudgeDropout(bench, device);
  }
  return OutputsJudge(operator_name, direction, standards, options).Judge(bench, device);
}

}  // namespace msprobe::analysis::accuracy
