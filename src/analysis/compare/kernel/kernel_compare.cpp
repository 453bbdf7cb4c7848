#include "src/analysis/compare/kernel/kernel_compare.h"

#include <algorithm>
#include <set>
#include <utility>

#include <fmt/format.h>

#include "src/analysis/compare/kernel/kernel_call.h"
#include "src/analysis/compare/name_pairs.h"
#include "src/base/progress.h"
#include "src/base/strings.h"
#include "src/dump/layout.h"

namespace msprobe::analysis::compare {
namespace {

using Number = std::optional<int64_t>;

std::string KernelPlaceText(const Number& step, const Number& device) {
  return fmt::format("{}{}", step ? fmt::format("step{}/", *step) : "",
                     device ? fmt::format("device {}", *device) : "device");
}

// What both kinds of bench sides have: a step and a device, or a rank.
struct BenchPlace {
  Number step;
  Number device;
  KernelRun run;
  std::filesystem::path json;
};

Result<std::vector<BenchPlace>> FindBench(const Options& options) {
  std::vector<BenchPlace> places;
  const Result<dump::DumpLayout> layout = dump::FindDump(options.bench_path);
  if (!layout.ok()) {
    MSP_ASSIGN_OR_RETURN(std::vector<KernelRun> runs, FindKernelRuns(options.bench_path));
    for (KernelRun& run : runs) {
      const Number step = run.step;
      const Number device = run.device;
      places.push_back({step, device, std::move(run), {}});
    }
    return places;
  }
  for (const dump::RankFolder& rank : layout->ranks) {
    const std::string name =
        layout->is_single_file ? layout->single_file_name : std::string(dump::kDumpFileName);
    if (layout->is_single_file || rank.has_dump) {
      places.push_back({rank.step, rank.rank, {}, rank.folder / name});
    }
  }
  return places;
}

template <typename Place, typename Member>
bool HasOne(const std::vector<Place>& places, Member&& member) {
  std::set<Number> seen;
  for (const Place& place : places) {
    seen.insert(member(place));
  }
  return seen.size() == 1;
}

}  // namespace

Result<KernelPlan> PlanKernels(const Options& options) {
  if (dump::FindDump(options.npu_path).ok()) {
    return UsageError(fmt::format("{} is a kernel dump, {} is none", options.bench_path.string(),
                                  options.npu_path.string()))
        .WithHint("the kernel dump comes first, the dump of the call second");
  }
  MSP_ASSIGN_OR_RETURN(std::vector<KernelRun> runs, FindKernelRuns(options.npu_path));
  MSP_ASSIGN_OR_RETURN(std::vector<BenchPlace> places, FindBench(options));
  const bool any_step = HasOne(runs, [](const KernelRun& run) { return run.step; }) &&
                        HasOne(places, [](const BenchPlace& place) { return place.step; });
  const bool any_device = HasOne(runs, [](const KernelRun& run) { return run.device; }) &&
                          HasOne(places, [](const BenchPlace& place) { return place.device; });
  KernelPlan plan;
  const size_t run_count = runs.size();
  for (KernelRun& run : runs) {
    const auto partner = std::find_if(places.begin(), places.end(), [&](const BenchPlace& place) {
      return (any_step || place.step == run.step) && (any_device || place.device == run.device);
    });
    if (partner == places.end()) {
      plan.npu_only.push_back(KernelPlaceText(run.step, run.device));
      continue;
    }
    KernelPlan::Pair pair;
    pair.planned.input = {run.path, partner->json.empty() ? partner->run.path : partner->json,
                          run.step, run.device};
    if (run_count > 1 && run.device) {
      pair.planned.rank_suffix = fmt::format("_rank{}", *run.device);
    }
    if (!any_step && run.step) {
      pair.planned.result_subfolder = fmt::format("step{}", *run.step);
    }
    pair.npu = std::move(run);
    pair.bench = std::move(partner->run);
    plan.pairs.push_back(std::move(pair));
    places.erase(partner);
  }
  for (const BenchPlace& place : places) {
    plan.bench_only.push_back(KernelPlaceText(place.step, place.device));
  }
  if (plan.pairs.empty()) {
    return NotFoundError(
        fmt::format("no step and device of {} has a partner in {} (there: {}; "
                    "here: {})",
                    options.npu_path.string(), options.bench_path.string(),
                    base::Join(plan.bench_only, ", "), base::Join(plan.npu_only, ", ")));
  }
  return plan;
}

Result<ComparedPair> CompareKernels(const Options& options, const KernelPlan::Pair& pair,
                                    base::ThreadPool& pool) {
  const base::Stopwatch load_watch;
  ComparedPair compared;
  KernelSide npu = LoadKernelSide(pair.npu, pool);
  std::optional<KernelSide> bench;
  if (pair.bench.files.empty()) {
    MSP_RETURN_IF_ERROR(LoadCallOfKernels(options, pair.planned.input.bench_json, npu, compared));
  } else {
    bench = LoadKernelSide(pair.bench, pool);
    compared.bench = std::move(bench->side);
  }
  compared.npu = std::move(npu.side);
  if (bench) {
    PairRowsByName(compared);
  }
  compared.timings.load_seconds = load_watch.seconds();
  const KernelTensors tensors(&npu, bench ? &*bench : nullptr);
  compared.loader = &tensors;
  const Status done =
      CompareLoaded(options, pair.planned.input, pool, /*previous=*/nullptr, compared);
  compared.loader = nullptr;
  MSP_RETURN_IF_ERROR(Status(done));
  return compared;
}

}  // namespace msprobe::analysis::compare
