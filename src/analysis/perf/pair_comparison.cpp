#include "src/analysis/perf/pair_comparison.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <deque>
#include <functional>
#include <initializer_list>
#include <limits>
#include <optional>
#include <string>
#include <string_view>
#include <unordered_map>
#include <unordered_set>
#include <utility>
#include <vector>

#include <fmt/format.h>

#include "src/analysis/perf/communication.h"
#include "src/analysis/perf/device_work.h"
#include "src/analysis/perf/findings.h"
#include "src/analysis/perf/kernel_compare.h"
#include "src/analysis/perf/module_compare.h"
#include "src/analysis/perf/operator_compare.h"
#include "src/analysis/perf/operator_tree.h"
#include "src/analysis/perf/sheet.h"
#include "src/base/numbers.h"
#include "src/base/strings.h"
#include "src/profile/profile.h"
#include "src/report/xlsx_writer.h"

namespace msprobe::analysis::perf {
namespace {

using report::Shade;

// One side of one row; without a count the cell shows a stroke.
struct Share {
  double ms = 0;
  std::optional<int64_t> count;
};

Share Of(const Bucket& bucket) { return {bucket.ms, bucket.count}; }
Share Time(double ms) { return {ms, std::nullopt}; }

Share Other(const OverallTimes& times) {
  const double rest =
      times.computing_s * kMsPerS - times.flash_forward().ms - times.flash_backward().ms -
      times.conv_forward().ms - times.conv_backward().ms - times.matmul().ms - times.vector().ms -
      times.tensor_move.ms - times.other_cube.ms - times.paged_attention.ms - times.combined_ms();
  return Time(std::max(0.0, rest));
}

Share Computing(const OverallTimes& times) {
  const Bucket all = times.flash_forward() + times.flash_backward() + times.conv_forward() +
                     times.conv_backward() + times.matmul() + times.vector() + times.tensor_move +
                     times.other_cube + times.paged_attention;
  return {times.computing_s * kMsPerS, all.count};
}

class OverallRows {
 public:
  OverallRows(const OverallTimes& base, const OverallTimes& comparison, const PairOptions& options)
      : base_(base), comparison_(comparison) {
    constexpr auto kInteger = report::NumberFormat::kInteger;
    constexpr auto kFixed = report::NumberFormat::kFixed2;
    constexpr auto kPercent = report::NumberFormat::kPercent;
    static constexpr std::array<SheetColumn, 9> kColumns = {
        {{"Index", 40, kInteger, false},
         {"Duration(ms)", 20, kFixed, false},
         {"Duration Ratio", 20, kPercent, false},
         {"Number", 10, kInteger, false},
         {"Duration(ms)", 20, kFixed, false},
         {"Duration Ratio", 20, kPercent, false},
         {"Number", 10, kInteger, false},
         {"Diff Duration(ms)", 20, kFixed, false},
         {"Diff Ratio", 10, kPercent, false}}};
    sheet_ = MakeSheet("OverallMetrics", kColumns, {1, 3}, {4, 6}, options);
  }

  report::FormattedTable Build() {
    Row("Computing Time", Computing(base_), Computing(comparison_), Shade::kDeepSky);
    AddCombined();
    AddComputing();
    Row("Uncovered Communication Time", Time(base_.uncovered_s * kMsPerS),
        Time(comparison_.uncovered_s * kMsPerS), Shade::kDeepSky);
    AddGroups();
    AddOverlaps();
    Row("Free Time", Time(base_.free_s * kMsPerS), Time(comparison_.free_s * kMsPerS),
        Shade::kDeepSky);
    Row("\tSDMA", Time(base_.stream_copies.ms), Time(comparison_.stream_copies.ms), Shade::kNone);
    Row("\tFree", Time(base_.free_s * kMsPerS - base_.stream_copies.ms),
        Time(comparison_.free_s * kMsPerS - comparison_.stream_copies.ms), Shade::kNone);
    Row("E2E Time", Time(base_.end_to_end_s * kMsPerS), Time(comparison_.end_to_end_s * kMsPerS),
        Shade::kDeepSky);
    return std::move(sheet_);
  }

 private:
  void Row(const std::string& index, const Share& base, const Share& comparison, Shade shade) {
    if (base.ms == 0 && comparison.ms == 0) {
      return;
    }
    report::Table& table = sheet_.table;
    const auto number = [](const Share& share) {
      return share.count.has_value() ? report::Cell::Integer(*share.count)
                                     : report::Cell::Text("/");
    };
    const auto part = [](const Share& share, const OverallTimes& times) {
      return report::Cell::Number(share.ms / (times.end_to_end_s * kMsPerS));
    };
    const Difference difference = Differ(base.ms, comparison.ms);
    const std::array<report::Cell, 9> cells = {table.KeepText(index),
                                               report::Cell::Number(base.ms),
                                               part(base, base_),
                                               number(base),
                                               report::Cell::Number(comparison.ms),
                                               part(comparison, comparison_),
                                               number(comparison),
                                               report::Cell::Number(difference.difference),
                                               report::Cell::Number(difference.ratio)};
    table.AddRow(cells);
    sheet_.row_shades.push_back(shade);
    sheet_.row_indents.push_back(
        static_cast<uint8_t>(std::min(index.find_first_not_of('\t'), size_t{UINT8_MAX})));
  }

  // Kernels that compute and communicate in one, met by name.
  void AddCombined() {
    const auto add = [&](const CombinedKernel* base, const CombinedKernel* comparison) {
      const CombinedKernel none;
      const CombinedKernel& first = base != nullptr ? *base : none;
      const CombinedKernel& second = comparison != nullptr ? *comparison : none;
      const auto count = [](const CombinedKernel* kernel) {
        return kernel != nullptr ? std::optional(kernel->count) : std::nullopt;
      };
      Row("\t" + (base != nullptr ? base : comparison)->name, {first.total_ms, count(base)},
          {second.total_ms, count(comparison)}, Shade::kLightSky);
      Row("\t\tComputing", Time(first.computing_ms), Time(second.computing_ms), Shade::kNone);
      Row("\t\tCommunication", Time(first.communication_ms), Time(second.communication_ms),
          Shade::kNone);
    };
    const ByName<CombinedKernel> of_base(base_.combined);
    const ByName<CombinedKernel> of_comparison(comparison_.combined);
    for (const CombinedKernel& kernel : base_.combined) {
      add(&kernel, of_comparison.Find(kernel.name));
    }
    for (const CombinedKernel& kernel : comparison_.combined) {
      if (of_base.Find(kernel.name) == nullptr) {
        add(nullptr, &kernel);
      }
    }
  }

  // A kind of work, and how it was shared out between the two kinds of units.
  void AddSplit(const std::string& name, Bucket OverallTimes::*cube, Bucket OverallTimes::*vector,
                std::string_view cube_name, std::string_view vector_name) {
    Row("\t" + name, Of(base_.*cube + base_.*vector), Of(comparison_.*cube + comparison_.*vector),
        Shade::kLightSky);
    Row(fmt::format("\t\t{} ({})", name, cube_name), Of(base_.*cube), Of(comparison_.*cube),
        Shade::kNone);
    Row(fmt::format("\t\t{} ({})", name, vector_name), Of(base_.*vector), Of(comparison_.*vector),
        Shade::kNone);
  }

  void AddComputing() {
    using Times = OverallTimes;
    AddSplit("Flash Attention (Forward)", &Times::flash_forward_cube, &Times::flash_forward_vector,
             "Cube", "Vector");
    AddSplit("Flash Attention (Backward)", &Times::flash_backward_cube,
             &Times::flash_backward_vector, "Cube", "Vector");
    AddSplit("Conv (Forward)", &Times::conv_forward_cube, &Times::conv_forward_vector, "Cube",
             "Vector");
    AddSplit("Conv (Backward)", &Times::conv_backward_cube, &Times::conv_backward_vector, "Cube",
             "Vector");
    AddSplit("Matmul", &Times::matmul_cube, &Times::matmul_vector, "Cube", "Vector");
    Row("\tPage Attention", Of(base_.paged_attention), Of(comparison_.paged_attention),
        Shade::kLightSky);
    AddSplit("Vector", &Times::vector_trans, &Times::vector_no_trans, "Trans", "No Trans");
    Row("\tCube", Of(base_.other_cube), Of(comparison_.other_cube), Shade::kLightSky);
    Row("\tSDMA (Tensor Move)", Of(base_.tensor_move), Of(comparison_.tensor_move),
        Shade::kLightSky);
    Row("\tOther", Other(base_), Other(comparison_), Shade::kLightSky);
  }

  void AddGroup(const std::string& title, const GroupTime* base, const GroupTime* comparison) {
    const GroupTime none;
    const GroupTime& first = base != nullptr ? *base : none;
    const GroupTime& second = comparison != nullptr ? *comparison : none;
    Row("\t" + title, Time(first.wait_ms + first.transmit_ms),
        Time(second.wait_ms + second.transmit_ms), Shade::kLightSky);
    Row("\t\tWait", Time(first.wait_ms), Time(second.wait_ms), Shade::kNone);
    Row("\t\tTransmit", Time(first.transmit_ms), Time(second.transmit_ms), Shade::kNone);
  }

  // First by the name of their kind of parallelism, where that names one group on either side;
  // the others by their own name.
  void AddGroups() {
    using Groups = std::vector<const GroupTime*>;
    const auto by = [](const OverallTimes& times, std::string GroupTime::*name) {
      std::unordered_map<std::string_view, Groups> groups;
      for (const GroupTime& group : times.groups) {
        groups[group.*name].push_back(&group);
      }
      return groups;
    };
    const auto base_kinds = by(base_, &GroupTime::parallel_name);
    const auto comparison_kinds = by(comparison_, &GroupTime::parallel_name);
    std::unordered_set<const GroupTime*> done;
    for (const GroupTime& group : base_.groups) {
      if (group.parallel_name.empty() || base_kinds.at(group.parallel_name).size() != 1) {
        continue;
      }
      const auto others = comparison_kinds.find(group.parallel_name);
      if (others != comparison_kinds.end() && others->second.size() == 1) {
        AddGroup(group.parallel_name + ": Communication", &group, others->second[0]);
        done.insert(&group);
        done.insert(others->second[0]);
      }
    }
    const auto is_done = [&](const GroupTime& group) { return done.find(&group) != done.end(); };
    const auto title = [](const GroupTime& group) {
      return group.parallel_name.empty() ? group.name
                                         : fmt::format("{}: {}", group.parallel_name, group.name);
    };
    std::unordered_map<std::string_view, std::deque<const GroupTime*>> others;
    for (const GroupTime& group : comparison_.groups) {
      if (!is_done(group)) {
        others[group.name].push_back(&group);
      }
    }
    for (const GroupTime& group : base_.groups) {
      if (is_done(group)) {
        continue;
      }
      const GroupTime* match = nullptr;
      if (const auto same = others.find(group.name);
          same != others.end() && !same->second.empty()) {
        match = same->second.front();
        same->second.pop_front();
        done.insert(match);
      }
      AddGroup(title(group), &group, match);
    }
    for (const GroupTime& group : comparison_.groups) {
      if (!is_done(group)) {
        AddGroup(title(group), nullptr, &group);
      }
    }
  }

  void AddOverlaps() {
    const auto sum = [](const OverallTimes& times) {
      double ms = 0;
      for (const GroupOverlap& overlap : times.overlaps) {
        ms += overlap.ms;
      }
      return Time(ms);
    };
    Row("\tUncovered Communication Overlapped", sum(base_), sum(comparison_), Shade::kLightSky);
    const auto title = [](const GroupOverlap& overlap) {
      return fmt::format("\t\t{} & {}", overlap.first, overlap.second);
    };
    const auto by_title = [&](const OverallTimes& times) {
      std::unordered_map<std::string, double> overlaps;  // the first one of a title
      for (const GroupOverlap& overlap : times.overlaps) {
        overlaps.emplace(title(overlap), overlap.ms);
      }
      return overlaps;
    };
    const auto base_overlaps = by_title(base_);
    const auto comparison_overlaps = by_title(comparison_);
    for (const GroupOverlap& overlap : base_.overlaps) {
      const auto other = comparison_overlaps.find(title(overlap));
      Row(title(overlap), Time(overlap.ms),
          Time(other == comparison_overlaps.end() ? 0 : other->second), Shade::kNone);
    }
    for (const GroupOverlap& overlap : comparison_.overlaps) {
      if (base_overlaps.find(title(overlap)) == base_overlaps.end()) {
        Row(title(overlap), Time(0), Time(overlap.ms), Shade::kNone);
      }
    }
  }

  const OverallTimes& base_;
  const OverallTimes& comparison_;
  report::FormattedTable sheet_;
};

}  // namespace

report::FormattedTable OverallSheet(const OverallTimes& base, const OverallTimes& comparison,
                                    const PairOptions& options) {
  if (base.end_to_end_s == 0 || comparison.end_to_end_s == 0) {
    return {};
  }
  return OverallRows(base, comparison, options).Build();
}

namespace {

using profile::Profile;

// Sheets in the order of the workbook.
enum Slot : size_t {
  kOverall,
  kCommunication,
  kOperatorStatistic,  // or of modules
  kOperatorDetails,
  kMemoryStatistic,
  kMemoryDetails,
  kApi,
  kKernels,
  kSlotCount
};

// What is read decides about results, too: a collective that was not read is linked to no operator.
// Both kinds of devices are asked for what either needs; the surplus is small and changes nothing.
profile::Needs NeedsOf(const PairOptions& options, const std::optional<std::string>& step) {
  const bool operators = options.operators || !options.watched_operators.empty();
  profile::Needs needs;
  needs.operators =
      options.memory || operators || options.overall || options.api || step.has_value();
  needs.kernels = options.communication || options.overall || operators || options.max_kernels;
  needs.flows = operators || options.overall || options.max_kernels;
  needs.python_calls = options.operators;
  needs.memory = options.memory || options.overall;
  needs.communication = options.communication || options.overall;
  needs.overlap = options.overall;
  needs.kernel_details = options.overall || options.operators || options.kernels;
  needs.gpu_kernels = options.kernels || options.communication;
  needs.operator_statistics = options.kernels && options.use_kernel_type;
  needs.bandwidth = options.overall;
  needs.flow_category = base::AsciiLower(options.gpu_flow_category);
  if (step.has_value()) {
    needs.step = base::ParseInt(*step);
  }
  needs.strict = options.strict;
  return needs;
}

// A number that no step can have was refused with the command line; this is about this profile.
Status CheckStep(const Profile& side, const std::optional<std::string>& step) {
  if (!step.has_value() || std::any_of(side.steps.begin(), side.steps.end(),
                                       [&](const auto& known) { return known.id == *step; })) {
    return {};
  }
  std::vector<std::string> known;
  for (const profile::Step& there : side.steps) {
    if (std::find(known.begin(), known.end(), there.id) == known.end()) {
      known.push_back(there.id);
    }
  }
  return UsageError(fmt::format("{} holds no step {}", side.path.string(), *step))
      .WithHint(known.empty() ? std::string("it holds no step markers (ProfilerStep#N) at all")
                              : fmt::format("its steps: {}", base::Join(known, ", ")));
}

// Those of a side's kernels that `work` holds.
std::vector<profile::Kernel> KernelsOf(const DeviceWork& work) {
  std::vector<uint32_t> held;
  for (const WorkItem& item : work.items()) {
    if (item.kernel < work.profile().kernels.size()) {
      held.push_back(item.kernel);
    }
  }
  std::sort(held.begin(), held.end());
  std::vector<profile::Kernel> kernels;
  kernels.reserve(held.size());
  for (const uint32_t index : held) {
    kernels.push_back(work.profile().kernels[index]);
  }
  return kernels;
}

UnownedTime UnownedOf(const DeviceWork& work) {
  return {work.total_ms(),
          work.owned_ms(Owner::kGraph),
          work.owned_ms(Owner::kCopy),
          work.owned_ms(Owner::kEarlier),
          work.owned_ms(Owner::kOutside),
          work.owned_ms(Owner::kUnknown)};
}

// Of a profile without device work: from the first operator to the end of the last one.
TimeSplit SplitOfHost(const HostTree& tree) {
  std::vector<std::pair<profile::Nanoseconds, profile::Nanoseconds>> operators;
  profile::Nanoseconds last = std::numeric_limits<profile::Nanoseconds>::min();
  profile::Nanoseconds first = std::numeric_limits<profile::Nanoseconds>::max();
  for (const HostTree::Node& node : tree.nodes()) {
    first = std::min(first, node.start);
    last = std::max(last, node.end);
    if (node.kind == HostTree::Kind::kOperator) {
      operators.emplace_back(node.start, node.end);
    }
  }
  std::sort(operators.begin(), operators.end());
  BusyTime busy;
  for (const auto& [start, end] : operators) {
    busy.Add(start, end);
  }
  TimeSplit split;
  split.of_host = true;
  if (!tree.nodes().empty()) {
    split.end_to_end = static_cast<double>(last - first) / kNsPerMs;
    split.computing = static_cast<double>(busy.total()) / kNsPerMs;
    split.idle = split.end_to_end - split.computing;
  }
  return split;
}

TimeSplit SplitOfNpu(const OverallTimes& times) {
  TimeSplit split;
  split.end_to_end = times.end_to_end_s * kMsPerS;
  split.computing = times.computing_s * kMsPerS;
  split.communication = times.uncovered_s * kMsPerS;
  split.idle = std::max(0.0, split.end_to_end - split.computing - split.communication);
  return split;
}

size_t CountSteps(const Profile& side) {
  std::unordered_set<std::string_view> ids;
  for (const profile::Step& step : side.steps) {
    ids.insert(step.id);
  }
  return ids.size();
}

class Comparer {
 public:
  Comparer(const PairOptions& options, base::ThreadPool& pool) : options_(options), pool_(pool) {}

  Result<PairComparison> Run() {
    MSP_RETURN_IF_ERROR(Read());
    result_.base_device = sides_[0].device;
    result_.comparison_device = sides_[1].device;
    RunTasks({[this] { Prepare(0); }, [this] { Prepare(1); }});
    // Before there are sheets: it holds a group for each name while it looks for the largest.
    RunTasks({[this] { Find(); }, [this] { MatchAll(); }, [this] { CompareCommunication(); },
              [this] { CompareCalls(); }, [this] { CompareKernels(); }});
    RunTasks({[this] { CompareOperators(); }, [this] { CompareOperatorDetails(); },
              [this] { CompareMemory(); }, [this] { CompareMemoryDetails(); },
              [this] { CompareDeviceWork(); }});
    TakeOverall();
    Conclude();
    return Finish();
  }

 private:
  using Task = std::function<void()>;

  // Each task writes to members of its own.
  void RunTasks(const std::vector<Task>& tasks) {
    pool_.ParallelFor(tasks.size(), [&](size_t item, size_t /*worker*/) { tasks[item](); });
  }

  const std::optional<std::string>& Step(size_t side) const {
    return side == 0 ? options_.base_step : options_.comparison_step;
  }

  Status Read() {
    std::array<std::optional<Result<Profile>>, 2> read;
    pool_.ParallelFor(2, [&](size_t side, size_t /*worker*/) {
      read[side] = profile::ReadProfile(side == 0 ? options_.base : options_.comparison,
                                        NeedsOf(options_, Step(side)),
                                        side == 0 ? options_.base_rank : options_.comparison_rank);
    });
    for (size_t side = 0; side < 2; ++side) {
      MSP_ASSIGN_OR_RETURN(sides_[side], *std::move(read[side]));
      MSP_RETURN_IF_ERROR(CheckStep(sides_[side], Step(side)));
    }
    WarnOfReading();
    return {};
  }

  // What both profiles lack is said once.
  void WarnOfReading() {
    std::vector<std::string> of_base = sides_[0].warnings;
    std::vector<std::string> of_comparison = sides_[1].warnings;
    const std::string base_path = sides_[0].path.string();
    const std::string path = sides_[1].path.string();
    for (std::string& text : of_base) {
      constexpr std::string_view kHolds = " holds ";
      const std::string rest = text.substr(std::min(base_path.size(), text.size()));
      const auto same = std::find(of_comparison.begin(), of_comparison.end(), path + rest);
      if (base_path != path && text.starts_with(base_path) && rest.starts_with(kHolds) &&
          same != of_comparison.end()) {
        text = fmt::format("{} and {} hold {}", base_path, path, rest.substr(kHolds.size()));
        of_comparison.erase(same);
      }
    }
    Warn(of_base);
    Warn(of_comparison);
  }

  void Prepare(size_t side) {
    const Profile& profile = sides_[side];
    if (!profile.operators.empty() || !profile.python_calls.empty() ||
        !profile.runtime_calls.empty() || !profile.kernels.empty()) {
      trees_[side].emplace(profile);
    }
    const bool of_collectives = options_.communication && profile.device == profile::Device::kGpu;
    if (trees_[side].has_value() && (options_.overall || options_.operators || options_.kernels ||
                                     of_collectives || !options_.watched_operators.empty())) {
      work_[side].emplace(profile, *trees_[side], Step(side));
    }
    if (options_.overall) {
      times_[side] = MeasureSide(side);
    }
    if (options_.operators || options_.memory || options_.api ||
        !options_.watched_operators.empty()) {
      operators_[side].emplace(sides_[side], Step(side));
    }
    if (options_.operators && options_.modules) {
      modules_[side].emplace(*operators_[side]);
    }
  }

  // Of a trace that knows its steps the one that was asked for; an NPU's tables have none.
  Result<OverallTimes> MeasureSide(size_t side) {
    Profile& measured = sides_[side];
    if (!Step(side).has_value() || measured.device != profile::Device::kGpu) {
      return MeasureOverall(measured, options_, overall_warnings_[side]);
    }
    std::vector<profile::Kernel> all =
        std::exchange(measured.kernels, work_[side].has_value() ? KernelsOf(*work_[side])
                                                                : std::vector<profile::Kernel>());
    Result<OverallTimes> times = MeasureOverall(measured, options_, overall_warnings_[side]);
    measured.kernels = std::move(all);
    return times;
  }

  void MatchAll() {
    if (options_.operators || options_.memory) {
      pairs_ = MatchOperators(*operators_[0], *operators_[1], options_, match_warnings_);
    }
    if (modules_[0].has_value()) {
      by_module_ = CanCompareModules(*modules_[0], *modules_[1], options_);
    }
    if (by_module_) {
      module_pairs_ = MatchModules(*modules_[0], *modules_[1], options_);
    }
    if (!options_.watched_operators.empty()) {
      std::array<WatchedSide, 2> watched;
      for (size_t side = 0; side < 2; ++side) {
        watched[side] = {&*operators_[side], nullptr, Step(side)};
        if (sides_[side].device == profile::Device::kGpu && work_[side].has_value()) {
          watched[side].work = &*work_[side];
        }
      }
      result_.watched = WatchOperators(watched[0], watched[1], options_.watched_operators);
    }
  }

  void CompareCommunication() {
    if (options_.communication) {
      sheets_[kCommunication] = CommunicationSheet(sides_[0], sides_[1], options_);
      result_.collectives = CompareCollectives(
          sides_[0], sides_[1], {work_[0] ? &*work_[0] : nullptr, work_[1] ? &*work_[1] : nullptr},
          options_);
    }
  }

  void CompareCalls() {
    if (options_.api) {
      sheets_[kApi] = ApiCompare(*operators_[0], *operators_[1], options_, api_warnings_);
    }
  }

  void CompareKernels() {
    if (options_.kernels) {
      sheets_[kKernels] = KernelCompare(sides_[0], sides_[1], options_, kernel_warnings_);
    }
  }

  void CompareOperators() {
    if (by_module_) {
      sheets_[kOperatorStatistic] =
          ModuleStatistic(*modules_[0], *modules_[1], module_pairs_, options_);
    } else if (options_.operators) {
      sheets_[kOperatorStatistic] =
          OperatorStatistic(*operators_[0], *operators_[1], pairs_, options_);
    }
  }

  void CompareOperatorDetails() {
    if (by_module_ && options_.details) {
      sheets_[kOperatorDetails] =
          ModuleDetails(*modules_[0], *modules_[1], module_pairs_, options_, module_warnings_);
    } else if (options_.operators && options_.details) {
      sheets_[kOperatorDetails] = OperatorDetails(*operators_[0], *operators_[1], pairs_, options_);
    }
  }

  void CompareMemory() {
    if (options_.memory) {
      sheets_[kMemoryStatistic] = MemoryStatistic(*operators_[0], *operators_[1], pairs_, options_);
    }
  }

  void CompareMemoryDetails() {
    if (options_.memory && options_.details) {
      sheets_[kMemoryDetails] = MemoryDetails(*operators_[0], *operators_[1], pairs_, options_);
    }
  }

  void Find() {
    if (!options_.operators && !options_.memory && !options_.api) {
      return;
    }
    std::array<SideView, 2> views;
    for (size_t side = 0; side < 2; ++side) {
      views[side].profile = &sides_[side];
      views[side].step = Step(side);
      views[side].tree = trees_[side].has_value() ? &*trees_[side] : nullptr;
      views[side].work = options_.operators && HasWork(side) ? &*work_[side] : nullptr;
      views[side].operators =
          options_.memory && operators_[side].has_value() ? &*operators_[side] : nullptr;
    }
    result_.findings = FindDifferences(views[0], views[1], options_);
  }

  bool HasWork(size_t side) const {
    return work_[side].has_value() && !work_[side]->items().empty();
  }

  void CompareDeviceWork() {
    if (options_.kernels && (HasWork(0) || HasWork(1)) && work_[0].has_value() &&
        work_[1].has_value()) {
      KernelComparison kernels = CompareDeviceKernels(*work_[0], *work_[1], options_);
      result_.kernel_table = std::move(kernels.table);
      result_.kernel_families = std::move(kernels.families);
      result_.kernel_changes = std::move(kernels.kernels);
    }
  }

  // Nullopt: the side does not tell its times.
  std::optional<TimeSplit> SplitOf(size_t side) const {
    if (sides_[side].device == profile::Device::kNpu) {
      return times_[side]->ok() && (*times_[side])->end_to_end_s > 0
                 ? std::optional(SplitOfNpu(**times_[side]))
                 : std::nullopt;
    }
    if (HasWork(side) && work_[side]->split().end_to_end > 0) {
      return work_[side]->split();
    }
    return std::nullopt;
  }

  // Puts the answer together.
  void Conclude() {
    for (const size_t side : {size_t{0}, size_t{1}}) {
      const Profile& profile = sides_[side];
      const bool any =
          !profile.communication.empty() || !profile.uncovered.empty() ||
          (work_[side].has_value() &&
           std::any_of(work_[side]->items().begin(), work_[side]->items().end(),
                       [](const WorkItem& item) { return item.kind == WorkKind::kCommunication; }));
      (side == 0 ? result_.base_communicates : result_.comparison_communicates) = any;
      if (HasWork(side) && options_.overall) {
        (side == 0 ? result_.base_unowned : result_.comparison_unowned) = UnownedOf(*work_[side]);
      }
    }
    if (!options_.overall) {
      return;
    }
    result_.base_split = SplitOf(0);
    result_.comparison_split = SplitOf(1);
    // Without a device on both sides it is the host's time that is compared.
    const bool no_device = !HasWork(0) && !HasWork(1);
    if (no_device && !result_.base_split && !result_.comparison_split && trees_[0].has_value() &&
        trees_[1].has_value()) {
      result_.base_split = SplitOfHost(*trees_[0]);
      result_.comparison_split = SplitOfHost(*trees_[1]);
    }
    if (!result_.base_split || !result_.comparison_split) {
      return;
    }
    LeadWithLeadingShare(*result_.base_split, *result_.comparison_split, result_.findings);
    const bool whole = !options_.base_step.has_value();
    result_.verdict =
        Judge(*result_.base_split, *result_.comparison_split, whole ? CountSteps(sides_[0]) : 0,
              whole ? CountSteps(sides_[1]) : 0, result_.findings);
    if (result_.base_times.has_value() && result_.comparison_times.has_value()) {
      TellMemory(result_.base_times->memory_gb, result_.comparison_times->memory_gb,
                 result_.verdict, result_.findings);
    }
  }

  // A side whose times cannot be told leaves the other results standing.
  void TakeOverall() {
    if (!options_.overall) {
      return;
    }
    for (size_t side = 0; side < 2; ++side) {
      Warn(overall_warnings_[side]);
      // That only the host was profiled is said already.
      if (!times_[side]->ok() && HasWork(side)) {
        Warn({fmt::format("times of the device are not compared: {}",
                          times_[side]->status().message())});
      }
    }
    if (times_[0]->ok() && times_[1]->ok()) {
      result_.base_times = **times_[0];
      result_.comparison_times = **times_[1];
      sheets_[kOverall] = OverallSheet(*result_.base_times, *result_.comparison_times, options_);
    }
  }

  Result<PairComparison> Finish() {
    Warn(match_warnings_);
    Warn(api_warnings_);
    Warn(kernel_warnings_);
    Warn(module_warnings_);
    for (report::FormattedTable& sheet : sheets_) {
      if (sheet.table.row_count() > 0) {
        result_.sheets.push_back(std::move(sheet));
      }
    }
    const bool times_known = result_.base_split.has_value() && result_.comparison_split.has_value();
    if (result_.sheets.empty() && !times_known && result_.kernel_table.table.row_count() == 0 &&
        result_.collectives.empty()) {
      return MismatchError(fmt::format("{} and {} have nothing in common that could be compared{}",
                                       sides_[0].path.string(), sides_[1].path.string(),
                                       result_.warnings.empty()
                                           ? ""
                                           : ": " + base::Join(result_.warnings, "; ")))
          .WithHint("profile operators, device activities and, for memory, profile_memory=True");
    }
    return std::move(result_);
  }

  void Warn(const std::vector<std::string>& texts) {
    for (const std::string& text : texts) {
      if (std::find(result_.warnings.begin(), result_.warnings.end(), text) ==
          result_.warnings.end()) {
        result_.warnings.push_back(text);
      }
    }
  }

  const PairOptions& options_;
  base::ThreadPool& pool_;
  std::array<Profile, 2> sides_;  // base, comparison
  std::array<std::optional<HostTree>, 2> trees_;
  std::array<std::optional<DeviceWork>, 2> work_;
  std::array<std::optional<OperatorSide>, 2> operators_;
  std::array<std::optional<Result<OverallTimes>>, 2> times_;
  std::array<std::optional<ModuleSide>, 2> modules_;
  std::vector<AlignedPair> pairs_;
  std::vector<AlignedPair> module_pairs_;
  bool by_module_ = false;  // modules take the place of operators
  std::array<report::FormattedTable, kSlotCount> sheets_;
  std::array<std::vector<std::string>, 2> overall_warnings_;
  std::vector<std::string> match_warnings_;
  std::vector<std::string> api_warnings_;
  std::vector<std::string> kernel_warnings_;
  std::vector<std::string> module_warnings_;
  PairComparison result_;
};

}  // namespace

Result<PairComparison> ComparePair(const PairOptions& options, base::ThreadPool& pool) {
  return Comparer(options, pool).Run();
}

}  // namespace msprobe::analysis::perf
