#include "src/analysis/compare/screen_report.h"

#include <algorithm>
#include <string_view>
#include <vector>

#include <fmt/format.h>

#include "src/analysis/compare/run_verdict.h"
#include "src/base/strings.h"
#include "src/report/screen.h"
#include "src/report/table.h"
#include "src/report/writers.h"

namespace msprobe::analysis {
namespace {

using base::FormatCount;
using base::Plural;
using report::Ink;
using report::Screen;

constexpr size_t kPairLines = 8;  // more pairs are counted, not listed
constexpr size_t kFileLines = 3;

void PutNothingCompared(Screen& screen, const RunSummary& summary) {
  screen.Line(Ink::kRed, "NOTHING COMPARED: no row has values on both sides");
  for (const PairSummary& pair : summary.pairs) {
    if (const std::string hint = NothingComparedHint(pair); !hint.empty()) {
      screen.Paragraph(hint);
      return;
    }
  }
}

// The first line: what a tired reader needs.
void PutVerdict(Screen& screen, const RunSummary& summary, const std::optional<size_t>& leading) {
  const PairVerdict verdict = VerdictOf(summary);
  const std::string where = leading && summary.pairs.size() > 1
                                ? fmt::format(" ({})", PairName(summary.pairs[*leading]))
                                : std::string();
  switch (verdict) {
    case PairVerdict::kIdentical:
      screen.Line(Ink::kGreen, fmt::format("IDENTICAL: all {} are equal",
                                           Plural(summary.totals.identical, "compared row")));
      break;
    case PairVerdict::kAgrees:
      screen.Line(Ink::kGreen, fmt::format("AGREE: all {} are equal up to rounding noise",
                                           Plural(summary.totals.agreeing, "compared row")));
      break;
    case PairVerdict::kUnmatched:
      screen.Line(Ink::kYellow,
                  "AGREE IN PART: what could be matched agrees, but not everything has a partner");
      break;
    case PairVerdict::kUnequalBits:
      screen.Line(
          Ink::kYellow,
          fmt::format("NOT BIT-EQUAL: {} of {}, by no more than rounding noise as far as the "
                      "statistics tell",
                      FormatCount(summary.totals.agreeing - summary.totals.identical),
                      Plural(summary.totals.agreeing, "compared row")));
      break;
    case PairVerdict::kNothingCompared:
      PutNothingCompared(screen, summary);
      break;
    case PairVerdict::kDrifts:
      screen.Line(
          Ink::kYellow,
          fmt::format("DRIFT: {} apart by more than noise, but rounding that piled up explains "
                      "it; no single call is the origin",
                      Plural(summary.totals.drifting, "row")));
      break;
    case PairVerdict::kDiffers:
    case PairVerdict::kFailed:
      if (leading) {
        const DivergencePoint& origin = *summary.pairs[*leading].divergence.first_origin;
        screen.Line(Ink::kRed, fmt::format("DIFFERENT: it starts with {}{}",
                                           base::Printable(PointTitle(origin)), where));
      } else if (summary.totals.differing > 0) {
        screen.Line(Ink::kRed, fmt::format("DIFFERENT: {} apart by more than noise",
                                           Plural(summary.totals.differing, "row")));
      }
      if (summary.failed_pairs > 0) {
        screen.Line(Ink::kRed, fmt::format("FAILED: {} could not be compared",
                                           Plural(summary.failed_pairs, "pair")));
      }
      break;
  }
}

void PutPoint(Screen& screen, std::string_view label, const DivergencePoint& point,
              CompareMode mode) {
  screen.Item(label, base::Printable(PointPlace(point)));
  screen.Item("", base::Printable(point.row_name));
  std::string error = fmt::format("error {} in, {} out (relative)", ErrorText(point.input_error),
                                  ErrorText(point.output_error));
  if (mode == CompareMode::kMd5) {
    error += ", by the statistics beside the checksums";
  }
  screen.Item("", error);
  if (!point.code_line.empty()) {
    screen.Item("", base::Printable(point.code_line));
  }
  if (!point.note.empty()) {
    screen.Item("", base::Printable(point.note));
  }
  if (!point.reason.empty()) {
    screen.Item("", fmt::format("why: {} ({} confidence)", base::Printable(point.reason),
                                ConfidenceName(point.confidence)));
  }
}

void PutOrigins(Screen& screen, const PairSummary& pair, bool name_pair) {
  const DivergenceReport& report = pair.divergence;
  if (!report.first_origin && !report.first_drift && !report.first_unequal_bits) {
    return;
  }
  screen.Heading(name_pair ? fmt::format("Where it starts, {}", PairName(pair))
                           : "Where it starts");
  std::vector<size_t> kinds;
  for (size_t kind = 0; kind < kOriginKindCount; ++kind) {
    if (report.first_of_kind[kind]) {
      kinds.push_back(kind);
    }
  }
  // The first origin on top, the other kinds below.
  std::stable_partition(kinds.begin(), kinds.end(), [&](size_t kind) {
    return report.first_origin && report.first_origin->kind == static_cast<OriginKind>(kind);
  });
  for (const size_t kind : kinds) {
    PutPoint(screen, OriginKindName(static_cast<OriginKind>(kind)), *report.first_of_kind[kind],
             pair.mode);
  }
  if (report.first_drift) {
    PutPoint(screen, "drift", *report.first_drift, pair.mode);
  }
  if (report.first_unequal_bits && !report.first_origin) {
    PutPoint(screen, "first unequal", *report.first_unequal_bits, pair.mode);
  }
}

void PutAmplifiers(Screen& screen, const DivergenceReport& report) {
  if (report.amplifiers.empty()) {
    return;
  }
  screen.Heading("Strongest amplifiers (error out over error in, noise as the floor)");
  report::Table table("amplifiers", {"Factor", "In", "Out", "Call", "Layer"});
  for (const DivergencePoint& point : report.amplifiers) {
    const report::Cell cells[] = {table.KeepText(fmt::format("{:.3g}", point.amplification)),
                                  table.KeepText(ErrorText(point.input_error)),
                                  table.KeepText(ErrorText(point.output_error)),
                                  table.KeepText(base::Printable(point.entry_name)),
                                  table.KeepText(base::Printable(point.layer))};
    table.AddRow(cells);
  }
  screen.Raw(report::TerminalTable(table, {screen.width(), screen.color()}));
}

void PutPairs(Screen& screen, const RunSummary& summary) {
  if (summary.pairs.size() < 2) {
    return;
  }
  std::vector<size_t> order(summary.pairs.size());
  for (size_t i = 0; i < order.size(); ++i) {
    order[i] = i;
  }
  std::stable_sort(order.begin(), order.end(), [&](size_t a, size_t b) {
    const PairVerdict verdict_a = VerdictOf(summary.pairs[a]);
    const PairVerdict verdict_b = VerdictOf(summary.pairs[b]);
    return verdict_a != verdict_b
               ? verdict_a > verdict_b
               : summary.pairs[a].counts.differing > summary.pairs[b].counts.differing;
  });
  screen.Heading("Pairs, worst first");
  size_t shown = order.size();
  if (shown > kPairLines + 1) {
    // Ranks that agree need no line of their own, except one as a sign of life.
    const auto differing =
        static_cast<size_t>(std::count_if(order.begin(), order.end(), [&](size_t i) {
          return VerdictOf(summary.pairs[i]) > PairVerdict::kAgrees;
        }));
    shown = std::clamp<size_t>(differing, 1, kPairLines);
  }
  size_t name_width = 0;
  for (size_t i = 0; i < shown; ++i) {
    name_width = std::max(name_width, PairName(summary.pairs[order[i]]).size());
  }
  for (size_t i = 0; i < shown; ++i) {
    const PairSummary& pair = summary.pairs[order[i]];
    const PairVerdict verdict = VerdictOf(pair);
    std::string text = fmt::format("{:<10}", PairVerdictName(verdict));
    if (verdict == PairVerdict::kFailed) {
      text += base::Printable(pair.error);
    } else {
      text += fmt::format("{:>9} of {} rows", FormatCount(pair.counts.differing),
                          FormatCount(pair.counts.rows));
    }
    if (pair.divergence.first_origin) {
      text += "  " + base::Printable(PointTitle(*pair.divergence.first_origin));
    }
    screen.Line(fmt::format("  {:<{}}  {}", PairName(pair), name_width, text));
  }
  if (shown < order.size()) {
    size_t agreeing = 0;
    for (size_t i = shown; i < order.size(); ++i) {
      agreeing += VerdictOf(summary.pairs[order[i]]) <= PairVerdict::kAgrees ? 1 : 0;
    }
    screen.Line(fmt::format("  and {}, {} of them without a difference",
                            Plural(order.size() - shown, "more pair"), FormatCount(agreeing)));
  }
}

void PutLonely(Screen& screen, std::string_view label, const std::vector<std::string>& names) {
  if (names.empty()) {
    return;
  }
  std::string text = names.front();
  for (size_t i = 1; i < std::min<size_t>(names.size(), 4); ++i) {
    text += ", " + names[i];
  }
  if (names.size() > 4) {
    text += fmt::format(" and {} more", names.size() - 4);
  }
  screen.Item(label, base::Printable(text));
}

void PutCounts(Screen& screen, const RunSummary& summary) {
  const RowCounts& totals = summary.totals;
  screen.Heading("Counts");
  screen.Item(
      "rows",
      fmt::format("{}: {} identical, {} within noise, {} drift, {} differ, {} without values",
                  FormatCount(totals.rows), FormatCount(totals.identical),
                  FormatCount(totals.agreeing - totals.identical), FormatCount(totals.drifting),
                  FormatCount(totals.differing), FormatCount(totals.not_compared)));
  if (totals.npu_only + totals.bench_only + totals.shape_mismatch + totals.dtype_mismatch > 0) {
    screen.Item(
        "unmatched",
        fmt::format("{} only NPU, {} only bench, {} of another shape, {} of another dtype",
                    FormatCount(totals.npu_only), FormatCount(totals.bench_only),
                    FormatCount(totals.shape_mismatch), FormatCount(totals.dtype_mismatch)));
  }
  DivergenceReport calls;
  for (const PairSummary& pair : summary.pairs) {
    calls.compared_entry_count += pair.divergence.compared_entry_count;
    calls.agreeing_entry_count += pair.divergence.agreeing_entry_count;
    calls.diverging_entry_count += pair.divergence.diverging_entry_count;
  }
  if (calls.compared_entry_count > 0) {
    screen.Item("calls",
                fmt::format("{}: {} agree, {} differ", FormatCount(calls.compared_entry_count),
                            FormatCount(calls.agreeing_entry_count),
                            FormatCount(calls.diverging_entry_count)));
  }
  const auto of_verdict = [&](Verdict verdict) {
    return totals.by_verdict[static_cast<size_t>(verdict)];
  };
  if (const uint64_t failing = of_verdict(Verdict::kNo) + of_verdict(Verdict::kWarning) +
                               of_verdict(Verdict::kDifferent) + of_verdict(Verdict::kUnmatched);
      VerdictOf(summary) == PairVerdict::kDiffers && failing == 0) {
    screen.Item(
        "table",
        "no verdict of the table fails: its thresholds are coarser than the noise of the dtype");
  }
  if (totals.red + totals.yellow > 0) {
    screen.Item("highlighted", fmt::format("{} red, {} yellow", FormatCount(totals.red),
                                           FormatCount(totals.yellow)));
  }
  PutLonely(screen, "NPU only", summary.npu_only);
  PutLonely(screen, "bench only", summary.bench_only);
}

std::string_view NextStep(const RunSummary& summary, const std::optional<size_t>& leading) {
  if (!leading) {
    return VerdictOf(summary) == PairVerdict::kDrifts
               ? "Rounding alone may explain this. Look at the amplifiers first, or raise the "
                 "floor with --rtol and "
                 "compare again."
               : "";
  }
  const DivergencePoint& origin = *summary.pairs[*leading].divergence.first_origin;
  switch (origin.kind) {
    case OriginKind::kParameter:
      return "The two sides did not start from the same weights: check the checkpoint, the seed of "
             "the initialisation "
             "and earlier steps. Differences behind this call may all come from it.";
    case OriginKind::kInput:
      return origin.from_other_rank
                 ? "This rank computed the same, but received something else: compare the other "
                   "ranks of its group."
                 : "The calls were fed different values: check the data order, the seeds "
                   "(seed_all) and random calls "
                   "such as dropout. Differences behind this call may all come from it.";
    case OriginKind::kOptimizer:
      return "Weights and gradients of the step before agree, the weights after it do not: compare "
             "the optimizer's "
             "settings (learning rate, betas, weight decay, its state) and its implementation on "
             "both sides.";
    case OriginKind::kDType:
      return "One side computes this in another precision: check autocast, casts and the layer's "
             "dtype, and compare "
             "again once they are the same.";
    case OriginKind::kUnmatchedCall:
      return "The two sides do not run the same code from here on: look at this call in the "
             "script, then compare again "
             "(-f pairs calls whatever their numbers).";
    case OriginKind::kComputation:
      if (origin.is_saved_value) {
        return "Saved values tell that the runs had parted by then, not where: dump the calls in "
               "front of this one "
               "(level L1 or mix) and compare again.";
      }
      return "Same inputs, other outputs: run this call alone on both machines with the dumped "
             "tensors, and check its "
             "kernel, its precision mode and its determinism.";
  }
  return "";
}

void PutFiles(Screen& screen, const RunSummary& summary) {
  std::vector<std::string> files;
  if (!summary.page.empty()) {
    files.push_back(summary.page.string());
  }
  for (const PairSummary& pair : summary.pairs) {
    for (const std::filesystem::path& file : pair.files) {
      files.push_back(file.string());
    }
  }
  if (files.empty()) {
    return;
  }
  screen.Heading(fmt::format("Files (compared in {})", base::FormatSeconds(summary.seconds)));
  // Paths are for copying: never cut.
  for (size_t i = 0; i < std::min(files.size(), kFileLines); ++i) {
    screen.Raw(fmt::format("  {}\n", base::Printable(files[i])));
  }
  if (files.size() > kFileLines) {
    screen.Line(fmt::format("  and {}", Plural(files.size() - kFileLines, "more file")));
  }
}

}  // namespace

std::string ScreenReport(const RunSummary& summary, const ScreenOptions& options) {
  Screen screen(options.width, options.color);
  const std::optional<size_t> leading = LeadingPair(summary);
  PutVerdict(screen, summary, leading);
  const PairSummary* detailed = leading              ? &summary.pairs[*leading]
                                : summary.worst_pair ? &summary.pairs[*summary.worst_pair]
                                                     : nullptr;
  if (detailed != nullptr) {
    PutOrigins(screen, *detailed, summary.pairs.size() > 1);
    PutAmplifiers(screen, detailed->divergence);
  }
  PutPairs(screen, summary);
  PutCounts(screen, summary);
  if (const std::string_view next = NextStep(summary, leading); !next.empty()) {
    screen.Heading("Next");
    screen.Paragraph(next);
  }
  PutFiles(screen, summary);
  return screen.Take();
}

}  // namespace msprobe::analysis
