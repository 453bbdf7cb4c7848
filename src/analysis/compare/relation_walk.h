// Parts of FindRelation; private to its two sources: walks over the elements of both sides and what
// is left of a difference under a hypothesis.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "src/analysis/compare/relation.h"

namespace msprobe::analysis::compare {

inline constexpr size_t kBlock = size_t{1} << 14U;
// A relation has to explain the difference up to this share of it.
inline constexpr double kLeftShare = 1.0 / 8;
// Sums in double over many elements.
inline constexpr double kSumNoise = 1e-9;
// Elements that must be explained: fewer may be so by chance.
inline constexpr int64_t kFewestExplained = 8;
// Slices are not matched along a dimension with more indices: their sums would take too much
// memory.
inline constexpr int64_t kMostSlices = int64_t{1} << 20U;
inline constexpr size_t kMostDims = 8;

// ---- Walks ----

// Calls visit(first, npu values, bench values) for all elements of two tensors of as many. False:
// one cannot be read.
template <typename Visit>
bool ForEachBlockOf(const Elements& npu, const Elements& bench, const Visit& visit) {
  std::vector<double> n(kBlock);
  std::vector<double> b(kBlock);
  const int64_t count = npu.count();
  for (int64_t first = 0; first < count; first += static_cast<int64_t>(kBlock)) {
    const auto size = static_cast<size_t>(std::min<int64_t>(kBlock, count - first));
    const std::span<double> left(n.data(), size);
    const std::span<double> right(b.data(), size);
    if (!npu.read(first, left) || !bench.read(first, right)) {
      return false;
    }
    visit(first, std::span<const double>(left), std::span<const double>(right));
  }
  return true;
}

// A shape without its dimensions of one index, which move nothing.
struct Dims {
  std::vector<int64_t> sizes;
  std::vector<size_t> numbers;  // of the dimensions in the shape
};

inline Dims DimsOf(const Shape& shape) {
  Dims dims;
  for (size_t dim = 0; dim < shape.size(); ++dim) {
    if (shape[dim] != 1) {
      dims.sizes.push_back(shape[dim]);
      dims.numbers.push_back(dim);
    }
  }
  return dims;
}

// Elements before and behind a dimension: index = (outer * size + i) * inner + rest.
struct Cut {
  int64_t outer = 1;
  int64_t size = 1;
  int64_t inner = 1;
};

inline Cut CutAt(const std::vector<int64_t>& sizes, size_t dim) {
  Cut cut;
  cut.size = sizes[dim];
  for (size_t d = 0; d < sizes.size(); ++d) {
    (d < dim ? cut.outer : d > dim ? cut.inner : cut.size) *= d == dim ? 1 : sizes[d];
  }
  return cut;
}

// ---- What is left of a difference ----

struct Residual {
  double left = 0;        // sum of (n - f(b))^2 over what is covered
  double difference = 0;  // of (n - b)^2 there, b in the place of n; of other shapes infinite
  double npu = 0;         // of n^2
  int64_t covered = 0;
  int64_t explained = 0;  // elements that differ in place and not under the hypothesis

  void Add(double n, double explained_by, double in_place, double unit) {
    const double rest = n - explained_by;
    const double apart = n - in_place;
    left += rest * rest;
    difference += apart * apart;
    npu += n * n;
    ++covered;
    explained += std::abs(apart) > unit && std::abs(rest) <= std::abs(apart) * kLeftShare ? 1 : 0;
  }
};

struct Noise {
  double relative = 0;
  bool is_exact = false;

  bool Allows(double squares, double of_squares) const {
    return is_exact ? squares == 0 : squares <= relative * relative * of_squares;
  }
};

inline bool Explains(const Residual& residual, const Noise& noise) {
  return residual.covered > 0 && residual.explained >= kFewestExplained &&
         noise.Allows(residual.left, residual.npu) &&
         residual.left <= kLeftShare * kLeftShare * residual.difference;
}

// ---- Sums over both sides ----

struct Sums {
  double count = 0;
  double n = 0;
  double b = 0;
  double nn = 0;
  double bb = 0;
  double nb = 0;
  double d = 0;
  double dd = 0;       // (n - b)^2
  double largest = 0;  // |n| or |b|, of finite ones
  double abs_b = 0;
  int64_t zero_npu = 0;  // n is 0 and b is not
  int64_t zero_bench = 0;
  int64_t both = 0;    // neither is 0
  double rest_dd = 0;  // (n - b)^2 of the others
  double rest_nn = 0;
  bool has_nan = false;
  bool has_inf = false;

  double MeanB() const { return b / count; }
  double VarianceB() const { return std::max(0.0, bb / count - MeanB() * MeanB()); }
  // How many elements make up the values: of one that is far larger than all others, one.
  double EffectiveCount() const { return bb > 0 ? abs_b * abs_b / bb : 0; }
  // All values are about the same number.
  bool IsConstant(double noise) const {
    return VarianceB() <= 64 * std::max(noise, kSumNoise) * std::max(noise, kSumNoise) * bb / count;
  }
};

// ---- relation_places.cpp ----

// Elements that moved along a dimension: shift, permutation, wrong_part. Of equal shape.
std::optional<Relation> FindMoved(const Elements& npu, const Elements& bench, const Sums& sums,
                                  const Noise& noise, const RelationRequest& request);
// One side has fewer indices of one dimension.
std::optional<Relation> FindAbsent(const Elements& npu, const Elements& bench, const Noise& noise);
// The same, where what both have is in another order.
std::optional<Relation> FindReordered(const Elements& npu, const Elements& bench,
                                      const Noise& noise);
// Swapped dimensions, of as many elements.
std::optional<Relation> FindTransposed(const Elements& npu, const Elements& bench,
                                       const Noise& noise);

}  // namespace msprobe::analysis::compare
