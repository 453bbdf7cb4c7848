// What a differing value is of the other side's: twice as large, shifted, another part of it, ...
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "msprobe/dtype.h"
#include "msprobe/tensor_view.h"

namespace msprobe::analysis::compare {

enum class RelationKind : uint8_t {
  kScale,         // one factor
  kPartialSum,    // one side lacks a reduction
  kReducedTwice,  // summed over the ranks more often than once
  kShift,         // elements moved along a dimension
  kPermutation,   // blocks of a dimension in another order
  kTranspose,     // dimensions swapped
  kMissingPart,   // a part of the elements is zero or absent on one side
  kWrongPart,     // another rank's part
  kPrecision,     // equal after rounding to a narrower dtype
  kConstant,      // an offset
  kStale,         // the other side's value of an earlier step or micro-batch
};
inline constexpr size_t kRelationKindCount = 11;
// "scale", "partial_sum", "reduced_twice", "shift", "permutation", "transpose", "missing_part",
// "wrong_part", "precision", "constant", "stale".
std::string_view RelationKindName(RelationKind kind);

struct Relation {
  RelationKind kind = RelationKind::kScale;
  std::optional<double> factor = {};  // NPU = factor x bench
  std::string what = {};              // behind "is", in front of "the reference": "2.000 x"
  std::string cause = {};             // "reduced twice?"; may be empty
  std::string subject = {};           // "gradient of fc1.weight"; may be empty
  // For a permutation: the dimension, and how many blocks it has.
  std::optional<size_t> dimension = {};
  int64_t blocks = 0;

  // Worth the first line. A factor such as 1.001 is exact, but says less than where it starts.
  bool is_telling() const;
  // "2.000 x the reference (reduced twice?)"
  std::string text() const;
};

// "rank 1", "ranks 0, 2-5"; rising, not empty. Of many ranges the first eight.
std::string RanksText(const std::vector<int64_t>& ranks);

// ---- From elements ----

// Elements of a tensor, or of what several ranks hold of it, read block by block in row-major
// order.
struct Elements {
  Shape shape;
  bool is_exact = false;   // integers and flags, which carry no noise
  int mantissa_bits = 52;  // explicit ones of the dtype; 52 where it does not round
  // Fills `values` with the elements from `first` on. False: they cannot be read.
  std::function<bool(int64_t first, std::span<double> values)> read;

  int64_t count() const { return msprobe::ElementCount(shape); }
};
// The elements of a tensor in memory or a mapped file, which must outlive them; empty for complex
// numbers.
std::optional<Elements> ElementsOf(const TensorView& view);

struct RelationRequest {
  double tolerance = 0;  // ||n - b|| / ||b|| that is noise; not looked at where values are exact
  bool is_gradient = false;  // for likely causes
  int64_t parts = 1;         // ranks that reduce or share the value; 1: not known, or one
};

// None where both sides are equal up to noise, and where nothing simple explains the difference.
// A relation explains it when what is left is within noise, at most an eighth of the difference,
// and more elements are explained than could be by chance. Time: a few passes over both tensors.
// Memory: bounded by 100 MB.
std::optional<Relation> FindRelation(const Elements& npu, const Elements& bench,
                                     const RelationRequest& request);

// The bench's elements in another order along one dimension, along which the NPU side has more: of
// a vocabulary that is padded there. A permutation, or nothing.
std::optional<Relation> FindReorderedAmongMore(const Elements& npu, const Elements& bench,
                                               const RelationRequest& request);

// Whether n = b up to noise, where the values say something: not all are the same number.
bool HoldsSameValues(const Elements& npu, const Elements& bench, double tolerance);

// What single ranks hold of a value, in the order of the ranks; a side of which nothing is known is
// empty.
struct RankParts {
  std::vector<Elements> npu;
  std::vector<Elements> bench;
  bool reduced_again = false;  // the communications of the NPU side show a further reduction
};
struct PartRelation {
  Relation relation;
  std::vector<size_t> parts;  // indices into RankParts::npu that are concerned; empty: all
};
// Relations that only parts show. `npu` and `bench`: what was compared, whole. In this order:
// reduced_twice (n is parts x b while the parts sum up to b, or communications show it),
// partial_sum (the sum of one side's parts is the other side), wrong_part (a part of the NPU side
// is another part of the bench), missing_part (a part is zero).
std::optional<PartRelation> FindPartRelation(const Elements& npu, const Elements& bench,
                                             const RankParts& parts,
                                             const RelationRequest& request);

// ---- From four statistics ----

struct FourStatistics {
  double max = 0;
  double min = 0;
  double mean = 0;
  double norm = 0;
  double elements = 1;
};
// Only a scale, a constant and rounding show in them. `mantissa_bits`: of the dtypes of both sides.
std::optional<Relation> RelationOfStatistics(const FourStatistics& npu, const FourStatistics& bench,
                                             std::array<int, 2> mantissa_bits,
                                             const RelationRequest& request);

}  // namespace msprobe::analysis::compare
