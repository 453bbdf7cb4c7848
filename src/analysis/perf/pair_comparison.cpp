#include "src/analysis/perf/pair_comparison.h"

#include <algorithm>
#include <array>
#include <limits>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <tuple>
#include <type_traits>
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

using profile::Profile;

using Warnings = std::vector<std::string>;

// Runs functions in parallel, and returns what they return.
template <typename... Functions>
auto InParallel(base::ThreadPool& pool, const Functions&... functions) {
  std::tuple<std::optional<std::invoke_result_t<const Functions&>>...> results;
  const auto run = [&]<size_t... kIndex>(size_t item, std::index_sequence<kIndex...> /*unused*/) {
    ((item == kIndex ? void(std::get<kIndex>(results).emplace(functions())) : void()), ...);
  };
  pool.ParallelFor(sizeof...(Functions), [&](size_t item, size_t /*worker*/) {
    run(item, std::index_sequence_for<Functions...>());
  });
  return std::apply([](auto&... result) { return std::make_tuple(*std::move(result)...); },
                    results);
}

// ---- Reading ----

// The needs affect results, too: a collective that was not read is linked to no operator.
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

const std::optional<std::string>& ChosenStep(const PairOptions& options, size_t side) {
  return side == 0 ? options.base_step : options.comparison_step;
}

Result<Profile> ReadSide(const PairOptions& options, size_t side) {
  const std::optional<std::string>& step = ChosenStep(options, side);
  MSP_ASSIGN_OR_RETURN(
      Profile profile,
      profile::ReadProfile(side == 0 ? options.base : options.comparison, NeedsOf(options, step),
                           side == 0 ? options.base_rank : options.comparison_rank));
  MSP_RETURN_IF_ERROR(CheckStep(profile, step));
  // Room for events that did not come is up to half of them.
  profile.operators.shrink_to_fit();
  profile.kernels.shrink_to_fit();
  return profile;
}

// Warnings of both readers; what both profiles lack is said once.
Warnings WarningsOfReading(const Profile& base, const Profile& comparison) {
  Warnings of_base = base.warnings;
  Warnings of_comparison = comparison.warnings;
  const std::string base_path = base.path.string();
  const std::string path = comparison.path.string();
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
  of_base.insert(of_base.end(), of_comparison.begin(), of_comparison.end());
  return of_base;
}

// ---- One side ----

// The profile's kernels that appear in `work`.
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

// A profile with what the comparisons read of it. Null: not asked for, or not recorded.
struct Prepared {
  const Profile* profile = nullptr;
  std::optional<std::string> step;
  std::unique_ptr<const HostTree> tree;
  std::unique_ptr<const DeviceWork> work;
  std::unique_ptr<const OperatorSide> operators;
  std::unique_ptr<const ModuleSide> modules;
  std::optional<Result<OverallTimes>> times;
  Warnings time_warnings;

  bool has_work() const { return work != nullptr && !work->items().empty(); }
};

Prepared Prepare(const Profile& profile, const std::optional<std::string>& step,
                 const PairOptions& options) {
  Prepared side;
  side.profile = &profile;
  side.step = step;
  const bool watches = !options.watched_operators.empty();
  if (!profile.operators.empty() || !profile.python_calls.empty() ||
      !profile.runtime_calls.empty() || !profile.kernels.empty()) {
    side.tree = std::make_unique<HostTree>(profile);
  }
  const bool of_collectives = options.communication && profile.device == profile::Device::kGpu;
  if (side.tree != nullptr &&
      (options.overall || options.operators || options.kernels || of_collectives || watches)) {
    side.work = std::make_unique<DeviceWork>(profile, *side.tree, step);
  }
  if (options.overall) {
    // The kernels of the chosen step, of a GPU's trace; an NPU's tables know no steps.
    std::optional<std::vector<profile::Kernel>> of_step;
    if (step.has_value() && profile.device == profile::Device::kGpu) {
      of_step = side.work != nullptr ? KernelsOf(*side.work) : std::vector<profile::Kernel>();
    }
    side.times = MeasureOverall(profile, options, side.time_warnings,
                                of_step.has_value() ? &*of_step : nullptr);
  }
  if (options.operators || options.memory || options.api || watches) {
    side.operators = std::make_unique<OperatorSide>(profile, step);
  }
  if (options.operators && options.modules) {
    side.modules = std::make_unique<ModuleSide>(*side.operators);
  }
  return side;
}

UnattributedTime UnattributedTimeOf(const DeviceWork& work) {
  return {work.total_ms(),
          work.owned_ms(Owner::kGraph),
          work.owned_ms(Owner::kCopy),
          work.owned_ms(Owner::kBeforeWindow),
          work.owned_ms(Owner::kUnattributed),
          work.owned_ms(Owner::kUnknown)};
}

// Without device work: from the first operator to the end of the last one.
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

// Nullopt: the times of the side are not known.
std::optional<TimeSplit> SplitOf(const Prepared& side) {
  if (side.profile->device == profile::Device::kNpu) {
    return side.times->ok() && (*side.times)->end_to_end_s > 0
               ? std::optional(SplitOfNpu(**side.times))
               : std::nullopt;
  }
  return side.has_work() && side.work->split().end_to_end > 0 ? std::optional(side.work->split())
                                                              : std::nullopt;
}

bool Communicates(const Prepared& side) {
  return !side.profile->communication.empty() || !side.profile->uncovered.empty() ||
         (side.work != nullptr &&
          std::any_of(side.work->items().begin(), side.work->items().end(),
                      [](const WorkItem& item) { return item.kind == WorkKind::kCommunication; }));
}

// ---- Comparisons of both sides ----

struct MadeSheet {
  report::FormattedTable sheet;
  Warnings warnings;
};

// The operators and modules of both sides that belong together.
struct Matches {
  std::vector<AlignedPair> operators;
  bool by_module = false;  // modules take the place of operators
  std::vector<AlignedPair> modules;
  Warnings warnings;
};

Matches Match(const Prepared& base, const Prepared& comparison, const PairOptions& options) {
  Matches matches;
  if (options.operators || options.memory) {
    matches.operators =
        MatchOperators(*base.operators, *comparison.operators, options, matches.warnings);
  }
  matches.by_module =
      base.modules != nullptr && CanCompareModules(*base.modules, *comparison.modules, options);
  if (matches.by_module) {
    matches.modules = MatchModules(*base.modules, *comparison.modules, options);
  }
  return matches;
}

std::vector<Watched> Watch(const Prepared& base, const Prepared& comparison,
                           const PairOptions& options) {
  if (options.watched_operators.empty()) {
    return {};
  }
  const auto watched = [](const Prepared& side) {
    const bool by_work = side.profile->device == profile::Device::kGpu;
    return WatchedSide{side.operators.get(), by_work ? side.work.get() : nullptr, side.step};
  };
  return WatchOperators(watched(base), watched(comparison), options.watched_operators);
}

std::vector<Finding> Find(const Prepared& base, const Prepared& comparison,
                          const PairOptions& options) {
  if (!options.operators && !options.memory && !options.api) {
    return {};
  }
  const auto view = [&](const Prepared& side) {
    return SideView{side.profile, side.tree.get(),
                    options.operators && side.has_work() ? side.work.get() : nullptr,
                    options.memory ? side.operators.get() : nullptr, side.step};
  };
  return FindDifferences(view(base), view(comparison), options);
}

report::FormattedTable StatisticSheet(const Prepared& base, const Prepared& comparison,
                                      const Matches& matches, const PairOptions& options) {
  if (matches.by_module) {
    return ModuleStatistic(*base.modules, *comparison.modules, matches.modules, options);
  }
  return options.operators
             ? OperatorStatistic(*base.operators, *comparison.operators, matches.operators, options)
             : report::FormattedTable();
}

MadeSheet DetailSheet(const Prepared& base, const Prepared& comparison, const Matches& matches,
                      const PairOptions& options) {
  MadeSheet made;
  if (matches.by_module && options.details) {
    made.sheet =
        ModuleDetails(*base.modules, *comparison.modules, matches.modules, options, made.warnings);
  } else if (options.operators && options.details) {
    made.sheet =
        OperatorDetails(*base.operators, *comparison.operators, matches.operators, options);
  }
  return made;
}

// ---- The answer ----

void AddWarnings(const Warnings& texts, Warnings& warnings) {
  for (const std::string& text : texts) {
    if (std::find(warnings.begin(), warnings.end(), text) == warnings.end()) {
      warnings.push_back(text);
    }
  }
}

// Where the times of a side are unknown, only the sheet of times is missing.
report::FormattedTable TakeTimes(const std::array<Prepared, 2>& sides, const PairOptions& options,
                                 PairComparison& result) {
  for (const Prepared& side : sides) {
    AddWarnings(side.time_warnings, result.warnings);
    // That only the host was profiled is said already.
    if (!side.times->ok() && side.has_work()) {
      AddWarnings(
          {fmt::format("times of the device are not compared: {}", side.times->status().message())},
          result.warnings);
    }
  }
  if (!sides[0].times->ok() || !sides[1].times->ok()) {
    return {};
  }
  result.base_times = **sides[0].times;
  result.comparison_times = **sides[1].times;
  return OverallSheet(*result.base_times, *result.comparison_times, options);
}

// The parts of the time, and the verdict.
void Conclude(const std::array<Prepared, 2>& sides, const PairOptions& options,
              PairComparison& result) {
  const auto& [base, comparison] = sides;
  result.base_communicates = Communicates(base);
  result.comparison_communicates = Communicates(comparison);
  if (!options.overall) {
    return;
  }
  if (base.has_work()) {
    result.base_unowned = UnattributedTimeOf(*base.work);
  }
  if (comparison.has_work()) {
    result.comparison_unowned = UnattributedTimeOf(*comparison.work);
  }
  result.base_split = SplitOf(base);
  result.comparison_split = SplitOf(comparison);
  // Without a device on both sides it is the host's time that is compared.
  const bool no_device = !base.has_work() && !comparison.has_work();
  if (no_device && !result.base_split && !result.comparison_split && base.tree != nullptr &&
      comparison.tree != nullptr) {
    result.base_split = SplitOfHost(*base.tree);
    result.comparison_split = SplitOfHost(*comparison.tree);
  }
  if (!result.base_split || !result.comparison_split) {
    return;
  }
  LeadWithLeadingShare(*result.base_split, *result.comparison_split, result.findings);
  const bool whole = !options.base_step.has_value();
  result.verdict =
      Judge(*result.base_split, *result.comparison_split, whole ? CountSteps(*base.profile) : 0,
            whole ? CountSteps(*comparison.profile) : 0, result.findings);
  if (result.base_times.has_value() && result.comparison_times.has_value()) {
    ReportMemory(result.base_times->memory_gb, result.comparison_times->memory_gb, result.verdict,
                 result.findings);
  }
}

}  // namespace

Result<PairComparison> ComparePair(const PairOptions& options, base::ThreadPool& pool) {
  auto [read_base, read_comparison] = InParallel(
      pool, [&] { return ReadSide(options, 0); }, [&] { return ReadSide(options, 1); });
  MSP_ASSIGN_OR_RETURN(const Profile base_profile, std::move(read_base));
  MSP_ASSIGN_OR_RETURN(const Profile comparison_profile, std::move(read_comparison));
  auto [base_side, comparison_side] = InParallel(
      pool, [&] { return Prepare(base_profile, options.base_step, options); },
      [&] { return Prepare(comparison_profile, options.comparison_step, options); });
  std::array<Prepared, 2> sides = {std::move(base_side), std::move(comparison_side)};
  const Prepared& base = sides[0];
  const Prepared& comparison = sides[1];

  PairComparison result;
  result.base_device = base_profile.device;
  result.comparison_device = comparison_profile.device;
  AddWarnings(WarningsOfReading(base_profile, comparison_profile), result.warnings);

  // What holds a group for each name while it works comes before there are large sheets, and what
  // those do not need is given back before they are made: of a trace whose names are all different
  // each of these is as large as the trace.
  auto [findings, matches, watched, collectives, communication, kernels] = InParallel(
      pool, [&] { return Find(base, comparison, options); },
      [&] { return Match(base, comparison, options); },
      [&] { return Watch(base, comparison, options); },
      [&] {
        return options.communication
                   ? CompareCollectives(base_profile, comparison_profile,
                                        {base.work.get(), comparison.work.get()}, options)
                   : std::vector<Collective>();
      },
      [&] {
        return options.communication ? CommunicationSheet(base_profile, comparison_profile, options)
                                     : report::FormattedTable();
      },
      [&] {
        MadeSheet made;
        if (options.kernels) {
          made.sheet = KernelCompare(base_profile, comparison_profile, options, made.warnings);
        }
        return made;
      });
  result.findings = std::move(findings);
  result.watched = std::move(watched);
  result.collectives = std::move(collectives);
  if (options.kernels && (base.has_work() || comparison.has_work()) && base.work != nullptr &&
      comparison.work != nullptr) {
    KernelComparison device_kernels = CompareDeviceKernels(*base.work, *comparison.work, options);
    result.kernel_table = std::move(device_kernels.table);
    result.kernel_families = std::move(device_kernels.families);
    result.kernel_changes = std::move(device_kernels.kernels);
  }
  report::FormattedTable overall;
  if (options.overall) {
    overall = TakeTimes(sides, options, result);
  }
  Conclude(sides, options, result);
  for (Prepared& side : sides) {
    side.work.reset();
    side.tree.reset();
  }

  const Matches& pairs = matches;
  auto [statistic, details, memory_statistic, memory_details, api] = InParallel(
      pool, [&] { return StatisticSheet(base, comparison, pairs, options); },
      [&] { return DetailSheet(base, comparison, pairs, options); },
      [&] {
        return options.memory ? MemoryStatistic(*base.operators, *comparison.operators,
                                                pairs.operators, options)
                              : report::FormattedTable();
      },
      [&] {
        return options.memory && options.details
                   ? MemoryDetails(*base.operators, *comparison.operators, pairs.operators, options)
                   : report::FormattedTable();
      },
      [&] {
        MadeSheet made;
        if (options.api) {
          made.sheet = ApiCompare(*base.operators, *comparison.operators, options, made.warnings);
        }
        return made;
      });
  for (const Warnings* texts :
       {&matches.warnings, &api.warnings, &kernels.warnings, &details.warnings}) {
    AddWarnings(*texts, result.warnings);
  }
  for (report::FormattedTable* sheet :
       {&overall, &communication, &statistic, &details.sheet, &memory_statistic, &memory_details,
        &api.sheet, &kernels.sheet}) {
    if (sheet->table.row_count() > 0) {
      result.sheets.push_back(std::move(*sheet));
    }
  }
  const bool times_known = result.base_split.has_value() && result.comparison_split.has_value();
  if (result.sheets.empty() && !times_known && result.kernel_table.table.row_count() == 0 &&
      result.collectives.empty()) {
    return MismatchError(
               fmt::format("{} and {} have nothing in common that could be compared{}",
                           base_profile.path.string(), comparison_profile.path.string(),
                           result.warnings.empty() ? "" : ": " + base::Join(result.warnings, "; ")))
        .WithHint("profile operators, device activities and, for memory, profile_memory=True");
  }
  return result;
}

}  // namespace msprobe::analysis::perf
