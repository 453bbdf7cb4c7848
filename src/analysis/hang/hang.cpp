// Recordings of all ranks -> groups with their members -> for every group, how far each member is.
//
//   mismatch   calls with the same sequence number that differ in kind, size or dtype;
//   missing    members that are behind: others entered the call after their last one, and it did
//   not
//              end. A member that itself waits in such a call is behind because of others: causes
//              are the missing members that do not wait. Where all of them wait, ranks entered
//              calls of different groups in different orders;
//   order      all entered, nothing ends, and two ranks have two such calls in opposite orders;
//   no file    members of a group without a recording.
//
// Sequence numbers of collectives count per group and agree on all ranks; those of point-to-point
// calls do not, so that sends and receives between two ranks are paired in their order. The ring of
// a recorder drops old calls: a member with later calls of the group has entered the earlier ones.
#include "src/analysis/hang/hang.h"

#include <algorithm>
#include <cstdint>
#include <iterator>
#include <map>
#include <optional>
#include <set>
#include <span>
#include <string>
#include <string_view>
#include <tuple>
#include <unordered_map>
#include <utility>

#include <fmt/format.h>

#include "src/analysis/hang/recordings.h"
#include "src/base/files.h"
#include "src/base/output_files.h"
#include "src/base/progress.h"
#include "src/base/strings.h"
#include "src/base/threads.h"
#include "src/report/table.h"
#include "src/report/writers.h"

namespace msprobe::analysis::hang {
namespace {

namespace fs = std::filesystem;

constexpr size_t kMapCalls = 40;
constexpr size_t kMapRanks = 256;
constexpr size_t kOrderedCalls = 64;  // unfinished calls of a rank whose order is looked at

// Calls whose sizes may differ between ranks, or whose one side only the root has.
constexpr std::string_view kUnevenInputs[] = {"scatter",  "all_to_all", "all_to_all_base",
                                              "barrier",  "ALLTOALL",   "ALLTOALL_BASE",
                                              "coalesced"};
constexpr std::string_view kUnevenOutputs[] = {
    "gather", "all_to_all", "all_to_all_base", "barrier", "ALLTOALL", "ALLTOALL_BASE", "coalesced"};

bool IsIn(std::string_view name, std::span<const std::string_view> names) {
  return std::find(names.begin(), names.end(), name) != names.end();
}

// A call of one rank; ranks and groups by their places in Run.
struct Entered {
  uint32_t group = 0;
  uint32_t number = 0;  // among the rank's calls with this sequence number: coalesced ones share it
  int64_t sequence = 0;
  uint32_t rank = 0;
  const Call* call = nullptr;
};

struct Member {
  uint32_t rank = 0;
  int64_t last = -1;  // sequence number of its last call; -1: none
  bool is_known = true;
};

struct Group {
  std::string name;
  std::string description;
  std::vector<int64_t> numbers;  // of its ranks, where recorded
  std::vector<Member> members;   // those with a recording
  std::vector<int64_t> without_file;

  std::string Title() const { return description.empty() ? name : description; }
  std::string Label() const { return description.empty() ? name : name + " " + description; }
};

std::string RankList(const std::vector<int64_t>& ranks) {
  std::string text;
  for (size_t first = 0; first < ranks.size();) {
    size_t last = first;
    while (last + 1 < ranks.size() && ranks[last + 1] == ranks[last] + 1) {
      ++last;
    }
    if (!text.empty()) {
      text += ' ';
    }
    text += last > first ? fmt::format("{}-{}", ranks[first], ranks[last])
                         : fmt::format("{}", ranks[first]);
    first = last + 1;
  }
  return fmt::format("{} {}", ranks.size() == 1 ? "rank" : "ranks", text);
}

class Judge {
 public:
  Judge(std::vector<Recording> recordings, std::vector<int64_t> ranks, Findings& findings)
      : findings_(findings) {
    std::vector<size_t> order(recordings.size());
    for (size_t i = 0; i < order.size(); ++i) {
      order[i] = i;
    }
    std::sort(order.begin(), order.end(), [&](size_t a, size_t b) { return ranks[a] < ranks[b]; });
    for (const size_t place : order) {
      recordings_.push_back(std::move(recordings[place]));
      ranks_.push_back(ranks[place]);
    }
  }

  void Run() {
    JoinGroups();
    FindMembers();
    FindMismatches();
    FindGaps();
    FindPointToPointGaps();
    TellMissing();
    if (findings_.rows.empty()) {
      FindOrders();
    }
    CountUnfinished();
    Conclude();
  }

 private:
  // ---- groups ----

  // Groups of different ranks may have the same name; where their members are recorded, these tell.
  void JoinGroups() {
    std::map<std::string, std::set<std::vector<int64_t>>> lists;
    for (const Recording& recording : recordings_) {
      for (const RecordedGroup& group : recording.groups) {
        if (!group.ranks.empty()) {
          lists[group.name].insert(group.ranks);
        }
      }
    }
    std::map<std::pair<std::string, std::vector<int64_t>>, uint32_t> place_of;
    group_of_.resize(recordings_.size());
    for (uint32_t rank = 0; rank < recordings_.size(); ++rank) {
      for (const RecordedGroup& group : recordings_[rank].groups) {
        std::vector<int64_t> numbers = group.ranks;
        for (const std::vector<int64_t>& list : lists[group.name]) {
          const bool is_in = std::binary_search(list.begin(), list.end(), ranks_[rank]);
          if (numbers.empty() && is_in) {
            numbers = list;
          }
        }
        const auto [place, is_new] = place_of.try_emplace(std::pair(group.name, numbers),
                                                          static_cast<uint32_t>(groups_.size()));
        if (is_new) {
          groups_.push_back({group.name, {}, numbers, {}, {}});
        }
        Group& joined = groups_[place->second];
        if (joined.description.empty()) {
          joined.description = group.description;
        }
        group_of_[rank].push_back(place->second);
      }
    }
    for (uint32_t rank = 0; rank < recordings_.size(); ++rank) {
      std::map<std::pair<uint32_t, int64_t>, uint32_t> number_of;
      for (const Call& call : recordings_[rank].calls) {
        const uint32_t group = group_of_[rank][call.group];
        if (call.is_point_to_point) {
          point_to_point_.push_back({group, 0, call.sequence, rank, &call});
        } else {
          entered_.push_back(
              {group, number_of[{group, call.sequence}]++, call.sequence, rank, &call});
        }
      }
      findings_.calls += recordings_[rank].calls.size();
    }
    const auto key = [](const Entered& of) {
      return std::tuple(of.group, of.sequence, of.number, of.rank);
    };
    std::sort(entered_.begin(), entered_.end(),
              [&](const Entered& a, const Entered& b) { return key(a) < key(b); });
    begin_of_.assign(groups_.size() + 1, 0);
    for (const Entered& of : entered_) {
      ++begin_of_[of.group + 1];
    }
    for (size_t group = 0; group < groups_.size(); ++group) {
      begin_of_[group + 1] += begin_of_[group];
    }
  }

  std::span<const Entered> CallsOf(uint32_t group) const {
    return std::span(entered_).subspan(begin_of_[group], begin_of_[group + 1] - begin_of_[group]);
  }
  std::span<const Entered> CallsOf(uint32_t group, int64_t sequence) const {
    const std::span<const Entered> all = CallsOf(group);
    const auto by_sequence = [](const Entered& of, int64_t number) { return of.sequence < number; };
    const auto begin = std::lower_bound(all.begin(), all.end(), sequence, by_sequence);
    const auto end = std::lower_bound(begin, all.end(), sequence + 1, by_sequence);
    return {begin, end};
  }

  // Recorded ones; else the ranks that know the group, and of the first group all.
  void FindMembers() {
    for (uint32_t number = 0; number < groups_.size(); ++number) {
      Group& group = groups_[number];
      std::map<uint32_t, Member> members;
      for (uint32_t rank = 0; rank < recordings_.size(); ++rank) {
        const auto& known = group_of_[rank];
        const bool knows = std::find(known.begin(), known.end(), number) != known.end();
        const bool is_default = group.numbers.empty() && group.description == "default_pg";
        const bool is_listed =
            std::binary_search(group.numbers.begin(), group.numbers.end(), ranks_[rank]);
        if (!(group.numbers.empty() ? knows || is_default : is_listed)) {
          continue;
        }
        Member& member = members[rank];
        member.rank = rank;
        // A ring that lost calls may have lost all of this group.
        member.is_known = !recordings_[rank].has_lost;
        for (const RecordedGroup& recorded : recordings_[rank].groups) {
          if (recorded.name == group.name && recorded.enqueued && recordings_[rank].has_lost) {
            member.last = *recorded.enqueued;
            member.is_known = true;
          }
        }
      }
      std::map<uint32_t, int64_t> last;
      for (const Entered& of : CallsOf(number)) {
        last[of.rank] = of.sequence;
      }
      for (const auto& [rank, sequence] : last) {
        members[rank] = {rank, sequence, true};
      }
      for (const auto& [rank, member] : members) {
        group.members.push_back(member);
      }
      for (const int64_t rank : group.numbers) {
        if (!std::binary_search(ranks_.begin(), ranks_.end(), rank)) {
          group.without_file.push_back(rank);
        }
      }
      findings_.groups += CallsOf(number).empty() ? 0 : 1;
    }
  }

  // ---- texts of calls ----

  std::string_view TextOf(const Entered& of, uint32_t text) const {
    return recordings_[of.rank].texts[text];
  }
  std::string_view KindOf(const Entered& of) const { return TextOf(of, of.call->kind); }
  std::string CodeOf(const Entered& of) const {
    return of.call->code == kNoText ? std::string() : std::string(TextOf(of, of.call->code));
  }
  std::string SizeText(const Entered& of) const {
    return fmt::format("{} in, {} out", base::FormatCount(of.call->inputs),
                       base::FormatCount(of.call->outputs));
  }
  std::vector<int64_t> NumbersOf(const std::set<uint32_t>& ranks) const {
    std::vector<int64_t> numbers;
    for (const uint32_t rank : ranks) {
      numbers.push_back(ranks_[rank]);
    }
    return numbers;
  }
  std::vector<int64_t> NumbersOf(const std::map<uint32_t, int64_t>& ranks) const {
    std::vector<int64_t> numbers;
    for (const auto& [rank, record] : ranks) {
      numbers.push_back(ranks_[rank]);
    }
    return numbers;
  }
  static std::string Others(const std::string& code) {
    return code.empty() ? std::string() : fmt::format(" (others: {})", code);
  }

  // The last call of a rank, for those who ask what it did instead.
  std::string LastCall(uint32_t rank) const {
    const Recording& recording = recordings_[rank];
    if (recording.calls.empty()) {
      return "it made no call";
    }
    const Call& call = recording.calls.back();
    const Entered of{0, 0, call.sequence, rank, &call};
    const std::string code = CodeOf(of);
    return fmt::format("its last call is {} {} of group {}{}", KindOf(of), call.sequence,
                       groups_[group_of_[rank][call.group]].Title(),
                       code.empty() ? std::string() : " at " + code);
  }

  // ---- mismatches ----

  // A call that did not end on all who entered. gloo tells of no end: there it is the last of a
  // rank.
  bool MayHang(std::span<const Entered> calls) const {
    return std::any_of(calls.begin(), calls.end(), [&](const Entered& of) {
      if (of.call->is_completed) {
        return false;
      }
      const std::vector<Member>& members = groups_[of.group].members;
      const auto member = std::find_if(members.begin(), members.end(),
                                       [&](const Member& m) { return m.rank == of.rank; });
      return !of.call->is_retired || (member != members.end() && member->last == of.sequence);
    });
  }

  struct Property {
    Kind kind;
    std::string text;
  };

  // What must agree, the first that does not counts.
  Property PropertyOf(const Entered& of, Kind kind) const {
    switch (kind) {
      case Kind::kType:
        return {kind, std::string(KindOf(of))};
      case Kind::kSize: {
        const bool inputs = !IsIn(KindOf(of), kUnevenInputs);
        const bool outputs = !IsIn(KindOf(of), kUnevenOutputs);
        return {kind,
                fmt::format("{}/{}", inputs ? of.call->inputs : 0, outputs ? of.call->outputs : 0)};
      }
      default:
        return {kind, IsIn(KindOf(of), std::span(kUnevenInputs).first(1)) || KindOf(of) == "barrier"
                          ? std::string()
                          : std::string(TextOf(of, of.call->dtypes))};
    }
  }

  void FindMismatches() {
    for (uint32_t number = 0; number < groups_.size(); ++number) {
      const std::span<const Entered> all = CallsOf(number);
      for (size_t begin = 0; begin < all.size();) {
        size_t end = begin;
        while (end < all.size() && all[end].sequence == all[begin].sequence &&
               all[end].number == all[begin].number) {
          ++end;
        }
        if (JudgeCalls(all.subspan(begin, end - begin))) {
          break;  // what follows is its consequence
        }
        begin = end;
      }
    }
  }

  bool JudgeCalls(std::span<const Entered> calls) {
    if (calls.size() < 2) {
      return false;
    }
    for (const Kind kind : {Kind::kType, Kind::kSize, Kind::kDtype}) {
      const std::string first = PropertyOf(calls.front(), kind).text;
      const bool agree = std::all_of(calls.begin(), calls.end(), [&](const Entered& of) {
        return PropertyOf(of, kind).text == first;
      });
      if (!agree) {
        if (!MayHang(calls)) {
          return false;
        }
        AddMismatch(calls, kind);
        return true;
      }
    }
    return false;
  }

  void AddMismatch(std::span<const Entered> calls, Kind kind) {
    std::map<std::string, std::vector<const Entered*>> classes;
    for (const Entered& of : calls) {
      classes[PropertyOf(of, kind).text].push_back(&of);
    }
    const auto most =
        std::max_element(classes.begin(), classes.end(), [](const auto& a, const auto& b) {
          // Among equally many the one of the lowest rank.
          return std::pair(a.second.size(), -int64_t{a.second.front()->rank}) <
                 std::pair(b.second.size(), -int64_t{b.second.front()->rank});
        });
    const Entered& usual = *most->second.front();
    for (const auto& [text, members] : classes) {
      if (text == most->first) {
        continue;
      }
      std::set<uint32_t> ranks;
      for (const Entered* of : members) {
        ranks.insert(of->rank);
      }
      const Entered& odd = *members.front();
      const bool swapped = kind == Kind::kType && IsSwapped(odd, usual);
      const std::string is = kind == Kind::kType   ? std::string(KindOf(odd))
                             : kind == Kind::kSize ? SizeText(odd)
                                                   : std::string(TextOf(odd, odd.call->dtypes));
      const std::string should = kind == Kind::kType ? std::string(KindOf(usual))
                                 : kind == Kind::kSize
                                     ? SizeText(usual)
                                     : std::string(TextOf(usual, usual.call->dtypes));
      const Group& group = groups_[odd.group];
      const std::string place =
          kind == Kind::kType
              ? fmt::format("call {} of group {}", odd.sequence, group.Title())
              : fmt::format("{} {} of group {}", KindOf(odd), odd.sequence, group.Title());
      std::string text_of = fmt::format("{} of {} has {}, others have {}", place,
                                        RankList(NumbersOf(ranks)), is, should);
      if (swapped) {
        text_of += ", which follow each other the other way round";
      }
      text_of += Others(CodeOf(usual));
      if (const std::string code = CodeOf(odd); !code.empty()) {
        text_of += fmt::format("; it: {}", code);
      }
      for (const uint32_t rank : ranks) {
        findings_.rows.push_back({swapped ? Kind::kOrder : kind, group.Label(), odd.sequence,
                                  ranks_[rank], fmt::format("{}, others {}", is, should),
                                  CodeOf(usual), text_of});
      }
    }
  }

  // The next call of each is this one of the other.
  bool IsSwapped(const Entered& odd, const Entered& usual) const {
    const auto next = [&](const Entered& of) -> const Entered* {
      for (const Entered& later : CallsOf(of.group, of.sequence + 1)) {
        if (later.rank == of.rank) {
          return &later;
        }
      }
      return nullptr;
    };
    const Entered* const after_odd = next(odd);
    const Entered* const after_usual = next(usual);
    const auto is_same = [&](const Entered& a, const Entered& b) {
      return KindOf(a) == KindOf(b) && a.call->inputs == b.call->inputs &&
             TextOf(a, a.call->dtypes) == TextOf(b, b.call->dtypes);
    };
    return after_odd != nullptr && after_usual != nullptr && is_same(*after_odd, usual) &&
           is_same(*after_usual, odd);
  }

  // ---- missing ----

  // A call that others wait in, and those who did not enter it.
  struct Gap {
    uint32_t group = 0;
    int64_t sequence = 0;
    std::set<uint32_t> missing;
    std::map<uint32_t, int64_t> waiting;  // place of the call among those of the rank
    std::string call;                     // "all_reduce 5", "recv 3 from rank 2"
    std::string code;
  };

  // Ranks that are behind in a group, at the call after their last one.
  void FindGaps() {
    for (uint32_t number = 0; number < groups_.size(); ++number) {
      const Group& group = groups_[number];
      int64_t most = -1;
      for (const Member& member : group.members) {
        most = std::max(most, member.last);
      }
      const int64_t first = CallsOf(number).empty() ? 0 : CallsOf(number).front().sequence;
      std::map<int64_t, Gap> gaps;
      for (const Member& member : group.members) {
        if (member.is_known && member.last < most) {
          gaps[std::max(member.last + 1, first)].missing.insert(member.rank);
        }
      }
      for (auto& [sequence, gap] : gaps) {
        gap.group = number;
        gap.sequence = sequence;
        for (const Entered& of : CallsOf(number, sequence)) {
          if (of.call->is_completed) {
            continue;
          }
          if (gap.call.empty()) {
            gap.call = fmt::format("{} {}", KindOf(of), sequence);
          }
          if (gap.code.empty()) {
            gap.code = CodeOf(of);
          }
          gap.waiting.emplace(of.rank, of.call->record);
        }
        if (!gap.waiting.empty()) {
          gaps_.push_back(std::move(gap));
        }
      }
    }
  }

  // Causes, then members without a recording, then those who are missing because they wait.
  void TellMissing() {
    std::set<uint32_t> waits = WaitForAbsent();
    const bool absent_is_cause = !waits.empty();
    for (const Gap& gap : gaps_) {
      for (const auto& [rank, record] : gap.waiting) {
        waits.insert(rank);
      }
    }
    const auto causes_of = [&](const Gap& gap) {
      std::set<uint32_t> causes;
      std::set_difference(gap.missing.begin(), gap.missing.end(), waits.begin(), waits.end(),
                          std::inserter(causes, causes.end()));
      return causes;
    };
    const bool any_cause =
        absent_is_cause || std::any_of(gaps_.begin(), gaps_.end(),
                                       [&](const Gap& gap) { return !causes_of(gap).empty(); });
    // A gap that also lacks ranks who wait in another one comes later in the program than that one.
    // Ranks run much the same program: what was entered after fewer calls comes first.
    const auto place_of = [&](const Gap& gap) {
      const size_t causes = causes_of(gap).size();
      int64_t record = INT64_MAX;
      for (const auto& [rank, at] : gap.waiting) {
        record = std::min(record, at);
      }
      return std::tuple(causes > 0 ? 0 : 1, gap.missing.size() - causes, record,
                        -static_cast<int64_t>(gap.waiting.size()));
    };
    std::stable_sort(gaps_.begin(), gaps_.end(),
                     [&](const Gap& a, const Gap& b) { return place_of(a) < place_of(b); });
    for (const Gap& gap : gaps_) {
      AddMissing(gap, any_cause ? causes_of(gap) : gap.missing, !any_cause);
    }
    TellAbsent();
    for (const Gap& gap : gaps_) {
      std::set<uint32_t> consequences;
      std::set_intersection(gap.missing.begin(), gap.missing.end(), waits.begin(), waits.end(),
                            std::inserter(consequences, consequences.end()));
      AddMissing(gap, any_cause ? consequences : std::set<uint32_t>(), false);
    }
  }

  // `in_circle`: all who are missing wait themselves. They left the call out, or enter calls of two
  // groups in another order than the others: a recording cannot tell which.
  void AddMissing(const Gap& gap, const std::set<uint32_t>& ranks, bool in_circle) {
    if (ranks.empty()) {
      return;
    }
    const Group& group = groups_[gap.group];
    std::string text = fmt::format("{} did not enter {} of group {}{}", RankList(NumbersOf(ranks)),
                                   gap.call, group.Title(), Others(gap.code));
    if (in_circle) {
      text += fmt::format("; {} and {} in it: left out, or in another order than the others",
                          LastCall(*ranks.begin()), ranks.size() == 1 ? "it waits" : "they wait");
    }
    for (const uint32_t rank : ranks) {
      findings_.rows.push_back({in_circle ? Kind::kOrder : Kind::kMissing, group.Label(),
                                gap.sequence, ranks_[rank],
                                fmt::format("did not enter {}; {} did; {}", gap.call,
                                            RankList(NumbersOf(gap.waiting)), LastCall(rank)),
                                gap.code, text});
    }
  }

  // ---- point to point ----

  // The rank behind a number of the group.
  std::optional<int64_t> RankIn(const Group& group, int32_t number) const {
    if (number < 0) {
      return std::nullopt;
    }
    if (group.numbers.empty()) {
      return number;
    }
    const auto place = static_cast<size_t>(number);
    return place < group.numbers.size() ? std::optional(group.numbers[place]) : std::nullopt;
  }

  void FindPointToPointGaps() {
    // Calls that did not end, by group, sender and receiver: [0] of the sender, [1] of the
    // receiver.
    std::map<std::tuple<uint32_t, int64_t, int64_t>, std::array<std::vector<const Entered*>, 2>>
        pairs;
    for (const Entered& of : point_to_point_) {
      if (of.call->is_completed || of.call->is_retired) {
        continue;
      }
      const std::optional<int64_t> source = RankIn(groups_[of.group], of.call->source);
      const std::optional<int64_t> target = RankIn(groups_[of.group], of.call->target);
      if (source && target) {
        pairs[{of.group, *source, *target}][ranks_[of.rank] == *source ? 0 : 1].push_back(&of);
      }
    }
    for (const auto& [key, sides] : pairs) {
      const auto& [number, source, target] = key;
      if (sides[0].size() == sides[1].size()) {
        continue;
      }
      const bool sender_waits = sides[0].size() > sides[1].size();
      const int64_t missing = sender_waits ? target : source;
      if (!std::binary_search(ranks_.begin(), ranks_.end(), missing)) {
        continue;  // no file
      }
      const Entered& first = *sides[sender_waits ? 0 : 1][sides[sender_waits ? 1 : 0].size()];
      const auto place = [&](int64_t rank) {
        return static_cast<uint32_t>(std::lower_bound(ranks_.begin(), ranks_.end(), rank) -
                                     ranks_.begin());
      };
      Gap& gap = gaps_.emplace_back();
      gap.group = number;
      gap.sequence = first.sequence;
      gap.missing.insert(place(missing));
      gap.waiting.emplace(first.rank, first.call->record);
      gap.call = fmt::format("{} {} {} rank {}", sender_waits ? "recv" : "send", first.sequence,
                             sender_waits ? "from" : "to", sender_waits ? source : target);
      gap.code = CodeOf(first);
    }
  }

  // ---- orders ----

  void FindOrders() {
    struct Seen {
      uint32_t rank;
      const Entered* first;
      const Entered* second;
    };
    std::map<std::tuple<uint32_t, int64_t, uint32_t, int64_t>, Seen> orders;
    std::vector<std::vector<const Entered*>> unfinished(recordings_.size());
    for (const Entered& of : entered_) {
      if (!of.call->is_completed && !of.call->is_retired) {
        unfinished[of.rank].push_back(&of);
      }
    }
    for (uint32_t rank = 0; rank < unfinished.size(); ++rank) {
      std::vector<const Entered*>& calls = unfinished[rank];
      std::sort(calls.begin(), calls.end(), [](const Entered* a, const Entered* b) {
        return a->call->record < b->call->record;
      });
      calls.resize(std::min(calls.size(), kOrderedCalls));
      for (size_t i = 0; i < calls.size(); ++i) {
        for (size_t j = i + 1; j < calls.size(); ++j) {
          const Entered& a = *calls[i];
          const Entered& b = *calls[j];
          if (a.group == b.group) {
            continue;
          }
          orders.try_emplace({a.group, a.sequence, b.group, b.sequence}, Seen{rank, &a, &b});
          const auto other = orders.find({b.group, b.sequence, a.group, a.sequence});
          if (other == orders.end()) {
            continue;
          }
          AddOrder(a, b, *other->second.first, other->second.rank, rank);
          return;
        }
      }
    }
  }

  void AddOrder(const Entered& a, const Entered& b, const Entered& first_of_other, uint32_t other,
                uint32_t rank) {
    const Group& group = groups_[a.group];
    const std::string text = fmt::format(
        "rank {} enters {} {} of group {} before {} {} of group {}, rank {} the other way round{}",
        ranks_[rank], KindOf(a), a.sequence, group.Title(), KindOf(b), b.sequence,
        groups_[b.group].Title(), ranks_[other], Others(CodeOf(first_of_other)));
    findings_.rows.push_back(
        {Kind::kOrder, group.Label(), a.sequence, ranks_[rank],
         fmt::format("before {} {} of group {}, rank {} the other way round", KindOf(b), b.sequence,
                     groups_[b.group].Title(), ranks_[other]),
         CodeOf(first_of_other), text});
  }

  // ---- no file, counts ----

  // Ranks in calls that did not end, of groups with members that left no recording.
  std::set<uint32_t> WaitForAbsent() const {
    std::set<uint32_t> waiting;
    for (uint32_t number = 0; number < groups_.size(); ++number) {
      if (!groups_[number].without_file.empty()) {
        waiting.merge(UnfinishedIn(number));
      }
    }
    return waiting;
  }

  std::set<uint32_t> UnfinishedIn(uint32_t number) const {
    std::set<uint32_t> ranks;
    for (const Entered& of : CallsOf(number)) {
      if (!of.call->is_completed && !of.call->is_retired) {
        ranks.insert(of.rank);
      }
    }
    return ranks;
  }

  // Each once, in a group that waits for it if there is one.
  void TellAbsent() {
    std::map<int64_t, uint32_t> absent;
    for (uint32_t number = 0; number < groups_.size(); ++number) {
      for (const int64_t rank : groups_[number].without_file) {
        const auto [place, is_new] = absent.try_emplace(rank, number);
        if (!is_new && UnfinishedIn(place->second).empty() && !UnfinishedIn(number).empty()) {
          place->second = number;
        }
      }
    }
    for (const auto& [rank, number] : absent) {
      const std::set<uint32_t> waiting = UnfinishedIn(number);
      const std::string waits =
          waiting.empty() ? std::string()
                          : fmt::format("; calls of group {} did not end on {}",
                                        groups_[number].Title(), RankList(NumbersOf(waiting)));
      findings_.rows.push_back({Kind::kNoFile,
                                groups_[number].Label(),
                                -1,
                                rank,
                                "no recording" + waits,
                                {},
                                fmt::format("rank {} left no recording{}", rank, waits)});
      unfinished_without_file_ |= !waiting.empty();
    }
  }

  void CountUnfinished() {
    std::set<std::pair<uint32_t, int64_t>> calls;
    for (const Entered& of : entered_) {
      if (!of.call->is_completed && !of.call->is_retired) {
        calls.insert({of.group, of.sequence});
      }
    }
    findings_.unfinished = calls.size();
  }

  void Conclude() {
    findings_.ranks = ranks_.size();
    for (const Finding& row : findings_.rows) {
      findings_.is_mismatch |=
          row.kind == Kind::kType || row.kind == Kind::kSize || row.kind == Kind::kDtype;
      findings_.is_hang |= row.kind == Kind::kMissing || row.kind == Kind::kOrder;
      findings_.is_hang |= row.kind == Kind::kNoFile && unfinished_without_file_;
    }
    if (findings_.rows.empty()) {
      return;
    }
    for (uint32_t number = 0; number < groups_.size(); ++number) {
      if (groups_[number].Label() == findings_.rows.front().group) {
        MakeMap(number);
        return;
      }
    }
  }

  // The last calls of a group around the one of the first finding.
  void MakeMap(uint32_t number) {
    std::vector<int64_t> sequences;
    for (const Entered& of : CallsOf(number)) {
      if (sequences.empty() || sequences.back() != of.sequence) {
        sequences.push_back(of.sequence);
      }
    }
    const int64_t wanted = findings_.rows.front().sequence;
    const auto at = static_cast<size_t>(
        std::lower_bound(sequences.begin(), sequences.end(), wanted) - sequences.begin());
    const size_t end = std::min(sequences.size(), at + kMapCalls / 4);
    const size_t begin = end > kMapCalls ? end - kMapCalls : 0;
    CallMap& map = findings_.map;
    map.group = groups_[number].Title();
    for (size_t place = begin; place < end; ++place) {
      map.calls.push_back(fmt::format("{} {}", KindOf(CallsOf(number, sequences[place]).front()),
                                      sequences[place]));
    }
    std::map<uint32_t, size_t> row_of;
    for (const Member& member : groups_[number].members) {
      if (row_of.size() == kMapRanks) {
        break;
      }
      row_of.emplace(member.rank, map.ranks.size());
      map.ranks.push_back(ranks_[member.rank]);
      std::vector<CallMap::State> states;
      for (size_t place = begin; place < end; ++place) {
        // Calls that the ring has dropped stay as they are.
        states.push_back(!member.is_known                 ? CallMap::State::kUnknown
                         : sequences[place] > member.last ? CallMap::State::kMissing
                                                          : CallMap::State::kFinished);
      }
      map.states.push_back(std::move(states));
    }
    for (size_t place = begin; place < end; ++place) {
      for (const Entered& of : CallsOf(number, sequences[place])) {
        const auto row = row_of.find(of.rank);
        if (row != row_of.end() && !of.call->is_completed && !of.call->is_retired) {
          map.states[row->second][place - begin] = CallMap::State::kUnfinished;
        }
      }
    }
  }

  Findings& findings_;
  std::vector<Recording> recordings_;  // in order of the ranks
  std::vector<int64_t> ranks_;
  std::vector<std::vector<uint32_t>> group_of_;  // [rank][group of the recording]
  std::vector<Group> groups_;
  std::vector<Entered> entered_;  // collectives, by group, sequence number, number and rank
  std::vector<size_t> begin_of_;  // [group]
  std::vector<Entered> point_to_point_;
  std::vector<Gap> gaps_;
  bool unfinished_without_file_ = false;
};

Status WriteTable(const Findings& findings, const fs::path& path) {
  report::Table table("hang", {"group", "sequence", "kind", "rank", "what", "code"});
  for (const Finding& row : findings.rows) {
    table.AddRow(std::vector<report::Cell>{
        table.KeepText(row.group),
        row.sequence < 0 ? report::Cell() : report::Cell::Integer(row.sequence),
        report::Cell::Text(KindName(row.kind)), report::Cell::Integer(row.rank),
        table.KeepText(row.what), table.KeepText(row.code)});
  }
  return report::WriteCsvParts(fs::path(path).replace_extension(), table).status();
}

}  // namespace

std::string_view KindName(Kind kind) {
  constexpr std::string_view kNames[] = {"type", "size", "dtype", "order", "missing", "no_file"};
  return kNames[static_cast<size_t>(kind)];
}

Result<Findings> Run(const Options& options) {
  Findings findings;
  MSP_ASSIGN_OR_RETURN(
      std::vector<Recording> recordings,
      ReadRecordings(options.path, options.threads, options.quiet, findings.warnings));
  bool guessed = false;
  std::vector<int64_t> ranks = RanksOf(recordings, &guessed);
  if (guessed) {
    findings.warnings.push_back(
        "no file says which rank it is of: ranks are numbered in the order of the names");
  }
  Judge(std::move(recordings), std::move(ranks), findings).Run();
  MSP_RETURN_IF_ERROR(base::CheckOutputFolder(options.output));
  MSP_RETURN_IF_ERROR(base::CreateFolders(options.output));
  findings.files.push_back(options.output / "hang.csv");
  MSP_RETURN_IF_ERROR(WriteTable(findings, findings.files.back()));
  return findings;
}

}  // namespace msprobe::analysis::hang
