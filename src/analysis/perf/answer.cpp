#include "src/analysis/perf/answer.h"

#include <algorithm>
#include <cmath>
#include <vector>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "src/analysis/perf/findings.h"
#include "src/base/strings.h"
#include "src/report/screen.h"

namespace msprobe::analysis::perf {
namespace {

using report::Ink;
using report::Screen;

constexpr double kUsPerMs = 1e3;
constexpr size_t kShownRanks = 10;
constexpr size_t kShownFrames = 6;
constexpr size_t kTextColumn = 14;  // behind the amounts

// Times below a tenth of a millisecond keep the digits that tell them from nothing.
std::string SignedMs(double ms) {
  return std::fabs(ms) >= 0.1 || ms == 0 ? fmt::format("{:+.1f} ms", ms)
                                         : fmt::format("{:+.4f} ms", ms);
}

std::string Percent(double base, double comparison) {
  return base > 0 ? fmt::format(" ({:+.1f} %)", (comparison - base) / base * 100) : "";
}

std::string Amount(const Finding& finding) {
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
void AddCallStack(const std::string& call_stack, Screen& screen) {
  const std::string unified = base::ReplaceAll(call_stack, "\r", "");
  std::vector<std::string_view> frames;
  for (const std::string_view line : base::Split(unified, '\n')) {
    if (!base::Trim(line).empty()) {
      frames.push_back(base::Trim(line));
    }
  }
  const size_t first = frames.size() > kShownFrames ? frames.size() - kShownFrames : 0;
  for (size_t index = first; index < frames.size(); ++index) {
    screen.Line(fmt::format("{:{}}in {}", "", kTextColumn, base::Printable(frames[index])));
  }
}

void AddFindings(const RankSummary& rank, const AnswerOptions& options, Screen& screen) {
  std::vector<const Finding*> told;
  for (const Finding& finding : rank.findings) {
    if (told.size() < options.top && !IsNoise(finding, options.min_difference_us)) {
      told.push_back(&finding);
    }
  }
  if (told.empty()) {
    return;
  }
  screen.Heading("Largest differences");
  for (const Finding* finding : told) {
    screen.Labelled(
        finding->comparison > finding->base ? Ink::kRed : Ink::kGreen,
        fmt::format("{:>12} ", Amount(*finding)),
        fmt::format("{} of {} ({}, {})", finding->metric, base::Printable(finding->where),
                    SidesText(*finding), CallsText(*finding)),
        kTextColumn);
    if (!finding->note.empty()) {
      screen.Labelled(fmt::format("{:{}}", "", kTextColumn - 1), base::Printable(finding->note),
                      kTextColumn);
    }
    AddCallStack(finding->call_stack, screen);
  }
}

void AddCollectives(const RankSummary& rank, const AnswerOptions& options, Screen& screen) {
  if (rank.collectives.empty() || options.top == 0) {
    return;
  }
  screen.Heading("Collectives by kind");
  for (const Collective& collective : rank.collectives) {
    screen.Line(fmt::format("{:>12}  {} ({:.3f} -> {:.3f} ms, {} -> {} calls)",
                            SignedMs(collective.comparison_ms - collective.base_ms),
                            base::Printable(collective.kind), collective.base_ms,
                            collective.comparison_ms, collective.base_calls,
                            collective.comparison_calls));
  }
}

void AddGates(const RankSummary& rank, Screen& screen) {
  for (const GateOutcome& gate : rank.gates) {
    const std::string where = rank.rank.has_value() ? fmt::format("rank {}: ", *rank.rank) : "";
    screen.Line(gate.failed ? Ink::kRed : Ink::kGreen,
                fmt::format("{} {}{}", gate.failed ? "FAILED" : "ok", where,
                            base::Printable(gate.explanation)));
  }
}

std::string RankName(const std::optional<int64_t>& rank) {
  return rank.has_value() ? fmt::format("rank {}", *rank) : "the profile";
}

std::string SpreadText(const Spread& spread) {
  return fmt::format("slowest {} with {:.1f} ms, mean {:.1f} ms, imbalance {:.1f} %",
                     RankName(spread.slowest_rank), spread.slowest_ms, spread.mean_ms,
                     spread.imbalance() * 100);
}

void AddSpread(const RunSummary& run, std::string_view name, double SideTimes::*time,
               Screen& screen) {
  screen.Item(fmt::format("{}, base", name), SpreadText(SpreadOf(run, &RankSummary::base, time)));
  screen.Item(fmt::format("{}, comparison", name),
              SpreadText(SpreadOf(run, &RankSummary::comparison, time)));
  if (const auto growth = LargestGrowth(run, time)) {
    screen.Item(fmt::format("{}, growth", name),
                fmt::format("{} most: {}", RankName(growth->rank), SignedMs(growth->ms)));
  }
}

std::string RankList(const std::vector<int64_t>& ranks) {
  return fmt::format("{}", fmt::join(ranks, ", "));
}

// The verdict leads; its word in colour.
void AddVerdict(const Verdict& verdict, Screen& screen) {
  if (verdict.text.empty()) {
    return;
  }
  const std::string text = base::Printable(verdict.text);
  const Ink ink = verdict.word == "SLOWER"   ? Ink::kRed
                  : verdict.word == "FASTER" ? Ink::kGreen
                                             : Ink::kBold;
  const size_t word = std::min(verdict.word.size(), text.size());
  screen.Labelled(ink, text.substr(0, word), base::Trim(text.substr(word)), 2);
}

// Ranks meet in their collectives, so that the slowest one sets the pace.
void AddRanksVerdict(const RunSummary& run, Screen& screen) {
  const double base = SpreadOf(run, &RankSummary::base, &SideTimes::end_to_end_ms).slowest_ms;
  const double other =
      SpreadOf(run, &RankSummary::comparison, &SideTimes::end_to_end_ms).slowest_ms;
  if (base <= 0 || other <= 0) {
    return;
  }
  const double percent = (other / base - 1) * 100;
  Verdict verdict;
  verdict.word = std::fabs(percent) < 1 ? "SAME" : percent > 0 ? "SLOWER" : "FASTER";
  verdict.text = verdict.word == "SAME"
                     ? fmt::format("SAME: {:+.1f} %", percent)
                     : fmt::format("{} by {:.1f} %", verdict.word, std::fabs(percent));
  verdict.text += fmt::format(", slowest ranks compared (E2E {:.1f} -> {:.1f} ms)", base, other);
  AddVerdict(verdict, screen);
}

// The rank that the others wait for: its own work grew most, and it waits less than they do.
void AddStraggler(const RunSummary& run, Screen& screen) {
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
  screen.Labelled(Ink::kYellow, "  the others wait for",
                  fmt::format("{}: its own computing and free time grew by {}, its communication "
                              "by {}, that of all ranks by "
                              "{} on average",
                              RankName(most->rank), SignedMs(own(*most)),
                              SignedMs(communication(*most)), SignedMs(mean)),
                  6);
}

void AddRanks(const RunSummary& run, const AnswerOptions& options, Screen& screen) {
  AddRanksVerdict(run, screen);
  std::vector<const RankSummary*> by_growth;
  size_t failed = 0;
  for (const RankSummary& rank : run.ranks) {
    failed += rank.error.empty() ? 0 : 1;
    if (rank.has_times) {
      by_growth.push_back(&rank);
    }
  }
  screen.Heading(fmt::format("{} compared", base::Plural(run.ranks.size() - failed, "rank")));
  AddSpread(run, "E2E", &SideTimes::end_to_end_ms, screen);
  AddSpread(run, "computing", &SideTimes::computing_ms, screen);
  AddStraggler(run, screen);
  for (const auto& [ranks, side] :
       {std::pair{&run.base_only, "base"}, std::pair{&run.comparison_only, "comparison"}}) {
    if (!ranks->empty()) {
      screen.Labelled("  only in the", fmt::format("{}: ranks {}", side, RankList(*ranks)), 6);
    }
  }
  if (!run.missing.empty()) {
    screen.Labelled(Ink::kRed, "  not delivered:", fmt::format("ranks {}", RankList(run.missing)),
                    6);
  }
  for (const RankSummary& rank : run.ranks) {
    if (!rank.error.empty()) {
      screen.Labelled(Ink::kRed, fmt::format("  {} failed:", RankName(rank.rank)),
                      base::Printable(rank.error), 6);
    }
  }
  std::stable_sort(by_growth.begin(), by_growth.end(),
                   [](const RankSummary* a, const RankSummary* b) {
                     return a->comparison.end_to_end_ms - a->base.end_to_end_ms >
                            b->comparison.end_to_end_ms - b->base.end_to_end_ms;
                   });
  by_growth.resize(std::min({by_growth.size(), kShownRanks, std::max<size_t>(options.top, 1)}));
  for (const RankSummary* rank : by_growth) {
    screen.Labelled(fmt::format("  {}:", RankName(rank->rank)), base::Printable(Headline(*rank)),
                    6);
  }
}

void AddTime(std::string_view label, double base, double comparison, Screen& screen) {
  if (base == 0 && comparison == 0) {
    return;
  }
  constexpr size_t kRoomForPercent = 75;
  screen.Line(
      fmt::format("{:<27}{:>11.3f}{:>12.3f}{:>10}{}", label, base, comparison,
                  fmt::format("{:+.3f}", comparison - base),
                  screen.width() >= kRoomForPercent ? Percent(base, comparison) : std::string()));
}

// What the time consists of: the shares add up to the whole.
void AddTimes(const RankSummary& rank, Screen& screen) {
  if (!rank.has_times) {
    return;
  }
  const SideTimes& base = rank.base;
  const SideTimes& other = rank.comparison;
  screen.Blank();
  screen.Line(fmt::format("{:<27}{:>11}{:>12}{:>10}", "ms", "base", "comparison", "change"));
  AddTime("E2E", base.end_to_end_ms, other.end_to_end_ms, screen);
  if (rank.of_host) {
    AddTime("  in operators, on the host", base.computing_ms, other.computing_ms, screen);
    AddTime("  outside of operators", base.free_ms, other.free_ms, screen);
  } else {
    AddTime("  computing", base.computing_ms, other.computing_ms, screen);
    AddTime("  uncovered communication", base.uncovered_communication_ms,
            other.uncovered_communication_ms, screen);
    AddTime("    of it waiting", base.wait_ms, other.wait_ms, screen);
    AddTime("  free", base.free_ms, other.free_ms, screen);
    AddTime("    of it uncovered copies", base.copies_ms, other.copies_ms, screen);
  }
  AddTime("memory (GB)", base.memory_gb, other.memory_gb, screen);
}

std::string UnownedText(const UnownedTime& unowned) {
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

void AddUnowned(const RankSummary& rank, Screen& screen) {
  if (rank.has_unowned) {
    screen.Blank();
    screen.Labelled("base:", UnownedText(rank.base_unowned), 2);
    screen.Labelled("comparison:", UnownedText(rank.comparison_unowned), 2);
  }
}

void AddKernelFamilies(const RankSummary& rank, const AnswerOptions& options, Screen& screen) {
  constexpr size_t kMost = 6;
  constexpr double kWorthTelling = 0.001;  // of the end-to-end time
  const double noise =
      kWorthTelling * std::max(rank.base.end_to_end_ms, rank.comparison.end_to_end_ms);
  size_t told = 0;
  for (const KernelChange& family : rank.kernel_families) {
    const double change = family.comparison_ms - family.base_ms;
    if (told == std::min(kMost, options.top) || std::fabs(change) <= noise) {
      break;
    }
    if (told++ == 0) {
      screen.Heading("Kernels by family");
    }
    screen.Line(fmt::format(
        "{:>12}  {} ({:.3f} -> {:.3f} ms, {}{})", SignedMs(change), base::Printable(family.family),
        family.base_ms, family.comparison_ms,
        family.base_calls == family.comparison_calls
            ? fmt::format("{} kernels", family.base_calls)
            : fmt::format("{} -> {} kernels", family.base_calls, family.comparison_calls),
        family.added + family.removed > 0
            ? fmt::format("; names added {}, removed {}", family.added, family.removed)
            : ""));
  }
}

void AddPair(const RankSummary& rank, const AnswerOptions& options, Screen& screen) {
  AddVerdict(rank.verdict, screen);
  AddTimes(rank, screen);
  AddUnowned(rank, screen);
  AddFindings(rank, options, screen);
  AddKernelFamilies(rank, options, screen);
  AddCollectives(rank, options, screen);
}

}  // namespace

std::string Headline(const RankSummary& rank) { return rank.verdict.text; }

std::string RankedAnswer(const RunSummary& run, const AnswerOptions& options) {
  Screen screen(options.width, options.color);
  if (run.ranks.size() == 1 && !run.ranks[0].rank.has_value()) {
    AddPair(run.ranks[0], options, screen);
  } else {
    AddRanks(run, options, screen);
  }
  for (const RankSummary& rank : run.ranks) {
    AddGates(rank, screen);
  }
  return screen.Take();
}

}  // namespace msprobe::analysis::perf
