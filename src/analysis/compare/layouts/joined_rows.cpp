// The rows of the whole model.
//
// 1. The factor of the gradients is found: a loss averaged over a rank's share scales all of them.
// 2. Each row of a call and its partner are decided together: how the pieces of both sides are
//    spread (layout/inference.h), which gives the whole's shape and statistics. Names are those of
//    the reference. Calls that only the layout makes (communication, and what moves data around it)
//    are left out.
// 3. Pieces that should be equal and are not are copies that differ, or summands. Whether these are
//    reduced later the way of the value through its rank tells; they are read behind the reduction.
#include <algorithm>
#include <charconv>
#include <cmath>
#include <functional>
#include <map>
#include <set>
#include <unordered_map>
#include <unordered_set>
#include <utility>

#include <fmt/format.h>

#include "src/analysis/compare/agreement.h"
#include "src/analysis/compare/layouts/joined_pair.h"
#include "src/analysis/compare/layouts/joined_side.h"
#include "src/base/strings.h"
#include "src/dump/call_facts.h"
#include "src/layout/inference.h"

namespace msprobe::analysis::compare::layouts {
namespace {

using layout::Axis;
using layout::kAxisCount;
using layout::Placement;
using layout::SpreadKind;

constexpr uint32_t kNone = UINT32_MAX;
constexpr double kFactorDigits = 1e-2;  // a factor of gradients is found up to this
constexpr double kFactorShare = 0.75;   // of the rows, at least
constexpr size_t kFactorRows = 400;     // that are looked at

// "[2, 3]" -> {2, 3}; nullopt for anything else.
std::optional<Shape> ParseShape(std::string_view text) {
  if (text.size() < 2 || text.front() != '[' || text.back() != ']') {
    return std::nullopt;
  }
  Shape shape;
  const char* at = text.data() + 1;
  const char* const end = text.data() + text.size() - 1;
  while (at < end) {
    int64_t size = 0;
    const auto [next, error] = std::from_chars(at, end, size);
    if (error != std::errc() || size < 0) {
      return std::nullopt;
    }
    shape.push_back(size);
    at = next;
    while (at < end && (*at == ',' || *at == ' ')) {
      ++at;
    }
  }
  return shape;
}

// What follows the name of the entry: ".input.0". A file may name a row otherwise.
std::string_view SuffixOf(const SideEntry& entry, const SideRow& row) {
  return row.name.starts_with(entry.name) ? row.name.substr(entry.name.size()) : row.name;
}

// A row of a call: the rows of its members, in the order of the grid.
struct RowPieces {
  layout::Pieces pieces;
  std::vector<const SideRow*> rows;
  std::vector<uint32_t> ranks;  // by row: place among the loaded ranks
  std::vector<uint32_t> entries;
  bool is_grid = false;
  bool has_shapes = false;
  std::optional<int64_t> stage;
  std::optional<int64_t> only_rank;
};

// One direction of a joined call.
struct DirectedCall {
  const JoinedCall* call = nullptr;
  std::vector<CallMember> members;  // with the entries of this direction
  dump::Direction direction = dump::Direction::kForward;
  bool is_gradient = false;  // parameters_grad
  bool is_reduced = false;   // and as the optimizer is given it
};

layout::PieceStatistics StatisticsOf(const SideRow& row, const std::optional<Shape>& shape) {
  layout::PieceStatistics statistics;
  for (size_t stat = 0; stat < kStatCount; ++stat) {
    const StatValue& value = row.stats[stat];
    if (value.is_numeric()) {
      statistics.values[stat] = value.number;
    } else if (value.kind == StatKind::kBool) {
      statistics.values[stat] = value.boolean ? 1 : 0;
    }
  }
  statistics.elements = shape ? static_cast<double>(msprobe::ElementCount(*shape)) : 1;
  return statistics;
}

bool IsFloating(const SideRow& row) {
  return row.dtype.find("loat") != std::string_view::npos ||
         row.dtype.find("complex") != std::string_view::npos;
}

class PairJoiner {
 public:
  PairJoiner(JoinedSide& npu, JoinedSide& bench, PairLayout& layout)
      : sides_{&npu, &bench}, layout_(layout), uses_{ValueUses(npu), ValueUses(bench)} {}

  void Run() {
    ListCalls();
    FindGradientFactor();
    for (const Pair& pair : pairs_) {
      EmitPair(pair);
    }
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
  // Calls that are written: either side may be missing.
  struct Pair {
    std::array<std::optional<DirectedCall>, 2> calls;
    std::array<double, 2> order = {0, 0};
  };

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
        directed.members.push_back({member.rank, member.micro_batch, found->second});
      }
    }
    return directed.members.empty() ? std::nullopt : std::optional(std::move(directed));
  }

  void AddPair(std::optional<DirectedCall> npu, std::optional<DirectedCall> bench) {
    if (!npu && !bench) {
      return;
    }
    Pair pair;
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
    for (size_t side = 0; side < 2; ++side) {
      MarkLayoutCalls(side);
    }
    const auto both = [&](const JoinedCall* npu, const JoinedCall* bench) {
      for (const dump::Direction direction :
           {dump::Direction::kForward, dump::Direction::kBackward}) {
        AddPair(npu != nullptr ? Directed(0, *npu, direction) : std::nullopt,
                bench != nullptr ? Directed(1, *bench, direction) : std::nullopt);
      }
    };
    for (const JoinedCall& call : sides_[0]->calls) {
      if (call.partner != kNone) {
        both(&call, &sides_[1]->calls[call.partner]);
      } else if (!IsOfLayout(call)) {
        both(&call, nullptr);
      }
    }
    for (const JoinedCall& call : sides_[1]->calls) {
      if (call.partner == kNone && !IsOfLayout(call)) {
        both(nullptr, &call);
      }
    }
    for (const auto member : {&JoinedSide::gradients, &JoinedSide::reduced, &JoinedSide::others}) {
      ListNamed(member);
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

  // Calls that only the layout makes: communication, moves of data, and unpaired calls next to
  // communication.
  void MarkLayoutCalls(size_t side) {
    const JoinedSide& joined = *sides_[side];
    for (const Bucket& bucket : joined.buckets) {
      // All that a parallel layer does around its communication.
      const auto communicates_alone = [](const JoinedSide& of, const Bucket& calls) {
        return std::any_of(calls.calls.begin(), calls.calls.end(), [&](uint32_t i) {
          return of.calls[i].partner == kNone && of.calls[i].is_communication;
        });
      };
      const JoinedSide& opposite = *sides_[1 - side];
      const auto same = opposite.bucket_of.find(bucket.key);
      const bool around =
          !bucket.key.empty() && (communicates_alone(joined, bucket) ||
                                  (same != opposite.bucket_of.end() &&
                                   communicates_alone(opposite, opposite.buckets[same->second])));
      size_t first = 0;
      while (first < bucket.calls.size()) {
        if (joined.calls[bucket.calls[first]].partner != kNone) {
          ++first;
          continue;
        }
        size_t end = first;
        bool communicates = around;
        for (; end < bucket.calls.size() && joined.calls[bucket.calls[end]].partner == kNone;
             ++end) {
          communicates = communicates || joined.calls[bucket.calls[end]].is_communication;
        }
        for (; first < end; ++first) {
          const JoinedCall& call = joined.calls[bucket.calls[first]];
          const LoadedRank& rank = *joined.ranks[call.members[0].rank];
          const dump::EntryName& name = rank.names[call.members[0].entry];
          if (communicates || call.is_communication || MovesData(name) ||
              (call.is_module && !HasParameters(joined, call.path))) {
            of_layout_.insert(&call);
          }
        }
      }
    }
  }

  // Whether a module, or one below it, has parameters: what has none and is on one side alone moves
  // values of a parallel layer.
  static bool HasParameters(const JoinedSide& side, const std::string& path) {
    return std::any_of(side.gradients.begin(), side.gradients.end(), [&](const auto& known) {
      return known.first == path || known.first.starts_with(path + ".");
    });
  }

  bool IsOfLayout(const JoinedCall& call) const { return of_layout_.contains(&call); }

  // ---- rows ----

  const SideEntry& EntryOf(size_t side, const CallMember& member) const {
    return sides_[side]->ranks[member.rank]->side.entries[member.entry];
  }

  const SideRow* RowAt(size_t side, const CallMember& member, std::string_view suffix,
                       uint32_t place) const {
    const Side& read = sides_[side]->ranks[member.rank]->side;
    const SideEntry& entry = read.entries[member.entry];
    const auto is_row = [&](uint32_t i) {
      return SuffixOf(entry, read.rows[entry.first_row + i]) == suffix;
    };
    if (place < entry.row_count && is_row(place)) {
      return &read.rows[entry.first_row + place];
    }
    for (uint32_t i = 0; i < entry.row_count; ++i) {
      if (is_row(i)) {
        return &read.rows[entry.first_row + i];
      }
    }
    return nullptr;
  }

  // The members whose row counts: of a module around several stages the inputs of the first one,
  // and the results of the last.
  bool Counts(size_t side, const DirectedCall& call, const CallMember& member,
              dump::RowState state) const {
    if (call.call->first_stage == call.call->last_stage) {
      return true;
    }
    const int64_t stage = sides_[side]->ranks[member.rank]->about.place.stage;
    const bool enters = state == dump::RowState::kInput || state == dump::RowState::kKwargs;
    const bool of_last = enters == (call.direction == dump::Direction::kBackward);
    return state == dump::RowState::kParameters || state == dump::RowState::kParametersGrad ||
           stage == (of_last ? call.call->last_stage : call.call->first_stage);
  }

  // The pieces of a row; `place`: where the row stands in the first member.
  RowPieces Gather(size_t side, const DirectedCall& call, std::string_view suffix, uint32_t place,
                   dump::RowState state) {
    const JoinedSide& joined = *sides_[side];
    struct Found {
      std::array<int64_t, kAxisCount> at;
      const SideRow* row;
      CallMember member;
    };
    std::vector<Found> found;
    std::array<std::set<int64_t>, kAxisCount> values;
    std::set<int64_t> stages;
    for (const CallMember& member : call.members) {
      if (!Counts(side, call, member, state) ||
          (state == dump::RowState::kParameters && member.micro_batch > 0)) {
        continue;
      }
      const SideRow* const row = RowAt(side, member, suffix, place);
      if (row == nullptr) {
        continue;
      }
      const RankPlace& at = joined.ranks[member.rank]->about.place;
      found.push_back({{member.micro_batch, at.data, at.context, at.tensor}, row, member});
      stages.insert(at.stage);
      for (size_t axis = 0; axis < kAxisCount; ++axis) {
        values[axis].insert(found.back().at[axis]);
      }
    }
    std::stable_sort(found.begin(), found.end(),
                     [](const Found& a, const Found& b) { return a.at < b.at; });
    RowPieces pieces;
    size_t cells = 1;
    for (size_t axis = 0; axis < kAxisCount; ++axis) {
      pieces.pieces.grid[axis] = static_cast<int64_t>(values[axis].size());
      cells *= values[axis].size();
    }
    pieces.is_grid =
        cells == found.size() && stages.size() == 1 &&
        std::adjacent_find(found.begin(), found.end(), [](const Found& a, const Found& b) {
          return a.at == b.at;
        }) == found.end();
    pieces.has_shapes = true;
    std::set<uint32_t> ranks;
    for (const Found& piece : found) {
      std::optional<Shape> shape =
          piece.row->is_tensor ? ParseShape(piece.row->shape) : std::optional(Shape());
      pieces.has_shapes = pieces.has_shapes && shape.has_value();
      pieces.pieces.statistics.push_back(StatisticsOf(*piece.row, shape));
      pieces.pieces.shapes.push_back(shape.value_or(Shape()));
      pieces.rows.push_back(piece.row);
      pieces.ranks.push_back(piece.member.rank);
      pieces.entries.push_back(piece.member.entry);
      ranks.insert(piece.member.rank);
    }
    if (joined.stages > 1 && stages.size() == 1) {
      pieces.stage = *stages.begin();
    }
    if (ranks.size() == 1 && StageSize(side, *stages.begin()) > 1) {
      pieces.only_rank = joined.ranks[*ranks.begin()]->about.rank;
    }
    pieces.pieces.record = RecordOf(side, call, suffix, state);
    pieces.pieces.scale = side == 0 && (call.direction == dump::Direction::kBackward)
                              ? 1 / backward_factor_
                          : side == 0 && call.is_reduced  ? 1 / reduced_factor_
                          : side == 0 && call.is_gradient ? 1 / gradient_factor_
                                                          : 1;
    return pieces;
  }

  size_t StageSize(size_t side, int64_t stage) const {
    size_t size = 0;
    for (const auto& rank : sides_[side]->ranks) {
      size += rank->about.place.stage == stage ? 1 : 0;
    }
    return size;
  }

  const layout::ParameterRecord* RecordOf(size_t side, const DirectedCall& call,
                                          std::string_view suffix, dump::RowState state) const {
    if (state != dump::RowState::kParameters && state != dump::RowState::kParametersGrad) {
      return nullptr;
    }
    const CallMember& member = call.members.front();
    const LoadedRank& rank = *sides_[side]->ranks[member.rank];
    if (!rank.about.record) {
      return nullptr;
    }
    const std::string_view name = suffix.substr(suffix.rfind('.') + 1);
    const std::string_view local = rank.names[member.entry].subject;
    for (const std::string_view path : {local, std::string_view(rank.paths[member.entry])}) {
      const std::string full = path.empty() ? std::string(name) : fmt::format("{}.{}", path, name);
      if (const layout::ParameterRecord* const record = rank.about.record->Find(full)) {
        return record;
      }
    }
    return nullptr;
  }

  // ---- gradients ----

  // The median of the ratios where most agree with it.
  static std::optional<double> CommonRatio(std::vector<double> ratios) {
    if (ratios.empty()) {
      return std::nullopt;
    }
    std::sort(ratios.begin(), ratios.end());
    const double median = ratios[ratios.size() / 2];
    const auto close = std::count_if(ratios.begin(), ratios.end(), [&](double ratio) {
      return std::fabs(ratio / median - 1) < kFactorDigits;
    });
    return static_cast<double>(close) >= kFactorShare * static_cast<double>(ratios.size())
               ? std::optional(median)
               : std::nullopt;
  }

  // The factors that averages over shares of the data make.
  std::vector<double> PossibleFactors() const {
    std::vector<double> factors = {1};
    for (size_t side = 0; side < 2; ++side) {
      std::set<int64_t> data;
      std::set<int64_t> context;
      for (const auto& rank : sides_[side]->ranks) {
        data.insert(rank->about.place.data);
        context.insert(rank->about.place.context);
      }
      for (const size_t size :
           {data.size(), context.size(), static_cast<size_t>(sides_[side]->micro_batches)}) {
        const size_t known = factors.size();
        for (size_t i = 0; i < known && size > 1 && factors.size() < 4096; ++i) {
          factors.push_back(factors[i] * static_cast<double>(size));
          factors.push_back(factors[i] / static_cast<double>(size));
        }
      }
    }
    return factors;
  }

  static double Nearest(std::optional<double> ratio, const std::vector<double>& factors) {
    for (const double factor : factors) {
      if (ratio && std::fabs(*ratio / factor - 1) < kFactorDigits) {
        return factor;
      }
    }
    return 1;
  }

  void FindGradientFactor() {
    factors_ = PossibleFactors();
    const std::vector<double>& factors = factors_;
    if (factors.size() == 1 && sides_[0]->reduced.empty() == sides_[1]->reduced.empty()) {
      return;
    }
    std::vector<double> backward;
    std::vector<double> gradients;
    std::vector<double> summed_gradients;
    std::vector<double> reduced;
    size_t of_each = 0;
    for (const Pair& pair : pairs_) {
      of_each +=
          pair.calls[0] && pair.calls[1] && pair.calls[0]->direction != dump::Direction::kForward
              ? 1
              : 0;
    }
    const size_t stride = std::max<size_t>(of_each / kFactorRows, 1);
    size_t number = 0;
    for (const Pair& pair : pairs_) {
      if (!pair.calls[0] || !pair.calls[1] ||
          pair.calls[0]->direction == dump::Direction::kForward || number++ % stride != 0) {
        continue;
      }
      std::vector<double>& ratios = pair.calls[0]->is_reduced    ? reduced
                                    : pair.calls[0]->is_gradient ? gradients
                                                                 : backward;
      const bool is_reduced = pair.calls[0]->is_reduced;
      ForRows(pair, [&](std::string_view, RowPieces& npu, RowPieces& bench) {
        if (!npu.is_grid || !bench.is_grid || !npu.has_shapes || !bench.has_shapes ||
            !npu.rows[0]->is_tensor || !IsFloating(*npu.rows[0])) {
          return;
        }
        const layout::Spreads spreads = layout::InferSpreads(npu.pieces, bench.pieces);
        if (!spreads.fits || spreads.is_padded) {
          return;
        }
        Placement placement = spreads.npu;
        bool summed = false;
        for (size_t axis = 0; axis < kAxisCount; ++axis) {
          if (!is_reduced && placement.spreads[axis].kind != SpreadKind::kShard &&
              !npu.pieces.AreEqualAlong(static_cast<Axis>(axis))) {
            placement.spreads[axis].kind = SpreadKind::kPartial;
            placement.spreads[axis].is_mean = false;
            summed = true;
          }
        }
        const layout::PieceStatistics n =
            layout::CombineStatistics(placement, npu.pieces.statistics);
        const layout::PieceStatistics b =
            layout::CombineStatistics(spreads.bench, bench.pieces.statistics);
        const size_t stat = summed ? 2 : 3;
        if (n.elements <= 1 || !n.values[stat] || !b.values[stat] || *b.values[stat] == 0 ||
            !b.values[3] || *n.values[stat] == 0) {
          return;
        }
        const double rms = *b.values[3] / std::sqrt(b.elements);
        if (summed && std::fabs(*b.values[2]) < 0.05 * rms) {
          return;  // a mean that cancels says little
        }
        (summed && &ratios == &gradients ? summed_gradients : ratios)
            .push_back(*n.values[stat] / *b.values[stat]);
      });
    }
    const bool any_backward = !backward.empty();
    backward_factor_ = Nearest(CommonRatio(std::move(backward)), factors);
    summed_factor_ = any_backward ? backward_factor_
                                  : Nearest(CommonRatio(std::move(summed_gradients)), factors);
    gradient_factor_ = Nearest(CommonRatio(std::move(gradients)), factors);
    // A side without reduced gradients has not clipped them either.
    const std::optional<double> of_reduced = CommonRatio(std::move(reduced));
    reduced_factor_ = sides_[0]->reduced.empty() != sides_[1]->reduced.empty()
                          ? of_reduced.value_or(1)
                          : Nearest(of_reduced, factors);
    if (std::fabs(reduced_factor_ - 1) < 1e-5) {
      reduced_factor_ = 1;
    }
    layout_.npu_facts.gradient_factor = reduced_factor_ != 1    ? reduced_factor_
                                        : gradient_factor_ != 1 ? gradient_factor_
                                        : summed_factor_ != 1   ? summed_factor_
                                                                : backward_factor_;
  }

  // Calls use(suffix, npu, bench) for the rows that both sides of a pair have.
  template <typename Use>
  void ForRows(const Pair& pair, const Use& use) {
    const CallMember& first = pair.calls[0]->members.front();
    const Side& read = sides_[0]->ranks[first.rank]->side;
    const SideEntry& entry = read.entries[first.entry];
    for (uint32_t i = 0; i < entry.row_count; ++i) {
      const SideRow& row = read.rows[entry.first_row + i];
      const std::string_view suffix = SuffixOf(entry, row);
      RowPieces bench = Gather(1, *pair.calls[1], suffix, i, row.state);
      if (!bench.rows.empty()) {
        RowPieces npu = Gather(0, *pair.calls[0], suffix, i, row.state);
        if (!npu.rows.empty()) {
          use(suffix, npu, bench);
        }
      }
    }
  }

  // ---- writing ----

  // A row that is to be written.
  struct NewRow {
    SideRow row;
    JoinedRow joined;
  };
  struct NewEntry {
    double order = 0;
    std::string name;
    std::vector<NewRow> rows;
  };

  std::string NameOf(const Pair& pair, dump::Direction direction) {
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

  void EmitPair(const Pair& pair) {
    const dump::Direction direction = (pair.calls[0] ? pair.calls[0] : pair.calls[1])->direction;
    const std::string name = NameOf(pair, direction);
    std::array<NewEntry, 2> made;
    std::unordered_map<std::string_view, NewRow> of_bench;
    for (size_t side = 0; side < 2; ++side) {
      if (!pair.calls[side]) {
        continue;
      }
      if (side == 0) {
        for (const CallMember& member : pair.calls[0]->members) {
          names_.emplace(std::pair(member.rank, member.entry), name);
        }
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
          if (!Counts(side, call, member, row.state) || !known.insert(suffix).second) {
            continue;
          }
          if (side == 1) {
            if (const auto decided = of_bench.find(suffix); decided != of_bench.end()) {
              made[1].rows.push_back(std::move(decided->second));
              continue;
            }
          }
          RowPieces own = Gather(side, call, suffix, i, row.state);
          if (own.rows.empty()) {
            continue;
          }
          RowPieces other;
          if (side == 0 && pair.calls[1]) {
            other = Gather(1, *pair.calls[1], suffix, i, row.state);
          }
          if (other.rows.empty()) {
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

  // Every member has as many rows as this one.
  bool IsSame(size_t side, const DirectedCall& call, const CallMember& member) const {
    const uint32_t count = EntryOf(side, member).row_count;
    return call.call->first_stage == call.call->last_stage &&
           std::all_of(call.members.begin(), call.members.end(), [&](const CallMember& other) {
             return EntryOf(side, other).row_count == count;
           });
  }

  NewRow Start(size_t side, const RowPieces& pieces, Placement placement) {
    NewRow made;
    made.row = *pieces.rows[0];
    const CallMember member = {pieces.ranks[0], 0, pieces.entries[0]};
    made.row.name = SuffixOf(EntryOf(side, member), *pieces.rows[0]);
    placement.stage = pieces.stage;
    placement.only_rank = pieces.only_rank;
    made.joined.scale = pieces.pieces.scale;
    made.joined.shapes = pieces.pieces.shapes;
    made.joined.placement = std::move(placement);
    for (size_t i = 0; i < pieces.rows.size(); ++i) {
      made.joined.pieces.push_back({pieces.ranks[i], pieces.rows[i]->data_name});
      if (pieces.rows[i]->data_name == "-1") {
        made.row.data_name = "-1";
      }
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

  // Values stay to be seen, but nothing is compared.
  static void MakeUncomparable(SideRow& row) {
    row.stats.fill(StatValue());
    row.data_name = "-1";
    row.md5 = "N/A";
  }

  std::pair<NewRow, NewRow> MakeBoth(const Pair& pair, RowPieces& npu, RowPieces& bench) {
    if (!npu.rows[0]->is_tensor || !bench.rows[0]->is_tensor) {
      return MakeArguments(pair, npu, bench);
    }
    if (IsBesideAny(pair) && (!IsFloating(*npu.rows[0]) || TakesOtherTensors(pair))) {
      return MakeUnknown(npu, bench);
    }
    if (!npu.is_grid || !bench.is_grid || !npu.has_shapes || !bench.has_shapes) {
      return MakeUnknown(npu, bench);
    }
    layout::Spreads spreads = layout::InferSpreads(npu.pieces, bench.pieces);
    const CallMember& first = pair.calls[0]->members.front();
    if (!spreads.fits || IsOfParts(pair, npu, bench) ||
        (spreads.is_padded && !MayBePadded(npu, spreads)) ||
        (spreads.is_doubtful && MovesData(sides_[0]->ranks[first.rank]->names[first.entry]))) {
      return MakeUnknown(npu, bench);
    }
    if (pair.calls[0]->direction == dump::Direction::kBackward) {
      ScaleOne(npu, bench);
    }
    TakeBlocks(0, *pair.calls[0], npu, spreads.npu);
    TakeBlocks(1, *pair.calls[1], bench, spreads.bench);
    NewRow n = Start(0, npu, spreads.npu);
    NewRow b = Start(1, bench, spreads.bench);
    if (spreads.is_padded) {
      MakePadded(npu, bench, n, b);
      return {std::move(n), std::move(b)};
    }
    JudgeUnequal(0, *pair.calls[0], npu, bench, b.joined.placement, n);
    JudgeUnequal(1, *pair.calls[1], bench, npu, n.joined.placement, b);
    if (pair.calls[0]->is_gradient && !pair.calls[0]->is_reduced) {
      ScaleGradient(n, b, npu, pair.calls[0]->call->path);
    }
    const RowPieces* const sides[] = {&npu, &bench};
    NewRow* const rows[] = {&n, &b};
    if (MayBeReordered(pair, n.row)) {
      n.row.data_name = b.row.data_name = "-1";
    }
    for (size_t side = 0; side < 2; ++side) {
      FinishRow(side, *sides[side], *rows[side]);
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

  // ---- copies that are not equal, and summands ----

  // Decides along which axes unequal pieces are summands, and what is wrong with those that are
  // neither that nor copies.
  void JudgeUnequal(size_t side, const DirectedCall& call, const RowPieces& pieces,
                    const RowPieces& others, const Placement& other, NewRow& made) {
    Placement& placement = made.joined.placement;
    const bool is_gradient = call.direction == dump::Direction::kBackward || call.is_gradient;
    const bool is_parameter = made.row.state == dump::RowState::kParameters;
    for (size_t axis = 0; axis < kAxisCount; ++axis) {
      layout::Spread& spread = placement.spreads[axis];
      if (placement.grid[axis] == 1 || spread.kind == SpreadKind::kShard ||
          pieces.pieces.AreEqualAlong(static_cast<Axis>(axis))) {
        continue;
      }
      if ((is_parameter || call.is_reduced) && IsExpert(side, call) && !HasExperts(side)) {
        spread.kind = SpreadKind::kUnknown;  // other ranks may have other experts
        continue;
      }
      if (is_parameter || call.is_reduced) {
        if (call.is_reduced && spread.kind == SpreadKind::kPartial) {
          made.joined.suspicion = Suspicion::kNotReduced;
        } else {
          Suspect(side, pieces, others, other, made);
        }
        spread = {};
        continue;
      }
      if (static_cast<Axis>(axis) != Axis::kTensor) {
        JudgeUnequalData(is_gradient, pieces, spread);
        continue;
      }
      const bool is_floating = IsFloating(*pieces.rows[0]);
      if (!is_floating) {
        spread = {};
        spread.kind = SpreadKind::kUnknown;  // places in a part, masks of a range
        continue;
      }
      if (call.is_gradient) {
        spread = {};
        spread.kind = SpreadKind::kPartial;  // each rank has seen a part of the sequence
        continue;
      }
      if (call.direction == dump::Direction::kBackward && IsBesideCommunication(side, call)) {
        spread = {};
        spread.kind = SpreadKind::kUnknown;
        continue;
      }
      bool used = false;
      const SideRow* const reduction =
          is_floating ? uses_[side].ReductionOf(pieces.ranks[0],
                                                ValueUses::FingerprintOf(*pieces.rows[0]), 0, &used)
                      : nullptr;
      if (reduction != nullptr) {
        spread = {};
        spread.kind = SpreadKind::kPartial;
      } else if (spread.kind == SpreadKind::kPartial && used) {
        spread = {};
        made.joined.suspicion = Suspicion::kNotReduced;
      } else if (spread.kind != SpreadKind::kPartial && IsBesideCommunication(side, call)) {
        spread.kind = SpreadKind::kUnknown;
      } else if (spread.kind != SpreadKind::kPartial) {
        Suspect(side, pieces, others, other, made);
      }
    }
  }

  bool IsExpert(size_t side, const DirectedCall& call) const {
    return call.call->path.find("expert") != std::string::npos ||
           (!call.call->is_module && !call.is_gradient &&
            call.call->bucket < sides_[side]->buckets.size() &&
            sides_[side]->buckets[call.call->bucket].key.find("expert") != std::string::npos);
  }
  // Made inside of a layer that communicates in the middle: what it has before is a part of
  // something, masked perhaps.
  bool IsBesideCommunication(size_t side, const DirectedCall& call) const {
    if (call.call->is_module || call.is_gradient ||
        call.call->bucket >= sides_[side]->buckets.size()) {
      return false;
    }
    const Bucket& bucket = sides_[side]->buckets[call.call->bucket];
    return !bucket.key.empty() &&
           std::any_of(bucket.calls.begin(), bucket.calls.end(), [&](uint32_t other) {
             const JoinedCall& known = sides_[side]->calls[other];
             return known.is_communication && known.partner == kNone;
           });
  }
  bool HasExperts(size_t side) const { return sides_[side]->knows_experts; }

  // Shares of the data: gradients are summands before they are reduced, a loss is a mean of means.
  static void JudgeUnequalData(bool is_gradient, const RowPieces& pieces, layout::Spread& spread) {
    if ((spread.kind == SpreadKind::kPartial && !is_gradient) || !IsFloating(*pieces.rows[0])) {
      spread.kind = spread.kind == SpreadKind::kPartial ? spread.kind : SpreadKind::kUnknown;
    } else if (is_gradient) {
      spread.kind = SpreadKind::kPartial;
      spread.is_mean = false;
    } else if (pieces.pieces.statistics[0].elements == 1) {
      spread.kind = SpreadKind::kPartial;
      spread.is_mean = true;
    } else {
      spread.kind = SpreadKind::kUnknown;
    }
  }

  // Some pieces are the other side's value and some are not: copies that differ. Of parameters,
  // which must be equal, those that differ from most.
  void Suspect(size_t side, const RowPieces& pieces, const RowPieces& others,
               const Placement& other, NewRow& made) const {
    constexpr double kEqual = 1e-5;
    layout::PieceStatistics whole = layout::CombineStatistics(other, others.pieces.statistics);
    std::set<int64_t> wrong;
    std::set<int64_t> right;
    double error = 0;
    for (size_t i = 0; i < pieces.rows.size(); ++i) {
      layout::PieceStatistics piece = pieces.pieces.statistics[i];
      if (pieces.pieces.scale != 1) {
        return;
      }
      const double apart = layout::StatisticsApart(piece, whole).value_or(0);
      const int64_t rank = sides_[side]->ranks[pieces.ranks[i]]->about.rank;
      (apart <= kEqual ? right : wrong).insert(rank);
      error = std::max(error, apart);
    }
    if (right.empty() && made.row.state == dump::RowState::kParameters) {
      const auto like_first = [&](size_t i) {
        return layout::StatisticsApart(pieces.pieces.statistics[i], pieces.pieces.statistics[0])
                   .value_or(0) <= kEqual;
      };
      for (size_t i = 0; i < pieces.rows.size(); ++i) {
        (like_first(i) ? right : wrong).insert(sides_[side]->ranks[pieces.ranks[i]]->about.rank);
      }
    }
    if (right.empty() || wrong.empty()) {
      return;
    }
    made.joined.suspicion = Suspicion::kReplicasDiffer;
    made.joined.suspects.assign(wrong.begin(), wrong.end());
    made.joined.error = error;
  }

  // Summands are judged by what the reduction behind them makes of them, where that is recorded:
  // the rows that are read in their place.
  std::optional<RowPieces> Reduced(size_t side, const RowPieces& pieces,
                                   const Placement& placement) {
    const auto tensor = static_cast<size_t>(Axis::kTensor);
    if (placement.spreads[tensor].kind != SpreadKind::kPartial) {
      return std::nullopt;
    }
    RowPieces reduced = pieces;
    for (size_t i = 0; i < pieces.rows.size(); ++i) {
      const SideRow* const row = uses_[side].ReducedBy(pieces.ranks[i], *pieces.rows[i]);
      const std::optional<Shape> shape = row == nullptr ? std::nullopt : ParseShape(row->shape);
      if (!shape) {
        return std::nullopt;
      }
      reduced.rows[i] = row;
      reduced.entries[i] = row->entry;
      reduced.pieces.shapes[i] = *shape;
      reduced.pieces.statistics[i] = StatisticsOf(*row, shape);
    }
    return reduced;
  }

  // How the reduced pieces make the whole: copies, or parts along the one dimension that is
  // smaller.
  std::optional<Placement> PlacementOfReduced(const RowPieces& pieces, const RowPieces& reduced,
                                              const Placement& placement) const {
    const auto tensor = static_cast<size_t>(Axis::kTensor);
    const Shape& before = pieces.pieces.shapes[0];
    const Shape& after = reduced.pieces.shapes[0];
    Placement made = placement;
    made.spreads[tensor] = {};
    if (before != after) {
      if (before.size() != after.size()) {
        return std::nullopt;
      }
      made.spreads[tensor].kind = SpreadKind::kShard;
      for (size_t axis = 0; axis < before.size(); ++axis) {
        if (before[axis] != after[axis]) {
          made.spreads[tensor].dimension = static_cast<int64_t>(axis);
        }
      }
    }
    return made;
  }

  // Tokens reach an expert in any order, which statistics do not see.
  bool MayBeReordered(const Pair& pair, const SideRow& row) const {
    const DirectedCall& call = *pair.calls[0];
    if (row.state == dump::RowState::kParameters || call.is_gradient) {
      return false;
    }
    const CallMember& member = call.members.front();
    const LoadedRank& rank = *sides_[0]->ranks[member.rank];
    const std::string& path =
        call.call->is_module ? call.call->path : sides_[0]->buckets[call.call->bucket].key;
    const size_t experts = path.find("experts.");
    const bool is_one = experts != std::string::npos && experts + 8 < path.size() &&
                        path[experts + 8] >= '0' && path[experts + 8] <= '9';
    return is_one && !dump::LayerState(rank.names[member.entry])
                          .Has(row.name.substr(std::min<size_t>(1, row.name.size())));
  }

  bool IsBesideAny(const Pair& pair) const {
    return IsBesideCommunication(0, *pair.calls[0]) || IsBesideCommunication(1, *pair.calls[1]);
  }

  // A parallel layer adds its bias behind the reduction, where the layer of one rank gives it to
  // the product: one side's call has a tensor more.
  bool TakesOtherTensors(const Pair& pair) const {
    std::array<size_t, 2> tensors = {0, 0};
    for (size_t side = 0; side < 2; ++side) {
      const CallMember& member = pair.calls[side]->members.front();
      const SideEntry& entry = EntryOf(side, member);
      for (uint32_t i = 0; i < entry.row_count; ++i) {
        const SideRow& row = sides_[side]->ranks[member.rank]->side.rows[entry.first_row + i];
        tensors[side] += IsInput(row) && row.is_tensor ? 1 : 0;
      }
    }
    return tensors[0] != tensors[1];
  }

  // Values that say where something is in a rank's own part, and those of experts where no record
  // tells which ones a rank has.
  bool IsOfParts(const Pair& pair, const RowPieces& npu, const RowPieces& bench) const {
    static const std::unordered_set<std::string_view> kPlaces = {
        "nonzero",     "where",        "argwhere",    "arange",      "cumsum",
        "sort",        "argsort",      "unique",      "bincount",    "index_add",
        "index_add_",  "index_select", "scatter_add", "gather",      "index_put_",
        "index_copy_", "scatter",      "topk",        "__setitem__", "take_along_dim"};
    const CallMember& first = pair.calls[0]->members.front();
    const dump::EntryName& name = sides_[0]->ranks[first.rank]->names[first.entry];
    const bool several = npu.rows.size() > 1 || bench.rows.size() > 1;
    const bool places =
        !name.is_module && kPlaces.contains(name.subject) && !IsFloating(*npu.rows[0]) && several;
    for (size_t side = 0; side < 2; ++side) {
      if (IsExpert(side, *pair.calls[side]) && (side == 0 ? npu : bench).rows.size() > 1 &&
          !HasExperts(side)) {
        return true;
      }
    }
    return places;
  }

  // Parameters of a vocabulary and their gradients, and the last dimension of what they make.
  static bool MayBePadded(const RowPieces& npu, const layout::Spreads& spreads) {
    const dump::RowState state = npu.rows[0]->state;
    if (!IsFloating(*npu.rows[0])) {
      return false;
    }
    if (state == dump::RowState::kParameters || state == dump::RowState::kParametersGrad) {
      return true;
    }
    const auto whole = layout::WholeShape(spreads.npu, npu.pieces.shapes);
    return whole && !whole->empty() &&
           (spreads.npu.padded_to ? spreads.npu : spreads.bench).padded_to.has_value() &&
           (whole->size() == 2 ||
            (spreads.npu.padded_to && whole->back() == *spreads.npu.padded_to) ||
            (spreads.bench.padded_to && whole->back() < *spreads.bench.padded_to));
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
    for (const double factor : factors_) {
      if (std::fabs(*own - *other * factor) <= 1e-5 * std::fabs(*own)) {
        npu.pieces.scale = 1 / factor;
        return;
      }
    }
    npu.pieces.scale = as_it_is;
  }

  // What an optimizer is given has fewer elements than what was computed.
  bool IsFullySharded(size_t side, const std::string& path) const {
    const auto elements = [&](const std::unordered_map<std::string, JoinedCall>& calls) {
      const auto found = calls.find(path);
      double count = 0;
      if (found != calls.end()) {
        const CallMember& member = found->second.members.front();
        const SideEntry& entry = EntryOf(side, member);
        for (uint32_t i = 0; i < entry.row_count; ++i) {
          const SideRow& row = sides_[side]->ranks[member.rank]->side.rows[entry.first_row + i];
          count += row.is_tensor ? ElementCount(row.shape) : 0;
        }
      }
      return count;
    };
    const double given = elements(sides_[side]->reduced);
    return given > 0 && given < elements(sides_[side]->gradients);
  }

  // Summands of a gradient add up to what the backward pass computes, whose factor they share: by
  // the chain rule. Gradients that are reduced already have one of their own.
  void ScaleGradient(NewRow& npu, NewRow& bench, RowPieces& pieces, const std::string& path) const {
    bool summed = false;
    for (NewRow* const row : {&npu, &bench}) {
      for (size_t axis = 0; axis + 1 < kAxisCount; ++axis) {
        layout::Spread& spread = row->joined.placement.spreads[axis];
        if (spread.kind == SpreadKind::kPartial) {
          spread.is_mean = false;
          summed = true;
        }
      }
    }
    if (!summed) {
      return;
    }
    pieces.pieces.scale = npu.joined.scale = 1 / summed_factor_;
    // Sharded training reduces after each micro-batch, and keeps the last one's share.
    for (size_t side = 0; side < 2; ++side) {
      if (sides_[side]->micro_batches > 1 && IsFullySharded(side, path)) {
        for (NewRow* const row : {&npu, &bench}) {
          row->joined.placement.spreads[1].kind = SpreadKind::kUnknown;
          row->joined.placement.grid[1] = std::max<int64_t>(row->joined.placement.grid[1], 2);
        }
      }
    }
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
    if (const std::optional<RowPieces> reduced = Reduced(side, pieces, shown)) {
      const std::optional<Placement> placement = PlacementOfReduced(pieces, *reduced, shown);
      const std::optional<Shape> whole =
          placement ? layout::WholeShape(*placement, reduced->pieces.shapes) : std::nullopt;
      if (whole && *whole == layout::WholeShape(shown, pieces.pieces.shapes)) {
        const std::string_view name = made.row.name;
        const dump::RowState state = made.row.state;
        made.row = *reduced->rows[0];
        made.row.name = name;
        made.row.state = state;
        made.joined.pieces.clear();
        for (size_t i = 0; i < reduced->rows.size(); ++i) {
          made.joined.pieces.push_back({reduced->ranks[i], reduced->rows[i]->data_name});
        }
        made.joined.shapes = reduced->pieces.shapes;
        made.joined.placement = *placement;
        FillWhole(side, *reduced, whole, made);
        made.joined.shown = shown;
        return;
      }
    }
    FillWhole(side, pieces, layout::WholeShape(shown, pieces.pieces.shapes), made);
  }

  std::pair<NewRow, NewRow> MakeUnknown(const RowPieces& npu, const RowPieces& bench) {
    NewRow n = Start(0, npu, Unknown(npu));
    NewRow b = Start(1, bench, Unknown(bench));
    b.row.shape = n.row.shape = made_[0].Intern(n.row.shape);
    MakeUncomparable(n.row);
    MakeUncomparable(b.row);
    return {std::move(n), std::move(b)};
  }

  void MakePadded(const RowPieces& npu, const RowPieces& bench, NewRow& n, NewRow& b) {
    const std::optional<Shape> of_npu = layout::WholeShape(n.joined.placement, npu.pieces.shapes);
    const std::optional<Shape> of_bench =
        layout::WholeShape(b.joined.placement, bench.pieces.shapes);
    const bool of_npu_is_padded = n.joined.placement.padded_to.has_value();
    const Shape& smaller = of_npu_is_padded ? *of_bench : *of_npu;
    (of_npu_is_padded ? n : b).joined.cut = smaller;
    for (NewRow* row : {&n, &b}) {
      row->row.stats.fill(StatValue());  // of which padding may be a part
      row->row.md5 = "N/A";
    }
    n.row.shape = made_[0].Intern(ShapeText(smaller));
    b.row.shape = made_[1].Intern(ShapeText(smaller));
  }

  // Numbers, texts and the like. Sizes and places differ where the layout does.
  std::pair<NewRow, NewRow> MakeArguments(const Pair& pair, const RowPieces& npu,
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
    if (per_rank || first.is_tensor != other.is_tensor || IsBesideAny(pair) ||
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

  // The modules around the calls of the test side, by the names that its calls have here.
  void NameParents() {
    construct_.emplace();
    for (const auto& [member, name] : names_) {
      const LoadedRank& rank = *sides_[0]->ranks[member.first];
      if (!rank.construct) {
        continue;
      }
      const std::string_view parent =
          rank.construct->ParentOf(rank.side.entries[member.second].name);
      const auto entry = rank.entry_of.find(parent);
      const auto known =
          entry == rank.entry_of.end() ? names_.end() : names_.find({member.first, entry->second});
      construct_->AddName(name, known == names_.end() ? parent : std::string_view(known->second));
    }
  }

  // Sorts the entries and makes the sides of them.
  void Order() {
    NameParents();
    for (size_t side = 0; side < 2; ++side) {
      std::vector<NewEntry>& entries = entries_[side];
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
            piece.data_name = made.Keep(piece.data_name);
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

  static constexpr int64_t kFreshNumber = 1'000'000;  // behind all numbers of the reference

  std::array<JoinedSide*, 2> sides_;
  PairLayout& layout_;
  std::vector<Pair> pairs_;
  std::unordered_set<const JoinedCall*> of_layout_;
  std::array<ValueUses, 2> uses_;
  std::unordered_map<const JoinedCall*, int64_t> numbers_;
  std::unordered_map<std::string, int64_t> fresh_;
  std::map<std::pair<uint32_t, uint32_t>, std::string> names_;  // of the test side's entries
  std::optional<dump::ConstructFile> construct_;
  double backward_factor_ = 1;
  double gradient_factor_ = 1;
  double summed_factor_ = 1;  // of gradients that are summands
  double reduced_factor_ = 1;
  std::vector<double> factors_;  // that averages may make
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
