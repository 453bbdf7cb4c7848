// What a differing value is of the other side's.
//
// Hypotheses are tried from the simplest on, and the first that explains the difference is the
// relation: one factor, one offset, rounding to a narrower dtype, a part that is zero, elements
// that moved along a dimension (shift, permutation, another part), swapped dimensions, an offset
// along one dimension. A hypothesis explains it when what is left, summed in double over all
// elements, is within noise and at most an eighth of the difference.
//
// Nothing is claimed of what could fit by chance. An offset and a factor are the same for a
// constant tensor; of a tensor of a few elements only a telling factor (a whole number, its
// inverse, a power of two) counts; elements that were moved must differ from those in their old
// places.
#include "src/analysis/compare/relation.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <limits>
#include <memory>
#include <numeric>
#include <utility>

#include <fmt/format.h>

#include "src/analysis/compare/relation_walk.h"
#include "src/base/strings.h"
#include "src/kernels/convert.h"
#include "src/tensor/element_blocks.h"
#include "src/tensor/float_bits.h"
#include "src/tensor/float_limits.h"

namespace msprobe::analysis::compare {
namespace {

// ---- Sums over both sides ----

bool SumUp(const Elements& npu, const Elements& bench, Sums& sums) {
  sums.count = static_cast<double>(npu.count());
  return ForEachBlockOf(npu, bench, [&](int64_t, auto n, auto b) {
    for (size_t i = 0; i < n.size(); ++i) {
      if (!std::isfinite(n[i]) || !std::isfinite(b[i])) {
        sums.has_nan = sums.has_nan || std::isnan(n[i]) || std::isnan(b[i]);
        sums.has_inf = true;
        sums.largest = std::max({sums.largest, std::isfinite(n[i]) ? std::abs(n[i]) : 0,
                                 std::isfinite(b[i]) ? std::abs(b[i]) : 0});
        continue;
      }
      const double d = n[i] - b[i];
      sums.n += n[i];
      sums.b += b[i];
      sums.nn += n[i] * n[i];
      sums.bb += b[i] * b[i];
      sums.nb += n[i] * b[i];
      sums.d += d;
      sums.dd += d * d;
      sums.abs_b += std::abs(b[i]);
      sums.largest = std::max({sums.largest, std::abs(n[i]), std::abs(b[i])});
      const bool zero_n = n[i] == 0 && b[i] != 0;
      const bool zero_b = b[i] == 0 && n[i] != 0;
      sums.zero_npu += zero_n ? 1 : 0;
      sums.zero_bench += zero_b ? 1 : 0;
      if (!zero_n && !zero_b) {
        sums.both += n[i] != 0 ? 1 : 0;
        sums.rest_dd += d * d;
        sums.rest_nn += n[i] * n[i];
      }
    }
  });
}

// Infinities (of masks) as large numbers: where they are is compared, too.
Elements WithoutInfinities(const Elements& elements, double instead) {
  Elements finite = elements;
  finite.read = [read = elements.read, instead](int64_t first, std::span<double> values) {
    if (!read(first, values)) {
      return false;
    }
    for (double& value : values) {
      value = std::isinf(value) ? std::copysign(instead, value) : value;
    }
    return true;
  };
  return finite;
}

// ---- Numbers in words ----

// A number known up to the share `unsure` of it, with the digits that are known, four at most.
std::string KnownDigits(double number, double unsure) {
  const double magnitude = std::abs(number);
  if (magnitude >= 1000 && magnitude < 1e15 && magnitude == std::floor(magnitude)) {
    return (number < 0 ? "-" : "") + base::FormatCount(static_cast<uint64_t>(magnitude));
  }
  const int digits = std::clamp(static_cast<int>(-std::log10(std::max(unsure, 1e-9))), 2, 4);
  if (magnitude < 1e-3 || magnitude >= 1e4) {
    return fmt::format("{:.{}e}", number, digits - 1);
  }
  const int before = magnitude >= 1 ? static_cast<int>(std::floor(std::log10(magnitude))) + 1 : 0;
  return fmt::format("{:.{}f}", number, std::max(0, digits - before));
}

// ---- One factor ----

struct Factor {
  double value = 1;
  bool is_telling = false;  // a whole number, its inverse, a power of two
  double unsure = 0;
};

bool IsPowerOfTwo(double value) {
  int exponent = 0;
  return std::frexp(value, &exponent) == 0.5;
}

// The telling number that a factor is within its uncertainty, or the factor.
Factor Recognised(double factor, double unsure) {
  Factor found{factor, false, unsure};
  const double magnitude = std::abs(factor);
  if (!(unsure < 0.02) || !(magnitude > 0)) {
    return found;
  }
  const auto take = [&](double number) {
    if (std::abs(magnitude / number - 1) <= unsure) {
      found.value = std::copysign(number, factor);
      found.is_telling = true;
    }
  };
  const double whole = std::round(magnitude >= 1 ? magnitude : 1 / magnitude);
  constexpr double kLargestWhole = 4096;
  if (whole <= kLargestWhole && unsure * whole < 0.05) {
    take(magnitude >= 1 ? whole : 1 / whole);
  }
  if (!found.is_telling) {
    take(std::exp2(std::round(std::log2(magnitude))));
  }
  if (found.is_telling && found.value == 1) {
    found.is_telling = false;
  }
  return found;
}

// Why a value may be scaled: the first row that applies. Powers of two from 256 on are scales of
// losses, less is a number of ranks or of micro-batches.
constexpr double kLeastLossScale = 256;

std::string_view CauseOf(const Factor& factor, const RelationRequest& request) {
  const double magnitude = std::abs(factor.value);
  const auto parts = static_cast<double>(request.parts);
  const bool is_power = IsPowerOfTwo(magnitude);
  struct Cause {
    bool applies;
    std::string_view cause;
  };
  const bool is_known = request.parts > 1;
  for (const Cause& cause : {
           Cause{factor.value == -1, "sign flipped?"},
           Cause{!factor.is_telling, ""},
           Cause{is_known && magnitude == parts, "reduced twice?"},
           Cause{is_known && magnitude == 1 / parts, "divided twice?"},
           Cause{request.is_gradient && is_power && magnitude >= kLeastLossScale,
                 "loss scale left in?"},
           Cause{request.is_gradient && is_power && magnitude <= 1 / kLeastLossScale,
                 "divided by the loss scale twice?"},
           Cause{request.is_gradient && magnitude > 1, "reduced twice?"},
           Cause{request.is_gradient && magnitude < 1, "divided twice?"},
       }) {
    if (cause.applies) {
      return cause.cause;
    }
  }
  return "";
}

Relation ScaleRelation(const Factor& factor, const RelationRequest& request) {
  Relation relation{RelationKind::kScale, factor.value, {}, std::string(CauseOf(factor, request))};
  const double inverse = 1 / std::abs(factor.value);
  relation.what =
      factor.is_telling && inverse >= 1000 && inverse == std::round(inverse)
          ? fmt::format("{}1/{} of", factor.value < 0 ? "-" : "", KnownDigits(inverse, 0))
          : fmt::format("{} x", KnownDigits(factor.value, factor.unsure));
  return relation;
}

Relation OffsetRelation(double offset, double unsure) {
  return {RelationKind::kConstant, std::nullopt,
          fmt::format(fmt::runtime(offset < 0 ? "{} less than" : "{} more than"),
                      KnownDigits(std::abs(offset), unsure))};
}

// ---- Rounding ----

struct NarrowFormat {
  std::string_view name;
  int mantissa_bits;  // explicit ones
  DType dtype;        // its range
  double noise;       // how far a value rounded to it may be from the other side's
};

// From the narrowest on. A computation in bfloat16 ends a few units apart; of formats of 8 bits
// only the rounding itself counts, more could be chance.
constexpr NarrowFormat kNarrowFormats[] = {
    {"float8_e5m2", 2, DType::kFloat8E5M2, 0.3 * 0x1p-2},
    {"float8_e4m3fn", 3, DType::kFloat8E4M3FN, 0.3 * 0x1p-3},
    {"bfloat16", 7, DType::kBFloat16, 2 * 0x1p-7},
    {"float16", 10, DType::kFloat16, 2 * 0x1p-10},
    {"tf32", 10, DType::kFloat32, 2 * 0x1p-10},
};
constexpr size_t kNarrowCount = std::size(kNarrowFormats);

bool Holds(const NarrowFormat& format, double value) {
  const uint64_t low = (uint64_t{1} << (52U - static_cast<unsigned>(format.mantissa_bits))) - 1;
  if ((std::bit_cast<uint64_t>(value) & low) != 0) {
    // A subnormal number of the format has fewer digits, not more.
    return false;
  }
  const tensor::FloatFormat range = tensor::FormatOf(format.dtype);
  const double magnitude = std::abs(value);
  return magnitude == 0 || (magnitude <= range.largest &&
                            (magnitude >= range.normal || std::fmod(magnitude, range.tiny) == 0));
}

// Which formats hold all values of a side, and of each how many it does not hold.
struct Held {
  std::array<int64_t, kNarrowCount> outside{};
  int64_t nonzero = 0;
};

std::string_view HeldWords(bool by_npu) {
  return by_npu ? "after rounding to {} equal to" : "without the rounding to {} equal to";
}

std::optional<Relation> FindRounding(const Elements& npu, const Elements& bench, const Sums& sums) {
  std::array<Held, 2> held;
  if (!ForEachBlockOf(npu, bench, [&](int64_t, auto n, auto b) {
        for (const auto& [side, values] : {std::pair(&held[0], n), std::pair(&held[1], b)}) {
          for (const double value : values) {
            if (value != 0) {
              ++side->nonzero;
              for (size_t f = 0; f < kNarrowCount; ++f) {
                side->outside[f] += Holds(kNarrowFormats[f], value) ? 0 : 1;
              }
            }
          }
        }
      })) {
    return std::nullopt;
  }
  for (size_t f = 0; f < kNarrowCount; ++f) {
    const NarrowFormat& format = kNarrowFormats[f];
    for (const bool by_npu : {true, false}) {
      const Held& narrow = held[by_npu ? 0 : 1];
      const Held& wide = held[by_npu ? 1 : 0];
      const int own_bits = by_npu ? npu.mantissa_bits : bench.mantissa_bits;
      if (narrow.nonzero >= kFewestExplained && narrow.outside[f] == 0 &&
          own_bits > format.mantissa_bits && 2 * wide.outside[f] > wide.nonzero &&
          sums.dd <= format.noise * format.noise * sums.bb) {
        return Relation{RelationKind::kPrecision, std::nullopt,
                        fmt::format(fmt::runtime(HeldWords(by_npu)), format.name)};
      }
    }
  }
  return std::nullopt;
}

// ---- A part that is zero ----

// Where along the dimensions: "indices 4-7 of dimension 0 are"; empty where nowhere in particular.
struct ZeroPlace {
  size_t dim = 0;
  int64_t first = 0;
  int64_t last = 0;
};

std::optional<ZeroPlace> PlaceOfZeros(const Elements& npu, const Elements& bench, bool by_npu) {
  const Dims dims = DimsOf(npu.shape);
  struct Counts {
    std::vector<int64_t> zero;    // of one side only, by index
    std::vector<int64_t> values;  // not zero on either side
  };
  std::vector<Counts> counts(dims.sizes.size());
  std::vector<Cut> cuts(dims.sizes.size());
  for (size_t d = 0; d < dims.sizes.size(); ++d) {
    cuts[d] = CutAt(dims.sizes, d);
    if (dims.sizes[d] <= kMostSlices) {
      counts[d].zero.resize(static_cast<size_t>(dims.sizes[d]));
      counts[d].values.resize(static_cast<size_t>(dims.sizes[d]));
    }
  }
  if (!ForEachBlockOf(npu, bench, [&](int64_t first, auto n, auto b) {
        for (size_t i = 0; i < n.size(); ++i) {
          const bool is_zero = by_npu ? n[i] == 0 && b[i] != 0 : b[i] == 0 && n[i] != 0;
          if (!is_zero && (n[i] == 0 || b[i] == 0)) {
            continue;
          }
          for (size_t d = 0; d < counts.size(); ++d) {
            if (!counts[d].zero.empty()) {
              const int64_t at = (first + static_cast<int64_t>(i)) / cuts[d].inner % cuts[d].size;
              ++(is_zero ? counts[d].zero : counts[d].values)[static_cast<size_t>(at)];
            }
          }
        }
      })) {
    return std::nullopt;
  }
  for (size_t d = 0; d < counts.size(); ++d) {
    int64_t first = -1;
    int64_t last = -1;
    bool whole = !counts[d].zero.empty();
    for (size_t at = 0; whole && at < counts[d].zero.size(); ++at) {
      if (counts[d].zero[at] > 0) {
        whole = counts[d].values[at] == 0 && (first < 0 || last + 1 == static_cast<int64_t>(at));
        first = first < 0 ? static_cast<int64_t>(at) : first;
        last = static_cast<int64_t>(at);
      }
    }
    if (whole && first >= 0) {
      return ZeroPlace{dims.numbers[d], first, last};
    }
  }
  return std::nullopt;
}

std::string IndicesText(int64_t first, int64_t last) {
  return first == last ? fmt::format("index {}", first) : fmt::format("indices {}-{}", first, last);
}

std::optional<Relation> FindMissing(const Elements& npu, const Elements& bench, const Sums& sums,
                                    const Noise& noise) {
  const bool by_npu = sums.zero_npu > 0;
  const int64_t zeros = by_npu ? sums.zero_npu : sums.zero_bench;
  if (zeros == 0 || (sums.zero_npu > 0 && sums.zero_bench > 0) || zeros < kFewestExplained / 2 ||
      sums.both < kFewestExplained / 2 || !noise.Allows(sums.rest_dd, sums.rest_nn) ||
      sums.rest_dd > kLeftShare * kLeftShare * sums.dd) {
    return std::nullopt;
  }
  const std::optional<ZeroPlace> place = PlaceOfZeros(npu, bench, by_npu);
  if (!place && npu.is_exact) {
    return std::nullopt;  // zeros are as good as any other number
  }
  Relation relation{RelationKind::kMissingPart};
  if (place) {
    relation.what = fmt::format(
        fmt::runtime(by_npu ? "with zeros at {} of dimension {}, otherwise equal to"
                            : "without the zeros at {} of dimension {}, otherwise equal to"),
        IndicesText(place->first, place->last), place->dim);
  } else {
    relation.what = fmt::format(
        fmt::runtime(by_npu ? "with {:.3g} % of the elements zero, otherwise equal to"
                            : "without the zeros in {:.3g} % of the elements, otherwise equal to"),
        100 * static_cast<double>(zeros) / sums.count);
  }
  return relation;
}

// ---- An offset along one dimension ----

// A bias that every rank adds: the same vector everywhere else.
std::optional<Relation> FindVector(const Elements& npu, const Elements& bench, const Sums& sums,
                                   const Noise& noise) {
  const Dims dims = DimsOf(npu.shape);
  if (dims.sizes.size() < 2 || dims.sizes.size() > kMostDims || noise.is_exact) {
    return std::nullopt;
  }
  // The last dimension first: that of a bias.
  for (size_t d = dims.sizes.size(); d-- > 0;) {
    const Cut cut = CutAt(dims.sizes, d);
    if (cut.size > kMostSlices || cut.outer * cut.inner < 4) {
      continue;
    }
    std::vector<double> sum(static_cast<size_t>(cut.size));
    double squares = 0;
    if (!ForEachBlockOf(npu, bench, [&](int64_t first, auto n, auto b) {
          for (size_t i = 0; i < n.size(); ++i) {
            const double apart = n[i] - b[i];
            squares += apart * apart;
            sum[static_cast<size_t>((first + static_cast<int64_t>(i)) / cut.inner % cut.size)] +=
                apart;
          }
        })) {
      return std::nullopt;
    }
    const auto times = static_cast<double>(cut.outer * cut.inner);
    double of_vector = 0;
    int64_t nonzero = 0;
    for (const double total : sum) {
      of_vector += total * total / times;
      nonzero += total != 0 ? 1 : 0;
    }
    const double left = std::max(0.0, squares - of_vector);
    if (nonzero > 1 && noise.Allows(left, sums.nn) && left <= kLeftShare * kLeftShare * sums.dd) {
      return Relation{RelationKind::kConstant, std::nullopt,
                      fmt::format("one vector along dimension {} more than", dims.numbers[d]),
                      "a bias added twice?"};
    }
  }
  return std::nullopt;
}

std::optional<Relation> FindOfEqualShape(const Elements& npu, const Elements& bench,
                                         const Noise& noise, const RelationRequest& request) {
  Sums sums;
  if (!SumUp(npu, bench, sums) || sums.has_nan) {
    return std::nullopt;
  }
  if (sums.has_inf) {
    const double instead = 2 * sums.largest + 1;
    const Elements n = WithoutInfinities(npu, instead);
    const Elements b = WithoutInfinities(bench, instead);
    return FindOfEqualShape(n, b, noise, request);
  }
  if (noise.Allows(sums.dd, sums.bb) || sums.nn == 0 || sums.bb == 0) {
    return std::nullopt;
  }
  const double wide = noise.is_exact ? kSumNoise : std::max(noise.relative, kSumNoise);
  // One factor.
  const double factor = sums.nb / sums.bb;
  double left = std::max(0.0, sums.nn - factor * sums.nb);
  const bool few = sums.EffectiveCount() < 8 || sums.IsConstant(wide);
  if (factor != 0 && left <= std::max(wide * wide, kSumNoise * kSumNoise) * sums.nn &&
      left <= kLeftShare * kLeftShare * sums.dd) {
    const double sure = std::sqrt(std::max(1.0, few ? 1.0 : sums.EffectiveCount()));
    const Factor known =
        Recognised(factor, std::max(4 * std::sqrt(left / sums.nn) / sure, wide / sure));
    if (!few || (known.is_telling && known.unsure <= 1e-3)) {
      return ScaleRelation(known, request);
    }
    return std::nullopt;  // a factor or an offset, whichever
  }
  // One offset.
  const double offset = sums.d / sums.count;
  left = std::max(0.0, sums.dd - sums.count * offset * offset);
  if (!few && noise.Allows(left < kSumNoise * kSumNoise * sums.dd ? 0 : left, sums.nn) &&
      left <= kLeftShare * kLeftShare * sums.dd) {
    return OffsetRelation(
        offset, std::max(kSumNoise, std::sqrt(left / sums.dd / sums.count) +
                                        wide * std::sqrt(sums.nn / sums.dd / sums.count)));
  }
  if (!noise.is_exact) {
    if (std::optional<Relation> rounding = FindRounding(npu, bench, sums)) {
      return rounding;
    }
  }
  if (std::optional<Relation> missing = FindMissing(npu, bench, sums, noise)) {
    return missing;
  }
  if (sums.IsConstant(wide) && !noise.is_exact) {
    return std::nullopt;
  }
  if (std::optional<Relation> vector = FindVector(npu, bench, sums, noise)) {
    return vector;
  }
  if (std::optional<Relation> moved = FindMoved(npu, bench, sums, noise, request)) {
    return moved;
  }
  return FindTransposed(npu, bench, noise);
}

Noise NoiseOf(const Elements& npu, const Elements& bench, const RelationRequest& request) {
  return {request.tolerance, npu.is_exact && bench.is_exact};
}

}  // namespace

std::string_view RelationKindName(RelationKind kind) {
  constexpr std::array<std::string_view, kRelationKindCount> kNames = {
      "scale",        "partial_sum", "reduced_twice", "shift",    "permutation", "transpose",
      "missing_part", "wrong_part",  "precision",     "constant", "stale"};
  return kNames[static_cast<size_t>(kind)];
}

bool Relation::is_telling() const {
  constexpr double kNearOne = 0.05;
  return !factor || std::abs(*factor - 1) >= kNearOne;
}

std::string Relation::text() const {
  return cause.empty() ? fmt::format("{} the reference", what)
                       : fmt::format("{} the reference ({})", what, cause);
}

std::string RanksText(const std::vector<int64_t>& ranks) {
  constexpr size_t kMostRanges = 8;
  std::vector<std::string> ranges;
  size_t from = 0;
  while (from < ranks.size() && ranges.size() < kMostRanges) {
    size_t end = from + 1;
    while (end < ranks.size() && ranks[end] == ranks[end - 1] + 1) {
      ++end;
    }
    ranges.push_back(end - from == 1 ? fmt::format("{}", ranks[from])
                                     : fmt::format("{}-{}", ranks[from], ranks[end - 1]));
    from = end;
  }
  return fmt::format("rank{} {}{}", ranks.size() == 1 ? "" : "s", base::Join(ranges, ", "),
                     from < ranks.size() ? fmt::format(" and {} more", ranks.size() - from) : "");
}

std::optional<Elements> ElementsOf(const TensorView& view) {
  const DTypeInfo& info = GetDTypeInfo(view.dtype);
  if (info.kind == DTypeKind::kComplex) {
    return std::nullopt;
  }
  Elements elements;
  elements.shape = view.shape;
  elements.is_exact = info.kind != DTypeKind::kFloat;
  if (!elements.is_exact) {
    elements.mantissa_bits =
        static_cast<int>(std::lround(-std::log2(tensor::FormatOf(view.dtype).epsilon())));
  }
  elements.read = [view, scratch = std::make_shared<std::vector<std::byte>>()](
                      int64_t first, std::span<double> values) {
    tensor::BlockReader reader(view, *scratch);
    kernels::WidenToDouble(view.dtype, reader.Read(static_cast<size_t>(first), values.size()),
                           values);
    return true;
  };
  return elements;
}

std::optional<Relation> FindRelation(const Elements& npu, const Elements& bench,
                                     const RelationRequest& request) {
  if (npu.count() == 0 || bench.count() == 0 || npu.is_exact != bench.is_exact) {
    return std::nullopt;
  }
  const Noise noise = NoiseOf(npu, bench, request);
  if (npu.shape == bench.shape) {
    return FindOfEqualShape(npu, bench, noise, request);
  }
  return npu.count() == bench.count() ? FindTransposed(npu, bench, noise)
                                      : FindAbsent(npu, bench, noise);
}

std::optional<Relation> FindReorderedAmongMore(const Elements& npu, const Elements& bench,
                                               const RelationRequest& request) {
  if (npu.is_exact != bench.is_exact || bench.count() == 0 || npu.count() <= bench.count()) {
    return std::nullopt;
  }
  return FindReordered(npu, bench, NoiseOf(npu, bench, request));
}

bool HoldsSameValues(const Elements& npu, const Elements& bench, double tolerance) {
  if (npu.shape != bench.shape || npu.is_exact != bench.is_exact || npu.count() == 0) {
    return false;
  }
  Sums sums;
  if (!SumUp(npu, bench, sums) || sums.has_inf) {
    return false;
  }
  const Noise noise{tolerance, npu.is_exact};
  return noise.Allows(sums.dd, sums.bb) && sums.VarianceB() > 0 &&
         !sums.IsConstant(noise.is_exact ? kSumNoise : tolerance);
}

std::optional<PartRelation> FindPartRelation(const Elements& npu, const Elements& bench,
                                             const RankParts& parts,
                                             const RelationRequest& request) {
  // The sum of parts of equal shape, block by block.
  const auto sum_of = [](const std::vector<Elements>& all) -> std::optional<Elements> {
    if (all.size() < 2 || std::any_of(all.begin(), all.end(), [&](const Elements& part) {
          return part.shape != all.front().shape;
        })) {
      return std::nullopt;
    }
    Elements sum = all.front();
    sum.read = [&all](int64_t first, std::span<double> values) {
      std::vector<double> part(values.size());
      std::fill(values.begin(), values.end(), 0.0);
      for (const Elements& elements : all) {
        if (!elements.read(first, part)) {
          return false;
        }
        for (size_t i = 0; i < part.size(); ++i) {
          values[i] += part[i];
        }
      }
      return true;
    };
    return sum;
  };
  const std::optional<Elements> npu_sum = sum_of(parts.npu);
  const std::optional<Elements> bench_sum = sum_of(parts.bench);
  const auto count = static_cast<double>(std::max(parts.npu.size(), parts.bench.size()));
  bool differs = false;
  const bool sums_to_bench = npu_sum && HoldsSameValues(*npu_sum, bench, request.tolerance);
  if (npu.shape == bench.shape && npu.count() > 0) {
    Sums sums;
    if (!SumUp(npu, bench, sums) || sums.has_inf) {
      return std::nullopt;
    }
    differs = !NoiseOf(npu, bench, request).Allows(sums.dd, sums.bb);
    const double factor = sums.bb > 0 ? sums.nb / sums.bb : 0;
    const double left = std::max(0.0, sums.nn - factor * sums.nb);
    const bool is_scale =
        left <= std::max(request.tolerance * request.tolerance, kSumNoise * kSumNoise) * sums.nn;
    const double unsure = std::max(request.tolerance, kSumNoise);
    for (const double by : {count, 1 / count}) {
      if (count > 1 && is_scale && std::abs(factor / by - 1) <= unsure &&
          (parts.reduced_again || (sums_to_bench && by > 1))) {
        RelationRequest known = request;
        known.parts = static_cast<int64_t>(count);
        Relation relation = ScaleRelation({by, true, unsure}, known);
        relation.kind = RelationKind::kReducedTwice;
        return PartRelation{std::move(relation), {}};
      }
    }
  }
  const bool is_part_of_bench = differs && sums_to_bench;
  if (is_part_of_bench ||
      (differs && bench_sum && HoldsSameValues(npu, *bench_sum, request.tolerance))) {
    const size_t ranks = is_part_of_bench ? parts.npu.size() : parts.bench.size();
    return PartRelation{
        {RelationKind::kPartialSum, std::nullopt,
         fmt::format(fmt::runtime(is_part_of_bench ? "one of {} parts that sum up to"
                                                   : "the sum of {} parts, of which one is"),
                     ranks),
         is_part_of_bench ? "a reduction is missing?" : "the reference lacks a reduction?"},
        {}};
  }
  if (parts.npu.size() != parts.bench.size() || parts.npu.size() < 2) {
    return std::nullopt;
  }
  PartRelation found;
  std::vector<size_t> holds(parts.npu.size());
  std::vector<size_t> zero;
  for (size_t rank = 0; rank < parts.npu.size(); ++rank) {
    holds[rank] = rank;
    const Elements& own = parts.npu[rank];
    if (own.shape != parts.bench[rank].shape) {
      return std::nullopt;
    }
    Sums sums;
    if (!SumUp(own, parts.bench[rank], sums)) {
      return std::nullopt;
    }
    const Noise noise = NoiseOf(own, parts.bench[rank], request);
    if (noise.Allows(sums.dd, sums.bb)) {
      continue;
    }
    if (sums.nn == 0) {
      zero.push_back(rank);
      continue;
    }
    for (size_t other = 0; other < parts.bench.size(); ++other) {
      if (other != rank && HoldsSameValues(own, parts.bench[other], request.tolerance)) {
        holds[rank] = other;
        found.parts.push_back(rank);
        break;
      }
    }
    if (holds[rank] == rank) {
      return std::nullopt;  // something else
    }
  }
  if (!found.parts.empty() && zero.empty()) {
    const size_t first = found.parts.front();
    found.relation = {RelationKind::kWrongPart, std::nullopt,
                      fmt::format("part {} in the place of part {} of", holds[first], first),
                      "a rank holds another rank's part?"};
    return found;
  }
  if (found.parts.empty() && !zero.empty() && zero.size() < parts.npu.size()) {
    found.parts = zero;
    found.relation = {RelationKind::kMissingPart, std::nullopt,
                      fmt::format("with zeros in {} of {} parts, otherwise equal to", zero.size(),
                                  parts.npu.size())};
    return found;
  }
  return std::nullopt;
}

std::optional<Relation> RelationOfStatistics(const FourStatistics& npu, const FourStatistics& bench,
                                             std::array<int, 2> mantissa_bits,
                                             const RelationRequest& request) {
  const double elements = std::max(1.0, bench.elements);
  const double rms = bench.norm / std::sqrt(elements);
  if (!std::isfinite(npu.norm + npu.max + npu.min + npu.mean) || !(bench.norm > 0) ||
      !(npu.norm > 0) || !std::isfinite(rms + bench.max + bench.min + bench.mean)) {
    return std::nullopt;
  }
  const double noise = std::max(request.tolerance, kSumNoise);
  const double npu_rms = npu.norm / std::sqrt(elements);
  const auto near = [&](double a, double b, double scale) {
    return std::abs(a - b) <= noise * std::max(scale, std::abs(b));
  };
  const auto equals = [&](double max, double min, double mean, double norm) {
    return near(npu.max, max, npu_rms) && near(npu.min, min, npu_rms) &&
           near(npu.mean, mean, npu_rms) && near(npu.norm, norm, npu.norm);
  };
  if (equals(bench.max, bench.min, bench.mean, bench.norm)) {
    return std::nullopt;
  }
  const bool is_constant = std::abs(bench.max - bench.min) <= 8 * noise * rms;
  const double spread = std::sqrt(std::max(0.0, rms * rms - bench.mean * bench.mean));
  const bool few = elements < 8 || is_constant;
  const double size = npu.norm / bench.norm;
  for (const double factor : {size, -size}) {
    const double max = factor > 0 ? bench.max : bench.min;
    const double min = factor > 0 ? bench.min : bench.max;
    if (!equals(factor * max, factor * min, factor * bench.mean, size * bench.norm) ||
        std::abs(factor - 1) <= 4 * noise) {
      continue;
    }
    const Factor known = Recognised(factor, std::max(noise, 4e-7));
    return !few || (known.is_telling && known.unsure <= 1e-3)
               ? std::optional(ScaleRelation(known, request))
               : std::nullopt;
  }
  const double offset = npu.mean - bench.mean;
  const double norm = std::sqrt(
      std::max(0.0, bench.norm * bench.norm + elements * offset * (2 * bench.mean + offset)));
  if (!few && spread > 8 * noise * rms && std::abs(offset) > 8 * noise * npu_rms &&
      equals(bench.max + offset, bench.min + offset, bench.mean + offset, norm)) {
    return OffsetRelation(offset, noise * npu_rms / std::abs(offset));
  }
  // Max and Min are elements: held by a narrower format on one side only, and near.
  for (const NarrowFormat& format : kNarrowFormats) {
    const auto held = [&](const FourStatistics& side) {
      return Holds(format, side.max) && Holds(format, side.min);
    };
    const double far = format.noise * std::max(rms, std::abs(bench.max));
    if (elements < kFewestExplained || format.mantissa_bits < 7 || npu.max == 0 || npu.min == 0 ||
        std::abs(npu.max - bench.max) > far || std::abs(npu.min - bench.min) > far ||
        std::abs(npu.norm / bench.norm - 1) > format.noise) {
      continue;
    }
    const bool by_npu = held(npu) && mantissa_bits[0] > format.mantissa_bits &&
                        !Holds(format, bench.max) && !Holds(format, bench.min);
    const bool by_bench = held(bench) && mantissa_bits[1] > format.mantissa_bits &&
                          !Holds(format, npu.max) && !Holds(format, npu.min);
    if (by_npu || by_bench) {
      return Relation{RelationKind::kPrecision, std::nullopt,
                      fmt::format(fmt::runtime(HeldWords(by_npu)), format.name)};
    }
  }
  return std::nullopt;
}

}  // namespace msprobe::analysis::compare
