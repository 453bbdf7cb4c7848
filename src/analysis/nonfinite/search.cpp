#include "src/analysis/nonfinite/search.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <deque>
#include <limits>
#include <map>
#include <optional>
#include <tuple>
#include <utility>
#include <vector>

#include <fmt/format.h>

#include "src/base/strings.h"
#include "src/dump/dump_file.h"
#include "src/dump/entry_scan.h"
#include "src/dump/layout.h"
#include "src/dump/names.h"
#include "src/json/writer.h"

namespace msprobe::analysis::nonfinite {
namespace {

using dump::EntryTree;
using dump::Node;
using dump::NodeKind;

constexpr double kMutationRatio = 100;

// Positions that may be bad without a reason to worry. A list that is empty asks for nothing.
struct Allowed {
  std::string_view name;  // the first two parts of the operator's, in lower case
  std::vector<uint32_t> arguments;
  std::vector<std::string> keywords;
  std::vector<uint32_t> outputs;
};

const std::vector<Allowed>& AllowedPositions() {
  static const std::vector<Allowed> kAllowed = {
      {"torch.empty", {}, {}, {0}},
      {"torch.empty_like", {}, {}, {0}},
      {"torch.empty_strided", {}, {}, {0}},
      {"distributed.recv", {0}, {"tensor"}, {}},
      {"distributed.all_gather", {0}, {}, {}},
      {"distributed.reduce_scatter", {0}, {"output"}, {}},
      {"distributed._reduce_scatter_base", {0}, {}, {}},
      {"distributed.all_gather_into_tensor", {0}, {}, {}},
      {"distributed.reduce_scatter_tensor", {0}, {}, {}},
      {"tensor.masked_fill_", {0}, {}, {}},
  };
  return kAllowed;
}

template <typename Position>
bool HoldsOnly(const std::vector<Position>& bad, const std::vector<Position>& allowed) {
  return allowed.empty() || std::all_of(bad.begin(), bad.end(), [&](const Position& entry) {
           return std::find(allowed.begin(), allowed.end(), entry) != allowed.end();
         });
}

bool IsAllowed(const LevelFinding& finding) {
  const std::string lower = base::AsciiLower(finding.name);
  const std::vector<std::string_view> parts = base::Split(lower, '.');
  if (parts.size() < 2) {
    return false;
  }
  const std::string key = std::string(parts[0]) + "." + std::string(parts[1]);
  const auto& rules = AllowedPositions();
  const auto rule = std::find_if(rules.begin(), rules.end(),
                                 [&](const Allowed& entry) { return entry.name == key; });
  return rule != rules.end() && HoldsOnly(finding.bad_arguments, rule->arguments) &&
         HoldsOnly(finding.bad_keywords, rule->keywords) &&
         HoldsOnly(finding.bad_outputs, rule->outputs);
}

// Here the mean counts, too.
bool IsBad(const EntryTree& tree, uint32_t root) {
  for (uint32_t index = root; index < tree[root].end; ++index) {
    const Node& node = tree[index];
    if ((node.key == dump::KeyOf(dump::kMax) || node.key == dump::KeyOf(dump::kMin) ||
         node.key == dump::KeyOf(dump::kMean)) &&
        BadValuesOfNode(node) != 0) {
      return true;
    }
  }
  return false;
}

class Judge {
 public:
  explicit Judge(const EntryTree& tree) : tree_(tree) {
    arguments_ = Member("input_args");
    if (arguments_ == EntryTree::kNone) {
      arguments_ = Member("input");
    }
    keywords_ = Member("input_kwargs");
    output_ = Member("output");
  }

  std::optional<LevelFinding> Run() {
    LevelFinding finding;
    finding.bad_arguments = BadPositions(arguments_);
    finding.bad_outputs = BadPositions(output_);
    if (keywords_ != EntryTree::kNone) {
      tree_.ForEachChild(keywords_, [&](uint32_t child) {
        if (IsBad(tree_, child)) {
          finding.bad_keywords.emplace_back(tree_[child].key);
        }
      });
    }
    const bool bad_input = !finding.bad_arguments.empty() || !finding.bad_keywords.empty();
    const bool bad_output = !finding.bad_outputs.empty();
    if (!bad_input && !bad_output) {
      finding.scene = Scene::kMutation;
      finding.level = Level::kHigh;
      return Mutates() ? std::optional(finding) : std::nullopt;
    }
    finding.scene =
        bad_input ? (bad_output ? Scene::kInputOutput : Scene::kInputOnly) : Scene::kOutputOnly;
    finding.level = bad_input ? (bad_output ? Level::kHigh : Level::kMedium) : Level::kCritical;
    return finding;
  }

 private:
  uint32_t Member(std::string_view key) const {
    return tree_.size() > 0 && tree_[0].kind == NodeKind::kObject ? tree_.Find(0, key)
                                                                  : EntryTree::kNone;
  }

  // An output that is one tensor instead of a list counts as position 0.
  std::vector<uint32_t> BadPositions(uint32_t part) const {
    std::vector<uint32_t> bad;
    if (part == EntryTree::kNone) {
      return bad;
    }
    if (tree_[part].kind != NodeKind::kList) {
      if (IsBad(tree_, part)) {
        bad.push_back(0);
      }
      return bad;
    }
    uint32_t position = 0;
    tree_.ForEachChild(part, [&](uint32_t child) {
      if (IsBad(tree_, child)) {
        bad.push_back(position);
      }
      ++position;
    });
    return bad;
  }

  // The largest norm among the direct tensors of these parts.
  std::optional<double> LargestNorm(std::initializer_list<uint32_t> parts) const {
    std::optional<double> largest;
    for (const uint32_t part : parts) {
      if (part == EntryTree::kNone) {
        continue;
      }
      tree_.ForEachChild(part, [&](uint32_t child) {
        if (tree_[child].kind != NodeKind::kObject) {
          return;
        }
        const uint32_t type = tree_.Find(child, "type");
        const uint32_t norm = tree_.Find(child, dump::KeyOf(dump::kNorm));
        if (type == EntryTree::kNone || norm == EntryTree::kNone ||
            !tree_[type].text.ends_with(".Tensor")) {
          return;
        }
        const Node& node = tree_[norm];
        const bool is_number = node.kind == NodeKind::kFloat || node.kind == NodeKind::kInt;
        if (is_number && !std::isnan(node.number)) {
          largest = std::max(largest.value_or(node.number), node.number);
        }
      });
    }
    return largest;
  }

  bool Mutates() const {
    const std::optional<double> input = LargestNorm({arguments_, keywords_});
    const std::optional<double> output = LargestNorm({output_});
    if (!input || !output) {
      return false;
    }
    return *input == 0 ? *output > kMutationRatio : *output / *input > kMutationRatio;
  }

  const EntryTree& tree_;
  uint32_t arguments_ = EntryTree::kNone;
  uint32_t keywords_ = EntryTree::kNone;
  uint32_t output_ = EntryTree::kNone;
};

}  // namespace

std::string_view LevelName(Level level) {
  constexpr std::array<std::string_view, 3> kNames = {"medium", "high", "critical"};
  return kNames[static_cast<size_t>(level)];
}

std::string_view SceneName(Scene scene) {
  constexpr std::array<std::string_view, 4> kNames = {"output_only", "input_and_output",
                                                      "input_only", "numerical_mutation"};
  return kNames[static_cast<size_t>(scene)];
}

std::optional<LevelFinding> JudgeEntry(std::string_view name, const EntryTree& entry) {
  std::optional<LevelFinding> finding = Judge(entry).Run();
  if (!finding) {
    return std::nullopt;
  }
  finding->name = name;
  return IsAllowed(*finding) ? std::nullopt : finding;
}

Result<std::vector<LevelFinding>> JudgeRank(const RankDump& rank) {
  std::vector<LevelFinding> found;
  const auto visit = [&](const dump::ScannedEntry& entry, const dump::EntryScanOutcome&) {
    const Result<EntryTree> tree = dump::ParseEntry(entry.text);
    if (!tree.ok()) {
      return true;  // reported when the rank was loaded
    }
    if (std::optional<LevelFinding> finding = JudgeEntry(entry.name, *tree)) {
      finding->rank = rank.rank;
      found.push_back(std::move(*finding));
    }
    return true;
  };
  MSP_RETURN_IF_ERROR(dump::ScanEntries(rank.folder / dump::kDumpFileName, visit).status());
  return found;
}

LevelSummary SumUpLevels(std::vector<std::vector<LevelFinding>> ranks) {
  LevelSummary summary;
  for (std::vector<LevelFinding>& rank : ranks) {
    for (LevelFinding& finding : rank) {
      ++summary.counts[static_cast<size_t>(finding.level)];
      summary.findings.push_back(std::move(finding));
    }
  }
  return summary;
}

std::string LevelsJson(const LevelSummary& summary) {
  std::string text;
  json::Writer json(text, 2);
  json.Array(summary.findings, [&](const LevelFinding& finding) {
    json.Object([&] {
      json.Member("device_rank", finding.rank);
      json.Member("api_name", finding.name);
      json.Member("rank", LevelName(finding.level));
      json.Member("scene_type", SceneName(finding.scene));
      json.Member("input_args_anomaly_indices", finding.bad_arguments);
      json.Member("input_kwargs_anomaly_keys", finding.bad_keywords);
      json.Member("output_anomaly_indices", finding.bad_outputs);
      if (finding.scene == Scene::kMutation) {
        json.Member("threshold", kMutationRatio);
        json.Member("scale_change_detected", true);
      }
    });
  });
  text += '\n';
  return text;
}

namespace {

using dump::CommunicationEvent;
using dump::CommunicationMatching;
using dump::EventMember;

class Walk {
 public:
  Walk(std::span<const RankDump> ranks, const SearchOptions& options)
      : ranks_(ranks),
        matching_(Match(ranks)),
        options_(options),
        states_(ranks.size()),
        progress_(matching_.events.size()) {}

  SearchResult Run() {
    for (uint32_t rank = 0; rank < ranks_.size(); ++rank) {
      runnable_.push_back(rank);
    }
    do {
      while (!runnable_.empty()) {
        const uint32_t rank = runnable_.front();
        runnable_.pop_front();
        Advance(rank);
      }
    } while (ReleaseOne());
    return Finish();
  }

 private:
  struct Fill {
    uint32_t place = 0;
    int64_t clock = 0;
    BadValues made = 0;
    bool was_met = false;  // a call met it, and what came out was good
  };
  struct State {
    size_t next = 0;         // in the rank's operators
    int64_t clock_base = 0;  // clock of an operator: this, its index and 1
    uint32_t pending = 0;    // events that the operator at `next` waits for
    bool waiting = false;
    // Events of calls that were passed without waiting, which will still bring data. The operators
    // behind them may use it, so only further communication is walked over meanwhile.
    uint32_t open = 0;
    uint32_t given_up = 0;  // of the open ones
    bool waiting_for_open = false;
    bool is_bad = false;
    int64_t bad_from = 0;
    bool module_was_bad = false;
    bool mask_seen = false;
    bool has_external = false;
    std::string_view uninitialised;  // the last such operator whose output was bad
    // Constants that were asked for, and nothing that is bad came of them so far: a buffer of NaN
    // that is overwritten, a least distance that starts as infinity.
    std::vector<Fill> fills;
  };
  struct Progress {
    uint32_t arrived = 0;
    int64_t clock = 0;
  };

  static CommunicationMatching Match(std::span<const RankDump> ranks) {
    std::vector<const dump::RankCommunications*> communications;
    for (const RankDump& rank : ranks) {
      communications.push_back(&rank.communications);
    }
    return dump::MatchCommunications(communications);
  }

  const EndpointValues& ValuesOf(const EventMember& member) const {
    return ranks_[member.rank_place].endpoints[member.endpoint];
  }

  const Operator& OperatorAt(uint32_t rank, uint32_t place) const {
    return ranks_[rank].operators[place];
  }

  int64_t ClockOf(uint32_t rank, const Operator& op) const {
    return states_[rank].clock_base + op.index + 1;
  }

  // Walks a rank up to the next communication whose other members are not there yet.
  void Advance(uint32_t rank) {
    State& state = states_[rank];
    const RankDump& dump = ranks_[rank];
    while (state.next < dump.operators.size()) {
      const Operator& op = dump.operators[state.next];
      if (op.call == Operator::kNoCall) {
        if (state.open > 0) {
          state.waiting_for_open = true;
          return;
        }
        VisitOrdinary(rank, static_cast<uint32_t>(state.next));
        ++state.next;
        continue;
      }
      Arrive(rank, op);
      if (state.pending > 0) {
        state.waiting = true;
        return;
      }
      ++state.next;
    }
  }

  std::span<const uint32_t> EventsOf(uint32_t rank, const Operator& op) const {
    const dump::RankCommunications& calls = ranks_[rank].communications;
    const uint32_t first = calls.FirstEndpoint(op.call);
    return std::span(matching_.event_of_endpoint[rank])
        .subspan(first, calls.FirstEndpoint(op.call + 1) - first);
  }

  void Arrive(uint32_t rank, const Operator& op) {
    const int64_t clock = ClockOf(rank, op);
    const std::span<const uint32_t> events = EventsOf(rank, op);
    if (events.empty()) {  // a transfer that names no partner and no list of operations
      VisitUnmatched(rank, static_cast<uint32_t>(states_[rank].next), op.input, op.output);
      return;
    }
    states_[rank].pending = static_cast<uint32_t>(events.size());
    for (const uint32_t event : events) {
      Progress& progress = progress_[event];
      progress.clock = std::max(progress.clock, clock);
      if (++progress.arrived == matching_.events[event].member_count) {
        Complete(event);
      }
    }
  }

  void Complete(uint32_t event_number) {
    const CommunicationEvent& event = matching_.events[event_number];
    const int64_t clock = ++progress_[event_number].clock;
    for (const EventMember& member : matching_.MembersOf(event)) {
      State& state = states_[member.rank_place];
      const uint32_t place = ValuesOf(member).operator_place;
      const bool is_here = state.pending > 0 && state.next == place;
      if (!is_here) {
        CloseOne(event, member, clock);
        continue;
      }
      const Operator& op = OperatorAt(member.rank_place, place);
      state.clock_base = std::max(state.clock_base, clock - op.index - 1);
      --state.pending;
      if (state.pending == 0 && state.waiting) {
        state.waiting = false;
        ++state.next;
        runnable_.push_back(member.rank_place);
      }
    }
    VisitEvent(event, clock);
  }

  static bool BringsData(const CommunicationEvent& event, const EventMember& member) {
    return !event.is_transfer || !member.contributes;
  }

  // An event is complete that this rank went past.
  void CloseOne(const CommunicationEvent& event, const EventMember& member, int64_t clock) {
    State& state = states_[member.rank_place];
    if (!BringsData(event, member)) {
      return;
    }
    if (state.given_up > 0) {
      --state.given_up;
      return;
    }
    if (state.open > 0 && --state.open == 0 && state.waiting_for_open) {
      const Operator& next = ranks_[member.rank_place].operators[state.next];
      state.clock_base = std::max(state.clock_base, clock - next.index);
      state.waiting_for_open = false;
      runnable_.push_back(member.rank_place);
    }
  }

  // When every rank waits, their calls do not block each other as they are in the dumps: sends
  // and receives that were started together, collectives in different order on several streams. The
  // one that came first goes on; its event stays open.
  bool ReleaseOne() {
    uint32_t chosen = UINT32_MAX;
    std::tuple<int, int64_t, uint32_t> best;
    for (uint32_t rank = 0; rank < ranks_.size(); ++rank) {
      const State& state = states_[rank];
      if (!state.waiting && !state.waiting_for_open) {
        continue;
      }
      const Operator& op = ranks_[rank].operators[state.next];
      const int last_resort = state.waiting_for_open                                     ? 2
                              : matching_.events[EventsOf(rank, op).front()].is_transfer ? 0
                                                                                         : 1;
      const std::tuple key(last_resort, ClockOf(rank, op), rank);
      if (chosen == UINT32_MAX || key < best) {
        chosen = rank;
        best = key;
      }
    }
    if (chosen == UINT32_MAX) {
      return false;
    }
    Release(chosen, std::get<0>(best) == 1);
    return true;
  }

  void Release(uint32_t rank, bool is_collective) {
    State& state = states_[rank];
    runnable_.push_back(rank);
    if (state.waiting_for_open) {
      state.waiting_for_open = false;
      state.given_up += state.open;
      state.open = 0;
      return;
    }
    released_collectives_ += is_collective ? 1 : 0;
    const Operator& op = ranks_[rank].operators[state.next];
    for (const uint32_t number : EventsOf(rank, op)) {
      const CommunicationEvent& event = matching_.events[number];
      if (progress_[number].arrived == event.member_count) {
        continue;
      }
      for (const EventMember& member : matching_.MembersOf(event)) {
        const bool is_own =
            member.rank_place == rank && ValuesOf(member).operator_place == state.next;
        state.open += is_own && BringsData(event, member) ? 1 : 0;
      }
    }
    state.waiting = false;
    state.pending = 0;
    ++state.next;
  }

  void VisitOrdinary(uint32_t rank, uint32_t place) {
    State& state = states_[rank];
    const Operator& op = OperatorAt(rank, place);
    if (op.behaviour == Behaviour::kUninitialised) {
      if (op.output != 0) {
        state.uninitialised = op.name;
      }
      return;
    }
    if (op.input != 0) {
      VisitBadInput(rank, place, op);
      return;
    }
    if (op.output == 0) {
      state.uninitialised = {};  // it wrote over bad values without reading them
      if (!state.fills.empty()) {
        state.fills.pop_back();
      }
      return;
    }
    const bool asked_for = op.behaviour == Behaviour::kFill ||
                           (op.behaviour == Behaviour::kLowestMask && options_.mask_aware);
    if (asked_for && options_.mask_aware && op.output == kNegativeInfinity) {
      state.mask_seen = true;
      return;
    }
    if (op.behaviour == Behaviour::kFill && (options_.mask_aware || IsReferenceFill(op.name))) {
      if (!state.is_bad) {
        state.fills.push_back({place, ClockOf(rank, op), op.output, false});
      } else {
        AddConstant(rank, {place, ClockOf(rank, op), op.output, false});
      }
      return;
    }
    if (op.is_recompute) {
      AddWeak(rank, place, OriginKind::kRecomputed, op.output, "");
    } else {
      AddOrigin(rank, place, OriginKind::kComputed, ClockOf(rank, op), op.output);
    }
    if (op.is_module) {
      TakeFill(rank, op.output);  // it handed on what was made in it
      // Perhaps a call inside of it is to blame, which some dumps list behind it.
      state.module_was_bad = true;
    } else {
      MarkBad(rank, ClockOf(rank, op));
    }
  }

  // torch.fill_ is never an origin, with or without masks.
  static bool IsReferenceFill(std::string_view name) {
    return name.find("Torch.fill") != std::string_view::npos;
  }

  void VisitBadInput(uint32_t rank, uint32_t place, const Operator& op) {
    State& state = states_[rank];
    if (state.is_bad) {
      return;
    }
    if (!op.takes_no_masks && IsMask(state, op.input, op.inputs_look_like_masks)) {
      state.mask_seen = true;
      if ((op.output & ~kNegativeInfinity) != 0) {
        AddOrigin(rank, place, OriginKind::kMaskedRow, ClockOf(rank, op),
                  static_cast<BadValues>(op.output & ~kNegativeInfinity));
        MarkBad(rank, ClockOf(rank, op));
      }
      return;
    }
    Enter(rank, place, op.input, op.output != 0);
  }

  bool IsMask(const State& state, BadValues input, bool looks_like_mask) const {
    return options_.mask_aware && input == kNegativeInfinity &&
           (state.mask_seen || looks_like_mask);
  }

  void AddConstant(uint32_t rank, const Fill& fill) {
    AddWeak(rank, fill.place, OriginKind::kConstant, fill.made, "");
    result_.weak.back().clock = fill.clock;
    MarkBad(rank, fill.clock);
  }

  // Whether a constant explains bad values; the last such constant is reported.
  bool TakeFill(uint32_t rank, BadValues bad) {
    std::vector<Fill>& fills = states_[rank].fills;
    const auto found = std::find_if(fills.rbegin(), fills.rend(),
                                    [&](const Fill& fill) { return (fill.made & bad) != 0; });
    if (found == fills.rend()) {
      return false;
    }
    const Fill fill = *found;
    fills.clear();
    AddConstant(rank, fill);
    return true;
  }

  // Bad values from calls that are not recorded.
  void Enter(uint32_t rank, uint32_t place, BadValues bad, bool goes_on) {
    State& state = states_[rank];
    if (goes_on && TakeFill(rank, bad)) {
      return;
    }
    if (!goes_on && !state.fills.empty()) {
      state.fills.back().was_met = true;
      return;
    }
    const bool from_memory = !state.uninitialised.empty();
    if (from_memory && !goes_on) {
      return;  // a buffer that is about to be filled
    }
    if (!state.has_external || goes_on) {
      AddWeak(rank, place, from_memory ? OriginKind::kUninitialised : OriginKind::kExternalInput,
              bad,
              from_memory ? fmt::format("perhaps uninitialised memory of {}",
                                        base::Printable(state.uninitialised))
                          : "");
      weak_goes_on_.back() = goes_on;
      result_.weak.back().behind_module = state.module_was_bad;
      state.has_external = true;
    }
    if (goes_on) {
      MarkBad(rank, ClockOf(rank, OperatorAt(rank, place)));
    }
  }

  // A call whose partners are not in the dump.
  void VisitUnmatched(uint32_t rank, uint32_t place, BadValues data, BadValues output) {
    ++result_.unmatched_calls;
    State& state = states_[rank];
    const Operator& op = OperatorAt(rank, place);
    if (data != 0) {
      if (!state.is_bad && !IsMask(state, data, false)) {
        Enter(rank, place, data, true);
      }
      return;
    }
    if (output != 0) {
      AddOrigin(rank, place, OriginKind::kMissingPartner, ClockOf(rank, op), output);
      MarkBad(rank, ClockOf(rank, op));
    }
  }

  void VisitEvent(const CommunicationEvent& event, int64_t clock) {
    const std::span<const EventMember> members = matching_.MembersOf(event);
    if (members.size() == 1 && event.expected_members != 1) {
      const EndpointValues& values = ValuesOf(members[0]);
      VisitUnmatched(members[0].rank_place, values.operator_place, values.data, values.output);
      return;
    }
    ++result_.matched_events;
    const EventMember* source = nullptr;  // the contributor that was bad first
    BadValues data = 0;
    for (const EventMember& member : members) {
      const EndpointValues& values = ValuesOf(member);
      if (!member.contributes || values.data == 0) {
        continue;
      }
      data |= values.data;
      State& state = states_[member.rank_place];
      if (!state.is_bad && !IsMask(state, values.data, false)) {
        Enter(member.rank_place, values.operator_place, values.data, true);
      }
      if (state.is_bad &&
          (source == nullptr || state.bad_from < states_[source->rank_place].bad_from)) {
        source = &member;
      }
    }
    if (data != 0) {
      PassOn(members, source, clock);
      return;
    }
    const EventMember* affected = nullptr;
    for (const EventMember& member : members) {
      if (ValuesOf(member).output != 0 &&
          (affected == nullptr || (member.contributes && !affected->contributes))) {
        affected = &member;
      }
    }
    if (affected == nullptr) {
      return;
    }
    const bool complete = members.size() >= event.expected_members;
    const EndpointValues& values = ValuesOf(*affected);
    AddOrigin(affected->rank_place, values.operator_place,
              complete ? OriginKind::kCommunication : OriginKind::kMissingPartner, clock,
              values.output);
    for (const EventMember& member : members) {
      if (ValuesOf(member).output != 0) {
        if (&member != affected && !states_[member.rank_place].is_bad) {
          AddArrival(*affected, member, clock);
        }
        MarkBad(member.rank_place, clock);
      }
    }
  }

  // `source` is null where only a mask's -inf is passed on.
  void PassOn(std::span<const EventMember> members, const EventMember* source, int64_t clock) {
    for (const EventMember& member : members) {
      State& state = states_[member.rank_place];
      if (ValuesOf(member).output == 0 || state.is_bad) {
        continue;
      }
      if (source == nullptr) {
        state.mask_seen = true;
        continue;
      }
      AddArrival(*source, member, clock);
      MarkBad(member.rank_place, clock);
    }
  }

  void AddArrival(const EventMember& from, const EventMember& to, int64_t clock) {
    result_.arrivals.push_back({from.rank_place, ValuesOf(from).operator_place, to.rank_place,
                                ValuesOf(to).operator_place, clock});
  }

  void MarkBad(uint32_t rank, int64_t clock) {
    State& state = states_[rank];
    if (!state.is_bad) {
      state.is_bad = true;
      state.bad_from = clock;
    }
  }

  void AddOrigin(uint32_t rank, uint32_t place, OriginKind kind, int64_t clock, BadValues made) {
    result_.origins.push_back({rank, place, clock, kind, made, false, ""});
  }

  void AddWeak(uint32_t rank, uint32_t place, OriginKind kind, BadValues made, std::string note) {
    const int64_t clock = ClockOf(rank, OperatorAt(rank, place));
    result_.weak.push_back({rank, place, clock, kind, made, false, std::move(note)});
    weak_goes_on_.push_back(true);
  }

  void SortOrigins(std::vector<Origin>& origins) const {
    std::stable_sort(origins.begin(), origins.end(),
                     [this](const Origin& a, const Origin& b) { return Order(a) < Order(b); });
    // A call with several transfers may have been found more than once.
    origins.erase(std::unique(origins.begin(), origins.end(),
                              [](const Origin& a, const Origin& b) {
                                return a.rank_place == b.rank_place &&
                                       a.operator_place == b.operator_place;
                              }),
                  origins.end());
  }

  std::tuple<int64_t, uint32_t, uint32_t> Order(const Origin& origin) const {
    return {origin.clock, OperatorAt(origin.rank_place, origin.operator_place).index,
            origin.rank_place};
  }

  SearchResult Finish() {
    // A constant that no recorded call has met may be met by one that is not recorded.
    for (uint32_t rank = 0; rank < ranks_.size(); ++rank) {
      for (const Fill& fill : states_[rank].fills) {
        if (!fill.was_met) {
          AddConstant(rank, fill);
        }
      }
    }
    // A bad input behind which all is good says less than one that went on.
    std::vector<Origin> strong_first;
    for (const bool goes_on : {true, false}) {
      std::vector<Origin> part;
      for (size_t i = 0; i < result_.weak.size(); ++i) {
        if (weak_goes_on_[i] == goes_on) {
          part.push_back(result_.weak[i]);
        }
      }
      SortOrigins(part);
      strong_first.insert(strong_first.end(), part.begin(), part.end());
    }
    result_.weak = std::move(strong_first);
    SortOrigins(result_.origins);
    std::stable_sort(result_.arrivals.begin(), result_.arrivals.end(),
                     [](const Arrival& a, const Arrival& b) {
                       return std::tuple(a.clock, a.to_rank) < std::tuple(b.clock, b.to_rank);
                     });
    for (const State& state : states_) {
      result_.bad_from.push_back(state.is_bad ? std::optional(state.bad_from) : std::nullopt);
    }
    if (released_collectives_ > 0) {
      result_.warnings.push_back(fmt::format(
          "{} are in a different order on other ranks: the order of causes around them is a guess",
          base::Plural(released_collectives_, "collective call")));
    }
    return std::move(result_);
  }

  const std::span<const RankDump> ranks_;
  const CommunicationMatching matching_;
  const SearchOptions& options_;
  std::vector<State> states_;
  std::vector<Progress> progress_;
  std::deque<uint32_t> runnable_;
  std::vector<bool> weak_goes_on_;  // one per result_.weak
  uint64_t released_collectives_ = 0;
  SearchResult result_;
};

// Index of a rank's first and last communication; an empty span of indices where there is none.
struct CommunicationSpan {
  uint32_t first = UINT32_MAX;
  uint32_t last = 0;
  bool any = false;
};

CommunicationSpan SpanOf(const RankDump& rank) {
  CommunicationSpan span;
  for (const Operator& op : rank.operators) {
    if (op.call != Operator::kNoCall) {
      span.first = std::min(span.first, op.index);
      span.last = op.index;
      span.any = true;
    }
  }
  return span;
}

}  // namespace

bool IsWeak(OriginKind kind) { return kind >= OriginKind::kExternalInput; }

std::string_view OriginKindName(OriginKind kind) {
  constexpr std::array<std::string_view, 9> kNames = {
      "computed",       "masked_row", "communication", "missing_partner", "unrecorded",
      "external_input", "constant",   "uninitialised", "recomputed"};
  return kNames[static_cast<size_t>(kind)];
}

SearchResult Search(std::span<const RankDump> ranks, const SearchOptions& options) {
  return Walk(ranks, options).Run();
}

std::vector<Origin> ReportedOrigins(std::span<const RankDump> ranks,
                                    std::span<const Origin> origins) {
  std::vector<Origin> reported = {origins.front()};
  const auto index_of = [&](const Origin& origin) {
    return ranks[origin.rank_place].operators[origin.operator_place].index;
  };
  const auto is_before = [&](const Origin& origin, const CommunicationSpan& span) {
    return !span.any || index_of(origin) < span.first;
  };
  const auto is_behind = [&](const Origin& origin, const CommunicationSpan& span) {
    return !span.any || index_of(origin) > span.last;
  };
  std::vector<CommunicationSpan> spans;
  for (const RankDump& rank : ranks) {
    spans.push_back(SpanOf(rank));
  }
  const CommunicationSpan& own = spans[origins.front().rank_place];
  const bool before = is_before(origins.front(), own);
  if (!before && !is_behind(origins.front(), own)) {
    return reported;
  }
  std::vector<bool> has_one(ranks.size(), false);
  has_one[origins.front().rank_place] = true;
  std::vector<const Origin*> by_index;
  for (const Origin& origin : origins) {
    by_index.push_back(&origin);
  }
  std::stable_sort(by_index.begin(), by_index.end(),
                   [&](const Origin* a, const Origin* b) { return index_of(*a) < index_of(*b); });
  for (const Origin* origin : by_index) {
    if (has_one[origin->rank_place]) {
      continue;
    }
    const CommunicationSpan& span = spans[origin->rank_place];
    if (before ? is_before(*origin, span) : is_behind(*origin, span)) {
      has_one[origin->rank_place] = true;
      reported.push_back(*origin);
    }
  }
  return reported;
}

namespace {

constexpr size_t kConsequencesOfOrigin = 3;

bool IsBackward(const Operator& op) {
  return dump::ParseEntryName(op.name).direction == dump::Direction::kBackward;
}

}  // namespace

Propagation Follow(std::span<const RankDump> ranks, std::span<const Origin> origins,
                   std::span<const Arrival> arrivals) {
  Propagation propagation;
  std::vector<std::optional<uint32_t>> reached(ranks.size());  // by which operator
  std::vector<bool> is_origin(ranks.size(), false);
  for (const Origin& origin : origins) {
    if (!reached[origin.rank_place]) {
      reached[origin.rank_place] = origin.operator_place;
      is_origin[origin.rank_place] = true;
    }
  }
  // Arrivals are in the order of time: who passes on has been reached before.
  for (const Arrival& arrival : arrivals) {
    if (reached[arrival.from_rank] && !reached[arrival.to_rank]) {
      reached[arrival.to_rank] = arrival.to_operator;
      propagation.chain.push_back(arrival);
    }
  }
  for (uint32_t place = 0; place < ranks.size(); ++place) {
    if (!reached[place]) {
      continue;
    }
    ++propagation.reached_ranks;
    const std::vector<Operator>& operators = ranks[place].operators;
    size_t wanted = is_origin[place] ? kConsequencesOfOrigin : 1;
    bool wants_backward = true;
    for (uint32_t at = *reached[place] + 1; at < operators.size(); ++at) {
      const Operator& op = operators[at];
      if (op.input == 0) {
        continue;
      }
      ++propagation.affected_operators;
      if (wanted > 0) {
        --wanted;
        propagation.consequences.push_back({place, at});
      }
      if (wants_backward && IsBackward(op)) {
        wants_backward = false;
        propagation.backward.push_back({place, at});
      }
    }
  }
  const auto is_from_origin = [&](const Consequence& consequence) {
    return is_origin[consequence.rank_place];
  };
  std::stable_partition(propagation.consequences.begin(), propagation.consequences.end(),
                        is_from_origin);
  std::stable_partition(propagation.backward.begin(), propagation.backward.end(), is_from_origin);
  return propagation;
}

namespace {

struct Edge {
  size_t from = 0;
  size_t to = 0;
  bool is_communication = false;
};

struct GraphNode {
  uint32_t rank_place = 0;
  uint32_t operator_place = 0;
  bool is_origin = false;
};

// The operators that the propagation names, joined on each rank in the order in which they ran.
struct Graph {
  std::vector<GraphNode> nodes;
  std::vector<Edge> edges;
};

Graph MakeGraph(std::span<const Origin> origins, const Propagation& propagation) {
  std::map<std::pair<uint32_t, uint32_t>, bool> places;  // rank and operator: is it an origin?
  for (const Arrival& arrival : propagation.chain) {
    places[{arrival.from_rank, arrival.from_operator}] = false;
    places[{arrival.to_rank, arrival.to_operator}] = false;
  }
  for (const auto* list : {&propagation.consequences, &propagation.backward}) {
    for (const Consequence& consequence : *list) {
      places[{consequence.rank_place, consequence.operator_place}] = false;
    }
  }
  for (const Origin& origin : origins) {
    places[{origin.rank_place, origin.operator_place}] = true;
  }
  Graph graph;
  std::map<std::pair<uint32_t, uint32_t>, size_t> numbers;
  for (const auto& [place, is_origin] : places) {
    numbers[place] = graph.nodes.size();
    if (!graph.nodes.empty() && graph.nodes.back().rank_place == place.first) {
      graph.edges.push_back({graph.nodes.size() - 1, graph.nodes.size(), false});
    }
    graph.nodes.push_back({place.first, place.second, is_origin});
  }
  for (const Arrival& arrival : propagation.chain) {
    graph.edges.push_back({numbers[{arrival.from_rank, arrival.from_operator}],
                           numbers[{arrival.to_rank, arrival.to_operator}], true});
  }
  return graph;
}

}  // namespace

std::string GraphJson(std::span<const RankDump> ranks, std::span<const Origin> origins,
                      const Propagation& propagation) {
  const Graph graph = MakeGraph(origins, propagation);
  std::string text;
  json::Writer json(text, 2);
  json.BeginObject();
  json.Objects("nodes", graph.nodes, [&](const GraphNode& node) {
    const Operator& op = ranks[node.rank_place].operators[node.operator_place];
    json.Member("id", fmt::format("{}.{}", ranks[node.rank_place].rank, op.name));
    json.Member("rank", ranks[node.rank_place].rank);
    json.Member("op_name", op.name);
    json.Member("index", op.index);
    json.Member("is_origin", node.is_origin);
    json.Member("input", BadValuesText(op.input));
    json.Member("output", BadValuesText(op.output));
  });
  json.Objects("edges", graph.edges, [&](const Edge& edge) {
    const auto id = [&](size_t number) {
      const GraphNode& node = graph.nodes[number];
      return fmt::format("{}.{}", ranks[node.rank_place].rank,
                         ranks[node.rank_place].operators[node.operator_place].name);
    };
    json.Member("from", id(edge.from));
    json.Member("to", id(edge.to));
    json.Member("kind", edge.is_communication ? "communication" : "order");
  });
  json.EndObject();
  text += '\n';
  return text;
}

std::string GraphMermaid(std::span<const RankDump> ranks, std::span<const Origin> origins,
                         const Propagation& propagation) {
  const Graph graph = MakeGraph(origins, propagation);
  std::string text = "flowchart TD\n";
  for (size_t i = 0; i < graph.nodes.size(); ++i) {
    const GraphNode& node = graph.nodes[i];
    const RankDump& rank = ranks[node.rank_place];
    if (i == 0 || graph.nodes[i - 1].rank_place != node.rank_place) {
      text += fmt::format("  subgraph rank{}\n", rank.rank);
    }
    const std::string name =
        base::ReplaceAll(base::Printable(rank.operators[node.operator_place].name), "\"", "'");
    text += fmt::format("    n{}[\"{}\"]{}\n", i, name, node.is_origin ? ":::origin" : "");
    if (i + 1 == graph.nodes.size() || graph.nodes[i + 1].rank_place != node.rank_place) {
      text += "  end\n";
    }
  }
  for (const Edge& edge : graph.edges) {
    text +=
        fmt::format("  n{} {} n{}\n", edge.from, edge.is_communication ? "==>" : "-->", edge.to);
  }
  text += "  classDef origin fill:#f88,stroke:#900\n";
  return text;
}

}  // namespace msprobe::analysis::nonfinite
