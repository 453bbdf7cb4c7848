#include "src/analysis/perf/wait_findings.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <map>
#include <string>
#include <string_view>
#include <unordered_map>
#include <utility>

#include <fmt/format.h>

#include "src/analysis/perf/communication.h"
#include "src/analysis/perf/findings.h"
#include "src/analysis/perf/idle_time.h"
#include "src/analysis/perf/kernel_names.h"
#include "src/analysis/perf/units.h"
#include "src/analysis/perf/work_groups.h"
#include "src/base/strings.h"
#include "src/base/utf8.h"

namespace msprobe::analysis::perf {
namespace {

using profile::TextId;

// Uncovered time, and what all of it took.
struct Waits {
  Amounts uncovered;
  Amounts whole;
};

// Copies by their names and the operators that they lie in.
class LabelsOfCopies {
 public:
  explicit LabelsOfCopies(const DeviceWork& work) : work_(work) {}

  const std::string& Of(const WorkItem& item) {
    const uint32_t caller = work_.tree().OperatorOf(item.node);
    const TextId around = caller == HostTree::kNone ? profile::kNoText : work_.tree()[caller].name;
    const auto [known, is_new] =
        labels_.try_emplace(uint64_t{item.name} << 32U | around, std::string());
    if (is_new) {
      known->second = ShortKernelName(NeutralName(work_.profile().texts[item.name]));
      if (caller != HostTree::kNone) {
        known->second +=
            " in " + base::Shortened(work_.profile().texts[around], kLongestNameAround);
      }
    }
    return known->second;
  }

 private:
  const DeviceWork& work_;
  std::unordered_map<uint64_t, std::string> labels_;
};

// Sums by label; `labels`, of each side: Of(item).
template <typename Labels>
std::map<std::string, Waits> SumWaits(const DeviceWork& base, const DeviceWork& comparison,
                                      WorkKind kind, double TimeSplit::*share,
                                      std::array<Labels, 2> labels) {
  std::map<std::string, Waits> sums;
  for (const size_t side : {size_t{0}, size_t{1}}) {
    const DeviceWork& work = side == 0 ? base : comparison;
    double uncovered_us = 0;
    for (const WorkItem& item : work.items()) {
      uncovered_us += item.kind == kind ? item.uncovered_us : 0;
    }
    // What runs side by side shares the time that it takes together.
    const double scale = uncovered_us > 0 ? work.split().*share * kUsPerMs / uncovered_us : 0;
    for (const WorkItem& item : work.items()) {
      if (item.kind != kind) {
        continue;
      }
      Waits& waits = sums[labels[side].Of(item)];
      waits.uncovered[side].ms += item.uncovered_us * scale / kUsPerMs;
      waits.whole[side].ms += item.us / kUsPerMs;
      ++waits.uncovered[side].calls;
    }
  }
  return sums;
}

Finding WaitFinding(const std::string& label, const Waits& waits, std::string_view metric) {
  Finding finding;
  finding.where = label;
  finding.metric = metric;
  finding.base = waits.uncovered[0].ms;
  finding.comparison = waits.uncovered[1].ms;
  finding.base_calls = waits.uncovered[0].calls;
  finding.comparison_calls = waits.uncovered[1].calls;
  if (waits.whole[0].ms - finding.base > finding.base / 100 ||
      waits.whole[1].ms - finding.comparison > finding.comparison / 100) {
    finding.note = fmt::format("{:.3f} -> {:.3f} ms with what is hidden behind other work",
                               waits.whole[0].ms, waits.whole[1].ms);
  }
  return finding;
}

// Kernels that graphs launched, of all.
double GraphShare(const DeviceWork& work) {
  size_t by_graph = 0;
  for (const WorkItem& item : work.items()) {
    by_graph += item.by_graph ? 1 : 0;
  }
  return work.items().empty()
             ? 0
             : static_cast<double>(by_graph) / static_cast<double>(work.items().size());
}

int64_t CountLaunches(const DeviceWork& work) {
  int64_t count = 0;
  const WorkItem* last = nullptr;
  for (const WorkItem& item : work.items()) {
    const bool same_graph = item.by_graph && last != nullptr && last->launched == item.launched;
    count += item.has_launch && !same_graph ? 1 : 0;
    last = &item;
  }
  return count;
}

}  // namespace

std::vector<Finding> CommunicationFindings(const DeviceWork& base, const DeviceWork& comparison,
                                           const PairOptions& options) {
  using Kinds = KindsOfCollectives;
  const bool by_kind = options.match_collectives_by_kind;
  const auto sums =
      SumWaits(base, comparison, WorkKind::kCommunication, &TimeSplit::communication,
               std::array<Kinds, 2>{Kinds(base, by_kind), Kinds(comparison, by_kind)});
  std::vector<Finding> findings;
  for (const auto& [label, waits] : sums) {
    Finding finding = WaitFinding(label, waits, kCommunicationTime);
    const auto& [before, after] = waits.whole;
    if (finding.base_calls == finding.comparison_calls && after.ms > before.ms * 1.05) {
      finding.note += finding.note.empty() ? "" : "; ";
      finding.note +=
          "the same calls take longer: slower links, or waiting for another rank (its profile "
          "shows which)";
    }
    findings.push_back(std::move(finding));
  }
  return findings;
}

std::vector<Finding> CopyFindings(const DeviceWork& base, const DeviceWork& comparison) {
  using Labels = LabelsOfCopies;
  const auto sums = SumWaits(base, comparison, WorkKind::kCopy, &TimeSplit::copies,
                             std::array<Labels, 2>{Labels(base), Labels(comparison)});
  std::vector<Finding> findings;
  for (const auto& [label, waits] : sums) {
    findings.push_back(WaitFinding(label, waits, kCopyTime));
  }
  return findings;
}

std::vector<Finding> IdleFindings(const DeviceWork& base, const DeviceWork& comparison) {
  std::map<std::string, Amounts> sums;
  for (const size_t side : {size_t{0}, size_t{1}}) {
    for (const auto& [label, amount] : IdleTimeByCause(side == 0 ? base : comparison)) {
      sums[label][side] = amount;
    }
  }
  std::vector<Finding> findings;
  Finding all;
  all.metric = kIdleTime;
  all.base = base.split().idle;
  all.comparison = comparison.split().idle;
  all.base_calls = CountLaunches(base);
  all.comparison_calls = CountLaunches(comparison);
  double largest = 0;
  std::vector<std::pair<double, std::string>> ranked;
  for (const auto& [label, amounts] : sums) {
    Finding finding;
    finding.where = label;
    finding.metric = kIdleTime;
    finding.base = amounts[0].ms;
    finding.comparison = amounts[1].ms;
    finding.base_calls = amounts[0].calls;
    finding.comparison_calls = amounts[1].calls;
    const double change = finding.comparison - finding.base;
    if (change * (all.comparison - all.base) > 0) {
      largest = std::max(largest, std::fabs(change));
      ranked.emplace_back(-std::fabs(change), label);
    }
    findings.push_back(std::move(finding));
  }
  // One cause that explains most of it stands for itself.
  constexpr double kMostOfIt = 0.6;
  const double graphs = GraphShare(comparison) - GraphShare(base);
  constexpr double kManyKernels = 0.2;
  if (std::fabs(graphs) >= kManyKernels) {
    all.where = graphs < 0 ? "launches one by one instead of by graphs"
                           : "launches by graphs instead of one by one";
  } else if (largest < kMostOfIt * std::fabs(all.comparison - all.base)) {
    all.where = "the host, which launches too slowly";
  } else {
    return findings;
  }
  std::sort(ranked.begin(), ranked.end());
  std::vector<std::string> causes;
  for (size_t i = 0; i < std::min<size_t>(3, ranked.size()); ++i) {
    causes.push_back(ranked[i].second);
  }
  all.note = fmt::format("launches of work {} -> {}; meanwhile the host was in: {}", all.base_calls,
                         all.comparison_calls, base::Join(causes, ", "));
  findings.push_back(std::move(all));
  return findings;
}

}  // namespace msprobe::analysis::perf
