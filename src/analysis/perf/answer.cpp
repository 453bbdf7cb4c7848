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
  return finding.metric == kMemory ? fmt::format("{:+.1f} MB", change) : SignedMs(change);
}

std::string What(const Finding& finding) {
  const int64_t calls = std::max(finding.base_calls, finding.comparison_calls);
  return fmt::format("{} x {}", calls, base::Printable(finding.where));
}

bool IsNoise(const Finding& finding, double min_difference_us) {
  return finding.metric != kMemory &&
         std::fabs(finding.comparison - finding.base) * kUsPerMs < min_difference_us;
}

// The largest change of the device's time in the direction in which computing went.
const Finding* LeadingOperator(const RankSummary& rank) {
  const double change = rank.comparison.computing_ms - rank.base.computing_ms;
  const Finding* leading = nullptr;
  for (const Finding& finding : rank.findings) {
    const double step = finding.comparison - finding.base;
    if (finding.metric == kDeviceTime && step * change > 0 &&
        (leading == nullptr || std::fabs(step) > std::fabs(leading->comparison - leading->base))) {
      leading = &finding;
    }
  }
  return leading;
}

std::string CallsText(const Finding& finding) {
  return finding.base_calls == finding.comparison_calls
             ? fmt::format("{} calls", finding.base_calls)
             : fmt::format("{} -> {} calls", finding.base_calls, finding.comparison_calls);
}

std::string SidesText(const Finding& finding) {
  const std::string_view unit = finding.metric == kMemory ? "MB" : "ms";
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

void AddRanks(const RunSummary& run, const AnswerOptions& options, Screen& screen) {
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
    screen.Labelled(fmt::format("  {}:", RankName(rank->rank)), Headline(*rank), 6);
  }
}

void AddPair(const RankSummary& rank, const AnswerOptions& options, Screen& screen) {
  if (const std::string headline = Headline(rank); !headline.empty()) {
    screen.Paragraph(headline);
  }
  AddFindings(rank, options, screen);
  AddCollectives(rank, options, screen);
}

}  // namespace

std::string Headline(const RankSummary& rank) {
  if (!rank.has_times) {
    return {};
  }
  const SideTimes& base = rank.base;
  const SideTimes& other = rank.comparison;
  if (base.end_to_end_ms <= 0 || other.end_to_end_ms <= 0) {
    return {};
  }
  std::string computing =
      fmt::format("{} computing", SignedMs(other.computing_ms - base.computing_ms));
  if (const Finding* leading = LeadingOperator(rank)) {
    const bool is_part = std::fabs(leading->comparison - leading->base) <=
                         std::fabs(other.computing_ms - base.computing_ms);
    computing += fmt::format(", {} {} in {}", is_part ? "of which" : "most of all",
                             Amount(*leading), What(*leading));
  }
  std::string communication =
      fmt::format("{} uncovered communication",
                  SignedMs(other.uncovered_communication_ms - base.uncovered_communication_ms));
  if (base.wait_ms > 0 || other.wait_ms > 0) {
    communication += fmt::format(" (waiting {})", SignedMs(other.wait_ms - base.wait_ms));
  }
  std::string text =
      fmt::format("E2E {}{}: {}; {}; {} free", SignedMs(other.end_to_end_ms - base.end_to_end_ms),
                  Percent(base.end_to_end_ms, other.end_to_end_ms), computing, communication,
                  SignedMs(other.free_ms - base.free_ms));
  if (base.memory_gb > 0 && other.memory_gb > 0) {
    text += fmt::format("; memory {:+.2f} GB", other.memory_gb - base.memory_gb);
  }
  return text;
}

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
