// A row of the whole model out of the pieces that ranks have of it, on both sides.
//
// 1. How the pieces of a row and of its partner are spread is decided together
//    (layout/inference.h), with what the forward pass told of the value expected of its gradient.
// 2. Pieces that should be equal and are not are judged (unequal_pieces): summands are read behind
//    their reduction.
// 3. Placement and pieces give shape and statistics of the whole, without padding. Rows that have
// no
//    common placement, or that only describe a layout, keep their text and lose their values.
#include <algorithm>
#include <cmath>
#include <numeric>

#include <fmt/format.h>

#include "msprobe/dtype.h"

#include "src/analysis/compare/agreement.h"
#include "src/analysis/compare/layouts/joined_rows.h"
#include "src/tensor/float_limits.h"

namespace msprobe::analysis::compare::layouts {
namespace {

using layout::Axis;
using layout::kAxisCount;
using layout::Placement;
using layout::SpreadKind;

bool IsUncomparable(const SideRow& row) {
  return row.data_name == "-1" &&
         std::all_of(row.stats.begin(), row.stats.end(),
                     [](const auto& stat) { return stat.kind == StatKind::kNone; });
}

}  // namespace

NewRow RowMaker::Start(size_t side, const RowPieces& pieces, Placement placement) {
  NewRow made;
  made.row = *pieces.rows[0];
  const CallMember member = {pieces.ranks[0], 0, pieces.entries[0]};
  made.row.name = SuffixOf(gatherer_.EntryOf(side, member), *pieces.rows[0]);
  placement.stage = pieces.stage;
  placement.only_rank = pieces.only_rank;
  made.joined.scale = pieces.pieces.scale;
  made.joined.is_swapped = pieces.is_swapped;
  made.joined.placement = std::move(placement);
  made.joined.pieces.reserve(pieces.rows.size());
  for (size_t i = 0; i < pieces.rows.size(); ++i) {
    made.joined.pieces.push_back({pieces.ranks[i], pieces.rows[i]->data_name});
    if (pieces.rows[i]->data_name == "-1") {
      made.row.data_name = "-1";
    }
  }
  if (made.row.data_name != "-1") {
    made.joined.shapes = pieces.pieces.shapes;
  }
  return made;
}

Placement RowMaker::Unknown(const RowPieces& pieces) {
  Placement placement;
  placement.grid = pieces.pieces.grid;
  if (!pieces.is_grid) {
    placement.grid = {static_cast<int64_t>(pieces.rows.size()), 1, 1, 1};
  }
  for (size_t axis = 0; axis < kAxisCount; ++axis) {
    if (placement.grid[axis] > 1) {
      placement.spreads[axis].kind = SpreadKind::kUnknown;
    }
  }
  return placement;
}

// Shape and statistics of the whole.
void RowMaker::FillWhole(size_t side, const RowPieces& pieces, const std::optional<Shape>& shape,
                         NewRow& made) {
  const Placement& placement = made.joined.placement;
  if (shape) {
    made.row.shape = made_[side].Intern(ShapeText(*shape));
  }
  const layout::PieceStatistics whole =
      layout::CombineStatistics(placement, pieces.pieces.statistics);
  const bool is_plain = std::all_of(
      placement.spreads.begin(), placement.spreads.end(),
      [](const layout::Spread& spread) { return spread.kind == SpreadKind::kReplicated; });
  if (is_plain && pieces.pieces.scale == 1) {
    return;  // the first piece's, as they are
  }
  made.row.md5 = "N/A";
  for (size_t stat = 0; stat < kStatCount; ++stat) {
    StatValue& value = made.row.stats[stat];
    const StatKind kind = value.kind;
    value = {};
    if (!whole.values[stat]) {
      continue;
    }
    const double number = *whole.values[stat] * pieces.pieces.scale;
    if (kind == StatKind::kInteger && number == std::floor(number) && std::fabs(number) < 0x1p62) {
      value.SetInteger(static_cast<int64_t>(number));
    } else if (kind == StatKind::kBool) {
      value.kind = kind;
      value.boolean = number != 0;
    } else {
      value.kind = StatKind::kNumber;
      value.number = number;
    }
  }
}

NewRow RowMaker::MakeAlone(size_t side, const RowPieces& pieces) {
  const bool known = pieces.is_grid && pieces.has_shapes && pieces.rows[0]->is_tensor;
  NewRow made = Start(side, pieces,
                      known                       ? layout::InferAlone(pieces.pieces)
                      : pieces.rows[0]->is_tensor ? Unknown(pieces)
                                                  : Placement());
  if (!made.joined.placement.IsKnown()) {
    MakeUncomparable(made.row);
    return made;
  }
  if (known) {
    FillWhole(side, pieces, layout::WholeShape(made.joined.placement, pieces.pieces.shapes), made);
  }
  return made;
}

std::pair<NewRow, NewRow> RowMaker::MakeBoth(const CallPair& pair, RowPieces& npu,
                                             RowPieces& bench) {
  std::pair<NewRow, NewRow> made = MakeTensors(pair, npu, bench);
  has_unknown_input_ = has_unknown_input_ || (IsInput(made.first.row) && made.first.row.is_tensor &&
                                              IsUncomparable(made.first.row));
  return made;
}

std::pair<NewRow, NewRow> RowMaker::MakeTensors(const CallPair& pair, RowPieces& npu,
                                                RowPieces& bench) {
  if (!npu.rows[0]->is_tensor || !bench.rows[0]->is_tensor) {
    return MakeArguments(pair, npu, bench);
  }
  if (calls_.IsBesideAny(pair) && (!IsFloating(*npu.rows[0]) || calls_.TakesOtherTensors(pair))) {
    return MakeUnknown(npu, bench);
  }
  if (!IsFloating(*npu.rows[0]) && !pair.calls[0]->call->is_module) {
    // A choice made of values that cannot be compared (any, nonzero), and what takes it.
    const std::pair value(pair.calls[0]->call->bucket, ValueUses::FingerprintOf(*npu.rows[0]));
    if (has_unknown_input_ || (IsInput(*npu.rows[0]) && unknown_choices_.contains(value))) {
      unknown_choices_.insert(value);
      return MakeUnknown(npu, bench);
    }
  }
  if (!npu.is_grid || !bench.is_grid || !npu.has_shapes || !bench.has_shapes ||
      IsOfLastBatch(pair) ||
      // Parts of samples on both sides, or sums over them: nothing is whole.
      (sides_[0]->joins_all_batches && npu.rows[0]->state != dump::RowState::kParameters &&
       !pair.calls[0]->is_gradient && npu.pieces.shapes[0].size() == 1)) {
    return MakeUnknown(npu, bench);
  }
  ExpectAsForward(pair, npu, bench);
  layout::Spreads spreads = layout::InferSpreads(npu.pieces, bench.pieces);
  KeepForward(pair, npu, bench, spreads);
  const CallMember& first = pair.calls[0]->members.front();
  if (!spreads.fits || calls_.IsOfParts(pair, npu, bench) ||
      (spreads.is_padded && !parameters_.MayBePadded(npu, bench, spreads)) ||
      (spreads.is_doubtful && MovesData(sides_[0]->ranks[first.rank]->names[first.entry]))) {
    return MakeUnknown(npu, bench);
  }
  if (pair.calls[0]->direction == dump::Direction::kBackward) {
    ScaleOne(npu, bench);
  }
  TakeBlocks(0, *pair.calls[0], npu, spreads.npu);
  TakeBlocks(1, *pair.calls[1], bench, spreads.bench);
  if (spreads.is_padded) {
    return MakePadded(pair, npu, bench, std::move(spreads));
  }
  NewRow n = Start(0, npu, spreads.npu);
  NewRow b = Start(1, bench, spreads.bench);
  n.joined.is_communicated = IsInput(n.row) && calls_.IsBehindCommunication(pair);
  unequal_.Judge(0, *pair.calls[0], npu, bench, b.joined.placement, n);
  unequal_.Judge(1, *pair.calls[1], bench, npu, n.joined.placement, b);
  if (pair.calls[0]->is_gradient && !pair.calls[0]->is_reduced) {
    unequal_.ScaleGradient(factors_.summed, n, b, npu, pair.calls[0]->call->path);
  }
  const RowPieces* const sides[] = {&npu, &bench};
  NewRow* const rows[] = {&n, &b};
  if (calls_.MayBeReordered(pair, n.row)) {
    n.row.data_name = b.row.data_name = "-1";
  }
  NotePieces(*sides_[0], npu, bench, b.joined.placement, n);
  for (size_t side = 0; side < 2; ++side) {
    FinishRow(side, *sides[side], *rows[side]);
  }
  if (pair.calls[0]->is_reduced) {
    TakeRoundingOfSummands(pair, n.row, b.row);
  }
  if (!IsFloating(n.row)) {
    // Whole numbers are exact, but sums over parts of them are rounded otherwise.
    for (const Stat stat : {kMean, kNorm}) {
      StatValue& own = n.row.stats[stat];
      const StatValue& other = b.row.stats[stat];
      if (own.is_numeric() && other.is_numeric() &&
          std::fabs(own.number - other.number) <= 1e-6 * std::fabs(other.number)) {
        own = other;
      }
    }
  }
  if (!n.joined.placement.IsKnown() || !b.joined.placement.IsKnown()) {
    MakeUncomparable(n.row);
    MakeUncomparable(b.row);
    n.row.shape = made_[0].Intern(b.row.shape);  // another shape would be a difference
  }
  return {std::move(n), std::move(b)};
}

// Each rank rounds its share of a gradient to the dtype of its backward pass, in whatever the
// shares are then summed and kept. Other layouts have other shares.
void RowMaker::TakeRoundingOfSummands(const CallPair& pair, SideRow& npu, SideRow& bench) const {
  const auto unit_of = [](std::string_view text) {
    const std::optional<DType> dtype = ParseDType(text);
    return std::pair(dtype ? tensor::FormatOf(*dtype).unit : 0, dtype.value_or(DType::kFloat64));
  };
  auto coarsest = std::max(unit_of(npu.dtype), unit_of(bench.dtype));
  bool found = false;
  for (size_t side = 0; side < 2; ++side) {
    const CallMember& member = pair.calls[side]->members.front();
    const LoadedRank& rank = *sides_[side]->ranks[member.rank];
    const std::string_view name = rank.side.entries[member.entry].name;
    const std::string backward =
        fmt::format("{}.backward.0", name.substr(0, name.find(".parameters_grad")));
    const auto entry = rank.entry_of.find(backward);
    if (entry == rank.entry_of.end()) {
      continue;
    }
    const SideEntry& rows = rank.side.entries[entry->second];
    for (uint32_t i = rows.first_row; i < rows.first_row + rows.row_count; ++i) {
      const SideRow& row = rank.side.rows[i];
      if (row.is_tensor && IsInput(row) && unit_of(row.dtype).first > coarsest.first) {
        coarsest = unit_of(row.dtype);
        found = true;
      }
    }
  }
  if (found) {
    npu.rounded_to = bench.rounded_to = coarsest.second;
  }
}

// A gradient may be that of the last micro-batch alone, where it is added up elsewhere. What the
// optimizer is given is complete.
bool RowMaker::IsOfLastBatch(const CallPair& pair) const {
  if (!pair.calls[0]->is_gradient || pair.calls[0]->is_reduced) {
    return false;
  }
  const bool both = sides_[0]->reduced.contains(pair.calls[0]->call->path) &&
                    sides_[1]->reduced.contains(pair.calls[1]->call->path);
  return (sides_[0]->joins_all_batches && both) || sides_[0]->keeps_last_batch ||
         sides_[1]->keeps_last_batch;
}

// ---- a gradient is spread as its value is ----

std::string_view RowMaker::SuffixIn(const RowPieces& npu) const {
  return SuffixOf(gatherer_.EntryOf(0, {npu.ranks[0], 0, npu.entries[0]}), *npu.rows[0]);
}

// The backward pass of a call follows its forward pass.
void RowMaker::KeepForward(const CallPair& pair, const RowPieces& npu, const RowPieces& bench,
                           const layout::Spreads& spreads) {
  if (pair.calls[0]->direction != dump::Direction::kForward || !spreads.fits || spreads.is_padded ||
      spreads.is_doubtful || !IsFloating(*npu.rows[0])) {
    return;
  }
  if (forward_call_ != pair.calls[0]->call) {
    forward_call_ = pair.calls[0]->call;
    forward_.clear();
  }
  forward_.push_back({SuffixIn(npu),
                      {npu.pieces.shapes[0], bench.pieces.shapes[0]},
                      {spreads.npu, spreads.bench}});
}

// What the forward pass told of the output is expected of the gradient that comes in, and of the
// input of the one that goes out; whether copies of them are summands is another question.
void RowMaker::ExpectAsForward(const CallPair& pair, RowPieces& npu, RowPieces& bench) const {
  constexpr std::string_view kIn = ".input.";
  constexpr std::string_view kOut = ".output.";
  if (pair.calls[0]->direction != dump::Direction::kBackward ||
      forward_call_ != pair.calls[0]->call) {
    return;
  }
  const std::string_view suffix = SuffixIn(npu);
  const bool comes_in = suffix.starts_with(kIn);
  const std::string_view wanted = comes_in ? kOut : kIn;
  const std::string_view place =
      suffix.substr(std::min(suffix.size(), comes_in ? kIn.size() : kOut.size()));
  for (const ForwardRow& row : forward_) {
    if (!row.suffix.starts_with(wanted) || row.suffix.substr(wanted.size()) != place ||
        row.shapes[0] != npu.pieces.shapes[0] || row.shapes[1] != bench.pieces.shapes[0] ||
        row.placements[0].grid != npu.pieces.grid || row.placements[1].grid != bench.pieces.grid) {
      continue;
    }
    for (size_t side = 0; side < 2; ++side) {
      layout::Pieces& pieces = (side == 0 ? npu : bench).pieces;
      for (size_t axis = 0; axis < kAxisCount; ++axis) {
        const layout::Spread& spread = row.placements[side].spreads[axis];
        if (spread.kind == SpreadKind::kShard) {
          pieces.expected[axis] = spread;
        } else if (spread.kind != SpreadKind::kUnknown) {
          pieces.expected[axis] = layout::Spread();
        }
      }
    }
  }
}

// The gradient of a loss is a number that the way of averaging decides: 1, or 1 over the number
// of micro-batches. It is scaled by whatever such factor makes it the other side's.
void RowMaker::ScaleOne(RowPieces& npu, const RowPieces& bench) const {
  const std::optional<double>& own = npu.pieces.statistics[0].values[0];
  const std::optional<double>& other = bench.pieces.statistics[0].values[0];
  if (npu.pieces.statistics[0].elements != 1 || bench.pieces.statistics[0].elements != 1 || !own ||
      !other) {
    return;
  }
  const double as_it_is = npu.pieces.scale;
  for (const double factor : factors_.possible) {
    if (std::fabs(*own - *other * factor) <= 1e-5 * std::fabs(*own)) {
      npu.pieces.scale = 1 / factor;
      return;
    }
  }
  npu.pieces.scale = as_it_is;
}

// The outputs of a fused projection have its blocks: those that are as large as the recorded
// dimension of the weight.
void RowMaker::TakeBlocks(size_t side, const DirectedCall& call, const RowPieces& pieces,
                          Placement& placement) const {
  layout::Spread& spread = placement.spreads[static_cast<size_t>(Axis::kTensor)];
  if (spread.kind != SpreadKind::kShard || spread.order != layout::PartOrder::kContiguous) {
    return;
  }
  const CallMember& member = call.members.front();
  const LoadedRank& rank = *sides_[side]->ranks[member.rank];
  if (!rank.about.record) {
    return;
  }
  std::string_view path = rank.names[member.entry].subject;
  if (!rank.names[member.entry].is_module) {
    const std::string forward =
        dump::WithDirection(rank.side.entries[member.entry].name, dump::Direction::kForward);
    path = rank.construct ? dump::ParseEntryName(rank.construct->ParentOf(forward)).subject
                          : std::string_view();
  }
  const layout::ParameterRecord* const record =
      path.empty() ? nullptr : rank.about.record->Find(fmt::format("{}.weight", path));
  const auto dimension = static_cast<size_t>(spread.dimension);
  if (record == nullptr || record->kind != layout::ParameterKind::kShard ||
      (record->blocks.size() < 2 && record->stride < 2)) {
    return;
  }
  const int64_t size =
      pieces.pieces.shapes[0][dimension] * placement.grid[static_cast<size_t>(Axis::kTensor)];
  const auto recorded = static_cast<size_t>(record->dimension);
  if (recorded >= record->global_shape.size() || record->global_shape[recorded] != size) {
    return;
  }
  const layout::Spread before = spread;
  spread.order = layout::PartOrder::kBlocks;
  spread.blocks =
      record->blocks.size() > 1 ? static_cast<int64_t>(record->blocks.size()) : record->stride;
  spread.block_sizes = record->blocks;
  if (!layout::WholeShape(placement, pieces.pieces.shapes)) {
    spread = before;
  }
}

void RowMaker::FinishRow(size_t side, const RowPieces& pieces, NewRow& made) {
  const Placement shown = made.joined.placement;
  if (!shown.IsKnown()) {
    MakeUncomparable(made.row);
    return;
  }
  if (const auto found = unequal_.Reduced(side, pieces, shown)) {
    const auto& [reduced, placement] = *found;
    const std::optional<Shape> whole = layout::WholeShape(placement, reduced.pieces.shapes);
    if (whole && *whole == layout::WholeShape(shown, pieces.pieces.shapes)) {
      const std::string_view name = made.row.name;
      const dump::RowState state = made.row.state;
      made.row = *reduced.rows[0];
      made.row.name = name;
      made.row.state = state;
      made.joined.pieces.clear();
      for (size_t i = 0; i < reduced.rows.size(); ++i) {
        made.joined.pieces.push_back({reduced.ranks[i], reduced.rows[i]->data_name});
      }
      made.joined.shapes = reduced.pieces.shapes;
      made.joined.placement = placement;
      FillWhole(side, reduced, whole, made);
      made.joined.shown = shown;
      return;
    }
  }
  FillWhole(side, pieces, layout::WholeShape(shown, pieces.pieces.shapes), made);
}

// Nothing looks padding up, and a loss leaves it out: its gradient is zero, so that Norm is that
// of the real part, and the mean is one over more elements.
void RowMaker::FillPaddedGradient(const RowPieces& npu, const RowPieces& bench, const Shape& real,
                                  NewRow& n, NewRow& b) {
  NewRow* const rows[] = {&n, &b};
  for (size_t side = 0; side < 2; ++side) {
    const RowPieces& pieces = side == 0 ? npu : bench;
    SideRow& row = rows[side]->row;
    row.stats = pieces.rows[0]->stats;
    const std::optional<Shape> whole =
        layout::WholeShape(rows[side]->joined.placement, pieces.pieces.shapes);
    FillWhole(side, pieces, whole, *rows[side]);
    if (row.stats[kMean].is_numeric() && whole && msprobe::ElementCount(real) > 0) {
      row.stats[kMean].number *= static_cast<double>(msprobe::ElementCount(*whole)) /
                                 static_cast<double>(msprobe::ElementCount(real));
    }
  }
  // Zeros beside values of one sign are an extreme that only the padded side has.
  for (const Stat stat : {kMax, kMin}) {
    StatValue& own = n.row.stats[stat];
    StatValue& other = b.row.stats[stat];
    if (own.is_numeric() && other.is_numeric() && (own.number == 0) != (other.number == 0)) {
      own = other = {};
    }
  }
}

// Padding only adds to the extremes and Norm: where the side that is padded has a smaller one
// nevertheless, both sides differ, whatever the padding is. Sizes with a common divisor may be
// padded on both sides.
void RowMaker::FillSmallerPadded(const RowPieces& npu, const RowPieces& bench, NewRow& n,
                                 NewRow& b) {
  if (n.joined.placement.padded_to.has_value() == b.joined.placement.padded_to.has_value() ||
      std::gcd(n.joined.padding->larger, n.joined.padding->smaller) != 1) {
    return;
  }
  const bool by_npu = n.joined.placement.padded_to.has_value();
  const layout::PieceStatistics of_npu =
      layout::CombineStatistics(n.joined.placement, npu.pieces.statistics);
  const layout::PieceStatistics of_bench =
      layout::CombineStatistics(b.joined.placement, bench.pieces.statistics);
  const layout::PieceStatistics& padded = by_npu ? of_npu : of_bench;
  const layout::PieceStatistics& other = by_npu ? of_bench : of_npu;
  for (const Stat stat : {kMax, kMin, kNorm}) {
    if (!padded.values[stat] || !other.values[stat]) {
      return;
    }
  }
  const double rounding = n.row.state == dump::RowState::kParameters ? 1e-5 : 2.5e-4;
  const double slack = 4 * std::max({npu.pieces.unit, bench.pieces.unit, rounding});
  const double largest = std::max(std::fabs(*other.values[kMax]), std::fabs(*other.values[kMin]));
  if (*padded.values[kNorm] >= (1 - slack) * *other.values[kNorm] &&
      *padded.values[kMax] >= *other.values[kMax] - slack * largest &&
      *padded.values[kMin] <= *other.values[kMin] + slack * largest) {
    return;
  }
  NewRow* const rows[] = {&n, &b};
  for (size_t side = 0; side < 2; ++side) {
    const RowPieces& pieces = side == 0 ? npu : bench;
    rows[side]->row.stats = pieces.rows[0]->stats;
    FillWhole(side, pieces, std::nullopt, *rows[side]);
  }
  NotePieces(*sides_[0], npu, bench, b.joined.placement, n);
}

// Statistics tell nothing of what is padded: gradients are summed over shares of the data.
std::pair<NewRow, NewRow> RowMaker::MakePadded(const CallPair& pair, RowPieces& npu,
                                               const RowPieces& bench, layout::Spreads spreads) {
  const bool is_summed = pair.calls[0]->is_gradient && !pair.calls[0]->is_reduced;
  for (size_t side = 0; side < 2 && is_summed; ++side) {
    for (size_t axis = 0; axis + 1 < kAxisCount; ++axis) {
      layout::Spread& spread = (side == 0 ? spreads.npu : spreads.bench).spreads[axis];
      if (spread.kind != SpreadKind::kShard &&
          !(side == 0 ? npu : bench).pieces.AreEqualAlong(static_cast<Axis>(axis))) {
        spread = {};
        spread.kind = SpreadKind::kPartial;
      }
    }
  }
  if (!spreads.npu.IsKnown() || !spreads.bench.IsKnown()) {
    return MakeUnknown(npu, bench);
  }
  NewRow n = Start(0, npu, spreads.npu);
  NewRow b = Start(1, bench, spreads.bench);
  const Shape real = parameters_.MakePadded(npu, bench, spreads, n, b);
  if (is_summed) {
    unequal_.ScaleGradient(factors_.summed, n, b, npu, pair.calls[0]->call->path);
  }
  if ((pair.calls[0]->is_gradient || pair.calls[0]->direction == dump::Direction::kBackward) &&
      n.row.data_name == "-1") {
    FillPaddedGradient(npu, bench, real, n, b);
  }
  if (!pair.calls[0]->is_gradient && pair.calls[0]->direction == dump::Direction::kForward &&
      n.row.data_name == "-1") {
    FillSmallerPadded(npu, bench, n, b);
  }
  n.row.shape = made_[0].Intern(ShapeText(real));
  b.row.shape = made_[1].Intern(ShapeText(real));
  if (!n.joined.placement.IsKnown() || !b.joined.placement.IsKnown()) {
    MakeUncomparable(n.row);
    MakeUncomparable(b.row);
  }
  return {std::move(n), std::move(b)};
}

std::pair<NewRow, NewRow> RowMaker::MakeUnknown(const RowPieces& npu, const RowPieces& bench) {
  NewRow n = Start(0, npu, Unknown(npu));
  NewRow b = Start(1, bench, Unknown(bench));
  b.row.shape = n.row.shape = made_[0].Intern(n.row.shape);
  MakeUncomparable(n.row);
  MakeUncomparable(b.row);
  return {std::move(n), std::move(b)};
}

// Numbers, texts and the like. Sizes and places differ where the layout does.
std::pair<NewRow, NewRow> RowMaker::MakeArguments(const CallPair& pair, const RowPieces& npu,
                                                  const RowPieces& bench) {
  NewRow n = Start(0, npu, Placement());
  NewRow b = Start(1, bench, Placement());
  const SideRow& first = *npu.rows[0];
  const SideRow& other = *bench.rows[0];
  const auto differ = [](const SideRow& x, const SideRow& y) {
    return x.stats[kMax].kind != y.stats[kMax].kind ||
           (x.stats[kMax].is_numeric() && x.stats[kMax].number != y.stats[kMax].number) ||
           (x.stats[kMax].kind == StatKind::kBool &&
            x.stats[kMax].boolean != y.stats[kMax].boolean);
  };
  bool per_rank = false;
  for (const RowPieces* side : {&npu, &bench}) {
    for (const SideRow* row : side->rows) {
      per_rank = per_rank || differ(*row, *side->rows[0]);
    }
  }
  const bool is_integer =
      first.stats[kMax].kind == StatKind::kInteger || other.stats[kMax].kind == StatKind::kInteger;
  const DirectedCall& call = *pair.calls[0];
  const dump::EntryName& name =
      sides_[0]->ranks[call.members[0].rank]->names[call.members[0].entry];
  if (per_rank || (has_unknown_input_ && !IsInput(first)) || first.is_tensor != other.is_tensor ||
      calls_.IsBesideAny(pair) ||
      (differ(first, other) && is_integer &&
       (MovesData(name) || IsOfSizes(first, other) || name.subject == "arange" ||
        name.subject == "full" || name.subject == "zeros" || name.subject == "ones"))) {
    for (NewRow* row : {&n, &b}) {
      MakeUncomparable(row->row);
      row->row.shape = "[]";
    }
    b.row.dtype = n.row.dtype;
    b.row.is_tensor = n.row.is_tensor = false;
    b.row.type = n.row.type;
  }
  return {std::move(n), std::move(b)};
}

// One number is the other times the size of a group: sizes of parts.
bool RowMaker::IsOfSizes(const SideRow& a, const SideRow& b) const {
  const double x = a.stats[kMax].number;
  const double y = b.stats[kMax].number;
  if (!a.stats[kMax].is_numeric() || !b.stats[kMax].is_numeric() || x == 0 || y == 0) {
    return false;
  }
  const double ratio = std::max(x / y, y / x);
  size_t ranks = 1;
  for (const JoinedSide* side : sides_) {
    ranks = std::max(ranks, side->ranks.size() * static_cast<size_t>(side->micro_batches));
  }
  return ratio == std::floor(ratio) && ratio <= static_cast<double>(ranks);
}

}  // namespace msprobe::analysis::compare::layouts
