// Where the elements of a differing value are on the other side.
//
// How elements moved along a dimension is found without trying every way: each slice (all elements
// of one index of the dimension) of both sides is summed with four sets of pseudo-random weights
// that do not depend on that index. Slices of equal content have equal sums wherever they are, so
// that matching the sums tells which slice of the one side is which of the other; a pass over the
// elements then proves it. Swapped dimensions are tried on a sample of elements first.
#include <algorithm>
#include <array>
#include <cmath>
#include <limits>
#include <numeric>
#include <string>
#include <utility>
#include <vector>

#include <fmt/format.h>

#include "src/analysis/compare/relation.h"
#include "src/analysis/compare/relation_walk.h"

namespace msprobe::analysis::compare {
namespace {

// ---- Elements that moved along a dimension ----

constexpr size_t kSigns = 4;
using Signs = std::array<double, kSigns>;

// The weights of an index of a dimension: 0.5 to 1.5, of either sign.
Signs WeightsOf(size_t dim, int64_t index) {
  uint64_t hash = (static_cast<uint64_t>(index) + 1) * 0x9E3779B97F4A7C15ULL +
                  (dim + 1) * 0xD1B54A32D192ED03ULL;
  hash = (hash ^ (hash >> 30U)) * 0xBF58476D1CE4E5B9ULL;
  hash = (hash ^ (hash >> 27U)) * 0x94D049BB133111EBULL;
  hash ^= hash >> 31U;
  Signs weights;
  for (size_t i = 0; i < kSigns; ++i) {
    const uint64_t bits = (hash >> (16 * i)) & 0xFFFFU;
    const double magnitude = 0.5 + static_cast<double>(bits >> 1U) / 32768;
    weights[i] = (bits & 1U) != 0 ? magnitude : -magnitude;
  }
  return weights;
}

struct Slice {
  Signs signs{};
  double square = 0;
};
// By dimension of Dims and index; empty for a dimension of too many.
using Slices = std::vector<std::vector<Slice>>;

bool SumSlices(const Elements& elements, const Dims& dims, Slices& slices) {
  const size_t rank = dims.sizes.size();
  slices.assign(rank, {});
  for (size_t d = 0; d < rank; ++d) {
    if (dims.sizes[d] <= kMostSlices) {
      slices[d].resize(static_cast<size_t>(dims.sizes[d]));
    }
  }
  const int64_t row = dims.sizes.back();
  std::vector<Signs> row_weights(static_cast<size_t>(std::min(row, kMostSlices)));
  for (size_t i = 0; i < row_weights.size(); ++i) {
    row_weights[i] = WeightsOf(rank - 1, static_cast<int64_t>(i));
  }
  std::vector<int64_t> at(rank, 0);
  std::vector<Signs> others(
      rank);  // products of the weights of all dimensions but one and the last
  Signs all{};
  const auto weigh = [&] {
    std::array<Signs, kMostDims> own{};
    for (size_t d = 0; d + 1 < rank; ++d) {
      own[d] = WeightsOf(d, at[d]);
    }
    for (size_t p = 0; p < kSigns; ++p) {
      all[p] = 1;
      for (size_t d = 0; d + 1 < rank; ++d) {
        all[p] *= own[d][p];
        others[d][p] = 1;
        for (size_t e = 0; e + 1 < rank; ++e) {
          others[d][p] *= e == d ? 1 : own[e][p];
        }
      }
    }
  };
  weigh();
  std::vector<double> values(kBlock);
  const int64_t count = elements.count();
  for (int64_t first = 0; first < count; first += static_cast<int64_t>(kBlock)) {
    const auto size = static_cast<size_t>(std::min<int64_t>(kBlock, count - first));
    if (!elements.read(first, {values.data(), size})) {
      return false;
    }
    for (size_t begin = 0; begin < size;) {
      const auto run = std::min(size - begin, static_cast<size_t>(row - at[rank - 1]));
      Signs sum{};
      double square = 0;
      for (size_t i = 0; i < run; ++i) {
        const double value = values[begin + i];
        const auto index = static_cast<size_t>(at[rank - 1]) + i;
        const Signs weights = index < row_weights.size()
                                  ? row_weights[index]
                                  : WeightsOf(rank - 1, static_cast<int64_t>(index));
        square += value * value;
        for (size_t p = 0; p < kSigns; ++p) {
          sum[p] += value * weights[p];
        }
        if (!slices[rank - 1].empty()) {
          Slice& slice = slices[rank - 1][index];
          slice.square += value * value;
          for (size_t p = 0; p < kSigns; ++p) {
            slice.signs[p] += value * all[p];
          }
        }
      }
      for (size_t d = 0; d + 1 < rank; ++d) {
        if (!slices[d].empty()) {
          Slice& slice = slices[d][static_cast<size_t>(at[d])];
          slice.square += square;
          for (size_t p = 0; p < kSigns; ++p) {
            slice.signs[p] += sum[p] * others[d][p];
          }
        }
      }
      begin += run;
      at[rank - 1] += static_cast<int64_t>(run);
      if (at[rank - 1] == row) {
        at[rank - 1] = 0;
        for (size_t d = rank - 1; d-- > 0;) {
          if (++at[d] < dims.sizes[d]) {
            break;
          }
          at[d] = 0;
        }
        weigh();
      }
    }
  }
  return true;
}

// Slices of the bench that a slice of the NPU side may be, by their sums.
class SliceMatcher {
 public:
  SliceMatcher(const std::vector<Slice>& npu, const std::vector<Slice>& bench, double tolerance)
      : npu_(npu),
        bench_(bench),
        tolerance_(std::max(8 * tolerance, kSumNoise)),
        order_(bench.size()) {
    std::iota(order_.begin(), order_.end(), int64_t{0});
    std::sort(order_.begin(), order_.end(), [&](int64_t a, int64_t b) {
      return bench_[static_cast<size_t>(a)].signs[0] < bench_[static_cast<size_t>(b)].signs[0];
    });
  }

  bool Match(int64_t npu, int64_t bench) const {
    const Slice& n = npu_[static_cast<size_t>(npu)];
    const Slice& b = bench_[static_cast<size_t>(bench)];
    const double allowed = AllowedFor(n);
    return std::sqrt(b.square) <= std::sqrt(n.square) + allowed &&
           std::sqrt(n.square) <= std::sqrt(b.square) + allowed &&
           std::equal(n.signs.begin(), n.signs.end(), b.signs.begin(),
                      [&](double x, double y) { return std::abs(x - y) <= allowed; });
  }

  // A few of them.
  std::vector<int64_t> Candidates(int64_t npu) const {
    constexpr size_t kMost = 32;
    constexpr size_t kMostLooks = 256;
    const Slice& n = npu_[static_cast<size_t>(npu)];
    const double allowed = AllowedFor(n);
    std::vector<int64_t> found;
    auto at = std::lower_bound(
        order_.begin(), order_.end(), n.signs[0] - allowed,
        [&](int64_t b, double sign) { return bench_[static_cast<size_t>(b)].signs[0] < sign; });
    for (size_t looks = 0; at != order_.end() && looks < kMostLooks && found.size() < kMost;
         ++at, ++looks) {
      if (bench_[static_cast<size_t>(*at)].signs[0] > n.signs[0] + allowed) {
        break;
      }
      if (Match(npu, *at)) {
        found.push_back(*at);
      }
    }
    return found;
  }

 private:
  double AllowedFor(const Slice& slice) const {
    return tolerance_ * std::sqrt(slice.square) + std::numeric_limits<double>::min();
  }

  const std::vector<Slice>& npu_;
  const std::vector<Slice>& bench_;
  const double tolerance_;
  std::vector<int64_t> order_;  // of bench, by the first sum
};

// Which index of the bench each index of the NPU side is; -1: none.
using Mapping = std::vector<int64_t>;

// Elements of both sides under a mapping along a dimension. `in_place`: both have the same shape.
bool Measure(const Elements& npu, const Elements& bench, const Cut& npu_cut, const Cut& bench_cut,
             const Mapping& mapping, double unit, Residual& residual) {
  const bool in_place = npu_cut.size == bench_cut.size;
  const int64_t step = std::min<int64_t>(npu_cut.inner, static_cast<int64_t>(kBlock));
  // Rows of small slices are read as a whole.
  const int64_t row = std::max(npu_cut.size, bench_cut.size) * npu_cut.inner;
  const bool whole_rows = row <= static_cast<int64_t>(size_t{1} << 21U);
  std::vector<double> n(static_cast<size_t>(whole_rows ? npu_cut.size * npu_cut.inner : step));
  std::vector<double> b(static_cast<size_t>(whole_rows ? bench_cut.size * npu_cut.inner : step));
  std::vector<double> here(static_cast<size_t>(whole_rows ? 0 : step));
  for (int64_t outer = 0; outer < npu_cut.outer; ++outer) {
    const int64_t npu_base = outer * npu_cut.size * npu_cut.inner;
    const int64_t bench_base = outer * bench_cut.size * npu_cut.inner;
    if (whole_rows && (!npu.read(npu_base, n) || !bench.read(bench_base, b))) {
      return false;
    }
    for (int64_t i = 0; i < npu_cut.size; ++i) {
      const int64_t j = mapping[static_cast<size_t>(i)];
      if (j < 0) {
        continue;
      }
      for (int64_t at = 0; at < npu_cut.inner; at += step) {
        const int64_t size = std::min(step, npu_cut.inner - at);
        const double* left = n.data() + i * npu_cut.inner + at;
        const double* right = b.data() + j * npu_cut.inner + at;
        const double* place = in_place ? b.data() + i * npu_cut.inner + at : nullptr;
        if (!whole_rows) {
          const auto length = static_cast<size_t>(size);
          if (!npu.read(npu_base + i * npu_cut.inner + at, {n.data(), length}) ||
              !bench.read(bench_base + j * npu_cut.inner + at, {b.data(), length}) ||
              (in_place &&
               !bench.read(bench_base + i * npu_cut.inner + at, {here.data(), length}))) {
            return false;
          }
          left = n.data();
          right = b.data();
          place = in_place ? here.data() : nullptr;
        }
        for (int64_t k = 0; k < size; ++k) {
          residual.Add(left[k], right[k], place == nullptr ? HUGE_VAL : place[k], unit);
        }
      }
    }
  }
  return true;
}

// Indices of one slice each that moved together.
int64_t BlockSize(const Mapping& mapping) {
  int64_t block = static_cast<int64_t>(mapping.size());
  for (size_t i = 1; i < mapping.size(); ++i) {
    if (mapping[i] != mapping[i - 1] + 1) {
      block = std::gcd(block, static_cast<int64_t>(i));
    }
  }
  return std::max<int64_t>(block, 1);
}

struct Moved {
  RelationKind kind = RelationKind::kShift;
  Mapping mapping;
  std::string what;
  int64_t blocks = 0;
};

// Ways in which slices of a dimension moved, the simplest first.
std::vector<Moved> WaysMoved(const SliceMatcher& match, int64_t size, size_t dim, int64_t parts) {
  std::vector<Moved> ways;
  std::vector<std::vector<int64_t>> candidates(static_cast<size_t>(size));
  std::vector<std::pair<int64_t, int64_t>> votes;  // times, offset
  {
    std::vector<int64_t> offsets;
    for (int64_t i = 0; i < size; ++i) {
      std::vector<int64_t>& found = candidates[static_cast<size_t>(i)];
      found = match.Candidates(i);
      for (const int64_t j : found) {
        offsets.push_back(i - j);
      }
    }
    std::sort(offsets.begin(), offsets.end());
    for (size_t i = 0; i < offsets.size();) {
      size_t end = i;
      while (end < offsets.size() && offsets[end] == offsets[i]) {
        ++end;
      }
      if (offsets[i] != 0) {
        votes.emplace_back(static_cast<int64_t>(end - i), offsets[i]);
      }
      i = end;
    }
    std::sort(votes.begin(), votes.end(), [](const auto& a, const auto& b) {
      return a.first != b.first ? a.first > b.first : std::abs(a.second) < std::abs(b.second);
    });
  }
  // Elements moved by k: with k new ones at the border, or around it.
  constexpr size_t kMostShifts = 3;
  for (size_t v = 0; v < std::min(votes.size(), kMostShifts); ++v) {
    const int64_t by = votes[v].second;
    if (2 * std::abs(by) > size || size < 3) {
      continue;
    }
    Mapping mapping(static_cast<size_t>(size), -1);
    bool all = true;
    bool around = true;
    bool in_place = std::abs(by) > 1;  // at the border: then it is another part of the bench
    for (int64_t i = 0; i < size && all; ++i) {
      const int64_t j = i - by;
      if (j >= 0 && j < size) {
        all = match.Match(i, j);
        mapping[static_cast<size_t>(i)] = j;
      } else {
        around = around && match.Match(i, (j + size) % size);
        in_place = in_place && match.Match(i, i);
      }
    }
    const int64_t part = parts > 1 && size % parts == 0 ? size / parts : 0;
    if (!all || (in_place && !around) ||
        (around && (2 * std::abs(by) == size || (part > 1 && by % part == 0)))) {
      continue;  // parts in another order
    }
    if (around) {
      for (int64_t i = 0; i < size; ++i) {
        mapping[static_cast<size_t>(i)] = (i - by + size) % size;
      }
    }
    ways.push_back(
        {RelationKind::kShift, std::move(mapping),
         fmt::format(fmt::runtime(around ? "moved around by {} along dimension {} against"
                                         : "moved by {} along dimension {} against"),
                     by, dim)});
  }
  // Every slice is some slice of the bench: a run is continued, a slice that is not used yet taken.
  Mapping mapping(static_cast<size_t>(size), -1);
  std::vector<bool> used(static_cast<size_t>(size), false);
  bool is_one_to_one = true;
  bool is_total = true;
  for (int64_t i = 0; i < size && is_total; ++i) {
    const std::vector<int64_t>& found = candidates[static_cast<size_t>(i)];
    const auto is_free = [&](int64_t j) {
      return j >= 0 && j < size && !used[static_cast<size_t>(j)] && match.Match(i, j);
    };
    const int64_t next = i == 0 ? -1 : mapping[static_cast<size_t>(i - 1)] + 1;
    int64_t chosen = is_free(next) ? next : is_free(i) ? i : -1;
    for (size_t c = 0; c < found.size() && chosen < 0; ++c) {
      chosen = is_free(found[c]) ? found[c] : -1;
    }
    if (chosen < 0) {
      is_one_to_one = false;
      is_total = !found.empty();
      chosen = found.empty()                                                ? -1
               : std::find(found.begin(), found.end(), next) != found.end() ? next
                                                                            : found.front();
    } else {
      used[static_cast<size_t>(chosen)] = true;
    }
    mapping[static_cast<size_t>(i)] = chosen;
  }
  if (!is_total || size < 2) {
    return ways;
  }
  const int64_t block = BlockSize(mapping);
  if (is_one_to_one) {
    ways.push_back({RelationKind::kPermutation, std::move(mapping),
                    block == 1
                        ? fmt::format("in another order along dimension {} than", dim)
                        : fmt::format("with {} blocks along dimension {} in another order than",
                                      size / block, dim),
                    size / block});
    return ways;
  }
  // Another part: in blocks, or single slices would fit by chance.
  constexpr int64_t kMostParts = 64;
  if (size / block <= kMostParts) {
    ways.push_back({RelationKind::kWrongPart, std::move(mapping),
                    fmt::format("in {} of {} blocks along dimension {} another part of", 0,
                                size / block, dim)});
    int64_t wrong = 0;
    for (int64_t at = 0; at < size; at += block) {
      wrong += ways.back().mapping[static_cast<size_t>(at)] != at ? 1 : 0;
    }
    ways.back().what = fmt::format("in {} of {} blocks along dimension {} another part of", wrong,
                                   size / block, dim);
  }
  return ways;
}

// What is noise of one element.
double UnitOf(const Sums& sums, const Noise& noise) {
  return noise.is_exact ? 0 : 4 * noise.relative * std::sqrt(sums.bb / std::max(1.0, sums.count));
}

}  // namespace

std::optional<Relation> FindMoved(const Elements& npu, const Elements& bench, const Sums& sums,
                                  const Noise& noise, const RelationRequest& request) {
  const Dims dims = DimsOf(npu.shape);
  if (dims.sizes.empty() || dims.sizes.size() > kMostDims) {
    return std::nullopt;
  }
  Slices npu_slices;
  Slices bench_slices;
  if (!SumSlices(npu, dims, npu_slices) || !SumSlices(bench, dims, bench_slices)) {
    return std::nullopt;
  }
  std::vector<std::pair<size_t, Moved>> ways;
  for (size_t d = 0; d < dims.sizes.size(); ++d) {
    if (npu_slices[d].empty()) {
      continue;
    }
    const SliceMatcher match(npu_slices[d], bench_slices[d], noise.is_exact ? 0 : noise.relative);
    for (Moved& moved : WaysMoved(match, dims.sizes[d], dims.numbers[d], request.parts)) {
      ways.emplace_back(d, std::move(moved));
    }
  }
  std::stable_sort(ways.begin(), ways.end(), [](const auto& a, const auto& b) {
    return a.second.kind < b.second.kind;  // shift, permutation, ..., wrong part
  });
  for (const auto& [d, moved] : ways) {
    const Cut cut = CutAt(dims.sizes, d);
    Residual residual;
    if (!Measure(npu, bench, cut, cut, moved.mapping, UnitOf(sums, noise), residual)) {
      return std::nullopt;
    }
    if (Explains(residual, noise)) {
      Relation relation{moved.kind, std::nullopt, moved.what};
      relation.dimension = dims.numbers[d];
      relation.blocks = moved.blocks;
      return relation;
    }
  }
  return std::nullopt;
}

namespace {

// Two tensors of which one has fewer indices of one dimension, and the sums of the slices there.
struct FewerIndices {
  const Elements* less = nullptr;
  const Elements* more = nullptr;
  size_t dim = 0;
  std::vector<Slice> less_slices;
  std::vector<Slice> more_slices;

  int64_t size() const { return less->shape[dim]; }
  int64_t whole() const { return more->shape[dim]; }
  // Whether the elements of the smaller one are those of the other in these places.
  bool Proves(const Mapping& mapping, const Noise& noise) const {
    Residual residual;
    return Measure(*less, *more, CutAt(less->shape, dim), CutAt(more->shape, dim), mapping, 0,
                   residual) &&
           residual.covered >= kFewestExplained && noise.Allows(residual.left, residual.npu);
  }
};

std::optional<FewerIndices> FewerIndicesOf(const Elements& npu, const Elements& bench) {
  if (npu.shape.size() != bench.shape.size() || npu.shape.size() > kMostDims) {
    return std::nullopt;
  }
  std::optional<size_t> dim;
  for (size_t d = 0; d < npu.shape.size(); ++d) {
    if (npu.shape[d] != bench.shape[d]) {
      if (dim) {
        return std::nullopt;
      }
      dim = d;
    }
  }
  if (!dim) {
    return std::nullopt;
  }
  const bool by_npu = npu.shape[*dim] < bench.shape[*dim];
  FewerIndices found{by_npu ? &npu : &bench, by_npu ? &bench : &npu, *dim, {}, {}};
  const auto sums_of = [&](const Elements& elements, std::vector<Slice>& slices) {
    // Dimensions of one index stay: both sides must have the same ones.
    Dims dims;
    dims.sizes = elements.shape;
    dims.numbers.resize(elements.shape.size());
    std::iota(dims.numbers.begin(), dims.numbers.end(), size_t{0});
    Slices all;
    if (!SumSlices(elements, dims, all) || all[*dim].empty()) {
      return false;
    }
    slices = std::move(all[*dim]);
    return true;
  };
  if (!sums_of(*found.less, found.less_slices) || !sums_of(*found.more, found.more_slices)) {
    return std::nullopt;
  }
  return found;
}

}  // namespace

std::optional<Relation> FindAbsent(const Elements& npu, const Elements& bench, const Noise& noise) {
  const std::optional<FewerIndices> sides = FewerIndicesOf(npu, bench);
  if (!sides) {
    return std::nullopt;
  }
  const SliceMatcher match(sides->less_slices, sides->more_slices,
                           noise.is_exact ? 0 : noise.relative);
  const int64_t size = sides->size();
  Mapping mapping(static_cast<size_t>(size), -1);
  int64_t next = 0;
  for (int64_t i = 0; i < size; ++i) {
    while (next < sides->whole() && !match.Match(i, next)) {
      ++next;
    }
    if (next == sides->whole()) {
      return std::nullopt;
    }
    mapping[static_cast<size_t>(i)] = next++;
  }
  if (!sides->Proves(mapping, noise)) {
    return std::nullopt;
  }
  const int64_t whole = sides->whole();
  const size_t dim = sides->dim;
  return Relation{RelationKind::kMissingPart, std::nullopt,
                  sides->less == &npu
                      ? fmt::format("{} of {} indices of dimension {} of", size, whole, dim)
                      : fmt::format("{} more indices of dimension {} than", whole - size, dim)};
}

std::optional<Relation> FindReordered(const Elements& npu, const Elements& bench,
                                      const Noise& noise) {
  const std::optional<FewerIndices> sides = FewerIndicesOf(npu, bench);
  if (!sides || sides->size() < 2) {
    return std::nullopt;
  }
  const SliceMatcher match(sides->less_slices, sides->more_slices,
                           noise.is_exact ? 0 : noise.relative);
  const int64_t size = sides->size();
  Mapping mapping(static_cast<size_t>(size), -1);
  std::vector<bool> used(static_cast<size_t>(sides->whole()), false);
  bool is_moved = false;
  for (int64_t i = 0; i < size; ++i) {
    const auto is_free = [&](int64_t j) {
      return j >= 0 && j < sides->whole() && !used[static_cast<size_t>(j)] && match.Match(i, j);
    };
    const int64_t next = i == 0 ? 0 : mapping[static_cast<size_t>(i - 1)] + 1;
    int64_t chosen = is_free(next) ? next : is_free(i) ? i : -1;
    if (chosen < 0) {
      for (const int64_t candidate : match.Candidates(i)) {
        if (is_free(candidate)) {
          chosen = candidate;
          break;
        }
      }
    }
    if (chosen < 0) {
      return std::nullopt;
    }
    used[static_cast<size_t>(chosen)] = true;
    mapping[static_cast<size_t>(i)] = chosen;
    is_moved = is_moved || chosen < next;
  }
  if (!is_moved || !sides->Proves(mapping, noise)) {
    return std::nullopt;  // in the same order
  }
  Relation relation{RelationKind::kPermutation, std::nullopt,
                    fmt::format("in another order along dimension {} than", sides->dim)};
  relation.dimension = sides->dim;
  return relation;
}

namespace {

// ---- Swapped dimensions ----

// Where the elements of the NPU side are in the bench: along its dimensions, with these strides.
struct Strided {
  std::vector<int64_t> sizes;
  std::vector<int64_t> strides;
  std::string what;

  int64_t At(int64_t index) const {
    int64_t place = 0;
    for (size_t d = sizes.size(); d-- > 0;) {
      place += index % sizes[d] * strides[d];
      index /= sizes[d];
    }
    return place;
  }
};

std::vector<Strided> Transposes(const Shape& npu, const Shape& bench) {
  std::vector<Strided> found;
  const Shape strides = ContiguousStrides(bench);
  if (npu.size() == bench.size() && npu.size() <= kMostDims) {
    for (size_t i = 0; i < bench.size(); ++i) {
      for (size_t j = i + 1; j < bench.size(); ++j) {
        Shape shape = bench;
        std::swap(shape[i], shape[j]);
        if (shape == npu && bench[i] > 1 && bench[j] > 1) {
          Strided walk{npu, strides,
                       fmt::format("with dimensions {} and {} swapped against", i, j)};
          std::swap(walk.strides[i], walk.strides[j]);
          found.push_back(std::move(walk));
        }
      }
    }
  }
  // Reshaped where it should be transposed, or the other way round.
  const int64_t count = msprobe::ElementCount(bench);
  for (size_t begin = 0; begin < std::min(bench.size(), kMostDims); ++begin) {
    const int64_t outer =
        msprobe::ElementCount(Shape(bench.begin(), bench.begin() + static_cast<int64_t>(begin)));
    for (size_t end = begin + 2; end <= std::min(bench.size(), kMostDims); ++end) {
      const int64_t inner =
          msprobe::ElementCount(Shape(bench.begin() + static_cast<int64_t>(end), bench.end()));
      for (size_t cut = begin + 1; cut < end; ++cut) {
        const int64_t rows =
            msprobe::ElementCount(Shape(bench.begin() + static_cast<int64_t>(begin),
                                        bench.begin() + static_cast<int64_t>(cut)));
        const int64_t columns = count / outer / inner / rows;
        if (rows > 1 && columns > 1) {
          found.push_back(
              {{outer, columns, rows, inner},
               {rows * columns * inner, inner, columns * inner, 1},
               fmt::format("transposed and reshaped ({} x {}) against", rows, columns)});
        }
      }
    }
  }
  return found;
}

// Single elements of a tensor: all of a small one in memory, of a large one the lines read last.
class RandomReader {
 public:
  explicit RandomReader(const Elements& elements) : elements_(elements), count_(elements.count()) {
    const bool small = count_ <= kWhole;
    values_.resize(static_cast<size_t>(small ? count_ : kLine * kLines));
    line_of_.assign(small ? 0 : kLines, -1);
    ok_ = !small || elements.read(0, values_);
  }

  bool ok() const { return ok_; }
  double At(int64_t index) {
    if (line_of_.empty()) {
      return values_[static_cast<size_t>(index)];
    }
    const int64_t line = index / kLine;
    const size_t slot = (static_cast<uint64_t>(line) * 0x9E3779B97F4A7C15ULL) >> (64U - kLineBits);
    double* const values = values_.data() + slot * kLine;
    if (line_of_[slot] != line) {
      const int64_t first = line * kLine;
      ok_ = elements_.read(
                first, {values, static_cast<size_t>(std::min<int64_t>(kLine, count_ - first))}) &&
            ok_;
      line_of_[slot] = line;
    }
    return values[index % kLine];
  }

 private:
  static constexpr int64_t kWhole = int64_t{1} << 22U;
  static constexpr int64_t kLine = 64;
  static constexpr unsigned kLineBits = 16;
  static constexpr size_t kLines = size_t{1} << kLineBits;

  const Elements& elements_;
  const int64_t count_;
  std::vector<double> values_;
  std::vector<int64_t> line_of_;
  bool ok_ = true;
};

}  // namespace

std::optional<Relation> FindTransposed(const Elements& npu, const Elements& bench,
                                       const Noise& noise) {
  const bool same_shape = npu.shape == bench.shape;
  const std::vector<Strided> walks = Transposes(npu.shape, bench.shape);
  if (walks.empty()) {
    return std::nullopt;
  }
  RandomReader reader(bench);
  if (!reader.ok()) {
    return std::nullopt;
  }
  const int64_t count = npu.count();
  constexpr int64_t kSample = 128;
  const auto fits = [&](const Strided& walk) {
    double left = 0;
    double squares = 0;
    std::array<double, 1> n{};
    for (int64_t i = 0; i < kSample; ++i) {
      const auto index = static_cast<int64_t>((static_cast<uint64_t>(i) * 0x9E3779B97F4A7C15ULL) %
                                              static_cast<uint64_t>(count));
      if (!npu.read(index, n)) {
        return false;
      }
      const double rest = n[0] - reader.At(walk.At(index));
      left += rest * rest;
      squares += n[0] * n[0];
    }
    return noise.is_exact ? left == 0 : left <= 64 * noise.relative * noise.relative * squares;
  };
  for (const Strided& walk : walks) {
    if (!fits(walk)) {
      continue;
    }
    Residual residual;
    std::vector<double> values(kBlock);
    const double unit = 0;
    for (int64_t first = 0; first < count; first += static_cast<int64_t>(kBlock)) {
      const auto size = static_cast<size_t>(std::min<int64_t>(kBlock, count - first));
      if (!npu.read(first, {values.data(), size})) {
        return std::nullopt;
      }
      for (size_t i = 0; i < size; ++i) {
        const int64_t index = first + static_cast<int64_t>(i);
        residual.Add(values[i], reader.At(walk.At(index)), same_shape ? reader.At(index) : HUGE_VAL,
                     unit);
      }
    }
    if (reader.ok() && Explains(residual, noise)) {
      return Relation{RelationKind::kTranspose, std::nullopt, walk.what};
    }
  }
  return std::nullopt;
}

}  // namespace msprobe::analysis::compare
