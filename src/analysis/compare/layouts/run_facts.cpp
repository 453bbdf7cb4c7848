// What is one fact of a run, and tensors tell where no record does: whether micro-batches are parts
// of what a replica of the data has, in which order ranks have the parts of a sequence, and where
// the padding of a vocabulary begins. The first tensors that can tell do so for all rows, before
// any are compared.
#include <algorithm>
#include <cmath>
#include <map>
#include <numeric>
#include <string_view>
#include <unordered_map>
#include <utility>
#include <vector>

#include "src/analysis/compare/layouts/piece_loader.h"

namespace msprobe::analysis::compare::layouts {

using layout::Axis;
using layout::SpreadKind;

namespace {

using RowsWithTensors = std::pair<const SideRow*, const SideRow*>;

// Rows of one name whose tensors both sides have, in the order of the NPU side.
std::vector<RowsWithTensors> PairsWithTensors(const Side& npu, const Side& bench) {
  std::unordered_map<std::string_view, const SideRow*> of_bench;
  for (const SideRow& row : bench.rows) {
    of_bench.emplace(row.name, &row);
  }
  std::vector<RowsWithTensors> pairs;
  for (const SideRow& row : npu.rows) {
    const auto found = of_bench.find(row.name);
    if (found != of_bench.end() && row.data_name != "-1" && found->second->data_name != "-1") {
      pairs.emplace_back(&row, found->second);
    }
  }
  return pairs;
}

}  // namespace

void PieceLoader::ChooseOrder(const Side& npu, const Side& bench) {
  constexpr size_t kMostRows = 4;
  constexpr double kEqual = 1e-3;
  const std::vector<RowsWithTensors> pairs = PairsWithTensors(npu, bench);
  for (const bool of_npu : {true, false}) {
    const auto cuts_twice = [&](const SideRow& row) {
      const layout::Placement& placement = RowOf(of_npu, row).placement;
      const layout::Spread& outer = placement.spreads[static_cast<size_t>(Axis::kMicroBatch)];
      const layout::Spread& inner = placement.spreads[static_cast<size_t>(Axis::kData)];
      return outer.kind == SpreadKind::kShard && inner.kind == SpreadKind::kShard &&
             outer.dimension == inner.dimension && placement.grid[0] > 1 && placement.grid[1] > 1;
    };
    size_t looked_at = 0;
    size_t better = 0;
    for (const auto& [row, partner] : pairs) {
      if (looked_at == kMostRows) {
        break;
      }
      const SideRow& own = of_npu ? *row : *partner;
      if (!cuts_twice(own)) {
        continue;
      }
      const size_t side = of_npu ? 0 : 1;
      JoinedRow& joined = rows_[side][static_cast<size_t>(&own - first_rows_[side])];
      std::array<double, 2> errors = {HUGE_VAL, HUGE_VAL};
      for (const bool data_first : {false, true}) {
        joined.placement.data_outside = data_first;
        Compare(*row, *partner, [&](const layout::WholeTensor& n, const layout::WholeTensor& b) {
          errors[data_first ? 1 : 0] = ErrorOf(n, b);
          return true;
        });
      }
      joined.placement.data_outside = false;
      ++looked_at;
      better += errors[1] < errors[0] && errors[1] < kEqual ? 1 : 0;
    }
    if (better * 2 > looked_at) {
      for (JoinedRow& row : rows_[of_npu ? 0 : 1]) {
        row.placement.data_outside = true;
      }
    }
  }
}

namespace {

constexpr auto kSequence = static_cast<size_t>(Axis::kContext);
constexpr auto kSamples = static_cast<size_t>(Axis::kData);

bool IsCutAlong(const JoinedRow& row, size_t axis) {
  return row.placement.spreads[axis].kind == SpreadKind::kShard && row.placement.grid[axis] > 1;
}

// Rows of as many dimensions that are cut along the same ones have the sequence in the same place.
using CutDimensions = std::array<int64_t, 3>;  // how many, the lower one, the higher one
CutDimensions CutDimensionsOf(const JoinedRow& row) {
  const int64_t a = row.placement.spreads[kSequence].dimension;
  const int64_t b = IsCutAlong(row, kSamples) ? row.placement.spreads[kSamples].dimension : a;
  return {static_cast<int64_t>(row.shapes[0].size()), std::min(a, b), std::max(a, b)};
}

struct SequencePlace {
  int64_t dimension = 0;
  layout::PartOrder order = layout::PartOrder::kContiguous;
  auto operator<=>(const SequencePlace&) const = default;
};

// The placement with the sequence in this place; nullopt where the pieces do not allow it.
std::optional<layout::Placement> WithSequence(const JoinedRow& row, const SequencePlace& place) {
  layout::Placement placement = row.placement;
  layout::Spread& sequence = placement.spreads[kSequence];
  if (sequence.dimension != place.dimension) {
    layout::Spread& samples = placement.spreads[kSamples];
    if (!IsCutAlong(row, kSamples) || samples.dimension != place.dimension) {
      return std::nullopt;
    }
    std::swap(sequence.dimension, samples.dimension);
  }
  sequence.order = place.order;
  return layout::WholeShape(placement, row.shapes) ? std::optional(std::move(placement))
                                                   : std::nullopt;
}

}  // namespace

void PieceLoader::ChooseSequenceOrder(const Side& npu, const Side& bench) {
  constexpr size_t kMostRows = 64;
  constexpr double kEqual = 1e-3;
  const std::vector<RowsWithTensors> pairs = PairsWithTensors(npu, bench);
  for (const bool of_npu : {true, false}) {
    std::vector<JoinedRow>& all = rows_[of_npu ? 0 : 1];
    const auto is_cut = [](const JoinedRow& joined) {
      return IsCutAlong(joined, kSequence) &&
             joined.placement.spreads[kSequence].order == layout::PartOrder::kContiguous;
    };
    std::map<CutDimensions, std::map<SequencePlace, size_t>> votes;
    std::map<layout::PartOrder, size_t> orders;
    size_t looked_at = 0;
    for (const auto& [row, partner] : pairs) {
      JoinedRow& joined =
          all[static_cast<size_t>((of_npu ? row : partner) - first_rows_[of_npu ? 0 : 1])];
      if (!is_cut(joined)) {
        continue;
      }
      if (looked_at++ == kMostRows) {
        break;
      }
      const layout::Placement before = joined.placement;
      const CutDimensions cut = CutDimensionsOf(joined);
      std::vector<SequencePlace> fitting;
      for (size_t way = 0; way < 4; ++way) {
        const SequencePlace place = {cut[1 + way % 2], way < 2 ? layout::PartOrder::kContiguous
                                                               : layout::PartOrder::kZigzag};
        if (way % 2 == 1 && cut[1] == cut[2]) {
          continue;
        }
        if (std::optional<layout::Placement> other = WithSequence(joined, place)) {
          joined.placement = *std::move(other);
          const bool fits = Compare(
              *row, *partner, [&](const layout::WholeTensor& n, const layout::WholeTensor& b) {
                return ErrorOf(n, b) <= kEqual;
              });
          if (fits) {
            fitting.push_back(place);
          }
          joined.placement = before;
        }
      }
      if (fitting.size() == 1) {  // values that look the same in every order tell nothing
        ++votes[cut][fitting[0]];
        ++orders[fitting[0].order];
      }
    }
    const bool is_zigzag =
        orders[layout::PartOrder::kZigzag] > orders[layout::PartOrder::kContiguous];
    for (JoinedRow& joined : all) {
      if (orders.empty() || joined.shapes.empty() || !is_cut(joined)) {
        continue;
      }
      SequencePlace place = {
          joined.placement.spreads[kSequence].dimension,
          is_zigzag ? layout::PartOrder::kZigzag : layout::PartOrder::kContiguous};
      if (const auto known = votes.find(CutDimensionsOf(joined)); known != votes.end()) {
        place = std::max_element(known->second.begin(), known->second.end(),
                                 [](const auto& a, const auto& b) { return a.second < b.second; })
                    ->first;
      }
      if (std::optional<layout::Placement> other = WithSequence(joined, place)) {
        joined.placement = *std::move(other);
      }
    }
  }
}

namespace {

// One more than the largest number that looks a row of the table up: of the integer inputs of its
// module.
int64_t LookedUp(const Side& side, const SideRow& table) {
  int64_t count = 0;
  const SideEntry& entry = side.entries[table.entry];
  for (uint32_t i = entry.first_row; i < entry.first_row + entry.row_count; ++i) {
    const SideRow& row = side.rows[i];
    const StatValue& largest = row.stats[kMax];
    if (IsInput(row) && row.dtype.find("int") != std::string_view::npos && largest.is_numeric() &&
        largest.number >= 0 && largest.number < 0x1p53) {
      count = std::max(count, static_cast<int64_t>(largest.number) + 1);
    }
  }
  return count;
}

// The last row from `first` on that both tables have, and one more; `first`: all differ.
int64_t EndOfEqualRows(const layout::WholeTensor& a, const layout::WholeTensor& b, int64_t first) {
  constexpr double kEqual = 0.05;  // of what is not padding narrow dtypes differ by less
  const int64_t columns = a.element_count() / std::max<int64_t>(a.shape()[0], 1);
  std::vector<double> x(static_cast<size_t>(columns));
  std::vector<double> y(x.size());
  for (int64_t row = a.shape()[0]; row-- > first;) {
    a.Read(row * columns, x);
    b.Read(row * columns, y);
    double difference = 0;
    double norm = 0;
    for (size_t i = 0; i < x.size(); ++i) {
      difference += (x[i] - y[i]) * (x[i] - y[i]);
      norm += std::max(x[i] * x[i], y[i] * y[i]);
    }
    if (difference <= kEqual * kEqual * norm) {
      return row + 1;
    }
  }
  return first;
}

}  // namespace

// A size that is padded is a multiple of some number, and there is less padding than that. Two
// sizes that are padded by such numbers of which one divides the other have it as a divisor: less
// than their greatest common one may be padding on both sides. Rows there that differ on both sides
// are taken for it, if those in front of them do not differ and none of them is looked up.
void PieceLoader::ChooseVocabulary(Side& npu, Side& bench) {
  constexpr int64_t kMostColumns = 1 << 20;
  std::map<std::pair<int64_t, int64_t>, int64_t> vocabularies;  // how much is real, by both sizes
  for (const auto& [row, partner] : PairsWithTensors(npu, bench)) {
    const std::optional<Padding>& padding = RowOf(true, *row).padding;
    if (row->state != dump::RowState::kParameters || !padding || padding->dimension != 0) {
      continue;
    }
    const std::pair sizes(padding->larger, padding->smaller);
    const SideRow* const npu_row = row;
    const SideRow* const bench_row = partner;
    const int64_t certain =
        padding->smaller - std::gcd(padding->larger, padding->smaller) + 1;  // rows at least
    Compare(*row, *partner, [&](const layout::WholeTensor& n, const layout::WholeTensor& b) {
      if (!AreComparable(n, b) || n.shape()[0] != padding->smaller ||
          n.element_count() / n.shape()[0] > kMostColumns) {
        return false;
      }
      const int64_t end = EndOfEqualRows(n, b, certain - 1);
      if (end >= certain) {
        int64_t& real = vocabularies[sizes];
        real = std::max({real, end, LookedUp(npu, *npu_row), LookedUp(bench, *bench_row)});
      }
      return true;
    });
  }
  for (const bool of_npu : {true, false}) {
    Side& side = of_npu ? npu : bench;
    for (SideRow& row : side.rows) {
      JoinedRow& joined =
          rows_[of_npu ? 0 : 1][static_cast<size_t>(&row - first_rows_[of_npu ? 0 : 1])];
      if (!joined.padding) {
        continue;
      }
      const auto found = vocabularies.find({joined.padding->larger, joined.padding->smaller});
      std::optional<Shape> shape = ParseShape(row.shape);
      if (found == vocabularies.end() || found->second >= joined.padding->smaller || !shape ||
          joined.padding->dimension >= shape->size() ||
          (*shape)[joined.padding->dimension] <= found->second) {
        continue;
      }
      (*shape)[joined.padding->dimension] = found->second;
      row.shape = side.Intern(ShapeText(*shape));
      joined.placement.padded_to = joined.placement.padded_to.value_or(joined.padding->smaller);
      joined.cut = *std::move(shape);
    }
  }
}

}  // namespace msprobe::analysis::compare::layouts
