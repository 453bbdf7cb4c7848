#include "src/analysis/perf/document.h"

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <string_view>
#include <unordered_map>
#include <utility>
#include <vector>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "src/analysis/perf/findings.h"
#include "src/analysis/perf/perf.h"
#include "src/analysis/perf/sheet.h"
#include "src/base/strings.h"
#include "src/report/table.h"

namespace msprobe::analysis::perf {
namespace {

namespace fs = std::filesystem;
using report::PageView;
using report::Tone;
using report::Tree;

// The rank to take apart: whose end-to-end time grew most, else the first that has an answer.
const RankSummary* Leading(const RunSummary& run) {
  const RankSummary* leading = nullptr;
  const auto growth = [](const RankSummary& rank) {
    return rank.comparison.end_to_end_ms - rank.base.end_to_end_ms;
  };
  for (const RankSummary& rank : run.ranks) {
    if (rank.error.empty() &&
        (leading == nullptr ||
         (rank.has_times && (!leading->has_times || growth(rank) > growth(*leading))))) {
      leading = &rank;
    }
  }
  return leading;
}

Tone ToneOf(std::string_view word) {
  return word == "SLOWER" ? Tone::kBad : word.empty() ? Tone::kCaution : Tone::kGood;
}

std::string RankLabel(const RankSummary& rank) {
  return rank.rank ? fmt::format("rank {}", *rank.rank) : std::string();
}

// What the time of a step is spent on, where only the host was profiled and elsewhere.
std::string_view WorkName(const RankSummary& rank) {
  return rank.of_host ? "operators (host)" : "computing";
}

// What remains of a step, as the terminal calls it.
std::string_view RestName(const RankSummary& rank) {
  return rank.of_host ? "outside of operators" : "idle";
}

void PutTimes(const RankSummary& rank, PageView& page) {
  if (!rank.has_times) {
    return;
  }
  const auto parts = [](const SideTimes& side) {
    return std::vector<double>{side.computing_ms, side.uncovered_communication_ms, side.copies_ms,
                               std::max(0.0, side.free_ms - side.copies_ms)};
  };
  page.Add(
      "What the time consists of",
      rank.of_host ? "" : "computing hides communication and copies that run beside it",
      report::StackedBars{"ms",
                          {std::string(WorkName(rank)), "communication not hidden",
                           "copies not hidden", std::string(RestName(rank))},
                          {{"test", parts(rank.comparison)}, {"reference", parts(rank.base)}}});
}

// How much of the communication computing hides, and what of the rest is waiting for other ranks.
void PutOverlap(const RankSummary& rank, PageView& page) {
  if (!rank.has_times || rank.of_host) {
    return;
  }
  double base = 0;
  double comparison = 0;
  for (const Collective& collective : rank.collectives) {
    base += collective.base_ms;
    comparison += collective.comparison_ms;
  }
  if (base <= 0 && comparison <= 0) {
    return;
  }
  const auto parts = [](double whole, const SideTimes& side) {
    const double seen = side.uncovered_communication_ms;
    const double waiting = std::clamp(side.wait_ms, 0.0, seen);
    return std::vector<double>{std::max(0.0, whole - seen), seen - waiting, waiting};
  };
  page.Add("Communication and what hides it", "all collectives of a side",
           report::StackedBars{"ms",
                               {"hidden by computing", "transfer not hidden", "waiting not hidden"},
                               {{"test", parts(comparison, rank.comparison)},
                                {"reference", parts(base, rank.base)}}});
}

// The end-to-end time, its shares, and below them what ran in each.
Tree ChangesDownToKernels(const RankSummary& rank) {
  Tree tree{"ms", {}};
  const auto add = [&](int64_t parent, std::string label, double base, double comparison,
                       int64_t base_count = -1, int64_t comparison_count = -1) {
    tree.items.push_back(
        {parent, std::move(label), base, comparison, base_count, comparison_count});
    return static_cast<int64_t>(tree.items.size()) - 1;
  };
  const auto add_calls = [&](int64_t parent, const std::string& label, const auto& change) {
    return add(parent, label, change.base_ms, change.comparison_ms, change.base_calls,
               change.comparison_calls);
  };
  int64_t computing = -1;
  int64_t communication = -1;
  if (rank.has_times) {
    const SideTimes& base = rank.base;
    const SideTimes& other = rank.comparison;
    const int64_t root = add(-1, "end to end", base.end_to_end_ms, other.end_to_end_ms);
    computing = add(root, std::string(WorkName(rank)), base.computing_ms, other.computing_ms);
    communication = add(root, "communication not hidden", base.uncovered_communication_ms,
                        other.uncovered_communication_ms);
    add(root, "copies not hidden", base.copies_ms, other.copies_ms);
    add(root, std::string(RestName(rank)), std::max(0.0, base.free_ms - base.copies_ms),
        std::max(0.0, other.free_ms - other.copies_ms));
  }
  std::unordered_map<std::string_view, int64_t> families;
  for (const KernelChange& family : rank.kernel_families) {
    const int64_t share = family.family == "communication" ? communication : computing;
    families.emplace(family.family, add_calls(share, family.family, family));
  }
  for (const KernelChange& kernel : rank.kernels) {
    const auto family = families.find(kernel.family);
    add_calls(family == families.end() ? computing : family->second, kernel.name, kernel);
  }
  for (const Collective& collective : rank.collectives) {
    add_calls(communication, collective.kind, collective);
  }
  return tree;
}

void PutFindings(const RankSummary& rank, PageView& page) {
  report::Table table("findings", {"Where", "Metric", "Test", "Reference", "Change", "Test calls",
                                   "Reference calls", "Note", "Call stack"});
  for (const Finding& finding : rank.findings) {
    table.AddRow({table.KeepText(finding.where), table.KeepText(finding.metric),
                  report::Cell::Number(finding.comparison), report::Cell::Number(finding.base),
                  report::Cell::Number(finding.comparison - finding.base),
                  report::Cell::Integer(finding.comparison_calls),
                  report::Cell::Integer(finding.base_calls), table.KeepText(finding.note),
                  table.KeepText(finding.call_stack)});
  }
  page.Add("Operators and modules that changed", "ms, or MB of memory",
           report::DataTable{std::move(table)});
}

void PutRanks(const RunSummary& run, PageView& page) {
  if (run.ranks.size() < 2) {
    return;
  }
  report::Table table("ranks", {"Rank", "Verdict", "Test ms", "Reference ms", "Computing change",
                                "Communication change", "Idle change", "Error"});
  for (const RankSummary& rank : run.ranks) {
    const auto change = [&](double SideTimes::*time) {
      return rank.has_times ? report::Cell::Number(rank.comparison.*time - rank.base.*time)
                            : report::Cell();
    };
    const auto figure = [&](double value) {
      return rank.has_times ? report::Cell::Number(value) : report::Cell();
    };
    table.AddRow({report::Cell::Integer(rank.rank.value_or(-1)), table.KeepText(rank.verdict.word),
                  figure(rank.comparison.end_to_end_ms), figure(rank.base.end_to_end_ms),
                  change(&SideTimes::computing_ms), change(&SideTimes::uncovered_communication_ms),
                  change(&SideTimes::free_ms), table.KeepText(rank.error)},
                 rank.error.empty() ? report::Fill::kNone : report::Fill::kRed);
  }
  page.Add("All ranks", "", report::DataTable{std::move(table)});
}

PageView MakePage(const RunSummary& run) {
  PageView page;
  report::Verdict& verdict = page.verdict.emplace();
  const RankSummary* const leading = Leading(run);
  if (leading == nullptr) {
    verdict.Say("FAILED", "no rank could be compared", Tone::kBad);
  } else {
    verdict.word = leading->verdict.word;
    verdict.text =
        leading->verdict.text.empty() ? "the profiles contain no times" : leading->verdict.text;
    verdict.tone = ToneOf(verdict.word);
    page.sides = {leading->comparison_path, leading->base_path};  // the test first
    if (run.ranks.size() > 1) {
      verdict.text += fmt::format(" ({})", RankLabel(*leading));
      page.facts.push_back({base::FormatCount(run.ranks.size()), "ranks"});
    }
    if (leading->has_times) {
      page.facts.push_back({fmt::format("{:.4g} ms", leading->comparison.end_to_end_ms), "test",
                            verdict.word == "SLOWER" ? Tone::kBad : Tone::kPlain});
      page.facts.push_back({fmt::format("{:.4g} ms", leading->base.end_to_end_ms), "reference"});
    }
    PutTimes(*leading, page);
    PutOverlap(*leading, page);
    page.Add("What changed, down to kernels",
             "kernels of a family may run concurrently: their sum may exceed it",
             ChangesDownToKernels(*leading));
    PutFindings(*leading, page);
  }
  PutRanks(run, page);
  return page;
}

using report::AnswerOutcome;
using report::CaseOutcome;
using report::Item;
using report::List;
using report::ListKind;
using report::Section;

constexpr size_t kShownRanks = 10;
constexpr size_t kShownFrames = 6;

// Times below a tenth of a millisecond keep the digits that tell them from nothing.
std::string Percent(double base, double comparison) {
  return base > 0 ? fmt::format(" ({:+.1f} %)", (comparison - base) / base * 100) : "";
}

std::string AmountText(const Finding& finding) {
  const double change = finding.comparison - finding.base;
  return finding.metric == kMemoryMetric ? fmt::format("{:+.1f} MB", change) : SignedMs(change);
}

bool IsNoise(const Finding& finding, double min_difference_us) {
  return finding.metric != kMemoryMetric &&
         std::fabs(finding.comparison - finding.base) * kUsPerMs < min_difference_us;
}

std::string CallsText(const Finding& finding) {
  return finding.base_calls == finding.comparison_calls
             ? fmt::format("{} calls", finding.base_calls)
             : fmt::format("{} -> {} calls", finding.base_calls, finding.comparison_calls);
}

std::string SidesText(const Finding& finding) {
  const std::string_view unit = finding.metric == kMemoryMetric ? "MB" : "ms";
  return fmt::format("{:.3f} -> {:.3f} {}", finding.base, finding.comparison, unit);
}

// The innermost frames: what called it is found there.
void AddCallStack(const std::string& call_stack, Item& item) {
  const std::string unified = base::ReplaceAll(call_stack, "\r", "");
  std::vector<std::string_view> frames;
  for (const std::string_view line : base::Split(unified, '\n')) {
    if (!base::Trim(line).empty()) {
      frames.push_back(base::Trim(line));
    }
  }
  const size_t first = frames.size() > kShownFrames ? frames.size() - kShownFrames : 0;
  for (size_t index = first; index < frames.size(); ++index) {
    item.details.push_back({"in", fmt::format("in {}", frames[index])});
  }
}

Item FindingItem(const Finding& finding) {
  Item item{AmountText(finding),
            fmt::format("{} of {} ({}, {})", finding.metric, finding.where, SidesText(finding),
                        CallsText(finding)),
            finding.comparison > finding.base ? Tone::kBad : Tone::kGood};
  item.number = finding.comparison - finding.base;
  if (!finding.note.empty()) {
    item.details.push_back({"note", finding.note});
  }
  AddCallStack(finding.call_stack, item);
  return item;
}

Section FindingsSection(const RankSummary& rank, const AnswerOptions& options) {
  List list{ListKind::kAmounts, {}};
  List noise{ListKind::kAmounts, {}, {0}};
  for (const Finding& finding : rank.findings) {
    (IsNoise(finding, options.min_difference_us) ? noise : list)
        .items.push_back(FindingItem(finding));
  }
  list.display_limit.items = options.top;
  Section section{"Largest differences, reference -> test", {}};
  section.blocks.emplace_back(std::move(list));
  if (!noise.items.empty()) {
    section.blocks.emplace_back(std::move(noise));
  }
  return section;
}

Section CollectivesSection(const RankSummary& rank, const AnswerOptions& options) {
  List list{ListKind::kAmounts, {}, {options.top > 0 ? SIZE_MAX : 0}};
  for (const Collective& collective : rank.collectives) {
    const double change = collective.comparison_ms - collective.base_ms;
    list.items.push_back({SignedMs(change),
                          fmt::format("{} ({:.3f} -> {:.3f} ms, {} -> {} calls)", collective.kind,
                                      collective.base_ms, collective.comparison_ms,
                                      collective.base_calls, collective.comparison_calls),
                          Tone::kPlain, change});
  }
  return report::MakeSection("Collectives by kind", std::move(list));
}

Section GatesSection(const RunSummary& run) {
  List list{ListKind::kChecks, {}};
  for (const RankSummary& rank : run.ranks) {
    for (const GateOutcome& gate : rank.gates) {
      const std::string where = rank.rank.has_value() ? fmt::format("rank {}: ", *rank.rank) : "";
      list.items.push_back({gate.failed ? "FAILED" : "ok", where + gate.explanation,
                            gate.failed ? Tone::kBad : Tone::kGood});
    }
  }
  return report::MakeSection("", std::move(list));
}

std::string RankName(const std::optional<int64_t>& rank) {
  return rank.has_value() ? fmt::format("rank {}", *rank) : "the profile";
}

std::string SpreadText(const Spread& spread) {
  return fmt::format("slowest {} with {:.1f} ms, mean {:.1f} ms, imbalance {:.1f} %",
                     RankName(spread.slowest_rank), spread.slowest_ms, spread.mean_ms,
                     spread.imbalance() * 100);
}

void AddSpread(const RunSummary& run, std::string_view name, double SideTimes::*time, List& list) {
  list.items.push_back(
      {fmt::format("{}, test", name), SpreadText(SpreadOf(run, &RankSummary::comparison, time))});
  list.items.push_back(
      {fmt::format("{}, reference", name), SpreadText(SpreadOf(run, &RankSummary::base, time))});
  if (const auto growth = LargestGrowth(run, time)) {
    list.items.push_back(
        {fmt::format("{}, growth", name),
         fmt::format("{} most: {}", RankName(growth->rank), SignedMs(growth->ms))});
  }
}

std::string RankList(const std::vector<int64_t>& ranks) {
  return fmt::format("{}", fmt::join(ranks, ", "));
}

bool IsSingle(const RunSummary& run) {
  return run.ranks.size() == 1 && !run.ranks[0].rank.has_value();
}

// Ranks meet in their collectives, so that the slowest one sets the pace.
Verdict VerdictOfRanks(const RunSummary& run) {
  const double base = SpreadOf(run, &RankSummary::base, &SideTimes::end_to_end_ms).slowest_ms;
  const double other =
      SpreadOf(run, &RankSummary::comparison, &SideTimes::end_to_end_ms).slowest_ms;
  Verdict verdict;
  if (base <= 0 || other <= 0) {
    return verdict;
  }
  const double percent = (other / base - 1) * 100;
  verdict.percent = percent;
  verdict.word = std::fabs(percent) < 1 ? "SAME" : percent > 0 ? "SLOWER" : "FASTER";
  verdict.text = verdict.word == "SAME"
                     ? fmt::format("SAME: {:+.1f} %", percent)
                     : fmt::format("{} by {:.1f} %", verdict.word, std::fabs(percent));
  verdict.text += fmt::format(", slowest ranks compared (E2E {:.1f} -> {:.1f} ms)", base, other);
  return verdict;
}

report::Verdict MakeVerdict(const RunSummary& run) {
  const Verdict found = IsSingle(run) ? run.ranks[0].verdict : VerdictOfRanks(run);
  report::Verdict verdict;
  verdict.word = found.word;
  verdict.text = found.text;
  if (found.text.empty()) {
    verdict.Say("COMPARED", "the time of a step is unknown", Tone::kStrong);
  } else {
    verdict.number = found.percent;
    verdict.unit = "%";
    verdict.tone = found.word == "SLOWER"   ? Tone::kBad
                   : found.word == "FASTER" ? Tone::kGood
                                            : Tone::kStrong;
  }
  verdict.outcome = AnyRankFailed(run)         ? AnswerOutcome::kIncomplete
                    : verdict.word == "SLOWER" ? AnswerOutcome::kFindings
                                               : AnswerOutcome::kClean;
  return verdict;
}

// The rank that the others wait for: its own work grew most, and it waits less than they do.
void AddStraggler(const RunSummary& run, Section& section) {
  const auto communication = [](const RankSummary& rank) {
    return rank.comparison.uncovered_communication_ms - rank.base.uncovered_communication_ms;
  };
  const auto own = [](const RankSummary& rank) {
    return rank.comparison.computing_ms + rank.comparison.free_ms - rank.base.computing_ms -
           rank.base.free_ms;
  };
  const RankSummary* most = nullptr;
  double waits = 0;
  size_t count = 0;
  for (const RankSummary& rank : run.ranks) {
    if (rank.has_times && !rank.of_host) {
      most = most == nullptr || own(rank) > own(*most) ? &rank : most;
      waits += communication(rank);
      ++count;
    }
  }
  constexpr double kMuchLess = 0.5;
  const double mean = count > 0 ? waits / static_cast<double>(count) : 0;
  if (count < 2 || mean <= 0 || own(*most) < mean * kMuchLess ||
      communication(*most) > mean * kMuchLess) {
    return;
  }
  section.blocks.emplace_back(
      List{ListKind::kSentences,
           {{"",
             fmt::format("the others wait for {}: its own computing and free time grew by {}, its "
                         "communication by {}, that of all ranks by {} on average",
                         RankName(most->rank), SignedMs(own(*most)), SignedMs(communication(*most)),
                         SignedMs(mean)),
             Tone::kCaution}}});
}

Section RanksSection(const RunSummary& run, const AnswerOptions& options) {
  std::vector<const RankSummary*> by_growth;
  size_t failed = 0;
  for (const RankSummary& rank : run.ranks) {
    failed += rank.error.empty() ? 0 : 1;
    if (rank.has_times) {
      by_growth.push_back(&rank);
    }
  }
  Section section{fmt::format("{} compared", base::Plural(run.ranks.size() - failed, "rank")), {}};
  List spread{ListKind::kFacts, {}};
  AddSpread(run, "E2E", &SideTimes::end_to_end_ms, spread);
  AddSpread(run, "computing", &SideTimes::computing_ms, spread);
  section.blocks.emplace_back(std::move(spread));
  AddStraggler(run, section);
  List absent{ListKind::kNamed, {}};
  for (const auto& [ranks, side] :
       {std::pair{&run.comparison_only, "test"}, std::pair{&run.base_only, "reference"}}) {
    if (!ranks->empty()) {
      absent.items.push_back(
          {fmt::format("only in the {}", side), fmt::format("ranks {}", RankList(*ranks))});
    }
  }
  if (!run.missing.empty()) {
    absent.items.push_back(
        {"not delivered", fmt::format("ranks {}", RankList(run.missing)), Tone::kBad});
  }
  for (const RankSummary& rank : run.ranks) {
    if (!rank.error.empty()) {
      absent.items.push_back(
          {fmt::format("{} failed", RankName(rank.rank)), rank.error, Tone::kBad});
    }
  }
  section.blocks.emplace_back(std::move(absent));
  std::stable_sort(by_growth.begin(), by_growth.end(),
                   [](const RankSummary* a, const RankSummary* b) {
                     return a->comparison.end_to_end_ms - a->base.end_to_end_ms >
                            b->comparison.end_to_end_ms - b->base.end_to_end_ms;
                   });
  List headlines{ListKind::kNamed, {}, {std::min(kShownRanks, std::max<size_t>(options.top, 1))}};
  for (const RankSummary* const rank : by_growth) {
    headlines.items.push_back(
        {RankName(rank->rank), Headline(*rank), Tone::kPlain, rank->verdict.percent});
  }
  section.blocks.emplace_back(std::move(headlines));
  return section;
}

void AddTime(std::string_view label, double base, double comparison, report::Table& table) {
  if (base == 0 && comparison == 0) {
    return;
  }
  table.AddRow({report::Cell::Text(label), report::Cell::Number(comparison),
                report::Cell::Number(base),
                table.KeepText(fmt::format("{:+.3f}", comparison - base)),
                table.KeepText(Percent(base, comparison))});
}

// What the time consists of: the shares add up to the whole.
Section TimesSection(const RankSummary& rank) {
  Section section;
  if (!rank.has_times) {
    return section;
  }
  const SideTimes& base = rank.base;
  const SideTimes& other = rank.comparison;
  report::Table table("times", {"ms", "test", "reference", "change", ""});
  AddTime("E2E", base.end_to_end_ms, other.end_to_end_ms, table);
  if (rank.of_host) {
    AddTime("  in operators, on the host", base.computing_ms, other.computing_ms, table);
    AddTime("  outside of operators", base.free_ms, other.free_ms, table);
  } else {
    AddTime("  computing", base.computing_ms, other.computing_ms, table);
    AddTime("  uncovered communication", base.uncovered_communication_ms,
            other.uncovered_communication_ms, table);
    AddTime("    of it waiting", base.wait_ms, other.wait_ms, table);
    AddTime("  free", base.free_ms, other.free_ms, table);
    AddTime("    of it uncovered copies", base.copies_ms, other.copies_ms, table);
  }
  AddTime("memory (GB)", base.memory_gb, other.memory_gb, table);
  report::DataTable shown{std::move(table)};
  shown.amounts = {3, 4};
  shown.decimals = 3;
  section.blocks.emplace_back(std::move(shown));
  return section;
}

std::string UnownedText(const UnattributedTime& unowned) {
  const double percent = unowned.device > 0 ? unowned.total() / unowned.device * 100 : 0;
  std::string text =
      fmt::format("{:.3f} ms ({:.1f} %) belong to no operator", unowned.total(), percent);
  std::vector<std::string> parts;
  for (const auto& [name, ms] : {std::pair{"graphs", unowned.graphs},
                                 {"copies", unowned.copies},
                                 {"earlier step", unowned.earlier},
                                 {"launched outside of operators", unowned.outside},
                                 {"launch unknown", unowned.unknown}}) {
    if (ms > 0) {
      parts.push_back(fmt::format("{} {:.3f}", name, ms));
    }
  }
  return parts.empty() ? text : text + ": " + base::Join(parts, ", ");
}

Section UnownedSection(const RankSummary& rank) {
  Section section;
  if (rank.has_unowned) {
    section.blocks.emplace_back(List{ListKind::kNamed,
                                     {{"test", UnownedText(rank.comparison_unowned)},
                                      {"reference", UnownedText(rank.base_unowned)}}});
  }
  return section;
}

Section FamiliesSection(const RankSummary& rank, const AnswerOptions& options) {
  constexpr size_t kMost = 6;
  constexpr double kReportedShare = 0.001;  // of the end-to-end time
  const double noise =
      kReportedShare * std::max(rank.base.end_to_end_ms, rank.comparison.end_to_end_ms);
  List list{ListKind::kAmounts, {}};
  size_t told = 0;
  bool telling = true;
  for (const KernelChange& family : rank.kernel_families) {
    const double change = family.comparison_ms - family.base_ms;
    telling = telling && told < std::min(kMost, options.top) && std::fabs(change) > noise;
    told += telling ? 1 : 0;
    list.items.push_back(
        {SignedMs(change),
         fmt::format(
             "{} ({:.3f} -> {:.3f} ms, {}{})", family.family, family.base_ms, family.comparison_ms,
             family.base_calls == family.comparison_calls
                 ? fmt::format("{} kernels", family.base_calls)
                 : fmt::format("{} -> {} kernels", family.base_calls, family.comparison_calls),
             family.added + family.removed > 0
                 ? fmt::format("; names added {}, removed {}", family.added, family.removed)
                 : ""),
         Tone::kPlain, change});
  }
  list.display_limit.items = told;
  list.display_limit.counts_rest = false;
  return report::MakeSection("Kernels by family", std::move(list));
}

// A case per gate and rank; a rank without gates, or without a result, is a case of its own.
std::vector<report::TestCase> CasesOf(const RunSummary& run) {
  std::vector<report::TestCase> cases;
  for (const RankSummary& rank : run.ranks) {
    const std::string prefix = rank.rank.has_value() ? fmt::format("rank {}: ", *rank.rank) : "";
    if (!rank.error.empty()) {
      cases.push_back({prefix + "comparison", rank.seconds, CaseOutcome::kError, "", "not compared",
                       rank.error});
    } else if (rank.gates.empty()) {
      const bool slower = rank.verdict.word == "SLOWER";
      cases.push_back({prefix + "comparison", rank.seconds,
                       slower ? CaseOutcome::kFailed : CaseOutcome::kPassed, "slower", "regression",
                       Headline(rank)});
    }
    for (const GateOutcome& gate : rank.gates) {
      cases.push_back({prefix + gate.gate, rank.seconds,
                       gate.failed ? CaseOutcome::kFailed : CaseOutcome::kPassed, gate.gate,
                       "regression", gate.explanation, gate.failed ? Headline(rank) : ""});
    }
  }
  for (const int64_t rank : run.missing) {
    cases.push_back({fmt::format("rank {}: comparison", rank), 0, CaseOutcome::kError, "",
                     "missing", "its process did not deliver a result"});
  }
  return cases;
}

std::vector<report::LevelOutcome> LevelsOf(const RunSummary& run, const report::Verdict& verdict) {
  std::vector<report::LevelOutcome> levels = report::OutcomesOf(kGateLevels);
  // A time that is not known must not pass for a good one.
  levels[0].found = verdict.word == "SLOWER" || verdict.word == "COMPARED";
  levels[0].what = verdict.text;
  for (const RankSummary& rank : run.ranks) {
    for (const GateOutcome& gate : rank.gates) {
      auto level =
          std::find_if(levels.begin(), levels.end(),
                       [&](const report::LevelOutcome& known) { return known.word == gate.gate; });
      if (level == levels.end()) {
        levels.push_back({gate.gate, false, /*includes_previous=*/false});
        level = levels.end() - 1;
      }
      level->what = gate.failed && !level->found ? gate.explanation
                    : level->what.empty()        ? gate.explanation
                                                 : level->what;
      level->found = level->found || gate.failed;
    }
  }
  return levels;
}

}  // namespace

fs::path PagePath(const fs::path& folder, const std::string& stamp, const RunSummary& run) {
  fs::path stem = ResultStem(folder, stamp, std::nullopt);
  if (run.ranks.size() == 1 && !run.ranks[0].files.empty()) {
    const fs::path table = run.ranks[0].files[0];
    if (table.extension() == ".xlsx") {
      stem = table.parent_path() / table.stem();
    }
  }
  return stem.string() + ".html";
}

std::string Headline(const RankSummary& rank) { return rank.verdict.text; }

report::Document MakeDocument(const RunSummary& run, const AnswerOptions& options) {
  report::Document document;
  document.command = "perf_compare";
  document.verdict = MakeVerdict(run);
  document.levels = LevelsOf(run, document.verdict);
  document.cases = CasesOf(run);
  if (IsSingle(run)) {
    const RankSummary& rank = run.ranks[0];
    document.sections.push_back(TimesSection(rank));
    document.sections.push_back(UnownedSection(rank));
    document.sections.push_back(FindingsSection(rank, options));
    document.sections.push_back(FamiliesSection(rank, options));
    document.sections.push_back(CollectivesSection(rank, options));
  } else {
    document.sections.push_back(RanksSection(run, options));
  }
  document.sections.push_back(GatesSection(run));
  for (const RankSummary& rank : run.ranks) {
    const std::string prefix = rank.rank.has_value() ? fmt::format("rank {}: ", *rank.rank) : "";
    for (const std::string& file : rank.files) {
      document.files.push_back({file});
    }
    for (const std::string& warning : rank.warnings) {
      document.warnings.push_back(prefix + warning);
    }
  }
  document.seconds = run.seconds;
  if (options.page) {
    document.page = MakePage(run);
  }
  return document;
}

}  // namespace msprobe::analysis::perf
