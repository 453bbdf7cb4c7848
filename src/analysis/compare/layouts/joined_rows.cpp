// The rows of the whole model.
//
// 1. The factor of the gradients is found: a loss averaged over a rank's share scales all of them.
// 2. Each row of a call and its partner are decided together: how the pieces of both sides are
//    spread (layout/inference.h), which gives the whole's shape and statistics. Names are those of
//    the reference. Calls that only the layout makes (communication, and what moves data around it)
//    are left out.
// 3. Pieces that should be equal and are not are copies that differ, or summands. Whether these are
//    reduced later the way of the value through its rank tells; they are read behind the reduction.
#include "src/analysis/compare/layouts/joined_rows.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <set>
#include <unordered_map>
#include <utility>

#include <fmt/format.h>

#include "msprobe/dtype.h"

#include "src/analysis/compare/agreement.h"
#include "src/tensor/float_limits.h"

namespace msprobe::analysis::compare::layouts {
namespace {

using layout::Axis;
using layout::kAxisCount;
using layout::Placement;
using layout::SpreadKind;

class PairJoiner {
 public:
  PairJoiner(JoinedSide& npu, JoinedSide& bench, PairLayout& layout)
      : sides_{&npu, &bench},
        layout_(layout),
        gatherer_(sides_),
        calls_(sides_, gatherer_),
        unequal_(sides_, calls_, gatherer_, parameters_),
        name_of_(npu.ranks.size()) {}

  void Run() {
    ListCalls();
    parameters_.Find(pairs_, gatherer_);
    gatherer_.SetParameters(&parameters_);
    factors_ = FindGradientFactors(sides_, pairs_, gatherer_);
    gatherer_.SetFactors(factors_);
    layout_.npu_facts.gradient_factor = factors_.reduced != 1    ? factors_.reduced
                                        : factors_.gradient != 1 ? factors_.gradient
                                        : factors_.summed != 1   ? factors_.summed
                                                                 : factors_.backward;
    unequal_.FindUnreduced(pairs_);
    for (const CallPair& pair : pairs_) {
      EmitPair(pair);
    }
    LeaveOutInnerDifferences(sides_, WrittenPairs());
    Order();
  }

  LoadedPair TakeLoaded() {
    LoadedPair loaded;
    loaded.construct = std::move(construct_);
    loaded.npu = std::move(made_[0]);
    loaded.bench = std::move(made_[1]);
    return loaded;
  }
  std::array<std::vector<JoinedRow>, 2> TakeRows() { return std::move(rows_); }
  std::vector<std::string> TakeWarnings() { return std::move(warnings_); }

 private:
  // ---- what is written, in which order ----

  static constexpr double kBackwardOrder = 1e12;

  bool IsSimple(size_t side) const {
    return sides_[side]->stages == 1 && sides_[side]->micro_batches == 1;
  }

  double OrderOf(size_t side, const DirectedCall& call) const {
    const JoinedSide& joined = *sides_[side];
    const CallMember& first = call.members.front();
    if (IsSimple(side)) {
      return first.entry;
    }
    const bool backward = call.direction == dump::Direction::kBackward;
    const int64_t stage = joined.ranks[first.rank]->about.place.stage;
    const auto place = static_cast<double>(backward ? joined.stages - 1 - call.call->first_stage
                                           : call.call->first_stage != call.call->last_stage
                                               ? call.call->last_stage
                                               : stage);
    return (backward ? kBackwardOrder : 0) + place * 1e9 + first.entry;
  }

  std::optional<DirectedCall> Directed(size_t side, const JoinedCall& call,
                                       dump::Direction direction) const {
    DirectedCall directed;
    directed.call = &call;
    directed.direction = direction;
    for (const CallMember& member : call.members) {
      const LoadedRank& rank = *sides_[side]->ranks[member.rank];
      if (direction == dump::Direction::kForward) {
        directed.members.push_back(member);
        continue;
      }
      const auto found =
          rank.entry_of.find(dump::WithDirection(rank.side.entries[member.entry].name, direction));
      if (found != rank.entry_of.end()) {
        directed.members.push_back(member);
        directed.members.back().entry = found->second;
      }
    }
    return directed.members.empty() ? std::nullopt : std::optional(std::move(directed));
  }

  void AddPair(std::optional<DirectedCall> npu, std::optional<DirectedCall> bench) {
    if (!npu && !bench) {
      return;
    }
    CallPair pair;
    pair.calls = {std::move(npu), std::move(bench)};
    for (size_t side = 0; side < 2; ++side) {
      pair.order[side] = pair.calls[side] ? OrderOf(side, *pair.calls[side]) : -1;
    }
    // A side of several stages or micro-batches follows the order of one that has neither.
    for (size_t side = 0; side < 2; ++side) {
      if (pair.calls[side] && pair.calls[1 - side] && !IsSimple(side) && IsSimple(1 - side)) {
        pair.order[side] = pair.order[1 - side];
      }
    }
    pairs_.push_back(std::move(pair));
  }

  void ListCalls() {
    const auto both = [&](const JoinedCall* npu, const JoinedCall* bench) {
      for (const dump::Direction direction :
           {dump::Direction::kForward, dump::Direction::kBackward}) {
        AddPair(npu != nullptr ? Directed(0, *npu, direction) : std::nullopt,
                bench != nullptr ? Directed(1, *bench, direction) : std::nullopt);
      }
    };
    for (const JoinedCall& call : sides_[0]->calls) {
      if (call.partner != kNoCall) {
        both(&call, &sides_[1]->calls[call.partner]);
      } else if (!calls_.IsOfLayout(call)) {
        both(&call, nullptr);
      }
    }
    for (const JoinedCall& call : sides_[1]->calls) {
      if (call.partner == kNoCall && !calls_.IsOfLayout(call)) {
        both(nullptr, &call);
      }
    }
    OrderUnpaired();
    for (const auto member : {&JoinedSide::gradients, &JoinedSide::reduced, &JoinedSide::others}) {
      ListNamed(member);
    }
  }

  // A call that one side alone made, of a side that follows the other's order, comes behind the
  // call that the same rank made before it.
  void OrderUnpaired() {
    constexpr double kBetween = 1e-4;
    for (size_t side = 0; side < 2; ++side) {
      if (IsSimple(side) || !IsSimple(1 - side)) {
        continue;
      }
      std::map<std::pair<uint32_t, uint32_t>, double> order;  // by rank and entry
      for (const CallPair& pair : pairs_) {
        if (pair.calls[0] && pair.calls[1]) {
          for (const CallMember& member : pair.calls[side]->members) {
            order.emplace(std::pair(member.rank, member.entry), pair.order[side]);
          }
        }
      }
      for (CallPair& pair : pairs_) {
        if (!pair.calls[side] || pair.calls[1 - side]) {
          continue;
        }
        const CallMember& member = pair.calls[side]->members.front();
        auto before = order.upper_bound({member.rank, member.entry});
        if (before != order.begin() && (--before)->first.first == member.rank) {
          pair.order[side] = before->second + kBetween * (member.entry - before->first.second);
        } else {
          pair.order[side] = -1 + kBetween * member.entry;
        }
      }
    }
  }

  void ListNamed(std::unordered_map<std::string, JoinedCall> JoinedSide::*member) {
    const auto directed = [&](const JoinedCall& call) {
      DirectedCall made;
      made.call = &call;
      made.members = call.members;
      made.direction = dump::Direction::kNone;
      made.is_reduced = member == &JoinedSide::reduced;
      made.is_gradient = made.is_reduced || member == &JoinedSide::gradients;
      return made;
    };
    std::map<std::string_view, const JoinedCall*> sorted[2];
    const bool any = !(sides_[0]->*member).empty() || !(sides_[1]->*member).empty();
    for (size_t side = 0; side < 2; ++side) {
      // Where nothing is reduced, an optimizer is given what was computed.
      const auto of_side = any && member == &JoinedSide::reduced && sides_[side]->reduced.empty()
                               ? &JoinedSide::gradients
                               : member;
      for (const auto& [name, call] : sides_[side]->*of_side) {
        sorted[side].emplace(name, &call);
      }
    }
    for (const auto& [name, call] : sorted[0]) {
      const auto other = sorted[1].find(name);
      AddPair(directed(*call),
              other == sorted[1].end() ? std::nullopt : std::optional(directed(*other->second)));
    }
    for (const auto& [name, call] : sorted[1]) {
      if (!sorted[0].contains(name)) {
        AddPair(std::nullopt, directed(*call));
      }
    }
  }

  // ---- writing ----

  std::string NameOf(const CallPair& pair, dump::Direction direction) {
    const size_t side = pair.calls[1] ? 1 : 0;
    const DirectedCall& call = *pair.calls[side];
    const CallMember& first = call.members.front();
    const LoadedRank& rank = *sides_[side]->ranks[first.rank];
    const dump::EntryName& name = rank.names[first.entry];
    const std::string_view full = rank.side.entries[first.entry].name;
    if (name.is_module || name.is_parameters_grad) {
      std::string made = fmt::format("{}.{}{}{}", name.kind, rank.paths[first.entry],
                                     rank.paths[first.entry].empty() ? "" : ".", name.class_name);
      if (call.is_gradient) {
        return made + (call.is_reduced ? ".parameters_grad.reduced" : ".parameters_grad");
      }
      return fmt::format("{}.{}.{}", made,
                         direction == dump::Direction::kBackward ? "backward" : "forward",
                         call.call->number);
    }
    if (direction == dump::Direction::kNone) {
      return std::string(full);
    }
    // Numbers of a simple reference are its own; all others are counted anew.
    if (side == 1 && IsSimple(1)) {
      return std::string(full);
    }
    const auto [known, is_new] = numbers_.emplace(call.call, 0);
    if (is_new) {
      known->second =
          side == 0 && IsSimple(1) ? kFreshNumber + fresh_[ApiOf(name)]++ : fresh_[ApiOf(name)]++;
    }
    return fmt::format("{}.{}.{}.{}", name.kind, name.subject, known->second,
                       direction == dump::Direction::kBackward ? "backward" : "forward");
  }

  static std::string ApiOf(const dump::EntryName& name) {
    return fmt::format("{}.{}", name.kind, name.subject);
  }

  void EmitPair(const CallPair& pair) {
    const dump::Direction direction = (pair.calls[0] ? pair.calls[0] : pair.calls[1])->direction;
    const std::string name = NameOf(pair, direction);
    std::array<NewEntry, 2> made;
    std::unordered_map<std::string_view, NewRow> of_bench;
    for (size_t side = 0; side < 2; ++side) {
      if (!pair.calls[side]) {
        continue;
      }
      if (side == 0) {
        NameMembers(pair.calls[0]->members, name);
      }
      made[side].order = pair.order[side];
      made[side].name = name;
      const DirectedCall& call = *pair.calls[side];
      std::set<std::string_view> known;
      for (const CallMember& member : call.members) {
        const Side& read = sides_[side]->ranks[member.rank]->side;
        const SideEntry& entry = read.entries[member.entry];
        for (uint32_t i = 0; i < entry.row_count; ++i) {
          const SideRow& row = read.rows[entry.first_row + i];
          const std::string_view suffix = SuffixOf(entry, row);
          if (!gatherer_.Counts(side, call, member, row.state) || !known.insert(suffix).second ||
              !IsOfAnyImplementation(*sides_[side], *call.call, call.direction, row, suffix)) {
            continue;
          }
          if (side == 1) {
            if (const auto decided = of_bench.find(suffix); decided != of_bench.end()) {
              made[1].rows.push_back(std::move(decided->second));
              continue;
            }
          }
          RowPieces own = gatherer_.Gather(side, call, suffix, i, row.state);
          if (own.rows.empty()) {
            continue;
          }
          RowPieces other;
          if (side == 0 && pair.calls[1]) {
            other = gatherer_.Gather(1, *pair.calls[1], suffix, i, row.state);
          }
          if (other.rows.empty()) {
            if (pair.calls[1 - side] && sides_[side]->has_other_names) {
              continue;
            }
            const LoadedRank& rank = *sides_[side]->ranks[member.rank];
            // As many parts as the layout asks for; arguments that one side leaves out.
            if (pair.calls[1 - side] && (MovesData(rank.names[member.entry]) || !row.is_tensor)) {
              continue;
            }
            made[side].rows.push_back(MakeAlone(side, own));
          } else {
            auto [n, b] = MakeBoth(pair, own, other);
            made[0].rows.push_back(std::move(n));
            of_bench.emplace(suffix, std::move(b));
          }
        }
        if (IsSame(side, call, member)) {
          break;  // the others have the same rows
        }
      }
    }
    for (size_t side = 0; side < 2; ++side) {
      if (pair.calls[side]) {
        entries_[side].push_back(std::move(made[side]));
      }
    }
  }

  std::vector<WrittenPair> WrittenPairs() {
    std::vector<WrittenPair> written;
    std::array<size_t, 2> next = {0, 0};
    for (const CallPair& pair : pairs_) {
      WrittenPair& made = written.emplace_back(WrittenPair{&pair});
      made.npu = pair.calls[0] ? &entries_[0][next[0]++] : nullptr;
      made.bench = pair.calls[1] ? &entries_[1][next[1]++] : nullptr;
    }
    return written;
  }

  // Every member has as many rows as this one.
  bool IsSame(size_t side, const DirectedCall& call, const CallMember& member) const {
    const uint32_t count = gatherer_.EntryOf(side, member).row_count;
    return call.call->first_stage == call.call->last_stage &&
           std::all_of(call.members.begin(), call.members.end(), [&](const CallMember& other) {
             return gatherer_.EntryOf(side, other).row_count == count;
           });
  }

  NewRow Start(size_t side, const RowPieces& pieces, Placement placement) {
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

  static Placement Unknown(const RowPieces& pieces) {
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
  void FillWhole(size_t side, const RowPieces& pieces, const std::optional<Shape>& shape,
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
      if (kind == StatKind::kInteger && number == std::floor(number) &&
          std::fabs(number) < 0x1p62) {
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

  NewRow MakeAlone(size_t side, const RowPieces& pieces) {
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
      FillWhole(side, pieces, layout::WholeShape(made.joined.placement, pieces.pieces.shapes),
                made);
    }
    return made;
  }

  std::pair<NewRow, NewRow> MakeBoth(const CallPair& pair, RowPieces& npu, RowPieces& bench) {
    if (!npu.rows[0]->is_tensor || !bench.rows[0]->is_tensor) {
      return MakeArguments(pair, npu, bench);
    }
    if (calls_.IsBesideAny(pair) && (!IsFloating(*npu.rows[0]) || calls_.TakesOtherTensors(pair))) {
      return MakeUnknown(npu, bench);
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
  void TakeRoundingOfSummands(const CallPair& pair, SideRow& npu, SideRow& bench) const {
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
  bool IsOfLastBatch(const CallPair& pair) const {
    if (!pair.calls[0]->is_gradient || pair.calls[0]->is_reduced) {
      return false;
    }
    const bool both = sides_[0]->reduced.contains(pair.calls[0]->call->path) &&
                      sides_[1]->reduced.contains(pair.calls[1]->call->path);
    return (sides_[0]->joins_all_batches && both) || sides_[0]->keeps_last_batch ||
           sides_[1]->keeps_last_batch;
  }

  // ---- a gradient is spread as its value is ----

  std::string_view SuffixIn(const RowPieces& npu) const {
    return SuffixOf(gatherer_.EntryOf(0, {npu.ranks[0], 0, npu.entries[0]}), *npu.rows[0]);
  }

  // The backward pass of a call follows its forward pass.
  void KeepForward(const CallPair& pair, const RowPieces& npu, const RowPieces& bench,
                   const layout::Spreads& spreads) {
    if (pair.calls[0]->direction != dump::Direction::kForward || !spreads.fits ||
        spreads.is_padded || spreads.is_doubtful || !IsFloating(*npu.rows[0])) {
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
  void ExpectAsForward(const CallPair& pair, RowPieces& npu, RowPieces& bench) const {
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
          row.placements[0].grid != npu.pieces.grid ||
          row.placements[1].grid != bench.pieces.grid) {
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
  void ScaleOne(RowPieces& npu, const RowPieces& bench) const {
    const std::optional<double>& own = npu.pieces.statistics[0].values[0];
    const std::optional<double>& other = bench.pieces.statistics[0].values[0];
    if (npu.pieces.statistics[0].elements != 1 || bench.pieces.statistics[0].elements != 1 ||
        !own || !other) {
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
  void TakeBlocks(size_t side, const DirectedCall& call, const RowPieces& pieces,
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

  void FinishRow(size_t side, const RowPieces& pieces, NewRow& made) {
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

  // Statistics tell nothing of what is padded: gradients are summed over shares of the data.
  std::pair<NewRow, NewRow> MakePadded(const CallPair& pair, RowPieces& npu, const RowPieces& bench,
                                       layout::Spreads spreads) {
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
    const std::string shape = ShapeText(parameters_.MakePadded(npu, bench, spreads, n, b));
    n.row.shape = made_[0].Intern(shape);
    b.row.shape = made_[1].Intern(shape);
    if (is_summed) {
      unequal_.ScaleGradient(factors_.summed, n, b, npu, pair.calls[0]->call->path);
    }
    if (!n.joined.placement.IsKnown() || !b.joined.placement.IsKnown()) {
      MakeUncomparable(n.row);
      MakeUncomparable(b.row);
    }
    return {std::move(n), std::move(b)};
  }

  std::pair<NewRow, NewRow> MakeUnknown(const RowPieces& npu, const RowPieces& bench) {
    NewRow n = Start(0, npu, Unknown(npu));
    NewRow b = Start(1, bench, Unknown(bench));
    b.row.shape = n.row.shape = made_[0].Intern(n.row.shape);
    MakeUncomparable(n.row);
    MakeUncomparable(b.row);
    return {std::move(n), std::move(b)};
  }

  // Numbers, texts and the like. Sizes and places differ where the layout does.
  std::pair<NewRow, NewRow> MakeArguments(const CallPair& pair, const RowPieces& npu,
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
    const bool is_integer = first.stats[kMax].kind == StatKind::kInteger ||
                            other.stats[kMax].kind == StatKind::kInteger;
    const DirectedCall& call = *pair.calls[0];
    const dump::EntryName& name =
        sides_[0]->ranks[call.members[0].rank]->names[call.members[0].entry];
    if (per_rank || first.is_tensor != other.is_tensor || calls_.IsBesideAny(pair) ||
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
  bool IsOfSizes(const SideRow& a, const SideRow& b) const {
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

  void NameMembers(const std::vector<CallMember>& members, const std::string& name) {
    const auto number = static_cast<uint32_t>(names_.size());
    names_.push_back({name, members.front()});
    for (const CallMember& member : members) {
      std::vector<uint32_t>& of_rank = name_of_[member.rank];
      of_rank.resize(sides_[0]->ranks[member.rank]->side.entries.size(), kNoName);
      if (of_rank[member.entry] == kNoName) {
        of_rank[member.entry] = number;
      }
    }
  }

  // The modules around the calls of the test side, by the names that its calls have here: all
  // members of a call are inside of the same one.
  void NameParents() {
    construct_.emplace();
    for (const auto& [name, member] : names_) {
      const LoadedRank& rank = *sides_[0]->ranks[member.rank];
      if (!rank.construct) {
        continue;
      }
      const std::string_view parent =
          rank.construct->ParentOf(rank.side.entries[member.entry].name);
      const auto entry = rank.entry_of.find(parent);
      const uint32_t known =
          entry == rank.entry_of.end() ? kNoName : name_of_[member.rank][entry->second];
      construct_->AddName(name, known == kNoName ? parent : std::string_view(names_[known].first));
    }
  }

  // Sorts the entries and makes the sides of them.
  void Order() {
    NameParents();
    for (size_t side = 0; side < 2; ++side) {
      std::vector<NewEntry>& entries = entries_[side];
      std::erase_if(entries, [](const NewEntry& entry) { return entry.is_left_out; });
      std::stable_sort(entries.begin(), entries.end(),
                       [](const NewEntry& a, const NewEntry& b) { return a.order < b.order; });
      const Side& first = sides_[side]->ranks[0]->side;
      Side& made = made_[side];
      made.json_path = first.json_path;
      made.tensor_folder = first.tensor_folder;
      made.header = first.header;
      made.framework = first.framework;
      made.has_md5 = first.has_md5;
      for (const auto& rank : sides_[side]->ranks) {
        made.warnings.insert(made.warnings.end(), rank->side.warnings.begin(),
                             rank->side.warnings.end());
      }
      for (NewEntry& entry : entries) {
        const auto number = static_cast<uint32_t>(made.entries.size());
        made.entries.push_back({made.Keep(entry.name), static_cast<uint32_t>(made.rows.size()),
                                static_cast<uint32_t>(entry.rows.size())});
        for (NewRow& row : entry.rows) {
          WriteRow(made, entry.name, number, row.row);
          for (Piece& piece : row.joined.pieces) {
            piece.data_name = piece.data_name == "-1" ? "-1" : made.Keep(piece.data_name);
          }
          rows_[side].push_back(std::move(row.joined));
        }
      }
      entries.clear();
    }
  }

  static void WriteRow(Side& made, const std::string& entry, uint32_t number, const SideRow& row) {
    SideRow& written = made.rows.emplace_back(row);
    written.name = made.Keep(entry + std::string(row.name));
    written.entry = number;
    written.dtype = made.Intern(row.dtype);
    written.shape = made.Intern(row.shape);
    written.type = made.Intern(row.type);
    written.data_name = made.Keep(row.data_name);
    written.md5 = made.Keep(row.md5);
    written.problem = made.Intern(row.problem);
    written.point_to_point = 0;
    const std::optional<dump::RowName> parsed = dump::ParseRowName(written.name);
    written.api_name = parsed ? parsed->api_name : written.name;
    for (StatValue& stat : written.stats) {
      if (stat.kind == StatKind::kText) {
        stat.SetText(made.Keep(stat.text()));
      }
    }
  }

  Sides sides_;
  PairLayout& layout_;
  PieceGatherer gatherer_;
  ParameterFacts parameters_;
  const LayoutCalls calls_;
  UnequalPieces unequal_;
  GradientFactors factors_;
  std::vector<CallPair> pairs_;
  struct ForwardRow {
    std::string_view suffix;
    std::array<Shape, 2> shapes;  // of a piece
    std::array<Placement, 2> placements;
  };
  const JoinedCall* forward_call_ = nullptr;
  std::vector<ForwardRow> forward_;  // of this call
  std::unordered_map<const JoinedCall*, int64_t> numbers_;
  std::unordered_map<std::string, int64_t> fresh_;
  static constexpr uint32_t kNoName = UINT32_MAX;
  std::vector<std::pair<std::string, CallMember>>
      names_;                                   // of the test side, with the first member
  std::vector<std::vector<uint32_t>> name_of_;  // of its entries, by rank
  std::optional<dump::ConstructFile> construct_;
  std::array<std::vector<NewEntry>, 2> entries_;
  std::array<Side, 2> made_;
  std::array<std::vector<JoinedRow>, 2> rows_;
  std::vector<std::string> warnings_;
};

}  // namespace

JoinedRows JoinRows(JoinedSide& npu, JoinedSide& bench, PairLayout& layout) {
  PairJoiner joiner(npu, bench, layout);
  joiner.Run();
  return {joiner.TakeLoaded(), joiner.TakeRows(), joiner.TakeWarnings()};
}

}  // namespace msprobe::analysis::compare::layouts
