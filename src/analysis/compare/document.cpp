// The answer of a comparison as a report::Document, from a RunSummary.
//
// FailedLevels() decides which gate levels each pair fails; exit code, JUnit cases and levels of
// the JSON answer all follow from it. The verdict names the first origin of the leading pair
// (the first that diverges, see LeadingPair). The sections are: remarks that complete the
// verdict, origins and amplifiers of the leading pair, the pairs with the worst first, counts,
// and what to do next, chosen by the kind of the first origin.
#include "src/analysis/compare/document.h"

#include <algorithm>
#include <string_view>
#include <utility>
#include <vector>

#include <fmt/format.h>

#include "src/analysis/compare/summary.h"
#include "src/base/strings.h"
#include "src/report/document.h"

namespace msprobe::analysis::compare {
namespace {

void AppendPoint(std::string& text, std::string_view title, const DivergencePoint& point) {
  text += fmt::format("{}: {}\n  row {}\n  error {} in, {} out\n", title, PointTitle(point),
                      point.row_name, ErrorText(point.input_error), ErrorText(point.output_error));
  if (!point.code_line.empty()) {
    text += fmt::format("  code {}\n", point.code_line);
  }
  if (!point.reason.empty()) {
    text +=
        fmt::format("  why {} (confidence: {})\n", point.reason, ConfidenceName(point.confidence));
  }
  if (!point.note.empty()) {
    text += fmt::format("  note {}\n", point.note);
  }
  if (point.relation) {
    text += fmt::format("  relation {}\n", point.relation->text());
  }
}

std::string Details(const PairSummary& pair) {
  const RowCounts& counts = pair.counts;
  std::string text = fmt::format(
      "{} rows: {} identical, {} within noise, {} drift, {} differ, {} not compared\n"
      "unmatched: {} test only, {} reference only, {} other shape, {} other dtype\n",
      counts.rows, counts.identical, counts.agreeing - counts.identical, counts.drifting,
      counts.differing, counts.not_compared, counts.npu_only, counts.bench_only,
      counts.shape_mismatch, counts.dtype_mismatch);
  if (const auto& origin = pair.divergence.first_origin; origin && !origin->code_line.empty()) {
    text += fmt::format("code {}\n", origin->code_line);  // which CI systems show beside it
  }
  for (const std::optional<DivergencePoint>& point : pair.divergence.first_of_kind) {
    if (point) {
      AppendPoint(text, fmt::format("first {}", OriginKindName(point->kind)), *point);
    }
  }
  if (pair.divergence.first_drift) {
    AppendPoint(text, "first drift", *pair.divergence.first_drift);
  }
  if (pair.divergence.first_unequal_bits) {
    AppendPoint(text, "first output that is not bit-equal", *pair.divergence.first_unequal_bits);
  }
  for (const std::filesystem::path& file : pair.files) {
    text += fmt::format("file {}\n", file.string());
  }
  return text;
}

// Rows of one side alone, or of other shapes. Where a pair drifts, they follow from it: what is
// chosen and how often depends on values. A call too many of another cause would have been an
// origin.
uint64_t UnmatchedRows(const PairSummary& pair) {
  const RowCounts& counts = pair.counts;
  return VerdictOf(pair) == PairVerdict::kDrifts
             ? 0
             : counts.npu_only + counts.bench_only + counts.shape_mismatch + counts.dtype_mismatch;
}

// Not enough was compared for any gate to pass.
bool LeavesOpen(const PairSummary& pair) {
  return pair.counts.unreadable > 0 || MostlyUnmatched(pair);
}

// The gate levels that a pair fails, by the words of kGateLevels. The only place that decides it:
// levels of the run, exit code and JUnit report follow.
std::vector<std::string> FailedLevels(const PairSummary& pair) {
  const PairVerdict verdict = VerdictOf(pair);
  const bool all = LeavesOpen(pair);
  const bool differs = all || verdict == PairVerdict::kDiffers;
  std::vector<std::string> levels;
  if (differs || pair.counts.failing > 0) {
    levels.emplace_back("error");
  }
  if (all || pair.counts.suspicious > 0) {
    levels.emplace_back("warning");
  }
  if (differs || verdict == PairVerdict::kUnequalBits || UnmatchedRows(pair) > 0) {
    levels.emplace_back("different");
  }
  if (all || pair.counts.drifting > 0) {
    levels.emplace_back("drift");
  }
  return levels;
}

// The level by which a pair fails where no gate asks: a divergence does, all else on request.
std::string LevelUnasked(const PairSummary& pair, const std::vector<std::string>& levels) {
  const PairVerdict verdict = VerdictOf(pair);
  return verdict == PairVerdict::kDiffers || verdict == PairVerdict::kUnequalBits ? "different"
         : base::IsOneOf("different", levels)                                     ? "drift"
                                                                                  : levels.front();
}

std::string FailureMessage(const PairSummary& pair) {
  const RowCounts& counts = pair.counts;
  switch (VerdictOf(pair)) {
    case PairVerdict::kNothingCompared:
      return AdviceText(NothingComparedHint(pair));
    case PairVerdict::kDiffers:
      return pair.divergence.first_origin
                 ? fmt::format("{} rows differ; first origin: {}", counts.differing,
                               PointTitle(*pair.divergence.first_origin))
                 : fmt::format("{} rows differ", counts.differing);
    case PairVerdict::kDrifts:
      return fmt::format("{} rows are beyond rounding noise; accumulated rounding explains them",
                         counts.drifting);
    case PairVerdict::kUnequalBits:
      return fmt::format("{} rows are not bit-equal", counts.agreeing - counts.identical);
    case PairVerdict::kUnreadable:
      return fmt::format("{} rows with a tensor file that could not be read", counts.unreadable);
    default:
      break;
  }
  if (UnmatchedRows(pair) > 0) {
    return fmt::format(
        "{} rows were compared, {} of the test and {} of the reference have no partner",
        counts.agreeing, counts.npu_only + counts.shape_mismatch + counts.dtype_mismatch,
        counts.bench_only);
  }
  return fmt::format("{} rows are red or fail their threshold, {} are yellow or warnings",
                     counts.failing, counts.suspicious);
}

}  // namespace

std::vector<report::TestCase> CasesOf(const RunSummary& summary) {
  using report::CaseOutcome;
  std::vector<report::TestCase> cases;
  for (const PairSummary& pair : summary.pairs) {
    report::TestCase& test = cases.emplace_back();
    test.name = PairName(pair);
    test.seconds =
        pair.timings.load_seconds + pair.timings.compare_seconds + pair.timings.write_seconds;
    if (!pair.error.empty()) {
      test.outcome = CaseOutcome::kError;
      test.type = "not compared";
      test.message = pair.error;
      continue;
    }
    std::vector<std::string> levels = FailedLevels(pair);
    if (levels.empty()) {
      continue;
    }
    test.outcome = CaseOutcome::kFailed;
    test.level = LeavesOpen(pair) ? "" : LevelUnasked(pair, levels);
    test.further_levels = std::move(levels);
    test.type = PairVerdictName(VerdictOf(pair));
    test.message = FailureMessage(pair);
    test.details = Details(pair);
  }
  for (const auto& [names, side] :
       {std::pair{&summary.npu_only, "reference"}, std::pair{&summary.bench_only, "test side"}}) {
    for (const std::string& name : *names) {
      cases.push_back({name,
                       0,
                       CaseOutcome::kFailed,
                       "different",
                       "unmatched",
                       fmt::format("the {} has no such rank", side),
                       "",
                       {"warning"}});
    }
  }
  return cases;
}

std::vector<report::LevelOutcome> LevelsOf(const RunSummary& summary) {
  std::vector<report::LevelOutcome> levels = report::OutcomesOf(kGateLevels);
  const auto find = [&](const std::string& word) { report::SetFound(levels, word, true); };
  const RowCounts& totals = summary.totals;
  if (totals.failing > 0) {
    levels[0].what = base::Plural(totals.failing, "row") + " red or beyond a threshold";
  }
  if (totals.suspicious > 0) {
    levels[1].what = base::Plural(totals.suspicious, "row") + " yellow or with a warning";
  }
  for (const PairSummary& pair : summary.pairs) {
    const std::vector<std::string> failed = FailedLevels(pair);
    std::for_each(failed.begin(), failed.end(), find);
  }
  if (!summary.npu_only.empty() || !summary.bench_only.empty()) {
    find("warning");
    find("different");
  }
  if (summary.pairs.empty()) {
    for (report::LevelOutcome& level : levels) {
      level.found = true;
    }
  }
  return levels;
}

namespace {

using base::FormatCount;
using base::Plural;
using report::Advice;
using report::AnswerOutcome;
using report::Item;
using report::List;
using report::ListKind;
using report::Section;
using report::Tone;

constexpr size_t kPairsLimit = 8;

AnswerOutcome OutcomeOf(const RunSummary& summary) {
  if (summary.failed_pairs > 0) {
    return AnswerOutcome::kIncomplete;
  }
  switch (VerdictOf(summary)) {
    case PairVerdict::kIdentical:
    case PairVerdict::kAgrees:
      return AnswerOutcome::kClean;
    case PairVerdict::kNothingCompared:
      return AnswerOutcome::kNothingCompared;
    default:
      return AnswerOutcome::kFindings;
  }
}

// The first line: what a tired reader needs.
report::Verdict MakeRunVerdict(const RunSummary& summary, const std::optional<size_t>& leading) {
  report::Verdict verdict;
  verdict.unit = "rows";
  const auto say_as = [&](PairVerdict which, uint64_t number, const std::string& rest) {
    const VerdictLook look = LookOf(which);
    verdict.Say(look.word, rest, look.tone, OutcomeOf(summary));
    verdict.number = static_cast<double>(number);
  };
  const PairVerdict worst = VerdictOf(summary);
  const auto say = [&](uint64_t number, const std::string& rest) { say_as(worst, number, rest); };
  const RowCounts& totals = summary.totals;
  switch (worst) {
    case PairVerdict::kIdentical:
      say(totals.identical,
          fmt::format("all {} are equal", Plural(totals.identical, "compared row")));
      break;
    case PairVerdict::kAgrees:
      say(totals.agreeing, fmt::format("all {} are equal up to rounding noise",
                                       Plural(totals.agreeing, "compared row")));
      break;
    case PairVerdict::kUnmatched:
      say(totals.agreeing, "what could be matched agrees, but not everything has a partner");
      break;
    case PairVerdict::kUnreadable:
      say(totals.agreeing,
          fmt::format("what could be read agrees, but {} a tensor file that could not be read",
                      totals.unreadable == 1 ? "1 row has"
                                             : FormatCount(totals.unreadable) + " rows have"));
      break;
    case PairVerdict::kUnequalBits:
      say(totals.agreeing - totals.identical,
          fmt::format("{} of {}, but by no more than rounding noise according to the statistics",
                      FormatCount(totals.agreeing - totals.identical),
                      Plural(totals.agreeing, "compared row")));
      break;
    case PairVerdict::kNothingCompared:
      say(0, "no row has values on both sides");
      break;
    case PairVerdict::kDrifts:
      say(totals.drifting,
          fmt::format("{} beyond rounding noise, explained by accumulated rounding; no single call "
                      "is the origin",
                      Plural(totals.drifting, "row")));
      break;
    case PairVerdict::kDiffers:
    case PairVerdict::kFailed:
      if (leading) {
        const std::string where =
            summary.pairs.size() > 1 ? fmt::format(" ({})", PairName(summary.pairs[*leading])) : "";
        say_as(PairVerdict::kDiffers, totals.differing,
               PointSentence(*summary.pairs[*leading].divergence.first_origin,
                             summary.pairs[*leading].is_joined) +
                   where);
      } else if (totals.differing > 0) {
        say_as(PairVerdict::kDiffers, totals.differing,
               fmt::format("{} beyond rounding noise", Plural(totals.differing, "row")));
      } else {
        say_as(PairVerdict::kFailed, summary.failed_pairs,
               fmt::format("{} could not be compared", Plural(summary.failed_pairs, "pair")));
        verdict.unit = "pairs";
      }
      break;
  }
  return verdict;
}

// Sentences that complete the verdict's one line.
Section MakeRemarks(const RunSummary& summary, const report::Verdict& verdict) {
  Section section;
  if (verdict.word == "NOTHING COMPARED") {
    for (const PairSummary& pair : summary.pairs) {
      if (const Advice hint = NothingComparedHint(pair); !hint.id.empty()) {
        section.blocks.emplace_back(report::Text{AdviceText(hint)});
        break;
      }
    }
  }
  if (summary.failed_pairs > 0 && verdict.word != "FAILED") {
    section.blocks.emplace_back(report::Text{
        fmt::format("FAILED: {} could not be compared", Plural(summary.failed_pairs, "pair")),
        Tone::kBad});
  }
  return section;
}

Item PointItem(std::string_view label, const DivergencePoint& point, CompareMode mode) {
  Item item{std::string(label), PointPlace(point)};
  item.source = report::SourceLineOf(point.code_line);
  item.details.push_back({"row", point.row_name});
  std::string error = fmt::format("error {} in, {} out (relative)", ErrorText(point.input_error),
                                  ErrorText(point.output_error));
  if (mode == CompareMode::kMd5) {
    error += ", by the statistics beside the checksums";
  }
  item.details.push_back({"error", error});
  item.details.back().number = point.output_error;
  if (!point.code_line.empty()) {
    item.details.push_back({"code", point.code_line});
  }
  if (!point.note.empty()) {
    item.details.push_back({"note", point.note});
  }
  if (point.relation && point.relation->is_telling()) {
    item.details.push_back({"relation", "relation: " + point.relation->text()});
  }
  if (point.wrong_side) {
    item.details.push_back({"wrong", "wrong: " + point.wrong_side->reason});
  }
  if (!point.reason.empty()) {
    item.details.push_back({"why", fmt::format("why: {} (confidence: {})", point.reason,
                                               ConfidenceName(point.confidence))});
  }
  return item;
}

Section MakeOriginsOf(const PairSummary& pair, bool name_pair) {
  const DivergenceReport& report = pair.divergence;
  Section section{
      name_pair ? fmt::format("Where it starts, {}", PairName(pair)) : "Where it starts", {}};
  if (!report.first_origin && !report.first_drift && !report.first_unequal_bits) {
    return section;
  }
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
  List points{ListKind::kFacts, {}};
  for (const size_t kind : kinds) {
    points.items.push_back(PointItem(OriginKindName(static_cast<OriginKind>(kind)),
                                     *report.first_of_kind[kind], pair.mode));
  }
  if (report.first_drift) {
    points.items.push_back(PointItem("drift", *report.first_drift, pair.mode));
  }
  if (report.first_unequal_bits && !report.first_origin) {
    points.items.push_back(PointItem("first unequal", *report.first_unequal_bits, pair.mode));
  }
  section.blocks.emplace_back(std::move(points));
  return section;
}

Section MakeAmplifiers(const DivergenceReport& report) {
  report::Table table("amplifiers", {"Factor", "In", "Out", "Call", "Layer"});
  for (const DivergencePoint& point : report.amplifiers) {
    table.AddRow({table.KeepText(fmt::format("{:.3g}", point.amplification)),
                  table.KeepText(ErrorText(point.input_error)),
                  table.KeepText(ErrorText(point.output_error)), table.KeepText(point.entry_name),
                  table.KeepText(point.layer)});
  }
  return report::MakeSection("Strongest amplifiers (error out over error in, noise as the floor)",
                             report::DataTable{std::move(table)});
}

// The pairs, worst first.
std::vector<PairGroup> WorstFirst(const RunSummary& summary) {
  std::vector<PairGroup> pairs(summary.pairs.size());
  for (size_t i = 0; i < pairs.size(); ++i) {
    pairs[i].pairs = {i};
  }
  std::stable_sort(pairs.begin(), pairs.end(), [&](const PairGroup& a, const PairGroup& b) {
    const PairSummary& left = summary.pairs[a.pairs.front()];
    const PairSummary& right = summary.pairs[b.pairs.front()];
    const PairVerdict verdict_a = VerdictOf(left);
    const PairVerdict verdict_b = VerdictOf(right);
    return verdict_a != verdict_b ? verdict_a > verdict_b
                                  : left.counts.differing > right.counts.differing;
  });
  return pairs;
}

// Groups beyond the first few. Ranks that agree need no line of their own, except one as a sign of
// life.
report::DisplayLimit PairsLimit(const RunSummary& summary, const std::vector<PairGroup>& groups) {
  const auto agrees = [&](const PairGroup& group) {
    return VerdictOf(summary.pairs[group.pairs.front()]) <= PairVerdict::kAgrees;
  };
  report::DisplayLimit limit;
  if (groups.size() <= kPairsLimit + 1) {
    return limit;
  }
  const auto agreeing = static_cast<size_t>(std::count_if(groups.begin(), groups.end(), agrees));
  limit.items = std::clamp<size_t>(groups.size() - agreeing, 1, kPairsLimit);
  size_t pairs = 0;
  size_t left = 0;
  for (size_t i = limit.items; i < groups.size(); ++i) {
    pairs += groups[i].pairs.size();
    left += agrees(groups[i]) ? groups[i].pairs.size() : 0;
  }
  limit.rest = fmt::format("and {}, {} of them without a difference", Plural(pairs, "more pair"),
                           FormatCount(left));
  return limit;
}

// "1,200 of 20,000 rows"; of a group that is not of one mind "1,180-1,200 of 20,000 rows".
std::string DifferingText(const RunSummary& summary, const PairGroup& group) {
  const auto range = [&](uint64_t RowCounts::*count) {
    uint64_t least = UINT64_MAX;
    uint64_t most = 0;
    for (const size_t pair : group.pairs) {
      least = std::min(least, summary.pairs[pair].counts.*count);
      most = std::max(most, summary.pairs[pair].counts.*count);
    }
    return least == most ? FormatCount(most)
                         : fmt::format("{}-{}", FormatCount(least), FormatCount(most));
  };
  return fmt::format("{:>9} of {} rows{}", range(&RowCounts::differing), range(&RowCounts::rows),
                     group.pairs.size() > 1 ? " each" : "");
}

// A line per pair, or, of many, per group of ranks that part at the same call.
Section MakePairs(const RunSummary& summary) {
  const bool in_groups = summary.pairs.size() > kPairsLimit + 1;
  Section section{in_groups ? "Ranks, worst first" : "Pairs, worst first", {}};
  if (summary.pairs.size() < 2) {
    return section;
  }
  const std::vector<PairGroup> groups = in_groups ? GroupPairs(summary) : WorstFirst(summary);
  List list{ListKind::kAligned, {}, PairsLimit(summary, groups)};
  for (const PairGroup& group : groups) {
    const PairSummary& pair = summary.pairs[group.pairs.front()];
    const PairVerdict verdict = VerdictOf(pair);
    std::string text = fmt::format("{:<10}", PairVerdictName(verdict));
    text += verdict == PairVerdict::kFailed ? pair.error : DifferingText(summary, group);
    if (pair.divergence.first_origin) {
      text += "  " + PointTitle(*pair.divergence.first_origin);
    }
    list.items.push_back({GroupName(summary, group), text, Tone::kPlain,
                          static_cast<double>(pair.counts.differing)});
  }
  section.blocks.emplace_back(std::move(list));
  return section;
}

void AddUnpaired(std::string_view label, const std::vector<std::string>& names, List& list) {
  if (!names.empty()) {
    list.items.push_back({std::string(label), base::Join(names, ", "), Tone::kPlain,
                          static_cast<double>(names.size())});
  }
}

Section MakeCounts(const RunSummary& summary) {
  const RowCounts& totals = summary.totals;
  List list{ListKind::kFacts, {}};
  const auto add = [&](std::string_view label, std::string text, uint64_t number) {
    list.items.push_back(
        {std::string(label), std::move(text), Tone::kPlain, static_cast<double>(number)});
  };
  add("rows",
      fmt::format("{}: {} identical, {} within noise, {} drift, {} differ, {} without values",
                  FormatCount(totals.rows), FormatCount(totals.identical),
                  FormatCount(totals.agreeing - totals.identical), FormatCount(totals.drifting),
                  FormatCount(totals.differing), FormatCount(totals.not_compared)),
      totals.rows);
  if (const uint64_t unmatched =
          totals.npu_only + totals.bench_only + totals.shape_mismatch + totals.dtype_mismatch;
      unmatched > 0) {
    add("unmatched",
        fmt::format("{} only in the test, {} only in the reference, {} of another shape, {} of "
                    "another dtype",
                    FormatCount(totals.npu_only), FormatCount(totals.bench_only),
                    FormatCount(totals.shape_mismatch), FormatCount(totals.dtype_mismatch)),
        unmatched);
  }
  if (totals.other_level > 0) {
    add("left out",
        fmt::format("{} of calls that the level of the reference does not record",
                    Plural(totals.other_level, "row")),
        totals.other_level);
  }
  if (totals.unreadable > 0) {
    add("unreadable",
        fmt::format("{} with a tensor file that could not be read",
                    Plural(totals.unreadable, "row")),
        totals.unreadable);
  }
  DivergenceReport calls;
  for (const PairSummary& pair : summary.pairs) {
    calls.compared_entry_count += pair.divergence.compared_entry_count;
    calls.agreeing_entry_count += pair.divergence.agreeing_entry_count;
    calls.diverging_entry_count += pair.divergence.diverging_entry_count;
  }
  if (calls.compared_entry_count > 0) {
    add("calls",
        fmt::format("{}: {} agree, {} differ", FormatCount(calls.compared_entry_count),
                    FormatCount(calls.agreeing_entry_count),
                    FormatCount(calls.diverging_entry_count)),
        calls.compared_entry_count);
  }
  const auto of_verdict = [&](Verdict verdict) {
    return totals.by_verdict[static_cast<size_t>(verdict)];
  };
  if (const uint64_t failing = of_verdict(Verdict::kNo) + of_verdict(Verdict::kWarning) +
                               of_verdict(Verdict::kDifferent) + of_verdict(Verdict::kUnmatched);
      VerdictOf(summary) == PairVerdict::kDiffers && failing == 0) {
    add("table",
        "no verdict of the table fails: its thresholds are coarser than the noise of the dtype", 0);
  } else if (VerdictOf(summary) <= PairVerdict::kUnreadable &&
             totals.failing + totals.suspicious > 0) {
    add("table",
        fmt::format("{} beyond the table's thresholds, which know no noise: --fail-on error counts "
                    "{} of them, --fail-on warning all",
                    Plural(totals.failing + totals.suspicious, "row"), FormatCount(totals.failing)),
        totals.failing + totals.suspicious);
  }
  if (totals.red + totals.yellow > 0) {
    add("highlighted",
        fmt::format("{} red, {} yellow (red: an output is far worse than its inputs or not "
                    "finite; yellow: somewhat worse){}",
                    FormatCount(totals.red), FormatCount(totals.yellow),
                    totals.failing + totals.suspicious == 0
                        ? "; no gate counts them: infinities are the same on both sides"
                        : ""),
        totals.red + totals.yellow);
  }
  AddUnpaired("test only", summary.npu_only, list);
  AddUnpaired("reference only", summary.bench_only, list);
  return report::MakeSection("Counts", std::move(list));
}

const PairSummary* DetailedPair(const RunSummary& summary) {
  const std::optional<size_t> leading = LeadingPair(summary);
  return leading              ? &summary.pairs[*leading]
         : summary.worst_pair ? &summary.pairs[*summary.worst_pair]
                              : nullptr;
}

void AddSentences(const char* title, const std::vector<std::string>& sentences,
                  report::Document& document) {
  if (sentences.empty()) {
    return;
  }
  List list{ListKind::kSentences, {}};
  for (const std::string& sentence : sentences) {
    list.items.push_back({"", sentence});
  }
  document.Add(title, std::move(list));
}

}  // namespace

report::Verdict MakeVerdict(const RunSummary& summary) {
  return MakeRunVerdict(summary, LeadingPair(summary));
}

Section MakeOrigins(const RunSummary& summary) {
  const PairSummary* const pair = DetailedPair(summary);
  return pair == nullptr ? Section() : MakeOriginsOf(*pair, summary.pairs.size() > 1);
}

Advice NextStep(const PairSummary& pair) {
  if (!pair.divergence.first_origin) {
    return VerdictOf(pair) == PairVerdict::kDrifts ? Advice("compare.drift") : Advice();
  }
  const DivergencePoint& origin = *pair.divergence.first_origin;
  if (origin.kind == OriginKind::kInput && origin.argument) {
    const auto& argument = *origin.argument;
    std::vector<std::string> values = {argument.name, origin.entry_name, argument.npu,
                                       argument.bench};
    const std::optional<report::SourceLine> line = report::SourceLineOf(origin.code_line);
    if (line) {
      values.push_back(
          fmt::format("{}:{}", std::filesystem::path(line->file).filename().string(), line->line));
    }
    return Advice(line ? "compare.argument" : "compare.argument_without_line", std::move(values));
  }
  if (origin.kind == OriginKind::kInput && origin.from_other_rank) {
    return Advice("compare.input_of_rank");
  }
  if (origin.kind == OriginKind::kComputation && origin.is_saved_value) {
    return Advice("compare.saved_value");
  }
  if (origin.kind == OriginKind::kComputation && origin.wrong_side &&
      origin.wrong_side->side != WrongSide::kUnknown) {
    return Advice(fmt::format("compare.wrong_{}", WrongSideName(origin.wrong_side->side)));
  }
  return Advice(fmt::format("compare.{}", OriginKindName(origin.kind)));
}

Advice NextStep(const RunSummary& summary) {
  if (const std::optional<size_t> leading = LeadingPair(summary)) {
    return NextStep(summary.pairs[*leading]);
  }
  return VerdictOf(summary) == PairVerdict::kDrifts ? Advice("compare.drift") : Advice();
}

// Whether the call that the answer names has no layer because the capture recorded none.
bool LacksLayers(const RunSummary& summary) {
  const std::optional<size_t> leading = LeadingPair(summary);
  if (!leading) {
    return false;
  }
  const PairSummary& pair = summary.pairs[*leading];
  return pair.divergence.first_origin && pair.divergence.first_origin->layer.empty() &&
         pair.level == "L1";
}

report::Document MakeDocument(const RunSummary& summary) {
  report::Document document;
  document.command = "compare";
  document.verdict = MakeVerdict(summary);
  document.levels = LevelsOf(summary);
  document.cases = CasesOf(summary);
  document.sections.push_back(MakeRemarks(summary, document.verdict));
  if (const PairSummary* const detailed = DetailedPair(summary)) {
    document.sections.push_back(MakeOrigins(summary));
    document.sections.push_back(MakeAmplifiers(detailed->divergence));
  }
  document.sections.push_back(MakePairs(summary));
  document.sections.push_back(MakeCounts(summary));
  document.Advise(NextStep(summary));
  if (LacksLayers(summary)) {
    document.Advise(Advice("capture.layers"));
  }
  if (!summary.page.empty()) {
    document.files.push_back({summary.page, "page"});
  }
  for (const PairSummary& pair : summary.pairs) {
    document.AddFiles(pair.files);
  }
  document.seconds = summary.seconds;
  return document;
}

report::Document MakeDocument(const Options& options, const Comparison& run) {
  report::Document document = MakeDocument(run.summary);
  document.warnings = run.warnings;
  // Some ranks of one side were not compared at all.
  if (options.v26 && !(run.summary.npu_only.empty() && run.summary.bench_only.empty())) {
    document.verdict.outcome = AnswerOutcome::kIncomplete;
  }
  for (const std::filesystem::path& file : run.files) {
    document.files.push_back({file, "first difference"});
  }
  AddSentences("First difference", run.answers, document);
  AddSentences("Kernels and calls", run.calls, document);
  return document;
}

}  // namespace msprobe::analysis::compare
