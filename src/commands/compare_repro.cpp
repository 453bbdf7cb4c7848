#include "src/commands/compare_repro.h"

#include <optional>
#include <utility>
#include <vector>

#include <fmt/format.h>

#include "src/analysis/compare/summary.h"
#include "src/analysis/repro/repro.h"

namespace msprobe::commands {
namespace {

namespace compare = analysis::compare;
namespace repro = analysis::repro;

// The computation of a pair that was rechecked.
const compare::DivergencePoint* PointOf(const compare::PairSummary& pair) {
  const std::optional<compare::DivergencePoint>& point =
      pair.divergence.first_of_kind[static_cast<size_t>(compare::OriginKind::kComputation)];
  return point && point->wrong_side ? &*point : nullptr;
}

const compare::PairSummary* PairWithPoint(const compare::RunSummary& summary) {
  if (const std::optional<size_t> leading = compare::LeadingPair(summary);
      leading && PointOf(summary.pairs[*leading]) != nullptr) {
    return &summary.pairs[*leading];
  }
  for (const compare::PairSummary& pair : summary.pairs) {
    if (PointOf(pair) != nullptr) {
      return &pair;
    }
  }
  return nullptr;
}

}  // namespace

Status WriteFirstDivergence(const compare::RunSummary& summary, const std::filesystem::path& folder,
                            size_t threads, report::Document& document) {
  const compare::PairSummary* const pair = PairWithPoint(summary);
  if (pair == nullptr) {
    document.warnings.emplace_back(
        "--repro wrote nothing: no computation of tensors diverges first");
    return {};
  }
  const compare::DivergencePoint& point = *PointOf(*pair);
  const compare::WrongSide side = point.wrong_side->side;
  const bool of_bench = side == compare::WrongSide::kBench;
  repro::Options options;
  options.dump = of_bench ? pair->bench_path : pair->npu_path;
  options.call = of_bench ? point.bench_entry_name : point.entry_name;
  options.output = folder;
  options.minimise = side != compare::WrongSide::kNeither && side != compare::WrongSide::kUnknown;
  options.threads = threads;
  options.quiet = true;
  MSP_ASSIGN_OR_RETURN(const repro::Answer answer, repro::Run(options));
  const report::Document written = repro::MakeDocument(answer);
  document.next.push_back(fmt::format(
      "{} shows this call alone, as the {} captured it{}.", folder.string(),
      of_bench ? "bench" : "NPU side",
      answer.minimised ? fmt::format(", with {} of {} elements", answer.minimised->elements_after,
                                     answer.minimised->elements_before)
                       : ""));
  for (const report::OutputFile& file : written.files) {
    document.files.push_back({file.path, "repro"});
  }
  document.warnings.insert(document.warnings.end(), written.warnings.begin(),
                           written.warnings.end());
  return {};
}

}  // namespace msprobe::commands
