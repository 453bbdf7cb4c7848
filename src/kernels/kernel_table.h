// The inner loops that exist once per instruction set, and the choice among them at run time.
//
// Every implementation gives the same bits: sums are kept in a fixed number of double lanes (of the
// bounded comparison in float lanes first), element i in lane i modulo that number, each addition
// and multiplication is rounded by itself (fused only where the product is exact), and the lanes
// are added up in one fixed order by code all implementations share.
#pragma once

#include <cstddef>
#include <cstdint>
#include <limits>
#include <span>
#include <string_view>

#include "src/kernels/codes.h"
#include "src/kernels/digest.h"
#include "src/kernels/ratios.h"

namespace msprobe::kernels::internal {

// Vector loops take multiples of this many elements; the rest goes through the plain
// implementation.
inline constexpr size_t kGroupElements = 16;

inline constexpr size_t kStatsLanes = 16;
inline constexpr size_t kCompareLanes = 8;
inline constexpr size_t kRatioLanes = 8;

struct StatsLanes {
  double sum[kStatsLanes] = {};
  double square_sum[kStatsLanes] = {};
  double max = 0;  // of everything but NaN; set before the first call to -inf
  double min = 0;  // to +inf
  uint64_t zero_count = 0;
};

// Counts that the fast loop does not provide for a run with NaN or infinities.
struct NonFiniteCounts {
  double max = 0;  // of everything but NaN; set before the first call to -inf
  double min = 0;  // to +inf
  uint64_t nan_count = 0;
  uint64_t positive_inf_count = 0;
  uint64_t negative_inf_count = 0;
};

// The limits of "small" elements, as bits without the sign bit: those order as the magnitudes do,
// however the processor treats subnormal numbers. In the width that the loop works in.
struct SmallRule {
  uint64_t zero_below_bits = 1;  // magnitudes below count as zero
  uint64_t normal_bits = 0;      // of the smallest normal number; 0 and 1: nothing is subnormal
};

// The results of the loops for small elements, in addition to StatsLanes.
struct SmallLanes {
  uint64_t subnormal_count = 0;
  double smallest_nonzero = 0;  // magnitude; set before the first call to +inf
};

struct CompareLanes {
  double dot[kCompareLanes] = {};
  double npu_square_sum[kCompareLanes] = {};
  double bench_square_sum[kCompareLanes] = {};
  double difference_square_sum[kCompareLanes] = {};
  double max_abs_error = 0;
  double max_relative_error = 0;  // of everything but NaN
  bool relative_error_nan = false;
  uint64_t below_one_thousandth_count = 0;
  uint64_t below_five_thousandths_count = 0;
  uint64_t different_count = 0;
};

struct BoundedLanes : CompareLanes {
  double npu_sum[kCompareLanes] = {};
  double bench_sum[kCompareLanes] = {};
  uint64_t beyond = 0;  // elements that are farther apart than their bounds
};

struct RatioLanes {
  double sum[kRatioLanes] = {};
  double largest = 0;
  double smallest = std::numeric_limits<double>::infinity();
  uint64_t exceeding = 0;
};

struct BoundLanes {
  double largest = 0;
  double not_finite = 0;  // NaN where a difference or a bound is not finite
  uint64_t reaching = 0;
};

// 2^-52, added to both sides where the bench is zero. A float16 side absorbs it: its epsilon is 0.
inline constexpr double kRelativeEpsilon = 0x1p-52;

struct RelativeRule {
  double npu_epsilon = kRelativeEpsilon;
  double bench_epsilon = kRelativeEpsilon;
  bool npu_is_float32 = false;  // in double arithmetic: n + epsilon is rounded to float32
};

// Counts are multiples of kGroupElements (any count for the plain table) and at most
// tensor::kSumBlockElements of stats.h, pointers may be unaligned, results are added to what the
// last argument already holds.
using StatsFunction = void (*)(const std::byte* data, size_t count, StatsLanes& lanes);
using NonFiniteFunction = void (*)(const std::byte* data, size_t count, NonFiniteCounts& counts);
// As StatsFunction, but zeros are what the rule calls so; the loops named "near" leave `small`
// alone.
using SmallStatsFunction = void (*)(const std::byte* data, size_t count, const SmallRule& rule,
                                    StatsLanes& lanes, SmallLanes& small);
// All values finite.
using CompareFunction = void (*)(const std::byte* npu, const std::byte* bench, size_t count,
                                 const RelativeRule& rule, CompareLanes& lanes);
// See ratios.h. False, with everything but `ratios` as before, where the elements are not ordinary.
template <typename Number>
using RatioFunction = bool (*)(const Number* original, const Number* perturbed, size_t count,
                               const RatioRule& rule, Number* ratios, RatioLanes& lanes);
// See ratios.h.
using BoundFunction = void (*)(const double* found, const double* wanted, const double* errors,
                               size_t count, const BoundRule& rule, BoundLanes& lanes);
// Adds to sums[0] and sums[1] the products of each element's word (DigestWord in scalar_steps.h)
// with its key, that of the first element at `place`, modulo 2^64.
using DigestFunction = void (*)(const std::byte* data, size_t count, const DigestKeys& keys,
                                size_t place, uint64_t* sums);
inline constexpr unsigned kDigestDigitBits = 11;  // see DigestKeys
using WidenFunction = void (*)(const std::byte* data, size_t count, float* out);
// One group of codes.h.
using NibbleFunction = void (*)(const std::byte* bytes, size_t count, NibbleOrder order,
                                const NibbleRule& rule, const NibbleScale& scale, float* values,
                                float* bounds);
// False, with nothing decoded, where the loop does not know a code or a scale among these.
using ByteFunction = bool (*)(ByteCode code, const std::byte* codes, size_t count,
                              const ByteRule& rule, float scale, float* values, float* bounds);
// As CompareFunction without the shares of small relative errors. `sums`: of the elements, too.
// Products are added up in float32, kBoundedSumElements at a time: element i of these in lane i
// modulo kBoundedLanes, and lane k afterwards to the double lane k modulo kCompareLanes.
using BoundedFunction = void (*)(const std::byte* npu, const std::byte* bench, const float* bounds,
                                 size_t count, const RelativeRule& rule, bool sums,
                                 BoundedLanes& lanes);
inline constexpr size_t kBoundedSumElements = 128;
inline constexpr size_t kBoundedLanes = 16;
// BoundedFunction, decoding and all, of blocks of kBoundedSumElements that change no largest error:
// `other` is bfloat16, elements [first, first + count) of both. Stops before the first block that
// has another format, or may change one; how many elements it did.
using CodedFunction = size_t (*)(const CodedRun& run, bool npu_is_coded, const std::byte* other,
                                 size_t first, size_t count, const RelativeRule& rule,
                                 BoundedLanes& lanes);
// A tile of a matrix product: c[i * c_stride + j] += sum over p in rising order of a[p * rows + i]
// * b[p * columns + j], for the rows and columns of the tile; `from_zero`: what stands in c is not
// read. Panels are packed and aligned to 64 bytes, c need not be. Products of two float32 numbers
// are exact in double, so that with these a fused and an unfused multiplication give the same bits.
using ProductFunction = void (*)(size_t depth, const double* a, const double* b, double* c,
                                 size_t c_stride, bool from_zero);
struct ProductTile {
  size_t rows = 0;
  size_t columns = 0;
  ProductFunction add = nullptr;
};
inline constexpr size_t kMaxTileElements = 8 * 24;

struct KernelTable {
  std::string_view name;  // "avx512", "avx2", "sse4", "neon", "plain"
  StatsFunction stats_float32, stats_float16, stats_bfloat16, stats_float64;
  SmallStatsFunction near_float32, near_float16, near_bfloat16, near_float64;
  SmallStatsFunction small_float32, small_float16, small_bfloat16, small_float64;
  NonFiniteFunction non_finite_float32, non_finite_float16, non_finite_bfloat16, non_finite_float64;
  // Relative errors in float32; in float16 for float16 sides (as stored, or widened to float); in
  // double.
  CompareFunction compare_float32, compare_bfloat16, compare_float16, compare_widened_float16,
      compare_float64;
  // Both sides float32, or one of them bfloat16.
  BoundedFunction bounded_float32, bounded_bfloat16_npu, bounded_bfloat16_bench;
  CodedFunction coded_bfloat16 = nullptr;  // nullptr: all blocks go through the loops above
  WidenFunction widen_float16, widen_bfloat16;
  NibbleFunction nibbles;
  ByteFunction bytes;
  DigestFunction digest_float32, digest_bfloat16, digest_float16, digest_float32_as_bfloat16,
      digest_float32_as_float16;
  RatioFunction<float> ratios_float32, ratios_bfloat16, ratios_float16;
  RatioFunction<double> ratios_float64;
  BoundFunction bounds;
  ProductTile product;
};

// The tables that this processor can run, best first; the last one is the plain implementation.
std::span<const KernelTable* const> AvailableTables();
// The one in use: the best, unless a test chose another.
const KernelTable& ActiveTable();
const KernelTable& PlainTable();
// nullptr returns to the best. Not meant to be called while other threads compute.
void ForceTableForTesting(const KernelTable* table);

#if defined(__x86_64__)
extern const KernelTable kAvx512Table;
extern const KernelTable kAvx2Table;
extern const KernelTable kSse4Table;
#elif defined(__aarch64__)
extern const KernelTable kNeonTable;
#endif

}  // namespace msprobe::kernels::internal
