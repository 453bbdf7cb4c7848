#include "src/analysis/perf/communication_groups.h"

#include <algorithm>
#include <array>
#include <string>

#include <fmt/format.h>

#include "src/analysis/perf/units.h"
#include "src/base/utf8.h"

namespace msprobe::analysis::perf {
namespace {

using profile::Nanoseconds;
using profile::Profile;

// Pairs of groups are told: a rank is in some dozens of them.
constexpr size_t kMostPairedGroups = 512;
constexpr size_t kLongestPairedName = 256;

void SortByStart(Intervals& intervals) {
  std::stable_sort(intervals.begin(), intervals.end(),
                   [](const auto& a, const auto& b) { return a.start < b.start; });
}

Intervals OperatorsOf(const Profile& side, const profile::CommunicationGroup& group) {
  Intervals intervals;
  for (const uint32_t index : group.operators) {
    const profile::CommunicationOperator& operation = side.communication[index];
    intervals.push_back({operation.start, operation.end, operation.duration_us});
  }
  SortByStart(intervals);
  return intervals;
}

char LetterOf(std::string_view task) {
  return task == "RDMASend" ? 'R' : task == "Notify_Wait" ? 'N' : 'O';
}

// Tasks that wait for another rank. A wait behind two sends, or behind send, send, wait, send, is
// part of a transfer instead.
Intervals WaitsOf(const Profile& side, const std::vector<uint32_t>& tasks) {
  std::vector<uint32_t> ordered = tasks;
  std::stable_sort(ordered.begin(), ordered.end(), [&](uint32_t a, uint32_t b) {
    return side.communication_tasks[a].start < side.communication_tasks[b].start;
  });
  Intervals waits;
  std::string last_four;
  for (const uint32_t index : ordered) {
    const profile::CommunicationTask& task = side.communication_tasks[index];
    const char letter = LetterOf(side.texts[task.name]);
    const bool is_transfer =
        last_four == "RRNR" || (last_four.size() == 4 && last_four.substr(2) == "RR");
    if (letter == 'N' && !is_transfer) {
      waits.push_back({task.start, task.end, task.duration_us});
    }
    last_four = last_four.empty() ? std::string("OOO") + letter : last_four.substr(1) + letter;
  }
  return waits;
}

// The waits of the plane that waits least: the others wait for it.
Intervals LeastWaits(const Profile& side, const profile::CommunicationGroup& group) {
  Intervals least;
  double least_us = 0;
  bool found = false;
  for (const auto& [plane, tasks] : group.planes) {
    Intervals waits = WaitsOf(side, tasks);
    double sum_us = 0;
    for (const profile::Interval& wait : waits) {
      sum_us += wait.duration_us;
    }
    if (!found || sum_us < least_us) {
      least = std::move(waits);
      least_us = sum_us;
      found = true;
    }
  }
  return least;
}

}  // namespace

std::vector<GroupTime> MeasureGroups(const Profile& side, const Intervals& uncovered) {
  std::vector<GroupTime> times;
  for (const profile::CommunicationGroup& group : side.groups) {
    const Nanoseconds wait = OverlapTime(uncovered, LeastWaits(side, group));
    const Nanoseconds total = OverlapTime(uncovered, OperatorsOf(side, group));
    times.push_back(
        {std::string(side.texts[group.name]), std::string(side.texts[group.parallel_name]),
         static_cast<double>(wait) / kNsPerMs, static_cast<double>(total - wait) / kNsPerMs});
  }
  return times;
}

std::vector<GroupOverlap> MeasureGroupOverlaps(const Profile& side, const Intervals& uncovered,
                                               std::vector<std::string>& warnings) {
  if (side.groups.size() > kMostPairedGroups) {
    warnings.push_back(fmt::format(
        "{} holds {} groups of communication: which of them communicate at once is told "
        "of up to {}",
        side.path.string(), side.groups.size(), kMostPairedGroups));
    return {};
  }
  std::vector<Intervals> clipped;
  std::vector<std::string> names;
  for (const profile::CommunicationGroup& group : side.groups) {
    clipped.push_back(Clip(OperatorsOf(side, group), uncovered));
    names.push_back(base::Shortened(
        side.texts[group.parallel_name == profile::kNoText ? group.name : group.parallel_name],
        kLongestPairedName));
  }
  std::vector<GroupOverlap> overlaps;
  for (size_t first = 0; first < clipped.size(); ++first) {
    for (size_t second = first + 1; second < clipped.size(); ++second) {
      const Nanoseconds both = OverlapTime(clipped[first], clipped[second]);
      if (both != 0) {
        overlaps.push_back({names[first], names[second], static_cast<double>(both) / kNsPerMs});
      }
    }
  }
  return overlaps;
}

}  // namespace msprobe::analysis::perf
