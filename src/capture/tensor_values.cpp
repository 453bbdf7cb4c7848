#include "src/capture/tensor_values.h"

#include <algorithm>
#include <array>
#include <bit>
#include <cmath>
#include <cstring>
#include <limits>
#include <span>
#include <vector>

#include <fmt/format.h>

#include "src/kernels/convert.h"
#include "src/kernels/crc32.h"
#include "src/tensor/element_blocks.h"
#include "src/tensor/float_bits.h"

namespace msprobe::capture {
namespace {

bool IsInteger(DTypeKind kind) {
  return kind == DTypeKind::kSigned || kind == DTypeKind::kUnsigned;
}

// Types without a representation of their own outside the frameworks: checksums are those of the
// float32 values.
bool IsHashedAsFloat32(DType dtype) {
  return dtype == DType::kBFloat16 ||
         (DTypeSize(dtype) == 1 && GetDTypeInfo(dtype).kind == DTypeKind::kFloat);
}

// To float32, unless that makes an infinity of finite data.
double RoundToFloatInRange(double value) {
  const double rounded = tensor::RoundToDType(DType::kFloat32, value);
  return std::isinf(rounded) && std::isfinite(value) ? value : rounded;
}

// Grows once per thread: fresh memory for every tensor would cost more than the pass itself.
template <typename Element>
std::span<Element> Scratch(size_t count) {
  thread_local std::vector<Element> memory;
  if (memory.size() < count) {
    memory.resize(count);
  }
  return std::span(memory).first(count);
}

uint32_t CrcOfWidened(DType dtype, std::span<const std::byte> block, uint32_t seed) {
  const size_t element_bytes = DTypeSize(dtype);
  const std::span<float> widened = Scratch<float>(tensor::kCopyBlockElements);
  for (size_t at = 0; at < block.size(); at += tensor::kCopyBlockElements * element_bytes) {
    const auto part =
        block.subspan(at, std::min(tensor::kCopyBlockElements * element_bytes, block.size() - at));
    const auto out = widened.first(part.size() / element_bytes);
    kernels::WidenToFloat(dtype, part, out);
    seed = kernels::Crc32(std::as_bytes(out), seed);
  }
  return seed;
}

// The statistics of the elements after a cast to float32, as the reference takes them.
kernels::StatsPartial StatsOfFloats(DType dtype, std::span<const std::byte> block) {
  const std::span<float> widened = Scratch<float>(block.size() / DTypeSize(dtype));
  kernels::WidenToFloat(dtype, block, widened);
  return kernels::StatsOfBlock(DType::kFloat32, std::as_bytes(widened));
}

std::vector<std::byte>& GatheredBytes() {
  thread_local std::vector<std::byte> memory;
  return memory;
}

// XOR of the bytes as 64-bit words, the last one filled up with zeros.
uint64_t XorOfWords(std::span<const std::byte> bytes) {
  uint64_t folded = 0;
  size_t at = 0;
  for (; at + sizeof(uint64_t) <= bytes.size(); at += sizeof(uint64_t)) {
    uint64_t word = 0;
    std::memcpy(&word, bytes.data() + at, sizeof word);
    folded ^= word;
  }
  uint64_t last = 0;
  if (at < bytes.size()) {
    std::memcpy(&last, bytes.data() + at, bytes.size() - at);
  }
  return folded ^ last;
}

// Largest and smallest of the finite elements, for the rare tensor that has others.
void FindFiniteRange(DType dtype, std::span<const std::byte> block, double& max, double& min) {
  const size_t element_bytes = DTypeSize(dtype);
  const std::span<double> widened = Scratch<double>(tensor::kCopyBlockElements);
  for (size_t at = 0; at < block.size(); at += tensor::kCopyBlockElements * element_bytes) {
    const auto part =
        block.subspan(at, std::min(tensor::kCopyBlockElements * element_bytes, block.size() - at));
    const auto out = widened.first(part.size() / element_bytes);
    if (GetDTypeInfo(dtype).kind == DTypeKind::kComplex) {
      kernels::ComplexMagnitudes(dtype, part, out);
    } else {
      kernels::WidenToDouble(dtype, part, out);
    }
    for (const double value : out) {
      if (std::isfinite(value)) {
        max = std::max(max, value);
        min = std::min(min, value);
      }
    }
  }
}

// The exact value of a 0-d integer.
StatisticValue IntegerValue(const TensorView& view) {
  uint64_t bits = 0;
  tensor::CopyElements(view, 0, 1, reinterpret_cast<std::byte*>(&bits));
  const DTypeInfo& info = GetDTypeInfo(view.dtype);
  if (info.kind == DTypeKind::kUnsigned) {
    return StatisticValue::Unsigned(bits);
  }
  const unsigned shift = 64U - 8U * info.size_bytes;
  return StatisticValue::Integer(static_cast<int64_t>(bits << shift) >> shift);
}

StatisticValue Magnitude(const StatisticValue& value) {
  switch (value.kind) {
    case StatisticValue::Kind::kFloat:
      return StatisticValue::Float(std::fabs(value.number));
    case StatisticValue::Kind::kInteger:
      // The magnitude of the smallest integer is not an int64.
      return value.integer >= 0
                 ? value
                 : StatisticValue::Unsigned(0 - static_cast<uint64_t>(value.integer));
    default:
      return value;
  }
}

Statistics ScalarStatistics(const StatisticValue& value, const StatisticRules& rules) {
  const bool negative_norm = rules.precision == Precision::kLow && !rules.is_numpy;
  return {value, value, value, negative_norm ? value : Magnitude(value)};
}

Statistics ScalarOf(const TensorView& view, const kernels::TensorStats& stats,
                    const StatisticRules& rules) {
  return ScalarStatistics(IsInteger(GetDTypeInfo(view.dtype).kind)
                              ? IntegerValue(view)
                              : StatisticValue::Float(stats.max),
                          rules);
}

kernels::StatsPartial StatsOfWhole(const TensorView& view) {
  kernels::StatsPartial total;
  tensor::ForEachBlock(view, tensor::kSumBlockElements, GatheredBytes(),
                       [&](std::span<const std::byte> block, size_t) {
                         kernels::MergeStats(total, kernels::StatsOfBlock(view.dtype, block));
                       });
  return total;
}

}  // namespace

StatisticValue StatisticValue::Bool(bool value) {
  StatisticValue result;
  result.kind = Kind::kBool;
  result.truth = value;
  return result;
}

StatisticValue StatisticValue::Integer(int64_t value) {
  StatisticValue result;
  result.kind = Kind::kInteger;
  result.integer = value;
  return result;
}

StatisticValue StatisticValue::Unsigned(uint64_t value) {
  StatisticValue result;
  result.kind = Kind::kUnsigned;
  result.natural = value;
  return result;
}

StatisticValue StatisticValue::Float(double value) {
  StatisticValue result;
  result.kind = Kind::kFloat;
  result.number = value;
  return result;
}

bool StatisticValue::is_non_finite() const {
  return kind == Kind::kFloat && !std::isfinite(number);
}

void PutStatistic(const StatisticValue& value, json::Writer& json) {
  switch (value.kind) {
    case StatisticValue::Kind::kNull:
      json.Null();
      return;
    case StatisticValue::Kind::kBool:
      json.Bool(value.truth);
      return;
    case StatisticValue::Kind::kInteger:
      json.Int(value.integer);
      return;
    case StatisticValue::Kind::kUnsigned:
      json.Raw(fmt::format_int(value.natural).c_str());
      return;
    case StatisticValue::Kind::kFloat:
      json.Float(value.number);
      return;
  }
}

Statistics SpellStatistics(DType dtype, bool is_scalar, const std::array<double, 4>& values,
                           const StatisticRules& rules) {
  const DTypeKind kind = GetDTypeInfo(dtype).kind;
  const bool low = rules.precision == Precision::kLow;
  if (kind == DTypeKind::kBool && !rules.is_numpy) {
    return {StatisticValue::Bool(values[0] != 0), StatisticValue::Bool(values[1] != 0), {}, {}};
  }
  if (kind == DTypeKind::kComplex) {
    Statistics result;
    for (size_t i = 0; i < result.size(); ++i) {
      result[i] = StatisticValue::Float(dtype == DType::kComplex64 ? RoundToFloatInRange(values[i])
                                                                   : values[i]);
    }
    if (low && !rules.is_mindspore && !rules.is_numpy) {
      result[3] = {};
    }
    return result;
  }
  const auto as_integer = [](double value) {
    return std::fabs(value) < 0x1p63 ? StatisticValue::Integer(static_cast<int64_t>(value))
                                     : StatisticValue::Float(value);
  };
  if (is_scalar && kind != DTypeKind::kBool) {
    return ScalarStatistics(
        IsInteger(kind) ? as_integer(values[0]) : StatisticValue::Float(values[0]), rules);
  }
  Statistics result;
  if (rules.is_numpy && (IsInteger(kind) || kind == DTypeKind::kBool)) {
    const bool truth = kind == DTypeKind::kBool;
    return {truth ? StatisticValue::Bool(values[0] != 0) : as_integer(values[0]),
            truth ? StatisticValue::Bool(values[1] != 0) : as_integer(values[1]),
            StatisticValue::Float(values[2]), StatisticValue::Float(values[3])};
  }
  // Finite half-precision data never becomes infinite; wider types keep their range.
  const bool keeps_range = dtype == DType::kFloat64 || IsInteger(kind);
  // Low precision takes the statistics of doubles in float32.
  const DType low_dtype = dtype == DType::kFloat64 ? DType::kFloat32 : dtype;
  for (size_t i = 0; i < result.size(); ++i) {
    const double value = low && !rules.is_numpy ? tensor::RoundToDType(low_dtype, values[i])
                         : keeps_range          ? values[i]
                                                : RoundToFloatInRange(values[i]);
    result[i] = StatisticValue::Float(value);
  }
  return result;
}

std::array<double, 4> FloatStatistics(const TensorView& view, bool keeps_half) {
  const DType dtype = view.dtype;
  const bool is_cast = dtype == DType::kFloat64 || IsInteger(GetDTypeInfo(dtype).kind);
  kernels::StatsPartial total;
  tensor::ForEachBlock(view, tensor::kSumBlockElements, GatheredBytes(),
                       [&](std::span<const std::byte> block, size_t) {
                         kernels::MergeStats(total, is_cast ? StatsOfFloats(dtype, block)
                                                            : kernels::StatsOfBlock(dtype, block));
                       });
  const kernels::TensorStats stats = kernels::FinishStats(total);
  const bool is_half = dtype == DType::kFloat16 || dtype == DType::kBFloat16;
  std::array<double, 4> result = {stats.max, stats.min, stats.mean, stats.norm};
  for (double& value : result) {
    value = tensor::RoundToDType(keeps_half && is_half ? dtype : DType::kFloat32, value);
  }
  return result;
}

TensorValues ExamineTensor(const TensorView& view, const ValueRequest& request) {
  const DType dtype = view.dtype;
  const DTypeInfo& info = GetDTypeInfo(dtype);
  const size_t element_bytes = info.size_bytes;
  const auto count = static_cast<size_t>(view.element_count());
  const bool is_scalar = view.shape.empty();
  const bool through_float = request.rules.precision == Precision::kLow && !is_scalar &&
                             !request.rules.is_numpy &&
                             (dtype == DType::kFloat64 || IsInteger(info.kind));
  const bool crc_of_widened = request.crc32 && IsHashedAsFloat32(dtype);

  TensorValues values;
  kernels::StatsPartial total;
  uint32_t crc = 0;
  uint64_t folded = 0;
  constexpr double kInfinity = std::numeric_limits<double>::infinity();
  double finite_max = -kInfinity;
  double finite_min = kInfinity;

  // Everything is done to a block while it is in the cache.
  tensor::BlockReader blocks(view, GatheredBytes());
  for (size_t first = 0; first < count; first += tensor::kSumBlockElements) {
    const size_t size = std::min(tensor::kSumBlockElements, count - first);
    const std::span<const std::byte> block =
        request.copy_to != nullptr
            ? blocks.ReadAndCopy(first, size, request.copy_to + first * element_bytes)
            : blocks.Read(first, size);
    if (request.statistics) {
      const kernels::StatsPartial partial =
          through_float ? StatsOfFloats(dtype, block) : kernels::StatsOfBlock(dtype, block);
      kernels::MergeStats(total, partial);
      if (request.extended) {
        if (partial.nan_count + partial.positive_inf_count + partial.negative_inf_count > 0) {
          FindFiniteRange(dtype, block, finite_max, finite_min);
        } else {
          finite_max = std::max(finite_max, partial.max);
          finite_min = std::min(finite_min, partial.min);
        }
      }
    }
    if (request.crc32) {
      crc = crc_of_widened ? CrcOfWidened(dtype, block, crc) : kernels::Crc32(block, crc);
    }
    if (request.xor64) {
      folded ^= XorOfWords(block);
    }
  }

  if (request.statistics) {
    const kernels::TensorStats stats = kernels::FinishStats(total);
    const bool has_own_scalar = info.kind != DTypeKind::kBool && info.kind != DTypeKind::kComplex;
    values.statistics =
        is_scalar && has_own_scalar
            ? ScalarOf(view, stats, request.rules)
            : SpellStatistics(dtype, is_scalar, {stats.max, stats.min, stats.mean, stats.norm},
                              request.rules);
    values.counts = stats;
    const bool any_finite = finite_max >= finite_min;
    values.finite_max = any_finite ? finite_max : std::numeric_limits<double>::quiet_NaN();
    values.finite_min = any_finite ? finite_min : std::numeric_limits<double>::quiet_NaN();
  }
  if (request.crc32) {
    values.crc32 = crc;
    if (request.copy_to != nullptr && !crc_of_widened) {
      values.copy_crc32 = crc;
    }
  }
  if (request.xor64) {
    values.xor64 = static_cast<int64_t>(folded);
    if (is_scalar && info.kind != DTypeKind::kComplex) {
      const kernels::TensorStats stats = kernels::FinishStats(StatsOfWhole(view));
      values.scalar = info.kind == DTypeKind::kBool ? StatisticValue::Bool(stats.max != 0)
                      : IsInteger(info.kind)        ? IntegerValue(view)
                                                    : StatisticValue::Float(stats.max);
    }
  }
  return values;
}

namespace {

// A cache line of every 16 KiB, each time another one, so that columns of matrices are met, and the
// last. Lines that are not in the cache cost as much as thirty that are read in order: with one of
// every 2 KiB the sample costs what it saves.
uint64_t SampleOf(std::span<const std::byte> bytes) {
  constexpr size_t kLineBytes = 64;
  constexpr size_t kLineOf = 16384;
  constexpr size_t kAhead = 16;
  constexpr uint64_t kFactor = 0x9E3779B97F4A7C15U;
  std::array<uint64_t, 4> lanes = {1, 2, 3, 4};
  const auto take = [&](const std::byte* line) {
    std::array<uint64_t, kLineBytes / sizeof(uint64_t)> words;
    std::memcpy(words.data(), line, kLineBytes);
    for (size_t i = 0; i < words.size(); ++i) {
      uint64_t& lane = lanes[i % lanes.size()];
      lane = std::rotl((lane ^ words[i]) * kFactor, 29);
    }
  };
  const size_t count = bytes.size() / kLineOf;
  const auto line = [&](size_t number) {
    return bytes.data() + number * kLineOf + (number * kFactor >> 56U) * kLineBytes;
  };
  static_assert(kLineOf / kLineBytes == size_t{1} << (64U - 56U));
  for (size_t number = 0; number < std::min(kAhead, count); ++number) {
    __builtin_prefetch(line(number));
  }
  for (size_t number = 0; number < count; ++number) {
    if (number + kAhead < count) {
      __builtin_prefetch(line(number + kAhead));
    }
    take(line(number));
  }
  if (bytes.size() >= kLineBytes) {
    take(bytes.data() + bytes.size() - kLineBytes);
  }
  uint64_t sample = bytes.size();
  for (const uint64_t lane : lanes) {
    sample = std::rotl((sample ^ lane) * kFactor, 31);
  }
  return sample;
}

bool AsksForTheSame(const ValueRequest& left, const ValueRequest& right) {
  return left.rules == right.rules && left.statistics == right.statistics &&
         left.extended == right.extended && left.crc32 == right.crc32 && left.xor64 == right.xor64;
}

}  // namespace

TensorValues SeenValues::Examine(const TensorView& view, const ValueRequest& request,
                                 uint64_t identity) {
  // A copy reads every byte in any case.
  if (request.copy_to != nullptr || view.shape.empty() || !view.is_plain()) {
    return ExamineTensor(view, request);
  }
  std::optional<Known> known;
  {
    const std::lock_guard lock(mutex_);
    if (known_.empty()) {
      known_.resize(kPlaces);
    }
    if (known_[identity % kPlaces].identity == identity) {
      known = known_[identity % kPlaces];
    }
  }
  if (known && known->dtype == view.dtype && known->bytes.data() == view.data &&
      known->bytes.size() == view.size_bytes() && AsksForTheSame(known->request, request) &&
      known->sample == SampleOf(view.bytes())) {
    return known->values;
  }
  TensorValues values = ExamineTensor(view, request);
  const uint64_t sample = SampleOf(view.bytes());
  const std::lock_guard lock(mutex_);
  known_[identity % kPlaces] = {identity, view.dtype, view.bytes(), request, sample, values};
  return values;
}

}  // namespace msprobe::capture
