// The joined pair: all ranks of both sides are read, their calls joined and paired (joined_side.h),
// rows of the whole model made of them, and the two wholes compared as any pair is. Tensors come
// from a loader that assembles pieces. Behind the comparison the pieces tell which ranks a
// difference concerns.
#include "src/analysis/compare/layouts/joined_pair.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <numeric>
#include <set>
#include <unordered_map>
#include <utility>

#include <fmt/format.h>

#include "msprobe/tensor_file.h"

#include "src/analysis/compare/agreement.h"
#include "src/analysis/compare/layouts/joined_side.h"
#include "src/analysis/compare/pairing.h"
#include "src/base/progress.h"
#include "src/dump/dump_file.h"
#include "src/dump/layout.h"
#include "src/layout/whole_tensor.h"
#include "src/tensor/element_blocks.h"

namespace msprobe::analysis::compare::layouts {
namespace {

using layout::Axis;
using layout::kAxisCount;
using layout::SpreadKind;

int64_t StageCount(const JoinedSide& side) {
  std::set<int64_t> stages;
  for (const auto& rank : side.ranks) {
    stages.insert(rank->about.place.stage);
  }
  return static_cast<int64_t>(stages.size());
}

size_t ReplicaCount(const JoinedSide& side) {
  std::set<int64_t> replicas;
  for (const auto& rank : side.ranks) {
    replicas.insert(rank->about.place.data);
  }
  return replicas.size();
}

// Other numbers of replicas share the data out in another way: the n-th micro-batch of both sides
// has other samples, and only all of them together are the same. How often most modules are called.
void JoinMicroBatches(JoinedSide& npu, JoinedSide& bench) {
  if (ReplicaCount(npu) == ReplicaCount(bench)) {
    return;
  }
  std::map<int64_t, size_t> votes;
  for (const auto& [letter, count] : CallCounts(npu)) {
    if (count % npu.micro_batches == 0) {
      ++votes[count / npu.micro_batches];
    }
  }
  const auto most = std::max_element(
      votes.begin(), votes.end(), [](const auto& a, const auto& b) { return a.second < b.second; });
  if (most != votes.end() && most->first > 1) {
    npu.micro_batches *= most->first;
    bench.micro_batches *= most->first;
    npu.joins_all_batches = bench.joins_all_batches = true;
  }
}

// Whether the gradients that the backward pass computes are those of the last micro-batch alone,
// because a framework adds them up elsewhere: they are not all one multiple of what the optimizer
// is given.
bool KeepsLastBatch(const JoinedSide& side) {
  constexpr double kSameRatio = 1e-2;
  constexpr double kMostRows = 0.75;
  if (side.micro_batches < 2 || side.reduced.empty() || ReplicaCount(side) > 1) {
    return false;
  }
  const auto norms = [&](const JoinedCall& call) {
    std::map<std::string_view, double> found;  // by the name of the parameter
    const Side& read = side.ranks[call.members[0].rank]->side;
    const SideEntry& entry = read.entries[call.members[0].entry];
    for (uint32_t i = entry.first_row; i < entry.first_row + entry.row_count; ++i) {
      const SideRow& row = read.rows[i];
      if (row.is_tensor && row.stats[kNorm].is_numeric()) {
        found[row.name.substr(row.name.rfind('.') + 1)] = row.stats[kNorm].number;
      }
    }
    return found;
  };
  std::vector<double> ratios;
  for (const auto& [path, call] : side.gradients) {
    const auto given = side.reduced.find(path);
    if (given == side.reduced.end() || given->second.members[0].rank != call.members[0].rank) {
      continue;
    }
    const auto of_given = norms(given->second);
    for (const auto& [name, norm] : norms(call)) {
      const auto other = of_given.find(name);
      if (other != of_given.end() && norm > 0) {
        ratios.push_back(other->second / norm);
      }
    }
  }
  if (ratios.empty()) {
    return false;
  }
  std::sort(ratios.begin(), ratios.end());
  const double median = ratios[ratios.size() / 2];
  const auto close = std::count_if(ratios.begin(), ratios.end(), [&](double ratio) {
    return std::fabs(ratio - median) <= kSameRatio * median;
  });
  return static_cast<double>(close) < kMostRows * static_cast<double>(ratios.size());
}

// How many times as often one side makes each of its calls: micro-batches that the other side does
// in one. The ratio that most calls have.
void FindMicroBatches(JoinedSide& npu, JoinedSide& bench) {
  const auto of_npu = CallCounts(npu);
  const auto of_bench = CallCounts(bench);
  std::map<std::pair<int64_t, int64_t>, size_t> votes;
  for (const auto& [letter, count] : of_npu) {
    const auto other = of_bench.find(letter);
    if (other == of_bench.end()) {
      continue;
    }
    if (count % other->second == 0) {
      ++votes[{count / other->second, 1}];
    } else if (other->second % count == 0) {
      ++votes[{1, other->second / count}];
    }
  }
  const auto most = std::max_element(
      votes.begin(), votes.end(), [](const auto& a, const auto& b) { return a.second < b.second; });
  if (most != votes.end()) {
    npu.micro_batches = most->first.first;
    bench.micro_batches = most->first.second;
    JoinMicroBatches(npu, bench);
  }
}

// Ranks that share tensors are fed the same. Where a record says so of ranks that are not, the
// values count: they are replicas of the data.
void CheckPlaces(JoinedSide& side, bool of_npu, LayoutFacts& facts,
                 std::vector<std::string>& notes) {
  std::map<std::array<int64_t, 2>, std::vector<uint64_t>> fed;
  int64_t sharing = 1;
  for (const auto& rank : side.ranks) {
    const RankPlace& place = rank->about.place;
    if (place.stage == 0) {
      fed[{place.data, place.context}].push_back(FedOf(rank->side));
    }
    sharing = std::max(sharing, place.tensor + 1);
  }
  const bool contradicts =
      sharing > 1 && !fed.empty() && std::all_of(fed.begin(), fed.end(), [](const auto& cell) {
        return std::set<uint64_t>(cell.second.begin(), cell.second.end()).size() ==
                   cell.second.size() &&
               cell.second.size() > 1;
      });
  if (!contradicts) {
    return;
  }
  std::vector<JoinedRank*> ranks;
  std::vector<const Side*> sides;
  for (const auto& rank : side.ranks) {
    ranks.push_back(&rank->about);
    sides.push_back(&rank->side);
  }
  if (!PlaceByDumps(ranks, sides, facts)) {
    for (JoinedRank* const rank : ranks) {
      rank->place.data = rank->place.data * sharing + rank->place.tensor;
      rank->place.tensor = 0;
    }
    facts.data *= facts.tensor;
    facts.tensor = 1;
  }
  facts.source = LayoutFacts::Source::kInferred;
  notes.push_back(
      fmt::format("the layout of the {} side says that its ranks share tensors, but each is fed "
                  "other data: what the dumps tell is taken",
                  of_npu ? "test" : "reference"));
}

Result<JoinedSide> LoadJoinedSide(const std::vector<JoinedRank>& ranks, const SideOptions& options,
                                  base::ThreadPool& pool) {
  JoinedSide side;
  side.ranks.resize(ranks.size());
  std::vector<Status> errors(ranks.size());
  pool.ParallelFor(ranks.size(), [&](size_t i, size_t) {
    Result<std::unique_ptr<LoadedRank>> loaded = LoadRank(ranks[i], options);
    if (loaded.ok()) {
      side.ranks[i] = *std::move(loaded);
    } else {
      errors[i] = std::move(loaded).status();
    }
  });
  for (Status& error : errors) {
    MSP_RETURN_IF_ERROR(std::move(error));
  }
  side.stages = StageCount(side);
  return side;
}

}  // namespace

PieceLoader::PieceLoader(const PairLayout& pair, const Side& npu, const Side& bench,
                         std::array<std::vector<JoinedRow>, 2> rows)
    : pair_(pair), first_rows_{npu.rows.data(), bench.rows.data()}, rows_(std::move(rows)) {}

const JoinedRow& PieceLoader::RowOf(bool of_npu, const SideRow& row) const {
  const size_t side = of_npu ? 0 : 1;
  return rows_[side][static_cast<size_t>(&row - first_rows_[side])];
}

namespace {

// Calls use(npu, bench, first) for all elements of two wholes of equal shape, block by block; a use
// may return false to end the walk.
template <typename Use>
void ForEachRunOf(const layout::WholeTensor& a, const layout::WholeTensor& b, const Use& use) {
  std::vector<double> x(tensor::kCopyBlockElements);
  std::vector<double> y(tensor::kCopyBlockElements);
  const auto count = static_cast<size_t>(a.element_count());
  for (size_t first = 0; first < count; first += x.size()) {
    const size_t size = std::min(x.size(), count - first);
    const std::span<double> left = std::span(x).first(size);
    const std::span<double> right = std::span(y).first(size);
    a.Read(static_cast<int64_t>(first), left);
    b.Read(static_cast<int64_t>(first), right);
    if (!use(left, right, first)) {
      return;
    }
  }
}

bool AreComparable(const layout::WholeTensor& a, const layout::WholeTensor& b) {
  return a.shape() == b.shape() && GetDTypeInfo(a.dtype()).kind != DTypeKind::kComplex &&
         GetDTypeInfo(b.dtype()).kind != DTypeKind::kComplex;
}

// ||a - b|| / ||b||; infinite where they cannot be compared, or as soon as it is above `most` if
// ||b||^2 is at most `norm_limit`.
double ErrorOf(const layout::WholeTensor& a, const layout::WholeTensor& b, double most = HUGE_VAL,
               double norm_limit = HUGE_VAL) {
  if (!AreComparable(a, b)) {
    return HUGE_VAL;
  }
  double difference = 0;
  double norm = 0;
  const double give_up = most * most * norm_limit;
  ForEachRunOf(a, b, [&](std::span<const double> x, std::span<const double> y, size_t) {
    for (size_t i = 0; i < x.size(); ++i) {
      difference += (x[i] - y[i]) * (x[i] - y[i]);
      norm += y[i] * y[i];
    }
    return !(difference > give_up);
  });
  return difference > give_up ? HUGE_VAL : difference == 0 ? 0 : std::sqrt(difference / norm);
}

double SquaresOf(const layout::WholeTensor& whole) {
  double squares = 0;
  std::vector<double> values(tensor::kCopyBlockElements);
  const auto count = static_cast<size_t>(whole.element_count());
  for (size_t first = 0; first < count; first += values.size()) {
    const std::span<double> block = std::span(values).first(std::min(values.size(), count - first));
    whole.Read(static_cast<int64_t>(first), block);
    for (const double value : block) {
      squares += value * value;
    }
  }
  return squares;
}

// The orders that parts of `size` along an axis may have: those of fused projections and of chunks,
// and where other dimensions were flattened into this one, a block for each of their elements.
std::vector<layout::Spread> OrdersOf(size_t axis, const layout::Spread& spread, int64_t size) {
  constexpr size_t kMostOrders = 16;
  std::vector<layout::Spread> orders;
  const auto add = [&](layout::PartOrder order, int64_t blocks) {
    layout::Spread& other = orders.emplace_back(spread);
    other.order = order;
    other.blocks = blocks;
    other.block_sizes.clear();
  };
  if (static_cast<Axis>(axis) == Axis::kTensor) {
    add(layout::PartOrder::kBlocks, 3);
  } else {
    add(layout::PartOrder::kZigzag, 1);
    add(layout::PartOrder::kInterleaved, 1);
  }
  for (int64_t blocks = 2; blocks < size && orders.size() < kMostOrders; ++blocks) {
    if (size % blocks == 0) {
      add(layout::PartOrder::kBlocks, blocks);
    }
  }
  return orders;
}

// Other ways to put the pieces together that their shapes allow: parts in other orders, and axes
// that cut as many parts taken for each other. Those that change the least come first.
std::vector<layout::Placement> AlternativesOf(const JoinedRow& row) {
  constexpr size_t kMostAlternatives = 96;
  constexpr double kManyElements = 4e6;  // of which few alternatives are tried
  std::vector<layout::Placement> bases = {row.placement};
  const layout::GridSize& grid = row.placement.grid;
  const auto cuts = [&](const layout::Placement& placement, size_t axis) {
    return placement.spreads[axis].kind == SpreadKind::kShard && grid[axis] > 1;
  };
  for (size_t a = 0; a < kAxisCount; ++a) {
    for (size_t b = a + 1; b < kAxisCount; ++b) {
      if (cuts(row.placement, a) && cuts(row.placement, b) && grid[a] == grid[b] &&
          row.placement.spreads[a].dimension != row.placement.spreads[b].dimension) {
        layout::Placement& swapped = bases.emplace_back(row.placement);
        std::swap(swapped.spreads[a].dimension, swapped.spreads[b].dimension);
      }
    }
  }
  double elements = 0;
  for (const Shape& shape : row.shapes) {
    elements += static_cast<double>(msprobe::ElementCount(shape));
  }
  const size_t most = elements > kManyElements ? 6 : kMostAlternatives;
  std::vector<layout::Placement> all(bases.begin() + 1, bases.end());
  for (const layout::Placement& base : bases) {
    std::vector<layout::Placement> changed = {base};
    for (size_t axis = 0; axis < kAxisCount; ++axis) {
      if (!cuts(base, axis) || base.spreads[axis].order != layout::PartOrder::kContiguous) {
        continue;
      }
      const auto dimension = static_cast<size_t>(base.spreads[axis].dimension);
      const size_t known = changed.size();
      for (const layout::Spread& order :
           OrdersOf(axis, base.spreads[axis], row.shapes[0][dimension])) {
        for (size_t i = 0; i < known && changed.size() < most; ++i) {
          layout::Placement other = changed[i];
          other.spreads[axis] = order;
          if (layout::WholeShape(other, row.shapes)) {
            changed.push_back(std::move(other));
          }
        }
      }
    }
    all.insert(all.end(), changed.begin() + 1, changed.end());
  }
  all.resize(std::min(all.size(), most));
  return all;
}

}  // namespace

class PieceLoader::OpenPieces {
 public:
  OpenPieces(const JoinedRow& row, const std::vector<JoinedRank>& ranks)
      : row_(row), ranks_(ranks), files_(row.pieces.size()) {}

  Result<TensorView> Open(size_t piece) {
    std::optional<TensorFile>& file = files_[piece];
    if (!file) {
      const Piece& of = row_.pieces[piece];
      MSP_RETURN_IF_ERROR(dump::CheckDataName(of.data_name));
      MSP_ASSIGN_OR_RETURN(file,
                           TensorFile::Open(ranks_[of.rank].folder.folder /
                                                dump::TensorFolderOf(of.data_name) / of.data_name,
                                            {}));
    }
    MSP_ASSIGN_OR_RETURN(const NamedTensor* tensor, file->Single());
    MSP_RETURN_IF_ERROR(tensor->status);
    TensorView view = tensor->view;
    if (row_.is_swapped && view.shape.size() >= 2) {
      std::swap(view.shape[0], view.shape[1]);
      std::swap(view.strides[0], view.strides[1]);
    }
    return view;
  }

  Result<tensor::TensorBuffer> Copy(size_t piece) {
    MSP_ASSIGN_OR_RETURN(const TensorView view, Open(piece));
    return tensor::MakeContiguous(view, kMostTensorBytes);
  }

  // The whole that they make in this placement.
  Result<layout::WholeTensor> Join(const layout::Placement& placement) {
    return layout::WholeTensor::Make(
        placement, [this](size_t piece) { return Open(piece); }, row_.scale, row_.cut);
  }

  void ReleasePages() const {
    for (const std::optional<TensorFile>& file : files_) {
      if (file) {
        const Result<const NamedTensor*> tensor = file->Single();
        if (tensor.ok()) {
          file->ReleasePages((*tensor)->view, 0, (*tensor)->view.element_count());
        }
      }
    }
  }

 private:
  const JoinedRow& row_;
  const std::vector<JoinedRank>& ranks_;
  std::vector<std::optional<TensorFile>> files_;
};

std::shared_ptr<PieceLoader::OpenPieces> PieceLoader::PiecesOf(bool of_npu,
                                                               const SideRow& row) const {
  return std::make_shared<OpenPieces>(RowOf(of_npu, row), of_npu ? pair_.npu : pair_.bench);
}

bool PieceLoader::Compare(const SideRow& npu, const SideRow& bench,
                          const CompareWholes& use) const {
  const std::shared_ptr<OpenPieces> npu_pieces = PiecesOf(true, npu);
  const std::shared_ptr<OpenPieces> bench_pieces = PiecesOf(false, bench);
  const Result<layout::WholeTensor> n = npu_pieces->Join(RowOf(true, npu).placement);
  const Result<layout::WholeTensor> b = bench_pieces->Join(RowOf(false, bench).placement);
  return n.ok() && b.ok() && use(*n, *b);
}

bool PieceLoader::Reconsider(const SideRow& npu, const SideRow& bench,
                             const Distance& distance) const {
  constexpr double kOther = 1e-3;
  std::array<JoinedRow*, 2> joined = {&rows_[0][static_cast<size_t>(&npu - first_rows_[0])],
                                      &rows_[1][static_cast<size_t>(&bench - first_rows_[1])]};
  const SideRow* const rows[] = {&npu, &bench};
  const bool has_parts = std::any_of(joined.begin(), joined.end(), [](const JoinedRow* row) {
    return std::any_of(
        row->placement.spreads.begin(), row->placement.spreads.end(),
        [](const layout::Spread& spread) { return spread.kind == SpreadKind::kShard; });
  });
  if (!has_parts ||
      (distance.comparable && !distance.nonfinite_differs && distance.relative < 0.99 * kOther)) {
    return false;
  }
  std::array<std::shared_ptr<OpenPieces>, 2> pieces;
  std::array<std::optional<layout::WholeTensor>, 2> wholes;
  for (size_t side = 0; side < 2; ++side) {
    pieces[side] = PiecesOf(side == 0, *rows[side]);
    Result<layout::WholeTensor> whole = pieces[side]->Join(joined[side]->placement);
    if (!whole.ok()) {
      return false;
    }
    wholes[side] = *std::move(whole);
  }
  double error = ErrorOf(*wholes[0], *wholes[1]);
  bool found = false;
  for (size_t side = 0; side < 2 && error > kOther; ++side) {
    JoinedRow& row = *joined[side];
    const std::vector<layout::Placement> others = AlternativesOf(row);
    if (others.empty()) {
      continue;
    }
    const double norm =
        1.001 * (AreComparable(*wholes[0], *wholes[1]) ? SquaresOf(*wholes[1]) : HUGE_VAL);
    for (const layout::Placement& other : others) {
      Result<layout::WholeTensor> whole = pieces[side]->Join(other);
      const double most = std::max(kOther, error / 4);
      const double apart = !whole.ok() ? HUGE_VAL
                           : side == 0 ? ErrorOf(*whole, *wholes[1], most, norm)
                                       : ErrorOf(*wholes[0], *whole, most, norm);
      if (apart <= kOther || apart < error / 4) {
        // Blocks of anything but a parameter come from its shape, and say nothing of how it is
        // shared.
        const dump::RowState state = rows[side]->state;
        if (!row.shown && state != dump::RowState::kParameters &&
            state != dump::RowState::kParametersGrad) {
          row.shown = row.placement;
        }
        row.placement = other;
        error = apart;
        found = true;
        wholes[side] = *std::move(whole);
        if (error <= kOther) {
          break;
        }
      }
    }
  }
  return (error > kOther && TryBoth(npu, bench)) || found;
}

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
      if (orders.empty() || !is_cut(joined)) {
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

bool PieceLoader::TryBoth(const SideRow& npu, const SideRow& bench) const {
  constexpr double kEqual = 1e-5;
  constexpr double kMostWork = 4e6;  // elements of all ways to join a side
  std::array<JoinedRow*, 2> joined = {&rows_[0][static_cast<size_t>(&npu - first_rows_[0])],
                                      &rows_[1][static_cast<size_t>(&bench - first_rows_[1])]};
  const SideRow* const rows[] = {&npu, &bench};
  std::array<std::shared_ptr<OpenPieces>, 2> pieces;
  std::array<std::vector<layout::Placement>, 2> ways;
  std::array<std::vector<layout::WholeTensor>, 2> wholes;
  for (size_t side = 0; side < 2; ++side) {
    const std::vector<layout::Placement> others = AlternativesOf(*joined[side]);
    if (others.empty() ||
        static_cast<double>(others.size()) * ElementCount(rows[side]->shape) > kMostWork) {
      return false;
    }
    pieces[side] = PiecesOf(side == 0, *rows[side]);
    for (const layout::Placement& way : others) {
      Result<layout::WholeTensor> whole = pieces[side]->Join(way);
      if (whole.ok()) {
        wholes[side].push_back(*std::move(whole));
        ways[side].push_back(way);
      }
    }
  }
  for (size_t b = 0; b < wholes[1].size(); ++b) {
    const double norm = 1.001 * SquaresOf(wholes[1][b]);
    for (size_t n = 0; n < wholes[0].size(); ++n) {
      if (ErrorOf(wholes[0][n], wholes[1][b], kEqual, norm) > kEqual) {
        continue;
      }
      const std::array<size_t, 2> chosen = {n, b};
      for (size_t side = 0; side < 2; ++side) {
        if (!joined[side]->shown && rows[side]->state != dump::RowState::kParameters &&
            rows[side]->state != dump::RowState::kParametersGrad) {
          joined[side]->shown = joined[side]->placement;
        }
        joined[side]->placement = ways[side][chosen[side]];
      }
      return true;
    }
  }
  return false;
}

namespace {

// Every piece in memory, and many ways to join them: of rows up to this.
constexpr double kMostJoined = 4e6;

}  // namespace

std::vector<size_t> PieceLoader::RepeatedPieces(const SideRow& npu) const {
  const JoinedRow& joined = RowOf(true, npu);
  constexpr auto kAxis = static_cast<size_t>(Axis::kMicroBatch);
  const auto batches = static_cast<size_t>(joined.placement.grid[kAxis]);
  std::vector<size_t> repeated;
  if (batches < 2 || joined.placement.spreads[kAxis].kind != SpreadKind::kShard ||
      npu.data_name == "-1" || ElementCount(npu.shape) > kMostJoined) {
    return repeated;
  }
  const std::shared_ptr<OpenPieces> pieces = PiecesOf(true, npu);
  const size_t stride = joined.pieces.size() / batches;
  for (size_t piece = stride; piece < joined.pieces.size(); ++piece) {
    const Result<tensor::TensorBuffer> now = pieces->Copy(piece);
    const Result<tensor::TensorBuffer> before = pieces->Copy(piece - stride);
    if (!now.ok() || !before.ok() || now->view().shape != before->view().shape ||
        now->view().dtype != before->view().dtype) {
      continue;
    }
    const std::span<const std::byte> bytes = now->view().bytes();
    const size_t item = DTypeSize(now->view().dtype);
    const bool is_constant =
        bytes.size() < 2 * item ||
        std::equal(bytes.begin() + static_cast<ptrdiff_t>(item), bytes.end(), bytes.begin());
    if (!is_constant && std::ranges::equal(bytes, before->view().bytes())) {
      repeated.push_back(piece);
    }
  }
  return repeated;
}

std::optional<std::pair<size_t, size_t>> PieceLoader::ExchangedParts(const SideRow& npu,
                                                                     const SideRow& bench) const {
  constexpr double kEqual = 1e-6;
  const JoinedRow& joined = RowOf(true, npu);
  constexpr auto kAxis = static_cast<size_t>(Axis::kTensor);
  const auto parts = static_cast<size_t>(joined.placement.grid[kAxis]);
  if (parts < 2 || parts > 16 || joined.placement.spreads[kAxis].kind != SpreadKind::kShard ||
      npu.data_name == "-1" || bench.data_name == "-1" || ElementCount(npu.shape) > kMostJoined) {
    return std::nullopt;
  }
  const std::shared_ptr<OpenPieces> pieces = PiecesOf(true, npu);
  const std::shared_ptr<OpenPieces> bench_pieces = PiecesOf(false, bench);
  const Result<layout::WholeTensor> reference = bench_pieces->Join(RowOf(false, bench).placement);
  if (!reference.ok()) {
    return std::nullopt;
  }
  const double norm = 1.001 * SquaresOf(*reference);
  std::vector<layout::Placement> placements = AlternativesOf(joined);
  placements.insert(placements.begin(), joined.placement);
  for (size_t a = 0; a < parts; ++a) {
    for (size_t b = a + 1; b < parts; ++b) {
      const layout::OpenPiece open = [&](size_t piece) -> Result<TensorView> {
        const size_t place = piece % parts;  // the tensor axis is the innermost one
        const size_t other = place == a ? b : place == b ? a : place;
        return pieces->Open(piece - place + other);
      };
      for (const layout::Placement& placement : placements) {
        const Result<layout::WholeTensor> whole =
            layout::WholeTensor::Make(placement, open, joined.scale, joined.cut);
        if (whole.ok() && ErrorOf(*whole, *reference, kEqual, norm) <= kEqual) {
          return std::pair(a, b);
        }
      }
    }
  }
  return std::nullopt;
}

Result<std::optional<LoadedTensor>> PieceLoader::Load(bool of_npu, const SideRow& row) const {
  constexpr int64_t kFewElements = 4096;  // that are not worth blocks; single numbers among them
  std::shared_ptr<OpenPieces> pieces = PiecesOf(of_npu, row);
  MSP_ASSIGN_OR_RETURN(layout::WholeTensor whole, pieces->Join(RowOf(of_npu, row).placement));
  if (whole.element_count() <= kFewElements) {
    tensor::TensorBuffer buffer(whole.dtype(), whole.shape());
    whole.Copy(0, whole.element_count(), buffer.mutable_bytes().data());
    return std::optional<LoadedTensor>(std::move(buffer));
  }
  LoadedTensor loaded;
  loaded.whole = std::make_shared<const layout::WholeTensor>(std::move(whole));
  loaded.files = pieces;
  loaded.release_pages = [pieces] { pieces->ReleasePages(); };
  return std::optional(std::move(loaded));
}

namespace {

std::vector<ReplicaDifference> ReplicasOf(const PairLayout& layout, const LoadedPair& loaded,
                                          const PieceLoader& loader) {
  std::vector<ReplicaDifference> replicas;
  for (const bool of_bench : {false, true}) {
    const Side& side = of_bench ? loaded.bench : loaded.npu;
    const std::vector<JoinedRank>& ranks = of_bench ? layout.bench : layout.npu;
    for (uint32_t row = 0; row < side.rows.size(); ++row) {
      const JoinedRow& joined = loader.RowOf(!of_bench, side.rows[row]);
      if (joined.suspicion != Suspicion::kReplicasDiffer) {
        continue;
      }
      ReplicaDifference& replica = replicas.emplace_back();
      replica.of_bench = of_bench;
      replica.row = row;
      replica.ranks = joined.suspects;
      replica.error = joined.error;
      std::set<int64_t> group;
      for (const Piece& piece : joined.pieces) {
        group.insert(ranks[piece.rank].rank);
      }
      replica.group.assign(group.begin(), group.end());
    }
  }
  return replicas;
}

// ---- what only pieces tell of the points that are reported ----

// A whole of which each element is the place of the piece that holds it. `numbers`: one of each
// piece, which outlive it.
Result<layout::WholeTensor> OwnersOf(const JoinedRow& joined, const std::vector<double>& numbers) {
  const layout::OpenPiece open = [&](size_t piece) -> Result<TensorView> {
    TensorView same;
    same.dtype = DType::kFloat64;
    same.shape = joined.shapes[piece];
    same.strides.assign(same.shape.size(), 0);
    same.data = reinterpret_cast<const std::byte*>(&numbers[piece]);
    same.extent_bytes = sizeof(double);
    return same;
  };
  return layout::WholeTensor::Make(joined.placement, open, 1, joined.cut);
}

// The whole is made of one of the copies of a piece: this one.
size_t FirstCopyOf(const layout::Placement& placement, size_t piece) {
  size_t first = 0;
  size_t stride = 1;
  for (size_t axis = kAxisCount; axis-- > 0;) {
    const auto size = static_cast<size_t>(placement.grid[axis]);
    const size_t place = piece / stride % size;
    first += placement.spreads[axis].kind == SpreadKind::kReplicated ? 0 : place * stride;
    stride *= size;
  }
  return first;
}

// The ranks of the NPU side whose pieces differ from the reference, by elements; empty: all, or not
// known.
std::vector<int64_t> DifferingRanks(const PairLayout& layout, const ComparedPair& pair,
                                    const PieceLoader& loader, const RowPair& rows) {
  constexpr uint64_t kMostElements = uint64_t{1} << 26U;
  const SideRow& row = pair.npu.rows[rows.npu];
  const JoinedRow& joined = loader.RowOf(true, row);
  if (joined.placement.HasPartial() || joined.pieces.size() < 2 || row.data_name == "-1" ||
      rows.bench == kNoRow || pair.bench.rows[rows.bench].data_name == "-1" ||
      ElementCount(row.shape) > static_cast<double>(kMostElements)) {
    return {};
  }
  std::vector<double> numbers(joined.pieces.size());
  std::iota(numbers.begin(), numbers.end(), 0.0);
  const Result<layout::WholeTensor> owners = OwnersOf(joined, numbers);
  std::vector<bool> differs(joined.pieces.size());
  std::vector<bool> holds(joined.pieces.size());
  const bool compared = loader.Compare(
      row, pair.bench.rows[rows.bench],
      [&](const layout::WholeTensor& npu, const layout::WholeTensor& bench) {
        if (!owners.ok() || !AreComparable(npu, bench) ||
            owners->element_count() != npu.element_count()) {
          return false;
        }
        double largest = 0;
        ForEachRunOf(bench, bench, [&](std::span<const double> values, const auto&, size_t) {
          for (const double value : values) {
            largest = std::isfinite(value) ? std::max(largest, std::fabs(value)) : largest;
          }
          return true;
        });
        std::vector<double> owner(tensor::kCopyBlockElements);
        ForEachRunOf(npu, bench,
                     [&](std::span<const double> x, std::span<const double> y, size_t first) {
                       owners->Read(static_cast<int64_t>(first), std::span(owner).first(x.size()));
                       for (size_t i = 0; i < x.size(); ++i) {
                         const auto piece = static_cast<size_t>(owner[i]);
                         holds[piece] = true;
                         differs[piece] = differs[piece] || std::fabs(x[i] - y[i]) > 1e-5 * largest;
                       }
                       return true;
                     });
        return true;
      });
  if (!compared) {
    return {};
  }
  std::set<int64_t> ranks;
  bool all = true;
  for (size_t piece = 0; piece < differs.size(); ++piece) {
    all = all && (differs[piece] || !holds[piece]);
    if (differs[FirstCopyOf(joined.placement, piece)]) {
      ranks.insert(layout.npu[joined.pieces[piece].rank].rank);
    }
  }
  return all ? std::vector<int64_t>() : std::vector<int64_t>(ranks.begin(), ranks.end());
}

// A module whose weight is cut along its inputs: its output is summed over the tensor-parallel
// ranks.
bool SumsOverRanks(const ComparedPair& pair, const PieceLoader& loader, const SideRow& row) {
  const SideEntry& entry = pair.npu.entries[row.entry];
  for (uint32_t i = entry.first_row; i < entry.first_row + entry.row_count; ++i) {
    const layout::Placement& placement = loader.RowOf(true, pair.npu.rows[i]).placement;
    const layout::Spread& spread = placement.spreads[static_cast<size_t>(layout::Axis::kTensor)];
    if (pair.npu.rows[i].state == dump::RowState::kParameters &&
        spread.kind == layout::SpreadKind::kShard && spread.dimension == 1) {
      return true;
    }
  }
  return false;
}

// What a relation between whole values is where ranks hold parts of them: a factor that is the size
// of the group that sums the value, and parts in each other's place.
void ExplainByRanks(const PairLayout& layout, const ComparedPair& pair, const PieceLoader& loader,
                    const RowPair& rows, Relation& relation) {
  const SideRow& row = pair.npu.rows[rows.npu];
  const layout::Placement& placement = loader.RowOf(true, row).placement;
  const LayoutFacts& facts = layout.npu_facts;
  if (relation.kind == RelationKind::kScale && relation.factor) {
    const bool is_gradient = row.state == dump::RowState::kParametersGrad;
    const int64_t group = is_gradient                        ? facts.data * facts.context
                          : SumsOverRanks(pair, loader, row) ? facts.tensor
                                                             : 1;
    if (group > 1 && *relation.factor == static_cast<double>(group)) {
      relation.kind = RelationKind::kReducedTwice;
      relation.cause = "reduced twice?";
    }
    return;
  }
  const auto axis = static_cast<size_t>(layout::Axis::kTensor);
  const layout::Spread& spread = placement.spreads[axis];
  const int64_t parts = placement.grid[axis];
  if (relation.kind == RelationKind::kPermutation && spread.kind == layout::SpreadKind::kShard &&
      (row.state == dump::RowState::kParameters || row.state == dump::RowState::kParametersGrad) &&
      parts > 1 && relation.dimension == static_cast<size_t>(spread.dimension) &&
      relation.blocks > 1 &&
      (parts % relation.blocks == 0 || relation.blocks == parts * spread.blocks)) {
    relation.kind = RelationKind::kWrongPart;
    relation.cause = "a rank holds another rank's part?";
  }
}

void CompletePoint(const PairLayout& layout, const ComparedPair& pair, const PieceLoader& loader,
                   DivergencePoint& point) {
  if (point.row >= pair.result.rows.size() || point.kind == OriginKind::kReplica) {
    return;
  }
  const RowPair& rows = pair.result.rows[point.row].pair;
  const JoinedRow& npu = loader.RowOf(true, pair.npu.rows[rows.npu]);
  const bool of_bench =
      rows.bench != kNoRow &&
      loader.RowOf(false, pair.bench.rows[rows.bench]).suspicion == Suspicion::kNotReduced;
  if (npu.suspicion == Suspicion::kNotReduced || of_bench) {
    point.relation =
        Relation{RelationKind::kPartialSum, std::nullopt,
                 of_bench ? "the sum over the ranks of"
                          : fmt::format("one of {} parts that sum up to", npu.pieces.size()),
                 "a reduction is missing?"};
    return;
  }
  const SideRow& row = pair.npu.rows[rows.npu];
  if (pair.result.mode == CompareMode::kRealData) {
    if (const std::vector<size_t> repeated = loader.RepeatedPieces(row); !repeated.empty()) {
      point.relation =
          Relation{RelationKind::kStale, std::nullopt,
                   "the value of an earlier micro-batch, not that of", "a value is used again?"};
      std::set<int64_t> ranks;
      for (const size_t piece : repeated) {
        ranks.insert(layout.npu[npu.pieces[piece].rank].rank);
      }
      point.ranks.assign(ranks.begin(), ranks.end());
      return;
    }
    const bool is_stored =
        row.state == dump::RowState::kParameters || row.state == dump::RowState::kParametersGrad;
    const auto exchanged = is_stored && rows.bench != kNoRow
                               ? loader.ExchangedParts(row, pair.bench.rows[rows.bench])
                               : std::nullopt;
    if (exchanged) {
      point.relation = Relation{RelationKind::kWrongPart, std::nullopt, "other parts of",
                                "a rank holds another rank's part?"};
      const auto parts =
          static_cast<size_t>(npu.placement.grid[static_cast<size_t>(Axis::kTensor)]);
      std::set<int64_t> ranks;
      for (size_t piece = 0; piece < npu.pieces.size() && parts > 2; ++piece) {
        if (piece % parts == exchanged->first || piece % parts == exchanged->second) {
          ranks.insert(layout.npu[npu.pieces[piece].rank].rank);
        }
      }
      point.ranks.assign(ranks.begin(), ranks.end());
      return;
    }
  }
  if (point.relation) {
    ExplainByRanks(layout, pair, loader, rows, *point.relation);
  }
  if (point.ranks.empty() && pair.result.mode == CompareMode::kRealData) {
    point.ranks = DifferingRanks(layout, pair, loader, rows);
  }
}

}  // namespace

bool HaveOtherMicroBatches(const Side& npu, const Side& bench) {
  const auto few = static_cast<double>(std::min(npu.entries.size(), bench.entries.size()));
  const auto many = static_cast<double>(std::max(npu.entries.size(), bench.entries.size()));
  if (many < few * 1.4) {
    return false;
  }
  std::unordered_map<std::string, std::array<int64_t, 2>> counts;
  for (size_t side = 0; side < 2; ++side) {
    for (const SideEntry& entry : (side == 0 ? npu : bench).entries) {
      const dump::EntryName name = dump::ParseEntryName(entry.name);
      if (name.direction == dump::Direction::kForward && !name.is_debug) {
        ++counts[fmt::format("{}.{}", name.kind, name.subject)][side];
      }
    }
  }
  std::map<double, size_t> ratios;
  for (const auto& [name, count] : counts) {
    if (count[0] > 0 && count[1] > 0) {
      ++ratios[static_cast<double>(count[0]) / static_cast<double>(count[1])];
    }
  }
  for (const auto& [ratio, share] : ratios) {
    const double times = std::max(ratio, 1 / ratio);
    if (times >= 2 && times == std::floor(times) &&
        static_cast<double>(share) >= 0.6 * static_cast<double>(counts.size())) {
      return true;
    }
  }
  return false;
}

Result<ComparedPair> CompareJoined(const Options& options, const PlannedPair& planned,
                                   PairLayout& layout, base::ThreadPool& pool,
                                   const StepRecord* previous) {
  const base::Stopwatch watch;
  SideOptions side_options;
  side_options.allow_truncated = options.allow_truncated;
  side_options.edition = options.edition();
  MSP_ASSIGN_OR_RETURN(JoinedSide npu, LoadJoinedSide(layout.npu, side_options, pool));
  MSP_ASSIGN_OR_RETURN(JoinedSide bench, LoadJoinedSide(layout.bench, side_options, pool));
  std::vector<std::string> notes;
  CheckPlaces(npu, true, layout.npu_facts, notes);
  CheckPlaces(bench, false, layout.bench_facts, notes);
  for (const bool of_npu : {true, false}) {
    JoinedSide& own = of_npu ? npu : bench;
    const JoinedSide& other = of_npu ? bench : npu;
    LayoutFacts& facts = of_npu ? layout.npu_facts : layout.bench_facts;
    const LayoutFacts& other_facts = of_npu ? layout.bench_facts : layout.npu_facts;
    if (facts.source == LayoutFacts::Source::kInferred && facts.data > 1 && facts.context == 1 &&
        other_facts.data == 1) {
      std::vector<JoinedRank*> ranks;
      for (const auto& rank : own.ranks) {
        ranks.push_back(&rank->about);
      }
      TellContext(ranks, own.ranks[0]->side, other.ranks[0]->side, facts);
    }
    own.stages = StageCount(own);
  }
  NumberParts(npu, bench);
  NumberParts(bench, npu);
  PairNames(npu, bench);
  FindMicroBatches(npu, bench);
  JoinCalls(npu, bench);
  PairCalls(npu, bench);
  npu.keeps_last_batch = KeepsLastBatch(npu);
  bench.keeps_last_batch = KeepsLastBatch(bench);
  JoinedRows joined = JoinRows(npu, bench, layout);
  LoadedPair loaded = std::move(joined.loaded);
  PairSource source;
  source.warnings = std::move(joined.warnings);
  source.warnings.insert(source.warnings.end(), notes.begin(), notes.end());
  if (loaded.npu.has_md5 || loaded.bench.has_md5) {
    return UnsupportedError("checksums of parts do not tell that of the whole")
        .WithHint("dump both sides with statistics or tensors to compare other layouts");
  }
  const std::map<std::string, std::string> paired_by = std::move(npu.paired_by);
  npu = {};
  bench = {};
  PieceLoader loader(layout, loaded.npu, loaded.bench, std::move(joined.rows));
  loader.ChooseOrder(loaded.npu, loaded.bench);
  loader.ChooseSequenceOrder(loaded.npu, loaded.bench);
  source.loader = &loader;
  source.sums_are_joined = true;
  source.replicas = ReplicasOf(layout, loaded, loader);
  source.load_seconds = watch.seconds();
  MSP_ASSIGN_OR_RETURN(ComparedPair pair, CompareLoaded(options, planned.input, std::move(loaded),
                                                        std::move(source), pool, previous));
  for (size_t side = 0; side < 2; ++side) {
    const Side& rows = side == 0 ? pair.npu : pair.bench;
    std::vector<std::string_view>& texts =
        side == 0 ? pair.result.npu_layouts : pair.result.bench_layouts;
    for (const SideRow& row : rows.rows) {
      texts.push_back(
          (side == 0 ? pair.npu : pair.bench).Intern(loader.RowOf(side == 0, row).Text()));
    }
  }
  if (!paired_by.empty()) {
    for (const SideRow& row : pair.npu.rows) {
      const dump::EntryName name = dump::ParseEntryName(pair.npu.entries[row.entry].name);
      const auto known = paired_by.find(std::string(name.subject));
      pair.result.paired_by.push_back(known == paired_by.end() ? std::string_view()
                                                               : pair.npu.Intern(known->second));
    }
  }
  for (std::optional<DivergencePoint>& point : pair.divergence.first_of_kind) {
    if (point) {
      CompletePoint(layout, pair, loader, *point);
    }
  }
  if (pair.divergence.first_origin) {
    CompletePoint(layout, pair, loader, *pair.divergence.first_origin);
  }
  return pair;
}

}  // namespace msprobe::analysis::compare::layouts
