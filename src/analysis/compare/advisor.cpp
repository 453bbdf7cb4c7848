#include "src/analysis/compare/advisor.h"

#include <algorithm>
#include <array>

#include <fmt/format.h>

#include "src/analysis/compare/summary.h"

namespace msprobe::analysis::compare {
namespace {

// Operators whose kernels may sum in a different order from run to run.
constexpr std::array<std::string_view, 6> kNonDeterministic = {"conv2d",   "conv3d",     "matmul",
                                                               "nll_loss", "layer_norm", "lstm"};

bool TextHas(std::string_view text, std::string_view part) {
  return text.find(part) != std::string_view::npos;
}

std::string_view AdviceFor(const Side& npu, const SideRow& row) {
  if (npu.is_debug) {
    return "A saved variable differs. Save the values it is made of as well, and follow them back "
           "to the first difference.";
  }
  const bool forward = TextHas(row.name, "forward");
  const bool input = TextHas(row.name, "input");
  if (!input && std::any_of(kNonDeterministic.begin(), kNonDeterministic.end(),
                            [&](std::string_view name) { return TextHas(row.name, name); })) {
    return "This operator may be computed in a different order from run to run. Fix all seeds and "
           "switch deterministic "
           "kernels on (seed_all(mode=True)) on both sides, then dump and compare again.";
  }
  if (forward && input) {
    return "The data that enters this call already differs. Look at the call that produced it, at "
           "in-place operations that "
           "may have overwritten it since, and at memory shared with another stream.";
  }
  if (forward) {
    return "The inputs of this call agree better than its output: its forward computation is the "
           "suspect.";
  }
  if (input) {
    return "The gradient that enters this call already differs. Check the forward results first, "
           "then the backward calls "
           "that come before this one.";
  }
  return "The gradients entering this call agree better than what it returns: its backward "
         "computation is the suspect.";
}

bool Fails(CompareMode mode, Verdict verdict) {
  switch (mode) {
    case CompareMode::kRealData:
      return verdict == Verdict::kNo;
    case CompareMode::kStatistics:
      return verdict == Verdict::kWarning;
    case CompareMode::kMd5:
      return verdict == Verdict::kDifferent;
  }
  return false;
}

}  // namespace

std::optional<size_t> FirstFailingRow(const PairResult& result) {
  for (size_t i = 0; i < result.rows.size(); ++i) {
    if (Fails(result.mode, result.rows[i].verdict)) {
      return i;
    }
  }
  return std::nullopt;
}

std::string AdvisorText(const Side& npu, const Side& bench, const PairResult& result,
                        const DivergenceReport& divergence) {
  const std::optional<size_t> row = FirstFailingRow(result);
  const std::optional<DivergencePoint>& origin = divergence.first_origin;
  std::string start;
  if (origin) {
    start = fmt::format("The runs diverge first at {} ({}): {}.", origin->row_name,
                        OriginKindName(origin->kind), origin->reason);
  }
  if (row) {
    const SideRow& suspect = npu.rows[result.rows[*row].pair.npu];
    return fmt::format("Line: {}\nSuspect Nodes: {}\nExpert Advice: {}{}{}\n", *row, suspect.name,
                       AdviceFor(npu, suspect), start.empty() ? "" : " ", start);
  }
  const bool compared =
      std::any_of(divergence.rows.begin(), divergence.rows.end(),
                  [](RowStanding standing) { return standing != RowStanding::kNotCompared; });
  if (!compared) {
    return "Line: NA\nSuspect Nodes: NA\nExpert Advice: Nothing was compared: no row has values on "
           "both sides.\n";
  }
  uint64_t red = 0;
  for (size_t i = 0; i < result.rows.size(); ++i) {
    red += ConcernOf(npu, bench, result.rows[i], divergence.rows[i]) == RowConcern::kError ? 1 : 0;
  }
  // Line and suspect are the table's; the Python tool's are NA here, too.
  return fmt::format("Line: NA\nSuspect Nodes: NA\nExpert Advice: {}{}{}\n",
                     red == 0 ? "Every compared row meets its threshold"
                              : fmt::format("No threshold fails, but rows are red ({})", red),
                     start.empty() ? "." : ", yet the runs are not the same. ", start);
}

}  // namespace msprobe::analysis::compare
