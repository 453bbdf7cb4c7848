// The rows of the whole model.
//
// 1. Calls of both sides are listed by pairs, in the order of the reference. Those that only the
//    layout makes (communication, and what moves data around it) are left out.
// 2. The factor of the gradients is found: a loss averaged over a rank's share scales all of them.
// 3. Each row of a call and its partner become rows of the whole (row_maker). Names are those of
//    the reference.
// 4. The entries are sorted, and the sides made of them, with the modules around their calls.
#include "src/analysis/compare/layouts/joined_rows.h"

#include <algorithm>
#include <map>
#include <set>
#include <span>
#include <unordered_map>
#include <utility>

#include <fmt/format.h>

namespace msprobe::analysis::compare::layouts {
namespace {

class PairJoiner {
 public:
  PairJoiner(JoinedSide& npu, JoinedSide& bench, PairLayout& layout)
      : sides_{&npu, &bench},
        layout_(layout),
        gatherer_(sides_),
        calls_(sides_, gatherer_),
        unequal_(sides_, calls_, gatherer_, parameters_),
        maker_(sides_, gatherer_, parameters_, calls_, unequal_, made_),
        name_of_(npu.ranks.size()) {}

  void Run() {
    ListCalls();
    parameters_.Find(pairs_, gatherer_);
    gatherer_.SetParameters(&parameters_);
    const GradientFactors factors = FindGradientFactors(sides_, pairs_, gatherer_);
    gatherer_.SetFactors(factors);
    maker_.SetFactors(factors);
    layout_.npu_facts.gradient_factor = factors.reduced != 1    ? factors.reduced
                                        : factors.gradient != 1 ? factors.gradient
                                        : factors.summed != 1   ? factors.summed
                                                                : factors.backward;
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
    const bool is_of_padding = MasksPadding(pair);
    maker_.StartCall();
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
            made[side].rows.push_back(maker_.MakeAlone(side, own));
          } else {
            auto [n, b] = maker_.MakeBoth(pair, own, other);
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
        made[side].is_left_out = is_of_padding;
        entries_[side].push_back(std::move(made[side]));
      }
    }
  }

  // A call that one side alone made of values of a padded vocabulary: it masks what pads them.
  bool MasksPadding(const CallPair& pair) const {
    const size_t side = pair.calls[0] ? 0 : 1;
    const DirectedCall& call = *pair.calls[side];
    if (pair.calls[1 - side] || call.call->is_module || call.is_gradient ||
        call.direction == dump::Direction::kNone) {
      return false;
    }
    int64_t parts = 1;
    for (const auto& rank : sides_[side]->ranks) {
      parts = std::max(parts, rank->about.place.tensor + 1);
    }
    const CallMember& member = call.members.front();
    const SideEntry& entry = gatherer_.EntryOf(side, member);
    const auto rows = std::span(sides_[side]->ranks[member.rank]->side.rows)
                          .subspan(entry.first_row, entry.row_count);
    return std::any_of(rows.begin(), rows.end(), [&](const SideRow& row) {
      const std::optional<Shape> shape = row.is_tensor ? ParseShape(row.shape) : std::nullopt;
      return shape && parameters_.HasPaddedSize(*shape, parts);
    });
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
  std::vector<CallPair> pairs_;
  std::array<Side, 2> made_;
  RowMaker maker_;
  std::unordered_map<const JoinedCall*, int64_t> numbers_;
  std::unordered_map<std::string, int64_t> fresh_;
  static constexpr uint32_t kNoName = UINT32_MAX;
  std::vector<std::pair<std::string, CallMember>>
      names_;                                   // of the test side, with the first member
  std::vector<std::vector<uint32_t>> name_of_;  // of its entries, by rank
  std::optional<dump::ConstructFile> construct_;
  std::array<std::vector<NewEntry>, 2> entries_;
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
