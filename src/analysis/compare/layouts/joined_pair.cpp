// The joined pair: all ranks of both sides are read, their calls joined and paired (joined_side.h),
// rows of the whole model made of them, and the two wholes compared as any pair is. Tensors come
// from a loader that assembles pieces. Behind the comparison the pieces tell which ranks a
// difference concerns.
#include "src/analysis/compare/layouts/joined_pair.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <map>
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
#include "src/kernels/convert.h"

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

// What Prepare read, for the Load behind it in the same thread.
struct PreparedTensor {
  const PieceLoader* loader = nullptr;
  const SideRow* row = nullptr;
  std::optional<tensor::TensorBuffer> whole;
};
thread_local std::array<PreparedTensor, 2> prepared_tensors;

std::vector<double> Widened(const TensorView& view) {
  std::vector<double> values(static_cast<size_t>(view.element_count()));
  kernels::WidenToDouble(view.dtype, view.bytes(), values);
  return values;
}

// ||a - b|| / ||b||; infinite where they cannot be compared.
double ErrorOf(const TensorView& a, const TensorView& b) {
  if (a.shape != b.shape || GetDTypeInfo(a.dtype).kind == DTypeKind::kComplex ||
      GetDTypeInfo(b.dtype).kind == DTypeKind::kComplex) {
    return HUGE_VAL;
  }
  const std::vector<double> x = Widened(a);
  const std::vector<double> y = Widened(b);
  double difference = 0;
  double norm = 0;
  for (size_t i = 0; i < x.size(); ++i) {
    difference += (x[i] - y[i]) * (x[i] - y[i]);
    norm += y[i] * y[i];
  }
  return difference == 0 ? 0 : std::sqrt(difference / norm);
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

// The leading part of a tensor.
Result<tensor::TensorBuffer> CutTo(const tensor::TensorBuffer& whole, const Shape& shape) {
  TensorView view = whole.view();
  for (size_t axis = 0; axis < shape.size(); ++axis) {
    if (axis >= view.shape.size() || shape[axis] > view.shape[axis]) {
      return MismatchError("a padded tensor is smaller than what it is padded from");
    }
  }
  view.shape = shape;
  return tensor::MakeContiguous(view, kMostTensorBytes);
}

}  // namespace

void PieceLoader::Prepare(const SideRow& npu, const SideRow& bench) const {
  constexpr double kOther = 1e-3;
  prepared_tensors = {};
  std::array<JoinedRow*, 2> joined = {&rows_[0][static_cast<size_t>(&npu - first_rows_[0])],
                                      &rows_[1][static_cast<size_t>(&bench - first_rows_[1])]};
  const SideRow* const rows[] = {&npu, &bench};
  const bool has_parts = std::any_of(joined.begin(), joined.end(), [](const JoinedRow* row) {
    return std::any_of(
        row->placement.spreads.begin(), row->placement.spreads.end(),
        [](const layout::Spread& spread) { return spread.kind == SpreadKind::kShard; });
  });
  if (!has_parts) {
    return;
  }
  for (size_t side = 0; side < 2; ++side) {
    Result<std::optional<tensor::TensorBuffer>> whole = Load(side == 0, *rows[side]);
    if (!whole.ok()) {
      prepared_tensors = {};
      return;
    }
    prepared_tensors[side] = {this, rows[side], *std::move(whole)};
  }
  double error = ErrorOf(prepared_tensors[0].whole->view(), prepared_tensors[1].whole->view());
  for (size_t side = 0; side < 2 && error > kOther; ++side) {
    JoinedRow& row = *joined[side];
    const std::vector<layout::Placement> others = AlternativesOf(row);
    if (others.empty()) {
      continue;
    }
    // The pieces are read once more, for all alternatives.
    std::vector<tensor::TensorBuffer> pieces;
    for (size_t piece = 0; piece < row.pieces.size(); ++piece) {
      Result<tensor::TensorBuffer> read = ReadPiece(side == 0, row.pieces[piece]);
      if (!read.ok()) {
        return;
      }
      pieces.push_back(*std::move(read));
    }
    const layout::OpenPiece open = [&](size_t piece) -> Result<TensorView> {
      return pieces[piece].view();
    };
    for (const layout::Placement& other : others) {
      Result<tensor::TensorBuffer> whole =
          layout::AssembleWhole(other, open, kMostTensorBytes, row.scale);
      if (whole.ok() && row.cut) {
        whole = CutTo(*whole, *row.cut);
      }
      const double apart = !whole.ok() ? HUGE_VAL
                           : side == 0 ? ErrorOf(whole->view(), prepared_tensors[1].whole->view())
                                       : ErrorOf(prepared_tensors[0].whole->view(), whole->view());
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
        prepared_tensors[side] = {this, rows[side], *std::move(whole)};
        if (error <= kOther) {
          break;
        }
      }
    }
  }
}

Result<tensor::TensorBuffer> PieceLoader::ReadPiece(bool of_npu, const Piece& piece) const {
  const std::vector<JoinedRank>& ranks = of_npu ? pair_.npu : pair_.bench;
  MSP_RETURN_IF_ERROR(dump::CheckDataName(piece.data_name));
  return ReadWholeTensor(ranks[piece.rank].folder.folder / dump::kTensorFolderName /
                         piece.data_name);
}

void PieceLoader::ChooseOrder(const Side& npu, const Side& bench) {
  constexpr size_t kMostRows = 4;
  constexpr double kEqual = 1e-3;
  std::unordered_map<std::string_view, const SideRow*> of_bench;
  for (const SideRow& row : bench.rows) {
    of_bench.emplace(row.name, &row);
  }
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
    for (const SideRow& row : npu.rows) {
      const auto found = of_bench.find(row.name);
      if (found == of_bench.end() || row.data_name == "-1" || found->second->data_name == "-1" ||
          !cuts_twice(of_npu ? row : *found->second) || looked_at == kMostRows) {
        continue;
      }
      JoinedRow& joined =
          rows_[of_npu ? 0 : 1]
               [static_cast<size_t>((of_npu ? &row : found->second) - first_rows_[of_npu ? 0 : 1])];
      std::array<double, 2> errors = {HUGE_VAL, HUGE_VAL};
      for (const bool data_first : {false, true}) {
        joined.placement.data_outside = data_first;
        const auto n = Load(true, row);
        const auto b = Load(false, *found->second);
        if (n.ok() && b.ok()) {
          errors[data_first ? 1 : 0] = ErrorOf((*n)->view(), (*b)->view());
        }
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

Result<std::optional<tensor::TensorBuffer>> PieceLoader::Load(bool of_npu,
                                                              const SideRow& row) const {
  PreparedTensor& prepared = prepared_tensors[of_npu ? 0 : 1];
  if (prepared.loader == this && prepared.row == &row && prepared.whole) {
    return std::exchange(prepared, {}).whole;
  }
  const JoinedRow& joined = RowOf(of_npu, row);
  const std::vector<JoinedRank>& ranks = of_npu ? pair_.npu : pair_.bench;
  std::optional<TensorFile> open_file;
  const layout::OpenPiece open = [&](size_t piece) -> Result<TensorView> {
    const Piece& of = joined.pieces[piece];
    MSP_RETURN_IF_ERROR(dump::CheckDataName(of.data_name));
    MSP_ASSIGN_OR_RETURN(
        open_file, TensorFile::Open(
                       ranks[of.rank].folder.folder / dump::kTensorFolderName / of.data_name, {}));
    MSP_ASSIGN_OR_RETURN(const NamedTensor* tensor, open_file->Single());
    MSP_RETURN_IF_ERROR(tensor->status);
    return tensor->view;
  };
  MSP_ASSIGN_OR_RETURN(
      tensor::TensorBuffer whole,
      layout::AssembleWhole(joined.placement, open, kMostTensorBytes, joined.scale));
  if (joined.cut) {
    MSP_ASSIGN_OR_RETURN(whole, CutTo(whole, *joined.cut));
  }
  return std::optional(std::move(whole));
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

// For each element of the whole the place of the piece that holds it, as a float64 tensor.
Result<tensor::TensorBuffer> OwnersOf(const JoinedRow& joined, const std::vector<Shape>& shapes) {
  tensor::TensorBuffer filled;
  const layout::OpenPiece open = [&](size_t piece) -> Result<TensorView> {
    filled = tensor::TensorBuffer(DType::kFloat64, shapes[piece]);
    const auto number = static_cast<double>(piece);
    const std::span<std::byte> bytes = filled.mutable_bytes();
    for (size_t at = 0; at + sizeof(number) <= bytes.size(); at += sizeof(number)) {
      std::memcpy(bytes.data() + at, &number, sizeof(number));
    }
    return filled.view();
  };
  return layout::AssembleWhole(joined.placement, open, kMostTensorBytes);
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
  const Result<std::optional<tensor::TensorBuffer>> npu = loader.Load(true, row);
  const Result<std::optional<tensor::TensorBuffer>> bench =
      loader.Load(false, pair.bench.rows[rows.bench]);
  if (!npu.ok() || !bench.ok() || (*npu)->view().shape != (*bench)->view().shape) {
    return {};
  }
  std::vector<Shape> shapes;
  for (size_t piece = 0; piece < joined.pieces.size(); ++piece) {
    shapes.push_back(joined.shapes[piece]);
  }
  const Result<tensor::TensorBuffer> owners = OwnersOf(joined, shapes);
  const auto count = static_cast<size_t>((*npu)->view().element_count());
  if (!owners.ok() || static_cast<size_t>(owners->view().element_count()) != count) {
    return {};
  }
  std::vector<double> n(count);
  std::vector<double> b(count);
  kernels::WidenToDouble((*npu)->view().dtype, (*npu)->view().bytes(), n);
  kernels::WidenToDouble((*bench)->view().dtype, (*bench)->view().bytes(), b);
  double largest = 0;
  for (const double value : b) {
    largest = std::isfinite(value) ? std::max(largest, std::fabs(value)) : largest;
  }
  std::vector<bool> differs(joined.pieces.size());
  std::vector<bool> holds(joined.pieces.size());
  const std::span<const std::byte> owner_bytes = owners->view().bytes();
  for (size_t i = 0; i < count; ++i) {
    double owner = 0;
    std::memcpy(&owner, owner_bytes.data() + i * sizeof(owner), sizeof(owner));
    const auto piece = static_cast<size_t>(owner);
    holds[piece] = true;
    differs[piece] = differs[piece] || std::fabs(n[i] - b[i]) > 1e-5 * largest;
  }
  std::set<int64_t> ranks;
  bool all = true;
  for (size_t piece = 0; piece < differs.size(); ++piece) {
    all = all && (differs[piece] || !holds[piece]);
    if (differs[piece]) {
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
  FindMicroBatches(npu, bench);
  JoinCalls(npu, bench);
  PairCalls(npu, bench);
  JoinedRows joined = JoinRows(npu, bench, layout);
  LoadedPair loaded = std::move(joined.loaded);
  PairSource source;
  source.warnings = std::move(joined.warnings);
  source.warnings.insert(source.warnings.end(), notes.begin(), notes.end());
  if (loaded.npu.has_md5 || loaded.bench.has_md5) {
    return UnsupportedError("checksums of parts do not tell that of the whole")
        .WithHint("dump both sides with statistics or tensors to compare other layouts");
  }
  npu = {};
  bench = {};
  PieceLoader loader(layout, loaded.npu, loaded.bench, std::move(joined.rows));
  loader.ChooseOrder(loaded.npu, loaded.bench);
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
