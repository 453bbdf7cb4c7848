// Every rank's profile -> its load: the split of the device's time, and of each collective how long
// it lasts and how long after the end of the one before it begins. Clocks of ranks are not
// synchronised, so that only durations are held against each other.
//
// A collective ends on all its ranks at about the same moment, and lasts on each from its arrival:
// the rank that comes last has the shortest duration, which is the transfer; what the others take
// longer is waiting. Collectives are matched by the ranks of their group (or what the names say of
// it), kind and order. Ranks whose number of calls differs from that of most are left out, and so
// is point to point, which no two ranks enter alike.
//
//   late rank   its own time (the step without communication) is longer than that of the others, in
//               nearly all steps, and those it communicates with wait longer than it does.
//   slow link   1. A group's transfers take longer than those of its siblings: the groups of the
//                  same pattern of ranks, kind, number of calls and of elements, of which it is the
//                  only one. The rank that is in several such groups is named, else the one that
//                  waits least.
//               2. A rank's collectives last longer than on the other ranks, and it did not come
//                  earlier: their time and the time before them add up to more.
//
// What counts: more than 2 % of the step, and 5 standard deviations of the others, which are
// estimated by the median deviation.
#include "src/analysis/perf/ranks_of_run.h"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <functional>
#include <limits>
#include <map>
#include <mutex>
#include <optional>
#include <set>
#include <span>
#include <string_view>
#include <tuple>
#include <utility>

#include <fmt/format.h>

#include "src/analysis/perf/communication.h"
#include "src/analysis/perf/device_work.h"
#include "src/analysis/perf/nesting.h"
#include "src/analysis/perf/sheet.h"
#include "src/base/output_files.h"
#include "src/base/packed.h"
#include "src/base/progress.h"
#include "src/base/shared_run.h"
#include "src/base/strings.h"
#include "src/base/threads.h"
#include "src/profile/profile.h"
#include "src/report/table.h"
#include "src/report/writers.h"

namespace msprobe::analysis::perf {

// A collective on one rank.
struct CollectiveCall {
  float before_ms = 0;  // since the end of the one before of its group and kind
  float ms = 0;
};

// What one process tells the first one of a rank.
struct RankRecord {
  RankLoad load;
  std::map<std::string, std::vector<CollectiveCall>> calls;  // by group and kind, in their order
  std::map<std::string, int64_t> elements;
  std::string warning;
};

template <typename Archive>
void PackMembers(Archive& archive, CollectiveCall& call) {
  archive(call.before_ms, call.ms);
}
template <typename Archive>
void PackMembers(Archive& archive, RankRecord& record) {
  RankLoad& load = record.load;
  archive(load.rank, load.steps, load.step_ms, load.computing_ms, load.communication_ms,
          load.free_ms, load.error, load.own_of_step, record.calls, record.elements,
          record.warning);
}

namespace {

constexpr double kLeastShare = 0.02;  // of the step
constexpr double kDeviations = 5;
constexpr double kDeviationOfMedian = 1.4826;  // a standard deviation in median deviations
constexpr double kSteadiness = 2.5;            // mean excess of steps in its standard errors
constexpr double kSlowerGroup = 1.2;           // a group's transfers against those of its siblings
constexpr size_t kMostCalls = 20'000;          // of a rank; the others are not looked at
constexpr size_t kMostReaders = 8;             // profiles in memory at the same time
constexpr size_t kMostSteps = 10'000;
constexpr double kFileParts = 1e6;   // of a millisecond, in the file
constexpr double kShownParts = 1e3;  // and for people
constexpr char kKeySeparator = ' ';

std::string KeyOf(std::string_view kind, std::string_view group) {
  return fmt::format("{}{}{}", kind, kKeySeparator, group);
}
std::string KindIn(const std::string& key) { return key.substr(0, key.find(kKeySeparator)); }

// "hcom_allReduce__429_0_1": 429 stands for the group, the same on all its ranks.
std::string_view GroupInName(std::string_view name) {
  const size_t at = name.find("__");
  if (at == std::string_view::npos) {
    return {};
  }
  const std::string_view rest = name.substr(at + 2);
  return rest.substr(0, rest.find('_'));
}

// "[0,1,...]" -> 0 1; empty where a group is known by its name only.
std::vector<int64_t> RanksIn(std::string_view group) {
  std::vector<int64_t> ranks;
  if (!group.starts_with('[')) {
    return ranks;
  }
  while (!group.empty()) {
    group.remove_prefix(1);  // '[' or ','
    int64_t rank = 0;
    const auto [end, failed] = std::from_chars(group.data(), group.data() + group.size(), rank);
    if (failed == std::errc() && rank >= 0) {
      ranks.push_back(rank);
    }
    const size_t next = group.find(',');
    group = next == std::string_view::npos ? std::string_view() : group.substr(next);
  }
  return ranks;
}

// ---- a rank's profile ----

struct TimedCollective {
  profile::Nanoseconds start = 0;
  profile::Nanoseconds end = 0;
  double ms = 0;
  std::string key;
  int64_t elements = 0;
};

std::string KindOrName(std::string_view told, std::string_view name) {
  const std::string_view kind = CollectiveKind(told.empty() ? name : told);
  return std::string(kind.empty() ? (told.empty() ? name : told) : kind);
}

std::vector<TimedCollective> CollectivesOf(const profile::Profile& side, const DeviceWork& work) {
  std::vector<TimedCollective> calls;
  const auto text = [&side](profile::TextId id) {
    return id == profile::kNoText ? std::string_view() : side.texts[id];
  };
  if (side.device == profile::Device::kNpu) {
    std::vector<profile::TextId> ranks(side.communication.size(), profile::kNoText);
    for (const profile::CommunicationGroup& group : side.groups) {
      for (const uint32_t operation : group.operators) {
        ranks[operation] = group.ranks;
      }
    }
    for (size_t i = 0; i < side.communication.size(); ++i) {
      const profile::CommunicationOperator& of = side.communication[i];
      const std::string_view group =
          ranks[i] != profile::kNoText ? text(ranks[i]) : GroupInName(text(of.name));
      calls.push_back({of.start, of.end, of.duration_us / kUsPerMs,
                       KeyOf(KindOrName(text(of.kind), text(of.name)), group), 0});
    }
  } else {
    for (const WorkItem& item : work.items()) {
      if (item.kind != WorkKind::kCommunication || item.kernel >= side.kernels.size()) {
        continue;
      }
      const profile::Kernel& kernel = side.kernels[item.kernel];
      calls.push_back(
          {item.start, item.end, item.us / kUsPerMs,
           KeyOf(KindOrName(text(kernel.collective), text(kernel.name)), text(kernel.group)),
           kernel.elements});
    }
  }
  std::stable_sort(
      calls.begin(), calls.end(),
      [](const TimedCollective& a, const TimedCollective& b) { return a.start < b.start; });
  return calls;
}

// The step without communication, of each step: from the end of the last collective of a step to
// the end of the last one of the next. Steps have the same number of collectives, or are not told.
std::vector<double> OwnOfSteps(const DeviceWork& work, std::span<const TimedCollective> calls,
                               size_t steps) {
  std::vector<double> own;
  if (steps < 2 || steps > kMostSteps || calls.size() % steps != 0 || calls.empty()) {
    return own;
  }
  BusyTime computing;
  BusyTime with_communication;
  for (const WorkItem& item : work.items()) {
    if (item.kind == WorkKind::kComputing) {
      computing.Add(item.start, item.end);
    }
    if (item.kind != WorkKind::kCopy) {
      with_communication.Add(item.start, item.end);
    }
  }
  profile::Nanoseconds begin = work.items().front().start;
  const size_t per_step = calls.size() / steps;
  for (size_t step = 0; step < steps; ++step) {
    profile::Nanoseconds end = begin;
    for (size_t i = 0; i < per_step; ++i) {
      end = std::max(end, calls[step * per_step + i].end);
    }
    const profile::Nanoseconds communication =
        with_communication.Within(begin, end) - computing.Within(begin, end);
    own.push_back(static_cast<double>(end - begin - communication) / kNsPerMs);
    begin = end;
  }
  return own;
}

RankRecord RecordOf(const profile::RankPath& place, const Options& options) {
  RankRecord made;
  RankLoad& load = made.load;
  load.rank = place.rank.value_or(0);
  profile::Needs needs;
  needs.operators = needs.kernels = needs.flows = needs.communication = true;
  needs.strict = options.pair.strict;
  const Result<profile::Profile> read = profile::ReadProfile(place.path, needs);
  if (!read.ok()) {
    load.error = read.status().message();
    return made;
  }
  if (!read->warnings.empty()) {
    made.warning = fmt::format("rank {}: {}", load.rank, read->warnings.front());
  }
  const HostTree tree(*read);
  const DeviceWork work(*read, tree, options.pair.comparison_step);
  if (work.items().empty()) {
    load.error = fmt::format("{}: no work of a device is recorded", place.path.string());
    return made;
  }
  const std::vector<TimedCollective> calls = CollectivesOf(*read, work);
  load.steps = options.pair.comparison_step ? 1 : std::max<uint64_t>(1, read->steps.size());
  load.own_of_step = OwnOfSteps(work, calls, load.steps);
  const auto steps = static_cast<double>(load.steps);
  const TimeSplit& split = work.split();
  load.step_ms = split.end_to_end / steps;
  load.computing_ms = split.computing / steps;
  load.communication_ms = split.communication / steps;
  load.free_ms = (split.copies + split.idle) / steps;
  std::map<std::string_view, profile::Nanoseconds> ends;
  for (size_t i = 0; i < std::min(calls.size(), kMostCalls); ++i) {
    const TimedCollective& call = calls[i];
    const auto [last, is_first] = ends.try_emplace(call.key, work.items().front().start);
    made.calls[call.key].push_back(CollectiveCall{
        static_cast<float>(static_cast<double>(call.start - last->second) / kNsPerMs),
        static_cast<float>(call.ms)});
    last->second = call.end;
    int64_t& elements = made.elements[call.key];
    elements = call.elements > std::numeric_limits<int64_t>::max() - elements
                   ? elements
                   : elements + call.elements;
  }
  if (calls.size() > kMostCalls && made.warning.empty()) {
    made.warning =
        fmt::format("rank {}: only the first {} of {} collectives are looked at", load.rank,
                    base::FormatCount(kMostCalls), base::FormatCount(calls.size()));
  }
  return made;
}

// ---- the ranks against each other ----

double MedianOf(std::vector<double> values) {
  if (values.empty()) {
    return 0;
  }
  const auto middle = values.begin() + static_cast<std::ptrdiff_t>(values.size() / 2);
  std::nth_element(values.begin(), middle, values.end());
  return *middle;
}

// How far a value is above the median of the others, and whether it stands out.
struct Excess {
  double usual = 0;
  double by = 0;
  bool stands_out = false;
};
Excess ExcessOf(std::span<const double> values, size_t place, double least) {
  std::vector<double> others(values.begin(), values.end());
  others.erase(others.begin() + static_cast<std::ptrdiff_t>(place));
  Excess excess;
  excess.usual = MedianOf(others);
  excess.by = values[place] - excess.usual;
  for (double& other : others) {
    other = std::abs(other - excess.usual);
  }
  excess.stands_out = excess.by > least &&
                      excess.by > kDeviations * kDeviationOfMedian * MedianOf(std::move(others));
  return excess;
}

class RanksJudge {
 public:
  RanksJudge(std::vector<RankRecord> records, RanksOfRun& run)
      : records_(std::move(records)), run_(run) {}

  void Run() {
    MatchCalls();
    for (RankRecord& of : records_) {
      run_.ranks.push_back(std::move(of.load));
    }
    for (size_t place = 0; place < run_.ranks.size(); ++place) {
      if (run_.ranks[place].error.empty()) {
        known_.push_back(place);
      }
    }
    run_.known = known_.size();
    Warn();
    if (known_.size() < 2) {
      return;
    }
    least_ms_ = kLeastShare * MedianOf(Of(known_, &RankLoad::step_ms));
    FindLate();
    FindSlowGroups();
    FindSlowRanks();
    std::stable_sort(
        run_.findings.begin(), run_.findings.end(),
        [](const RankFinding& a, const RankFinding& b) { return a.cost_ms > b.cost_ms; });
  }

 private:
  struct Group {
    std::string key;
    std::vector<size_t> places;
    std::vector<double> waiting;  // of each of them, ms per step
    double transfer = 0;          // ms, mean of its calls
    size_t calls = 0;
    double steps = 1;
    int64_t elements = 0;
  };

  // The number of calls that most ranks of a group have: the others' cannot be matched.
  static size_t UsualCount(std::span<const size_t> counts) {
    std::map<size_t, size_t> often;
    for (const size_t count : counts) {
      ++often[count];
    }
    const auto most =
        std::max_element(often.begin(), often.end(),
                         [](const auto& a, const auto& b) { return a.second < b.second; });
    return most->first;
  }

  void MatchCalls() {
    std::map<std::string, std::vector<size_t>> ranks_of;
    for (size_t place = 0; place < records_.size(); ++place) {
      for (const auto& [key, calls] : records_[place].calls) {
        ranks_of[key].push_back(place);
      }
    }
    excess_.resize(records_.size());
    run_.waiting.resize(records_.size());
    partners_.resize(records_.size());
    std::map<std::string, size_t> kind_places;
    for (const auto& [key, all] : ranks_of) {
      const std::string kind = KindIn(key);
      std::vector<size_t> counts;
      for (const size_t place : all) {
        counts.push_back(records_[place].calls[key].size());
      }
      Group group;
      group.key = key;
      group.calls = UsualCount(counts);
      const bool is_pairwise = kind == "send" || kind == "recv" || kind == "send_recv";
      for (size_t i = 0; i < all.size(); ++i) {
        if (counts[i] == group.calls && !is_pairwise) {
          group.places.push_back(all[i]);
        } else {
          run_.unmatched += counts[i];
        }
      }
      if (group.places.size() < 2) {
        run_.unmatched += group.places.empty() ? 0 : group.calls;
        continue;
      }
      MatchGroup(group);
      const size_t column = kind_places.try_emplace(kind, kind_places.size()).first->second;
      if (column == run_.kinds.size()) {
        run_.kinds.push_back(kind);
      }
      for (size_t i = 0; i < group.places.size(); ++i) {
        std::vector<double>& row = run_.waiting[group.places[i]];
        row.resize(std::max(row.size(), column + 1));
        row[column] += group.waiting[i];
        partners_[group.places[i]].insert(group.places.begin(), group.places.end());
      }
      groups_.push_back(std::move(group));
    }
  }

  void MatchGroup(Group& group) {
    const std::vector<size_t>& places = group.places;
    const size_t count = places.size();
    std::vector<const CollectiveCall*> calls;
    for (const size_t place : places) {
      calls.push_back(records_[place].calls[group.key].data());
    }
    group.waiting.resize(count);
    group.steps = static_cast<double>(records_[places[0]].load.steps);
    group.elements = records_[places[0]].elements[group.key];
    run_.matched += group.calls;
    std::vector<double> durations(count);
    std::vector<double> spans(count);
    for (size_t call = 0; call < group.calls; ++call) {
      for (size_t i = 0; i < count; ++i) {
        durations[i] = calls[i][call].ms;
        spans[i] = durations[i] + calls[i][call].before_ms;
      }
      const double transfer = *std::min_element(durations.begin(), durations.end());
      group.transfer += transfer / static_cast<double>(group.calls);
      std::vector<double> in_order = durations;
      std::sort(in_order.begin(), in_order.end());
      std::vector<double> spans_in_order = spans;
      std::sort(spans_in_order.begin(), spans_in_order.end());
      for (size_t i = 0; i < count; ++i) {
        RankLoad& load = records_[places[i]].load;
        const auto steps = static_cast<double>(load.steps);
        group.waiting[i] += (durations[i] - transfer) / steps;
        load.waiting_ms += (durations[i] - transfer) / steps;
        load.transfer_ms += transfer / steps;
        excess_[places[i]].ms += (durations[i] - OthersMedian(in_order, durations[i])) / steps;
        excess_[places[i]].span += (spans[i] - OthersMedian(spans_in_order, spans[i])) / steps;
      }
    }
  }

  // The median of a sorted list without one of its values.
  static double OthersMedian(std::span<const double> in_order, double without) {
    const size_t middle = (in_order.size() - 1) / 2;
    return without > in_order[middle] ? in_order[middle] : in_order[middle + 1];
  }

  void Warn() {
    constexpr size_t kMostWarnings = 8;
    size_t warned = 0;
    std::set<int64_t> expected;
    std::set<int64_t> found;
    for (const RankRecord& of : records_) {
      warned += of.warning.empty() ? 0 : 1;
      if (!of.warning.empty() && warned <= kMostWarnings) {
        run_.warnings.push_back(of.warning);
      }
      for (const auto& [key, calls] : of.calls) {
        const std::vector<int64_t> ranks = RanksIn(
            std::string_view(key).substr(std::min(key.size(), key.find(kKeySeparator) + 1)));
        expected.insert(ranks.begin(), ranks.end());
      }
    }
    if (warned > kMostWarnings) {
      run_.warnings.push_back(
          fmt::format("further warnings of {}", base::Plural(warned - kMostWarnings, "rank")));
    }
    for (const RankLoad& load : run_.ranks) {
      found.insert(load.rank);
      if (!load.error.empty()) {
        run_.warnings.push_back(fmt::format("rank {}: {}", load.rank, load.error));
      }
    }
    std::vector<std::string> missing;
    for (const int64_t rank : expected) {
      if (found.count(rank) == 0) {
        missing.push_back(std::to_string(rank));
      }
    }
    if (!missing.empty()) {
      const size_t more = missing.size() > kMostWarnings ? missing.size() - kMostWarnings : 0;
      missing.resize(missing.size() - more);
      run_.warnings.push_back(fmt::format("no profile of rank {}{}", base::Join(missing, ", "),
                                          more > 0 ? fmt::format(" and {} more", more) : ""));
    }
  }

  template <typename Value>
  std::vector<double> Of(std::span<const size_t> places, const Value& value) const {
    std::vector<double> values;
    for (const size_t place : places) {
      values.push_back(std::invoke(value, run_.ranks[place]));
    }
    return values;
  }

  // Whether a rank's own time is longer than that of the others in its steps, not only in the mean.
  bool IsSteady(size_t of) const {
    size_t steps = SIZE_MAX;
    for (const size_t place : known_) {
      steps = std::min(steps, run_.ranks[place].own_of_step.size());
    }
    if (steps < 2) {
      return true;
    }
    std::vector<double> excess;
    for (size_t step = 0; step < steps; ++step) {
      std::vector<double> others;
      for (const size_t place : known_) {
        if (place != of) {
          others.push_back(run_.ranks[place].own_of_step[step]);
        }
      }
      excess.push_back(run_.ranks[of].own_of_step[step] - MedianOf(std::move(others)));
    }
    const auto count = static_cast<double>(steps);
    double mean = 0;
    for (const double value : excess) {
      mean += value / count;
    }
    double squares = 0;
    for (const double value : excess) {
      squares += (value - mean) * (value - mean);
    }
    return mean > kSteadiness * std::sqrt(squares / (count - 1) / count);
  }

  // How much longer those wait that communicate with a rank than it does, ms per step.
  double WaitedFor(size_t of) const {
    std::vector<size_t> others;
    for (const size_t place : known_) {
      if (place != of && (partners_[of].empty() || partners_[of].count(place) != 0)) {
        others.push_back(place);
      }
    }
    const RankLoad& load = run_.ranks[of];
    return std::max(MedianOf(Of(others, &RankLoad::waiting_ms)) - load.waiting_ms,
                    MedianOf(Of(others, &RankLoad::communication_ms)) - load.communication_ms);
  }

  void FindLate() {
    const std::vector<double> own = Of(known_, &RankLoad::own_ms);
    const std::vector<double> computing = Of(known_, &RankLoad::computing_ms);
    const std::vector<double> communication = Of(known_, &RankLoad::communication_ms);
    const bool communicates = std::any_of(communication.begin(), communication.end(),
                                          [](double value) { return value > 0; });
    for (size_t i = 0; i < known_.size(); ++i) {
      const Excess excess = ExcessOf(own, i, least_ms_);
      if (!excess.stands_out || !IsSteady(known_[i]) ||
          (communicates && WaitedFor(known_[i]) < excess.by / 2)) {
        continue;
      }
      RankFinding& found = run_.findings.emplace_back();
      found.is_late = true;
      found.place = known_[i];
      found.cost_ms = excess.by;
      found.usual_ms = excess.usual;
      found.computes_longer = ExcessOf(computing, i, least_ms_).by > excess.by / 2;
    }
  }

  // Distances between the ranks of a group, which its siblings have, too.
  std::string PatternOf(const Group& group) const {
    std::string pattern;
    for (const size_t place : group.places) {
      pattern += fmt::format("{} ", run_.ranks[place].rank - run_.ranks[group.places[0]].rank);
    }
    return pattern;
  }

  struct SlowGroup {
    const Group* group;
    double cost;
    double usual;
  };

  std::vector<SlowGroup> SlowGroups() const {
    std::map<std::tuple<std::string, std::string, size_t, int64_t>, std::vector<const Group*>>
        siblings;
    for (const Group& group : groups_) {
      siblings[{KindIn(group.key), PatternOf(group), group.calls, group.elements}].push_back(
          &group);
    }
    std::vector<SlowGroup> slow;
    for (const auto& [key, groups] : siblings) {
      if (groups.size() < 2) {
        continue;
      }
      std::vector<double> transfers;
      for (const Group* group : groups) {
        transfers.push_back(group->transfer * static_cast<double>(group->calls) / group->steps);
      }
      const auto place = static_cast<size_t>(std::max_element(transfers.begin(), transfers.end()) -
                                             transfers.begin());
      const Excess excess = ExcessOf(transfers, place, least_ms_);
      // Where several take longer, they do something else: another stage of the model.
      const bool is_alone = std::count_if(transfers.begin(), transfers.end(), [&](double value) {
                              return value > excess.usual + excess.by / 2;
                            }) == 1;
      if (excess.stands_out && is_alone && transfers[place] > kSlowerGroup * excess.usual) {
        slow.push_back({groups[place], excess.by, excess.usual});
      }
    }
    return slow;
  }

  void FindSlowGroups() {
    std::vector<SlowGroup> slow = SlowGroups();
    while (!slow.empty()) {
      // The rank with most of these groups; of equal ones the one that waits least.
      std::map<size_t, std::pair<size_t, double>> by_rank;
      for (const SlowGroup& of : slow) {
        for (size_t i = 0; i < of.group->places.size(); ++i) {
          auto& [count, waiting] = by_rank[of.group->places[i]];
          ++count;
          waiting += of.group->waiting[i];
        }
      }
      const auto chosen =
          std::max_element(by_rank.begin(), by_rank.end(), [](const auto& a, const auto& b) {
            return std::tuple(a.second.first, -a.second.second) <
                   std::tuple(b.second.first, -b.second.second);
          });
      RankFinding& found = run_.findings.emplace_back();
      found.place = chosen->first;
      std::set<size_t> members;
      for (auto of = slow.begin(); of != slow.end();) {
        const std::vector<size_t>& places = of->group->places;
        if (std::find(places.begin(), places.end(), found.place) == places.end()) {
          ++of;
          continue;
        }
        found.cost_ms += of->cost;
        found.usual_ms += of->usual;
        members.insert(places.begin(), places.end());
        of = slow.erase(of);
      }
      for (const size_t place : members) {
        found.group += fmt::format("{}{}", found.group.empty() ? "" : " ", run_.ranks[place].rank);
      }
    }
  }

  void FindSlowRanks() {
    std::vector<double> excess;
    for (const size_t place : known_) {
      excess.push_back(std::min(excess_[place].ms, excess_[place].span));
    }
    for (size_t i = 0; i < known_.size(); ++i) {
      const size_t place = known_[i];
      const Excess found = ExcessOf(excess, i, least_ms_);
      const bool is_known =
          std::any_of(run_.findings.begin(), run_.findings.end(),
                      [&](const RankFinding& of) { return !of.is_late && of.place == place; });
      if (found.stands_out && !is_known) {
        const RankLoad& load = run_.ranks[place];
        run_.findings.push_back(
            {false, place, excess[i], load.waiting_ms + load.transfer_ms - excess[i], false, {}});
      }
    }
  }

  struct CallExcess {
    double ms = 0;    // longer than the same collectives on other ranks
    double span = 0;  // together with the time before them
  };

  std::vector<RankRecord> records_;
  RanksOfRun& run_;
  std::vector<Group> groups_;
  std::vector<size_t> known_;  // ranks that could be read
  std::vector<CallExcess> excess_;
  std::vector<std::set<size_t>> partners_;
  double least_ms_ = 0;
};

// ---- files and the answer ----

std::string WordOf(const RanksOfRun& run, size_t place) {
  if (!run.ranks[place].error.empty()) {
    return "not read";
  }
  std::string words;
  for (const RankFinding& found : run.findings) {
    if (found.place == place) {
      words += fmt::format("{}{}", words.empty() ? "" : ", ", found.is_late ? "late" : "slow link");
    }
  }
  return words;
}

double CostOf(const RanksOfRun& run, size_t place) {
  double cost = 0;
  for (const RankFinding& found : run.findings) {
    cost = found.place == place ? std::max(cost, found.cost_ms) : cost;
  }
  return cost;
}

// Times are rounded to `per_ms` parts of a millisecond.
report::Table RankTable(const RanksOfRun& run, std::vector<std::string> columns, double per_ms) {
  report::Table table("ranks", std::move(columns));
  for (size_t place = 0; place < run.ranks.size(); ++place) {
    const RankLoad& load = run.ranks[place];
    std::vector<report::Cell> row = {report::Cell::Integer(load.rank),
                                     report::Cell::Integer(static_cast<int64_t>(load.steps))};
    for (const double value : {load.step_ms, load.computing_ms, load.communication_ms, load.free_ms,
                               load.waiting_ms, load.transfer_ms, CostOf(run, place)}) {
      row.push_back(load.error.empty() ? report::Cell::Number(std::round(value * per_ms) / per_ms)
                                       : report::Cell());
    }
    row.push_back(table.KeepText(WordOf(run, place)));
    table.AddRow(row);
  }
  return table;
}

std::string Sentence(const RanksOfRun& run, const RankFinding& found) {
  const int64_t rank = run.ranks[found.place].rank;
  if (found.is_late) {
    return fmt::format(
        "rank {} {} {:.3g} ms longer per step than the others ({:.4g} ms), who wait for it", rank,
        found.computes_longer ? "computes" : "is idle", found.cost_ms, found.usual_ms);
  }
  if (found.group.empty()) {
    return fmt::format(
        "rank {} comes no earlier than the others, yet its collectives take {:.3g} ms longer per "
        "step ({:.4g} ms)",
        rank, found.cost_ms, found.usual_ms);
  }
  return fmt::format(
      "rank {} waits for no rank, yet the collectives of ranks {} take {:.3g} ms longer per step "
      "than those of like groups ({:.4g} ms)",
      rank, found.group, found.cost_ms, found.usual_ms);
}

report::Verdict RanksVerdict(const RanksOfRun& run) {
  report::Verdict verdict;
  verdict.unit = "ms per step";
  if (run.known < 2) {
    verdict.Say("NOTHING COMPARED",
                fmt::format("{} recorded the work of a device", base::Plural(run.known, "rank")),
                report::Tone::kCaution, report::AnswerOutcome::kNothingCompared);
  } else if (run.findings.empty()) {
    verdict.number = 0;
    verdict.Say("BALANCED", fmt::format("no rank of {} keeps the others waiting", run.known),
                report::Tone::kGood);
  } else {
    const RankFinding& first = run.findings.front();
    verdict.number = first.cost_ms;
    verdict.Say(first.is_late ? "LATE RANK" : "SLOW LINK", Sentence(run, first), report::Tone::kBad,
                report::AnswerOutcome::kFindings);
  }
  if (run.known < run.ranks.size()) {
    verdict.outcome = report::AnswerOutcome::kIncomplete;
  }
  return verdict;
}

constexpr size_t kMapRanks = 1'024;
constexpr size_t kMapSteps = 64;
constexpr size_t kBarRanks = 64;

// How much later each rank is than the median of all, by step.
report::Map StepMap(const RanksOfRun& run) {
  report::Map map;
  size_t steps = kMapSteps;
  std::vector<size_t> places;
  for (size_t place = 0; place < run.ranks.size() && places.size() < kMapRanks; ++place) {
    if (run.ranks[place].error.empty()) {
      places.push_back(place);
      steps = std::min(steps, run.ranks[place].own_of_step.size());
    }
  }
  if (steps == 0) {
    return map;
  }
  for (size_t step = 0; step < steps; ++step) {
    map.columns.push_back(fmt::format("{}", step));
    std::vector<double> own;
    for (const size_t place : places) {
      own.push_back(run.ranks[place].own_of_step[step]);
    }
    const double usual = MedianOf(own);
    for (size_t row = 0; row < places.size(); ++row) {
      report::Map::Cell& cell = map.items.emplace_back();
      cell.row = static_cast<uint32_t>(row);
      cell.column = static_cast<uint32_t>(step);
      cell.value = std::max(0.0, own[row] - usual);
      cell.tip = fmt::format("rank {}, step {}: {:.4g} ms without communication, {:+.3g} ms",
                             run.ranks[places[row]].rank, step, own[row], own[row] - usual);
    }
  }
  for (const size_t place : places) {
    map.rows.push_back(fmt::format("rank {}", run.ranks[place].rank));
  }
  return map;
}

// How long each rank waits for others, by kind of collective.
report::Map WaitingMap(const RanksOfRun& run) {
  report::Map map;
  map.columns = run.kinds;
  for (size_t place = 0; place < std::min(run.waiting.size(), kMapRanks); ++place) {
    map.rows.push_back(fmt::format("rank {}", run.ranks[place].rank));
    for (size_t column = 0; column < run.waiting[place].size(); ++column) {
      report::Map::Cell& cell = map.items.emplace_back();
      cell.row = static_cast<uint32_t>(place);
      cell.column = static_cast<uint32_t>(column);
      cell.value = run.waiting[place][column];
      cell.tip = fmt::format("rank {} waits {:.4g} ms per step in {}", run.ranks[place].rank,
                             cell.value, run.kinds[column]);
    }
  }
  return map;
}

report::StackedBars LoadBars(const RanksOfRun& run) {
  report::StackedBars bars;
  bars.unit = "ms";
  bars.names = {"computing", "communication", "free"};
  for (size_t place = 0; place < std::min(run.ranks.size(), kBarRanks); ++place) {
    const RankLoad& load = run.ranks[place];
    if (load.error.empty()) {
      bars.items.push_back({fmt::format("rank {}", load.rank),
                            {load.computing_ms, load.communication_ms, load.free_ms}});
    }
  }
  return bars;
}

}  // namespace

Result<bool> HoldsRanks(const std::filesystem::path& path) {
  if (!base::IsFolder(path)) {
    return false;
  }
  MSP_ASSIGN_OR_RETURN(const std::vector<profile::RankPath> found, profile::FindProfiles(path));
  return found.size() > 1;
}

Result<RanksOfRun> CompareRanks(const Options& options) {
  MSP_ASSIGN_OR_RETURN(const std::vector<profile::RankPath> found,
                       profile::FindProfiles(options.pair.comparison));
  std::vector<base::WorkUnit> units;
  for (const profile::RankPath& place : found) {
    units.push_back(base::UnitOfFiles({place.path}));
  }
  MSP_ASSIGN_OR_RETURN(base::SharedRun shared,
                       base::SharedRun::Join(options.output, "perf_compare", base::TimestampNow()));
  RanksOfRun run;
  run.reports = shared.answers();
  std::vector<std::optional<RankRecord>> records;
  MSP_RETURN_IF_ERROR(shared.ShareOut(
      units,
      [&](std::span<const size_t> mine, const auto& give) -> Status {
        base::ThreadPool pool(options.threads == 0 ? std::min(kMostReaders, base::UsableCores())
                                                   : std::min(kMostReaders, options.threads));
        base::Progress progress("reading", mine.size(), "ranks", options.quiet);
        std::mutex giving;
        pool.ParallelFor(mine.size(), [&](size_t item, size_t /*worker*/) {
          RankRecord record = RecordOf(found[mine[item]], options);
          const std::lock_guard lock(giving);
          give(mine[item], std::move(record));
          progress.Add();
        });
        return {};
      },
      records));
  if (!run.reports) {
    return run;
  }
  std::vector<RankRecord> all;
  for (size_t place = 0; place < records.size(); ++place) {
    if (!records[place]) {
      records[place].emplace();
      records[place]->load.rank = found[place].rank.value_or(0);
      records[place]->load.error = shared.WhyMissing(place);
    }
    all.push_back(*std::move(records[place]));
  }
  RanksJudge(std::move(all), run).Run();
  const std::filesystem::path table = options.output / "ranks.csv";
  MSP_RETURN_IF_ERROR(base::CreateFolders(options.output));
  MSP_RETURN_IF_ERROR(report::WriteCsvParts(
                          std::filesystem::path(table).replace_extension(),
                          RankTable(run,
                                    {"rank", "steps", "step_ms", "computing_ms", "communication_ms",
                                     "free_ms", "waiting_ms", "transfer_ms", "cost_ms", "verdict"},
                                    kFileParts))
                          .status());
  run.files.push_back(table);
  return run;
}

report::Document MakeDocument(const RanksOfRun& run, size_t top) {
  report::Document document;
  document.command = "perf_compare";
  document.verdict = RanksVerdict(run);
  document.levels = report::OutcomesOf(kRankLevels);
  for (const RankFinding& found : run.findings) {
    report::SetFound(document.levels, found.is_late ? "late" : "link", true);
  }
  document.warnings = run.warnings;
  report::List findings{report::ListKind::kNumbered, {}};
  for (const RankFinding& found : run.findings) {
    findings.items.push_back({found.is_late ? "late rank" : "slow link", Sentence(run, found),
                              report::Tone::kPlain, found.cost_ms});
  }
  if (findings.items.size() > 1) {
    document.Add("Findings, the most expensive first", findings);
  }
  const auto rows = [&run](size_t limit) {
    report::DataTable table{
        RankTable(run,
                  {"Rank", "Steps", "Step ms", "Computing ms", "Communication ms", "Free ms",
                   "Waiting ms", "Transfer ms", "Cost ms", "Verdict"},
                  kShownParts)};
    table.display_limit.items = limit;
    return table;
  };
  document.Add("Ranks, per step", rows(top));
  report::List counts{report::ListKind::kFacts, {}};
  counts.items.push_back({"ranks", run.known == run.ranks.size()
                                       ? base::FormatCount(run.known)
                                       : fmt::format("{} of {}", run.known, run.ranks.size())});
  counts.items.push_back({"collectives matched", base::FormatCount(run.matched)});
  if (run.unmatched > 0) {
    counts.items.push_back({"calls not matched", base::FormatCount(run.unmatched)});
  }
  document.Add("Counts", counts);
  document.AddFiles(run.files);
  report::PageView& page = document.page.emplace();
  if (!findings.items.empty()) {
    page.Add("Findings, the most expensive first", "", std::move(findings));
  }
  if (report::Map map = StepMap(run); !map.items.empty()) {
    page.Add("Ranks by steps", "time without communication above the median of the ranks",
             std::move(map));
  }
  if (report::Map map = WaitingMap(run); !map.items.empty()) {
    page.Add("Ranks by collectives", "how long a rank waits for others", std::move(map));
  }
  if (report::StackedBars bars = LoadBars(run); !bars.items.empty()) {
    page.Add("What the step consists of", "", std::move(bars));
  }
  page.Add("Ranks, per step", "", rows(SIZE_MAX));
  page.Add("Counts", "", std::move(counts));
  return document;
}

}  // namespace msprobe::analysis::perf
