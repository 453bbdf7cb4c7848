#include "src/monitor/measure.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstring>
#include <limits>

#include "src/kernels/convert.h"
#include "src/kernels/stats.h"
#include "src/tensor/element_blocks.h"
#include "src/tensor/float_bits.h"

namespace msprobe::monitor {
namespace {

constexpr double kInfinity = std::numeric_limits<double>::infinity();
constexpr double kNan = std::numeric_limits<double>::quiet_NaN();
constexpr double kExactDoubles = 0x1p53;
// Sums of tensors up to this size agree with the frameworks' to the last bit, which tables of many
// digits show; larger ones are added up in more lanes.
constexpr size_t kExactElements = 1024;

bool IsInteger(DType dtype) {
  const DTypeKind kind = GetDTypeInfo(dtype).kind;
  return kind == DTypeKind::kSigned || kind == DTypeKind::kUnsigned;
}
bool IsBool(DType dtype) { return GetDTypeInfo(dtype).kind == DTypeKind::kBool; }

template <typename Integer, typename Visit>
void ForEachInteger(std::span<const std::byte> block, Visit visit) {
  for (size_t at = 0; at + sizeof(Integer) <= block.size(); at += sizeof(Integer)) {
    Integer value;
    std::memcpy(&value, block.data() + at, sizeof value);
    visit(value);
  }
}

template <typename Integer>
uint64_t CountOfLeast(std::span<const std::byte> block) {
  uint64_t count = 0;
  ForEachInteger<Integer>(block, [&](Integer value) {
    count += value == std::numeric_limits<Integer>::min() ? 1U : 0U;
  });
  return count;
}

// Integers whose absolute value does not exist in their type.
uint64_t CountOfLeastIntegers(DType dtype, std::span<const std::byte> block) {
  switch (dtype) {
    case DType::kInt8:
      return CountOfLeast<int8_t>(block);
    case DType::kInt16:
      return CountOfLeast<int16_t>(block);
    case DType::kInt32:
      return CountOfLeast<int32_t>(block);
    case DType::kInt64:
      return CountOfLeast<int64_t>(block);
    default:
      return 0;
  }
}

template <typename Integer>
void FindExactRange(std::span<const std::byte> block, bool is_first, TensorNumbers& numbers) {
  auto min =
      is_first ? std::numeric_limits<Integer>::max() : static_cast<Integer>(numbers.min_integer);
  auto max =
      is_first ? std::numeric_limits<Integer>::min() : static_cast<Integer>(numbers.max_integer);
  ForEachInteger<Integer>(block, [&](Integer value) {
    min = std::min(min, value);
    max = std::max(max, value);
  });
  numbers.min_integer = static_cast<int64_t>(min);
  numbers.max_integer = static_cast<int64_t>(max);
}

// Calls visit(values) for runs of elements as doubles; magnitudes of complex ones.
template <typename Visit>
void ForEachWidened(DType dtype, std::span<const std::byte> block, Visit visit) {
  std::array<double, tensor::kStackBlockElements> buffer;
  const size_t bytes = DTypeSize(dtype);
  for (size_t at = 0; at < block.size(); at += tensor::kStackBlockElements * bytes) {
    const auto part =
        block.subspan(at, std::min(tensor::kStackBlockElements * bytes, block.size() - at));
    const auto out = std::span(buffer).first(part.size() / bytes);
    if (GetDTypeInfo(dtype).kind == DTypeKind::kComplex) {
      kernels::ComplexMagnitudes(dtype, part, out);
    } else {
      kernels::WidenToDouble(dtype, part, out);
    }
    visit(std::span<const double>(out));
  }
}

void FindLargestFinite(DType dtype, std::span<const std::byte> block, double& largest) {
  ForEachWidened(dtype, block, [&](std::span<const double> values) {
    for (const double value : values) {
      if (std::isfinite(value)) {
        largest = std::max(largest, std::fabs(value));
      }
    }
  });
}

template <typename Visit>
void ForEachBlock(const TensorView& view, Visit visit) {
  // Grows once per thread: fresh memory for every tensor would cost more than the pass itself.
  thread_local std::vector<std::byte> gathered;
  tensor::ForEachBlock(view, tensor::kSumBlockElements, gathered,
                       [&](std::span<const std::byte> block, size_t) { visit(block); });
}

constexpr size_t kPairwiseLanes = 8;
constexpr size_t kPairwiseLeaf = 128;

double SumOfLeaf(std::span<const double> values) {
  double total = 0;
  if (values.size() < kPairwiseLanes) {
    for (const double value : values) {
      total += value;
    }
    return total;
  }
  std::array<double, kPairwiseLanes> lanes{};
  const size_t whole = values.size() / kPairwiseLanes * kPairwiseLanes;
  for (size_t i = 0; i < whole; i += kPairwiseLanes) {
    for (size_t lane = 0; lane < kPairwiseLanes; ++lane) {
      lanes[lane] += values[i + lane];
    }
  }
  total = ((lanes[0] + lanes[1]) + (lanes[2] + lanes[3])) +
          ((lanes[4] + lanes[5]) + (lanes[6] + lanes[7]));
  for (const double value : values.subspan(whole)) {
    total += value;
  }
  return total;
}

// Sums as the frameworks have them, to the last bit: of the elements by halves of halves down to
// runs of eight lanes, of their squares one after another.
double FrameworkSums(const TensorView& view, bool is_plain, size_t first, size_t count,
                     double& square_sum) {
  if (count > kPairwiseLeaf) {
    const size_t half = count / 2 / kPairwiseLanes * kPairwiseLanes;
    const double left = FrameworkSums(view, is_plain, first, half, square_sum);
    return left + FrameworkSums(view, is_plain, first + half, count - half, square_sum);
  }
  const size_t bytes = DTypeSize(view.dtype);
  std::array<std::byte, kPairwiseLeaf * sizeof(double)> gathered;
  std::array<double, kPairwiseLeaf> wide;
  std::span<const std::byte> source(gathered);
  if (is_plain) {
    source = {view.data + first * bytes, count * bytes};
  } else {
    tensor::CopyElements(view, static_cast<int64_t>(first), static_cast<int64_t>(count),
                         gathered.data());
  }
  const std::span<double> values = std::span(wide).first(count);
  kernels::WidenToDouble(view.dtype, source, values);
  for (const double value : values) {
    square_sum += value * value;
  }
  return SumOfLeaf(values);
}

// The sign of the one element, which the pass over many does not tell.
double FirstZero(const TensorView& view) {
  std::array<std::byte, sizeof(double)> element;
  double value = 0;
  tensor::CopyElements(view, 0, 1, element.data());
  kernels::WidenToDouble(view.dtype, element, std::span(&value, 1));
  return value;
}

void TakePartial(const kernels::StatsPartial& partial, TensorNumbers& numbers) {
  numbers.element_count = partial.element_count;
  numbers.min = partial.min;
  numbers.max = partial.max;
  numbers.sum = partial.sum;
  numbers.square_sum = partial.square_sum;
  numbers.nan_count = partial.nan_count;
  numbers.inf_count = partial.positive_inf_count + partial.negative_inf_count;
  numbers.zero_count = partial.zero_count;
  numbers.subnormal_count = partial.subnormal_count;
  numbers.smallest_nonzero = partial.smallest_nonzero;
  numbers.largest_finite = std::max(std::fabs(partial.min), std::fabs(partial.max));
}

// Numbers that the common pass over all dtypes does not provide; each needs a second pass over few
// tensors only.
void LookAgain(const TensorView& view, const MeasureRules& rules, TensorNumbers& numbers) {
  const DType dtype = view.dtype;
  const bool wide = (dtype == DType::kInt64 || dtype == DType::kUInt64) &&
                    std::max(std::fabs(numbers.min), std::fabs(numbers.max)) >= kExactDoubles;
  const bool least = rules.compat && rules.wants_zeros && rules.eps > 0 &&
                     GetDTypeInfo(dtype).kind == DTypeKind::kSigned;
  const bool finite = rules.wants_small && numbers.inf_count > 0;
  if (!wide && !least && !finite) {
    return;
  }
  bool is_first = true;
  numbers.largest_finite = finite ? 0 : numbers.largest_finite;
  ForEachBlock(view, [&](std::span<const std::byte> block) {
    if (wide && dtype == DType::kInt64) {
      FindExactRange<int64_t>(block, is_first, numbers);
    } else if (wide) {
      FindExactRange<uint64_t>(block, is_first, numbers);
    }
    if (least) {
      numbers.zero_count += CountOfLeastIntegers(dtype, block);
    }
    if (finite) {
      FindLargestFinite(dtype, block, numbers.largest_finite);
    }
    is_first = false;
  });
}

Value IntegerExtreme(const TensorNumbers& numbers, int64_t exact, double rounded) {
  const bool is_beyond = numbers.dtype == DType::kUInt64 && exact < 0;
  return is_beyond ? Value(rounded) : Value(exact);
}

Value Extreme(const TensorNumbers& numbers, bool is_max, const MeasureRules& rules) {
  const double value = is_max ? numbers.max : numbers.min;
  if (numbers.element_count == 0 || numbers.nan_count > 0) {
    return kNan;
  }
  if (!numbers.is_known_dtype) {
    return value;
  }
  if (IsBool(numbers.dtype)) {
    return rules.compat ? Value(value != 0) : Value(static_cast<int64_t>(value));
  }
  if (!IsInteger(numbers.dtype)) {
    return value;
  }
  return IntegerExtreme(numbers, is_max ? numbers.max_integer : numbers.min_integer, value);
}

double Norm(const TensorNumbers& numbers) {
  return numbers.nan_count > 0 ? kNan : std::sqrt(numbers.square_sum);
}

double Mean(const TensorNumbers& numbers) {
  const bool none = numbers.element_count == 0 || numbers.nan_count > 0;
  return none ? kNan : numbers.sum / static_cast<double>(numbers.element_count);
}

double StandardDeviation(const TensorNumbers& numbers) {
  const double mean = Mean(numbers);
  const double mean_square = numbers.square_sum / static_cast<double>(numbers.element_count);
  const double variance = mean_square - mean * mean;
  return variance < 0 ? 0 : std::sqrt(variance);
}

Value Zeros(const TensorNumbers& numbers, const MeasureRules& rules) {
  const bool none = numbers.element_count == 0 ||
                    (rules.compat && numbers.is_known_dtype && IsBool(numbers.dtype));
  // In float32, as the Python tool divides.
  return none ? kNan
              : static_cast<double>(static_cast<float>(numbers.zero_count) /
                                    static_cast<float>(numbers.element_count));
}

Value Count(uint64_t count) { return static_cast<int64_t>(count); }

}  // namespace

TensorNumbers Measure(const TensorView& view, const MeasureRules& rules) {
  TensorNumbers numbers;
  numbers.kind = TensorNumbers::Kind::kTensor;
  numbers.is_known_dtype = true;
  numbers.dtype = view.dtype;
  numbers.has_id = view.shape.empty();
  const auto count = static_cast<size_t>(view.element_count());
  const double eps = rules.compat ? tensor::RoundToDType(view.dtype, rules.eps) : rules.eps;
  const kernels::SmallValues small{.zero_below = eps > 0 ? eps : -1,
                                   .magnitudes = rules.wants_small};
  const bool wants_small = rules.wants_zeros || rules.wants_small;
  kernels::StatsPartial total;
  ForEachBlock(view, [&](std::span<const std::byte> block) {
    kernels::MergeStats(total, wants_small ? kernels::StatsOfBlock(view.dtype, block, small)
                                           : kernels::StatsOfBlock(view.dtype, block));
  });
  TakePartial(total, numbers);
  if (count == 0) {
    return numbers;
  }
  if (IsInteger(view.dtype)) {
    const auto exact = [](double value) {
      return std::fabs(value) < 0x1p63 ? static_cast<int64_t>(value) : 0;
    };
    numbers.min_integer = exact(numbers.min);
    numbers.max_integer = exact(numbers.max);
  }
  const bool is_complex = GetDTypeInfo(view.dtype).kind == DTypeKind::kComplex;
  if ((count <= kExactElements || rules.compat) && !is_complex) {
    numbers.square_sum = 0;
    numbers.sum = FrameworkSums(view, view.is_plain(), 0, count, numbers.square_sum);
    if (count == 1 && numbers.sum == 0) {
      numbers.min = numbers.max = FirstZero(view);
    }
  }
  LookAgain(view, rules, numbers);
  return numbers;
}

void Accumulate(TensorNumbers& into, const TensorNumbers& next) {
  const uint32_t calls = into.calls + 1;
  if (into.kind != TensorNumbers::Kind::kTensor || into.element_count == 0) {
    // A tensor replaces what says nothing, and an empty one adds nothing.
    const bool replaces = next.kind == TensorNumbers::Kind::kTensor || into.calls == 0;
    into = replaces ? next : into;
    into.calls = calls;
    into.has_id = into.has_id && calls == 1;
    return;
  }
  into.calls = calls;
  into.has_id = false;
  if (next.kind != TensorNumbers::Kind::kTensor || next.element_count == 0) {
    return;
  }
  into.is_known_dtype = into.is_known_dtype && next.is_known_dtype && into.dtype == next.dtype;
  into.element_count += next.element_count;
  into.min = std::min(into.min, next.min);
  into.max = std::max(into.max, next.max);
  into.min_integer = std::min(into.min_integer, next.min_integer);
  into.max_integer = std::max(into.max_integer, next.max_integer);
  into.sum += next.sum;
  into.square_sum += next.square_sum;
  into.nan_count += next.nan_count;
  into.inf_count += next.inf_count;
  into.zero_count += next.zero_count;
  into.subnormal_count += next.subnormal_count;
  into.smallest_nonzero = std::min(into.smallest_nonzero, next.smallest_nonzero);
  into.largest_finite = std::max(into.largest_finite, next.largest_finite);
}

Value ColumnValue(Statistic op, const TensorNumbers& numbers, const MeasureRules& rules) {
  if (op == Statistic::kCalls && numbers.calls > 0) {
    return Count(numbers.calls);
  }
  if (numbers.kind == TensorNumbers::Kind::kNumber) {
    return op == Statistic::kValue || op == Statistic::kId ? Value(numbers.number) : Value();
  }
  if (numbers.kind != TensorNumbers::Kind::kTensor) {
    return {};
  }
  const bool is_empty = numbers.element_count == 0;
  const bool has_nan = numbers.nan_count > 0;
  switch (op) {
    case Statistic::kNorm:
      return Norm(numbers);
    case Statistic::kMin:
    case Statistic::kMax:
      return Extreme(numbers, op == Statistic::kMax, rules);
    case Statistic::kMean:
      return Mean(numbers);
    case Statistic::kZeros:
      return Zeros(numbers, rules);
    case Statistic::kNans:
      return Count(numbers.nan_count);
    case Statistic::kId:
      return numbers.has_id ? Extreme(numbers, true, rules) : Value();
    case Statistic::kStd:
      return is_empty || has_nan ? kNan : StandardDeviation(numbers);
    case Statistic::kRms:
      return is_empty ? kNan
                      : Norm(numbers) / std::sqrt(static_cast<double>(numbers.element_count));
    case Statistic::kAmax:
      return is_empty || has_nan ? kNan : std::max(std::fabs(numbers.min), std::fabs(numbers.max));
    case Statistic::kInfs:
      return Count(numbers.inf_count);
    case Statistic::kSubnormals:
      return Count(numbers.subnormal_count);
    case Statistic::kDynamicRange: {
      const bool none = numbers.largest_finite == 0 || numbers.smallest_nonzero == kInfinity;
      return none ? kNan : std::log2(numbers.largest_finite) - std::log2(numbers.smallest_nonzero);
    }
    case Statistic::kCalls:
    case Statistic::kValue:
    case Statistic::kShape:
    case Statistic::kDType:
    case Statistic::kEntropy:
    case Statistic::kSoftmaxMax:
    case Statistic::kSpectralRatio:
    case Statistic::kKernelNorm:
    case Statistic::kRouterWeightSimilarity:
    case Statistic::kTokenExpertEntropy:
      break;
  }
  return {};
}

Value ColumnOfReduced(Statistic op, std::optional<DType> dtype, double number,
                      const MeasureRules& rules) {
  const bool is_count =
      op == Statistic::kNans || op == Statistic::kInfs || op == Statistic::kSubnormals;
  const bool is_whole = std::fabs(number) < 0x1p63 && number == std::trunc(number);
  const bool is_extreme = op == Statistic::kMin || op == Statistic::kMax || op == Statistic::kId;
  if (!is_whole || (!is_count && !is_extreme)) {
    return number;
  }
  if (is_extreme && dtype && IsBool(*dtype) && rules.compat) {
    return number != 0;
  }
  const bool stays_whole = is_count || (dtype && (IsInteger(*dtype) || IsBool(*dtype)));
  return stays_whole ? Value(static_cast<int64_t>(number)) : Value(number);
}

double SignAgreement(const TensorView& a, const TensorView& b) {
  if (a.shape != b.shape) {
    return 0;
  }
  const int64_t count = a.element_count();
  std::array<std::byte, tensor::kStackBlockElements * 16> bytes_a;
  std::array<std::byte, tensor::kStackBlockElements * 16> bytes_b;
  std::array<double, tensor::kStackBlockElements> wide_a;
  std::array<double, tensor::kStackBlockElements> wide_b;
  int64_t sum = 0;
  for (int64_t first = 0; first < count; first += int64_t{tensor::kStackBlockElements}) {
    const int64_t size = std::min(int64_t{tensor::kStackBlockElements}, count - first);
    const auto length = static_cast<size_t>(size);
    tensor::CopyElements(a, first, size, bytes_a.data());
    tensor::CopyElements(b, first, size, bytes_b.data());
    kernels::WidenToDouble(a.dtype, bytes_a, std::span(wide_a).first(length));
    kernels::WidenToDouble(b.dtype, bytes_b, std::span(wide_b).first(length));
    for (size_t i = 0; i < length; ++i) {
      const int sign_a = static_cast<int>(wide_a[i] > 0) - static_cast<int>(wide_a[i] < 0);
      const int sign_b = static_cast<int>(wide_b[i] > 0) - static_cast<int>(wide_b[i] < 0);
      sum += int64_t{sign_a} * sign_b;
    }
  }
  // Rounded after each step, as a framework's float32 arithmetic does.
  const float share = static_cast<float>(sum) / static_cast<float>(count);
  return count == 0 ? 0 : double{(share + 1.0F) / 2.0F};
}

}  // namespace msprobe::monitor
