#include "src/commands/monitor_top_screen.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <limits>
#include <map>
#include <string_view>
#include <tuple>
#include <vector>

#include <fmt/format.h>

#include "src/analysis/monitor/common/table_rows.h"
#include "src/base/strings.h"

namespace msprobe::commands {
namespace {

using analysis::monitor::FollowedRank;
using analysis::monitor::FollowedSeries;
using analysis::monitor::RunFollower;

constexpr size_t kSparkWidth = 24;
constexpr size_t kMostRanks = 8;
constexpr size_t kMostAlerts = 5;
constexpr double kUnusualScore = 6;   // usual spreads: worth a colour
constexpr double kOutlierScore = 20;  // worth a stronger one
constexpr std::array<std::string_view, 8> kBlocks = {"▁", "▂", "▃", "▄", "▅", "▆", "▇", "█"};
constexpr std::array<std::string_view, 8> kPlain = {"_", ".", "-", ":", "=", "+", "*", "#"};

struct ShownRow {
  const FollowedSeries* series = nullptr;
  double score = 0;  // infinite: the newest value is not finite
};

// The newest value against those before; what became NaN or infinite is the worst there is.
double Judge(const FollowedSeries& series, double rounding, std::vector<double>& scratch) {
  if (series.history.empty()) {
    return series.non_finite > 0 ? std::numeric_limits<double>::infinity() : 0;
  }
  if (analysis::monitor::IsNoNumber(series.history.back())) {
    return 0;
  }
  if (!std::isfinite(series.history.back())) {
    return series.had_number ? std::numeric_limits<double>::infinity() : 0;
  }
  const std::span<const double> all(series.history);
  return analysis::monitor::ScoreAgainst(all.back(), all.first(all.size() - 1), scratch, rounding);
}

bool Matches(const FollowedSeries& series, const TopView& view) {
  if (!view.table.empty() && series.table != view.table) {
    return false;
  }
  const std::string name = base::AsciiLower(series.name);
  const std::string search = base::AsciiLower(view.search);
  const std::vector<std::string_view> words = base::Split(search, ' ');
  return std::all_of(words.begin(), words.end(), [&name](std::string_view word) {
    return name.find(word) != std::string::npos;
  });
}

// The statistics that the tables shown are scored by, each with its tables; that of the first table
// comes first.
std::vector<std::pair<std::string_view, std::vector<std::string>>> JudgedOps(const RunFollower& run,
                                                                             const TopView& view) {
  std::vector<std::pair<std::string_view, std::vector<std::string>>> ops;
  for (const std::string& table : run.tables()) {
    const std::string_view op = run.JudgedOp(table);
    if (op.empty() || (!view.table.empty() && view.table != table)) {
      continue;
    }
    const auto known =
        std::find_if(ops.begin(), ops.end(), [op](const auto& entry) { return entry.first == op; });
    if (known == ops.end()) {
      ops.push_back({op, {table}});
    } else {
      known->second.push_back(table);
    }
  }
  return ops;
}

// One row per name: that of the rank where it is worst.
std::vector<ShownRow> WorstRows(const RunFollower& run, const TopView& view) {
  std::map<std::tuple<std::string_view, int32_t, std::string_view, int32_t>, ShownRow> worst;
  std::vector<double> scratch;
  for (const FollowedSeries& series : run.series()) {
    // Without a history its table lacks the statistic asked for; NaN is shown all the same.
    if (!Matches(series, view) || !series.had_number ||
        (series.history.empty() && series.non_finite == 0)) {
      continue;
    }
    const ShownRow row = {&series, Judge(series, run.rounding(), scratch)};
    ShownRow& best = worst[{series.table, series.stage, series.name, series.micro_step}];
    if (best.series == nullptr || row.score > best.score) {
      best = row;
    }
  }
  std::vector<ShownRow> rows;
  rows.reserve(worst.size());
  for (const auto& [key, row] : worst) {
    rows.push_back(row);
  }
  std::stable_sort(rows.begin(), rows.end(), [](const ShownRow& a, const ShownRow& b) {
    if (a.score != b.score) {
      return a.score > b.score;
    }
    return std::isinf(a.score) && a.series->first_non_finite_step < b.series->first_non_finite_step;
  });
  return rows;
}

std::string Spark(const std::vector<double>& history, bool utf8) {
  const size_t count = std::min(history.size(), kSparkWidth);
  const std::span<const double> shown(history.data() + (history.size() - count), count);
  double low = std::numeric_limits<double>::infinity();
  double high = -low;
  for (const double value : shown) {
    if (std::isfinite(value)) {
      low = std::min(low, value);
      high = std::max(high, value);
    }
  }
  std::string text;
  for (const double value : shown) {
    if (!std::isfinite(value)) {
      text += analysis::monitor::IsNoNumber(value) ? ' ' : '!';
      continue;
    }
    // The difference of two finite numbers may be none.
    const double place = high > low ? (value / 2 - low / 2) / (high / 2 - low / 2) : 0;
    const auto level = static_cast<size_t>(std::clamp(place * 7.99, 0.0, 7.0));
    text += utf8 ? kBlocks[level] : kPlain[level];
  }
  return text;
}

std::string ShownNumber(double value) {
  if (analysis::monitor::IsNoNumber(value)) {
    return "-";
  }
  if (std::isnan(value)) {
    return "NaN";
  }
  return std::isinf(value) ? (value > 0 ? "+Inf" : "-Inf") : fmt::format("{:.5g}", value);
}

std::string Rate(double steps_per_second) {
  return steps_per_second > 0 ? fmt::format("{:.3g}", steps_per_second) : "-";
}

std::string Age(const FollowedRank& rank, const TopView& view) {
  if (rank.last_step < 0 || rank.last_write == std::filesystem::file_time_type::min()) {
    return "-";
  }
  const double seconds = std::chrono::duration<double>(view.now - rank.last_write).count();
  return base::FormatSeconds(std::max(0.0, std::floor(seconds)));  // clocks may go back
}

std::string Cut(std::string_view text, size_t width) {
  std::string shown = base::Printable(text);
  if (shown.size() > width && width > 3) {
    shown = "..." + shown.substr(shown.size() - (width - 3));  // the end tells more
  }
  return shown;
}

void ShowRanks(const RunFollower& run, const TopView& view, report::Screen& screen) {
  std::vector<std::pair<int64_t, const FollowedRank*>> ranks;
  for (const auto& [rank, state] : run.ranks()) {
    ranks.emplace_back(rank, &state);
  }
  if (ranks.size() > kMostRanks) {  // those that lag or have trouble
    std::stable_sort(ranks.begin(), ranks.end(), [](const auto& a, const auto& b) {
      return std::tuple(a.second->last_step, b.second->non_finite, b.second->alerts) <
             std::tuple(b.second->last_step, a.second->non_finite, a.second->alerts);
    });
  }
  screen.CutLine(report::Ink::kBold,
                 "  rank      step   steps/s      last row   alerts     NaN/Inf");
  for (size_t i = 0; i < std::min(ranks.size(), kMostRanks); ++i) {
    const FollowedRank& state = *ranks[i].second;
    const std::string line =
        fmt::format("  {:>4} {:>9} {:>9} {:>13} {:>8} {:>11}", ranks[i].first,
                    state.last_step < 0 ? "-" : fmt::format("{}", state.last_step),
                    Rate(state.steps_per_second), Age(state, view), base::FormatCount(state.alerts),
                    base::FormatCount(state.non_finite));
    screen.CutLine(state.non_finite > 0 ? report::Ink::kRed : report::Ink::kNone, line);
  }
  if (ranks.size() > kMostRanks) {
    screen.CutLine(report::Ink::kNone,
                   fmt::format("  and {} more below", ranks.size() - kMostRanks));
  }
}

void ShowModules(const RunFollower& run, const TopView& view, const std::vector<ShownRow>& rows,
                 size_t room, report::Screen& screen) {
  const size_t width = screen.options().width;
  const size_t fixed = 2 + 15 + 6 + 9 + 12 + 9 + 2 + kSparkWidth;
  const size_t name_width = width > fixed + 24 ? width - fixed : 24;
  const auto ops = JudgedOps(run, view);
  screen.CutLine(report::Ink::kBold,
                 fmt::format("  {:<{}} {:<14} {:>5} {:>8} {:>11} {:>8}  history", "module",
                             name_width - 1, "table", "rank", "step",
                             ops.size() == 1 ? Cut(ops[0].first, 11) : "value", "score"));
  const size_t first = std::min(view.scroll, rows.empty() ? 0 : rows.size() - 1);
  const size_t count = std::min(room, rows.size() - std::min(first, rows.size()));
  for (size_t i = first; i < first + count; ++i) {
    const FollowedSeries& series = *rows[i].series;
    std::string name = (series.stage > 0 ? fmt::format("{}:", series.stage) : "") +
                       analysis::monitor::ShownName(series.name);
    if (series.micro_step > 0) {
      name += fmt::format(":{}", series.micro_step);
    }
    const bool broken = std::isinf(rows[i].score);
    const std::string value = series.history.empty() ? "-" : ShownNumber(series.history.back());
    const std::string line =
        fmt::format("  {:<{}} {:<14} {:>5} {:>8} {:>11} {:>8}  {}", Cut(name, name_width - 1),
                    name_width - 1, Cut(series.table, 14), series.rank, series.last_step, value,
                    broken ? fmt::format("@{}", series.first_non_finite_step)
                           : fmt::format("{:.1f}", std::min(rows[i].score, 99999.0)),
                    Spark(series.history, view.utf8));
    screen.CutLine(broken || rows[i].score >= kOutlierScore ? report::Ink::kRed
                   : rows[i].score >= kUnusualScore         ? report::Ink::kYellow
                                                            : report::Ink::kNone,
                   line);
  }
  if (rows.empty()) {
    screen.CutLine(report::Ink::kNone, "  no rows yet, or no matching rows");
  }
}

size_t ShowAlerts(const RunFollower& run, size_t room, report::Screen& screen) {
  const size_t count = std::min({run.alerts().size(), kMostAlerts, room});
  for (size_t i = 0; i < count; ++i) {
    const analysis::monitor::Alert& alert = run.alerts()[run.alerts().size() - 1 - i];
    screen.CutLine(report::Ink::kYellow, fmt::format("  step {} rank {}: {}", alert.step,
                                                     alert.rank, base::Printable(alert.message)));
  }
  return count;
}

void ShowHead(const std::filesystem::path& root, const RunFollower& run, const TopView& view,
              report::Screen& screen) {
  int64_t step = -1;
  double rate = 0;
  uint64_t non_finite = 0;
  for (const auto& [rank, state] : run.ranks()) {
    step = std::max(step, state.last_step);
    rate = std::max(rate, state.steps_per_second);
    non_finite += state.non_finite;
  }
  screen.CutLine(
      report::Ink::kBold,
      fmt::format("{}  step {}  {} steps/s  {}  {}  {} NaN/Inf{}", base::Printable(root.string()),
                  step < 0 ? "-" : fmt::format("{}", step), Rate(rate),
                  base::Plural(run.ranks().size(), "rank"),
                  base::Plural(run.alerts().size(), "alert"), base::FormatCount(non_finite),
                  view.paused ? "  paused" : ""));
  const auto ops = JudgedOps(run, view);
  std::string chosen = fmt::format("table {}, statistic {}",
                                   view.table.empty() ? "all" : base::Printable(view.table),
                                   ops.empty() ? "-" : base::Printable(ops[0].first));
  for (size_t i = 1; i < ops.size(); ++i) {
    chosen += fmt::format(", {} of {}", base::Printable(ops[i].first),
                          base::Printable(base::Join(ops[i].second, " ")));
  }
  if (view.typing || !view.search.empty()) {
    chosen += fmt::format(", search: {}{}", base::Printable(view.search), view.typing ? "_" : "");
  }
  if (run.bad_rows() > 0) {
    chosen += fmt::format(", {} not read: {}", base::Plural(run.bad_rows(), "row"),
                          base::Printable(run.first_diagnostic()));
  }
  screen.CutLine(report::Ink::kNone, chosen);
}

}  // namespace

std::string TopScreen(const std::filesystem::path& root, const RunFollower& run,
                      const TopView& view) {
  report::Screen screen({.width = view.width, .color = view.color, .ascii = !view.utf8});
  ShowHead(root, run, view, screen);
  screen.Blank();
  if (view.help) {
    const std::string marked = base::ReplaceAll(kTopExplained, "\n\n", "\t");
    for (const std::string_view paragraph : base::Split(marked, '\t')) {
      screen.Paragraph(report::Ink::kNone, base::ReplaceAll(paragraph, "\n", " "));
      screen.Blank();
    }
    screen.CutLine(report::Ink::kNone, "any key: back");
    return screen.Take();
  }
  const size_t ranks = std::min(run.ranks().size(), kMostRanks + 1);
  const size_t alerts = std::min(run.alerts().size(), kMostAlerts);
  // Two lines of head, headings and blanks, the keys.
  const size_t used =
      2 + 1 + (ranks + 1) + 1 + 1 + (alerts > 0 ? alerts + 2 : 0) + (view.keys ? 2 : 0);
  const std::vector<ShownRow> rows = WorstRows(run, view);
  const bool tight = view.height > 0 && view.height < used + 4;
  if (!tight) {
    ShowRanks(run, view, screen);
    screen.Blank();
  }
  const size_t room = view.height == 0 ? rows.size()
                      : tight          ? (view.height > 6 ? view.height - 6 : 1)
                                       : view.height - used;
  ShowModules(run, view, rows, room, screen);
  if (alerts > 0 && !tight) {
    screen.Blank();
    screen.CutLine(report::Ink::kBold, "  newest alerts");
    ShowAlerts(run, alerts, screen);
  }
  if (view.keys) {
    screen.Blank();
    screen.CutLine(report::Ink::kNone,
                   "q quit  p pause  t table  o statistic  / search  ? help  arrows scroll");
  }
  return screen.Take();
}

report::Document TopAnswer(const std::filesystem::path& root, const RunFollower& run,
                           const TopView& view) {
  const std::vector<ShownRow> rows = WorstRows(run, view);
  report::Table table("modules", {"Module", "Stage", "Micro step", "Table", "Rank", "Step", "Value",
                                  "Score", "First not finite"});
  size_t broken = 0;
  for (const ShownRow& row : rows) {
    const FollowedSeries& series = *row.series;
    const bool is_broken = std::isinf(row.score);
    broken += is_broken ? 1 : 0;
    table.AddRow(
        {table.KeepText(series.name), report::Cell::Integer(series.stage),
         series.micro_step < 0 ? report::Cell() : report::Cell::Integer(series.micro_step),
         table.KeepText(series.table), report::Cell::Integer(series.rank),
         report::Cell::Integer(series.last_step),
         series.history.empty() || analysis::monitor::IsNoNumber(series.history.back())
             ? report::Cell()
             : report::Cell::Number(series.history.back()),
         report::Cell::Number(row.score),
         is_broken ? report::Cell::Integer(series.first_non_finite_step) : report::Cell()});
  }
  report::Document document;
  document.command = "monitor top";
  document.verdict.word = broken > 0 ? "NOT FINITE" : run.alerts().empty() ? "RUNNING" : "ALERTS";
  document.verdict.text =
      fmt::format("{}: {}, {} not finite, {}", root.string(), base::Plural(rows.size(), "module"),
                  base::FormatCount(broken), base::Plural(run.alerts().size(), "alert"));
  document.verdict.standing =
      broken > 0 || !run.alerts().empty() ? report::Standing::kFindings : report::Standing::kClean;
  document.Add("Modules, worst first", report::DataTable{std::move(table)});
  report::List alerts{report::ListKind::kSentences, {}};
  for (const analysis::monitor::Alert& alert : run.alerts()) {
    alerts.items.push_back(
        {"", fmt::format("step {} rank {}: {}", alert.step, alert.rank, alert.message)});
  }
  document.Add("Alerts", std::move(alerts));
  return document;
}

}  // namespace msprobe::commands
