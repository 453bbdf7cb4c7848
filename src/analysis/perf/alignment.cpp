#include "src/analysis/perf/alignment.h"

#include <algorithm>
#include <array>

#include "src/analysis/perf/alignment_table.h"

namespace msprobe::analysis::perf {
namespace {

constexpr size_t kBlockBytes = size_t{32} << 20U;

// Runs of this many elements serve as landmarks, longer ones first: they are rarer and surer.
constexpr std::array<size_t, 3> kRunLengths = {32, 8, 1};

// Between landmarks a part is aligned exactly where its cells are within this many times its
// elements, which keeps the whole linear.
constexpr uint64_t kCellsPerElement = 16384;

struct Part {
  size_t base_begin = 0;
  size_t base_end = 0;
  size_t comparison_begin = 0;
  size_t comparison_end = 0;

  size_t base_size() const { return base_end - base_begin; }
  size_t comparison_size() const { return comparison_end - comparison_begin; }
  uint64_t cells() const { return uint64_t{base_size()} * comparison_size(); }
};

struct Run {
  uint64_t hash = 0;
  uint32_t place = 0;
  bool operator<(const Run& other) const {
    return hash != other.hash ? hash < other.hash : place < other.place;
  }
};

// Every run of `length` elements of keys[begin, end), sorted.
std::vector<Run> RunsOf(std::span<const uint32_t> keys, size_t begin, size_t end, size_t length) {
  constexpr uint64_t kFactor = 0x9E3779B97F4A7C15U;
  std::vector<Run> runs;
  if (end - begin < length) {
    return runs;
  }
  runs.reserve(end - begin);
  uint64_t leaving = 1;  // the factor of the element that leaves the window
  for (size_t i = 1; i < length; ++i) {
    leaving *= kFactor;
  }
  uint64_t hash = 0;
  for (size_t i = begin; i < end; ++i) {
    if (i >= begin + length) {
      hash -= (uint64_t{keys[i - length]} + 1) * leaving;
    }
    hash = hash * kFactor + keys[i] + 1;
    if (i + 1 >= begin + length) {
      runs.push_back({hash, static_cast<uint32_t>(i + 1 - length)});
    }
  }
  std::sort(runs.begin(), runs.end());
  return runs;
}

// Of pairs sorted by base the longest chain whose comparison places rise, too.
std::vector<AlignedPair> LongestRising(const std::vector<AlignedPair>& pairs) {
  std::vector<size_t> ends;  // ends[k]: the pair with the smallest place that ends a chain of k + 1
  std::vector<size_t> previous(pairs.size());
  for (size_t i = 0; i < pairs.size(); ++i) {
    const auto at = std::lower_bound(
        ends.begin(), ends.end(), pairs[i].comparison,
        [&pairs](size_t end, uint32_t place) { return pairs[end].comparison < place; });
    previous[i] = at == ends.begin() ? i : *(at - 1);
    if (at == ends.end()) {
      ends.push_back(i);
    } else {
      *at = i;
    }
  }
  std::vector<AlignedPair> chain(ends.size());
  size_t current = ends.empty() ? 0 : ends.back();
  for (size_t k = ends.size(); k-- > 0; current = previous[current]) {
    chain[k] = pairs[current];
  }
  return chain;
}

class Landmarks {
 public:
  Landmarks(std::span<const uint32_t> base, std::span<const uint32_t> comparison, Alignment method)
      : base_(base), comparison_(comparison), method_(method) {}

  std::vector<AlignedPair> Align() {
    // Parts still to do, the first on top; with how many run lengths were tried on each.
    struct Task {
      Part part;
      size_t level;
    };
    std::vector<Task> tasks{{{0, base_.size(), 0, comparison_.size()}, 0}};
    while (!tasks.empty()) {
      const Task task = tasks.back();
      tasks.pop_back();
      const Part& part = task.part;
      const uint64_t elements = part.base_size() + part.comparison_size();
      if (part.cells() <= elements * kCellsPerElement) {
        Exactly(part);
        continue;
      }
      if (task.level == kRunLengths.size()) {
        InPieces(part);
        continue;
      }
      const auto marks = MarksIn(part, kRunLengths[task.level]);
      // Pushed last to first. A mark itself is a part of one pair.
      Part rest = part;
      for (size_t i = marks.size(); i-- > 0;) {
        const Part after{marks[i].base + size_t{1}, rest.base_end, marks[i].comparison + size_t{1},
                         rest.comparison_end};
        if (after.base_size() > 0 || after.comparison_size() > 0) {
          tasks.push_back({after, task.level + 1});
        }
        rest.base_end = marks[i].base;
        rest.comparison_end = marks[i].comparison;
        tasks.push_back({{marks[i].base, marks[i].base + size_t{1}, marks[i].comparison,
                          marks[i].comparison + size_t{1}},
                         task.level + 1});
      }
      if (rest.base_size() > 0 || rest.comparison_size() > 0) {
        tasks.push_back({rest, task.level + 1});
      }
    }
    return std::move(pairs_);
  }

 private:
  void Exactly(const Part& part) {
    AlignInTable(base_.subspan(part.base_begin, part.base_size()),
                 comparison_.subspan(part.comparison_begin, part.comparison_size()), method_,
                 static_cast<uint32_t>(part.base_begin),
                 static_cast<uint32_t>(part.comparison_begin), kBlockBytes, pairs_);
  }

  // Nothing to go by: equal shares of both sides are laid beside each other.
  void InPieces(const Part& part) {
    constexpr size_t kPiece = 4096;
    const size_t pieces = std::max(part.base_size(), part.comparison_size()) / kPiece + 1;
    const auto share = [pieces](size_t begin, size_t size, size_t piece) {
      return begin + size / pieces * piece + std::min(size % pieces, piece);
    };
    for (size_t i = 0; i < pieces; ++i) {
      Exactly({share(part.base_begin, part.base_size(), i),
               share(part.base_begin, part.base_size(), i + 1),
               share(part.comparison_begin, part.comparison_size(), i),
               share(part.comparison_begin, part.comparison_size(), i + 1)});
    }
  }

  // Runs that occur equally often on both sides, the n-th with the n-th: the steps of a training
  // repeat themselves, so hardly any run is unique. Only the first element of each is paired.
  std::vector<AlignedPair> MarksIn(const Part& part, size_t length) const {
    const auto base = RunsOf(base_, part.base_begin, part.base_end, length);
    const auto comparison = RunsOf(comparison_, part.comparison_begin, part.comparison_end, length);
    std::vector<AlignedPair> pairs;
    for (size_t b = 0, c = 0; b < base.size() && c < comparison.size();) {
      if (base[b].hash != comparison[c].hash) {
        ++(base[b].hash < comparison[c].hash ? b : c);
        continue;
      }
      const uint64_t hash = base[b].hash;
      size_t base_end = b;
      size_t comparison_end = c;
      while (base_end < base.size() && base[base_end].hash == hash) {
        ++base_end;
      }
      while (comparison_end < comparison.size() && comparison[comparison_end].hash == hash) {
        ++comparison_end;
      }
      if (base_end - b == comparison_end - c) {
        for (size_t i = 0; i < base_end - b; ++i) {
          const AlignedPair pair{base[b + i].place, comparison[c + i].place};
          if (base_[pair.base] == comparison_[pair.comparison]) {
            pairs.push_back(pair);
          }
        }
      }
      b = base_end;
      c = comparison_end;
    }
    std::sort(pairs.begin(), pairs.end(),
              [](const AlignedPair& x, const AlignedPair& y) { return x.base < y.base; });
    return LongestRising(pairs);
  }

  std::span<const uint32_t> base_;
  std::span<const uint32_t> comparison_;
  Alignment method_;
  std::vector<AlignedPair> pairs_;
};

}  // namespace

Aligned Align(std::span<const uint32_t> base, std::span<const uint32_t> comparison,
              Alignment method, uint64_t max_cells) {
  Aligned result;
  if (comparison.empty() || base.size() <= max_cells / comparison.size()) {
    result.pairs.reserve(std::max(base.size(), comparison.size()));
    AlignInTable(base, comparison, method, 0, 0, kBlockBytes, result.pairs);
    return result;
  }
  result.is_exact = false;
  result.pairs = Landmarks(base, comparison, method).Align();
  return result;
}

}  // namespace msprobe::analysis::perf
