#include "src/analysis/compare/line26/plan26.h"

#include <filesystem>
#include <iterator>
#include <string>
#include <utility>

#include <fmt/format.h>

#include "src/base/output_files.h"

namespace msprobe::analysis::compare {

Result<PairingPlan> PlanPairs26(const Options& options) {
  PairingPlan all;
  bool mixed = false;
  for (const char* kind : {"graph", "pynative"}) {
    const std::filesystem::path npu = options.npu_path / kind;
    const std::filesystem::path bench = options.bench_path / kind;
    if (!base::IsFolder(npu) || !base::IsFolder(bench)) {
      continue;
    }
    mixed = true;
    MSP_ASSIGN_OR_RETURN(PairingPlan plan, PlanPairs(npu, bench, Edition::k26));
    for (PlannedPair& pair : plan.pairs) {
      const std::string step =
          pair.input.step ? fmt::format("step{}", *pair.input.step) : std::string();
      pair.result_subfolder = std::filesystem::path(kind) / step;
      all.pairs.push_back(std::move(pair));
    }
    for (auto [from, to] :
         {std::pair(&plan.npu_only, &all.npu_only), std::pair(&plan.bench_only, &all.bench_only)}) {
      for (const std::string& place : *from) {
        to->push_back(std::string(kind) + "/" + place);
      }
    }
  }
  if (mixed) {
    return all;
  }
  return PlanPairs(options.npu_path, options.bench_path, Edition::k26);
}

}  // namespace msprobe::analysis::compare
