// The screen of `monitor top`: head, ranks, modules, alerts, keys.
//
// Nothing is wrapped, and no number is cut at any width. A table has its columns in order of
// importance: the widths that their cells need are given out in that order, columns that no longer
// fit are left out, and what is left makes the others wider. Lines of facts and keys leave out the
// least important ones in the same way; names are cut in front, between their parts.
#include "src/commands/monitor_top_screen.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <functional>
#include <limits>
#include <map>
#include <optional>
#include <string_view>
#include <tuple>
#include <vector>

#include <fmt/format.h>

#include "src/analysis/monitor/common/table_rows.h"
#include "src/base/strings.h"
#include "src/report/render_terminal.h"

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

std::string Spark(const std::vector<double>& history, size_t width, bool utf8) {
  const size_t count = std::min(history.size(), width);
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

// The end of a name tells more than its beginning: parts between dots or slashes are left out in
// front. Only a last part that is itself too long is cut inside of a word.
std::string Cut(std::string_view text, size_t width) {
  constexpr size_t kMark = 3;
  std::string shown = base::Printable(text);
  if (shown.size() <= width || width <= kMark) {
    return shown;
  }
  const size_t least = shown.size() - (width - kMark);
  size_t from = shown.find_first_of("./", least - 1);
  from = from == std::string::npos || from + 1 == shown.size() ? least : from + 1;
  const auto is_digit = [&shown](size_t at) { return shown[at] >= '0' && shown[at] <= '9'; };
  while (from + 1 < shown.size() && is_digit(from) && is_digit(from - 1)) {
    ++from;
  }
  return "..." + shown.substr(from);
}

// Facts in the order in which they are shown; the least important ones are left out where there is
// no room, the number of `rank` is their place (0: always shown).
struct Fact {
  size_t rank = 0;
  std::string text;
};

std::string JoinedFacts(std::vector<Fact> facts, std::string_view separator, size_t width) {
  for (;;) {
    std::string line;
    auto last = facts.end();
    for (auto fact = facts.begin(); fact != facts.end(); ++fact) {
      line += (line.empty() ? "" : std::string(separator)) + fact->text;
      if (fact->rank > 0 && (last == facts.end() || fact->rank >= last->rank)) {
        last = fact;
      }
    }
    if (report::ColumnsOf(line) <= width || last == facts.end()) {
      return line;
    }
    facts.erase(last);
  }
}

// A column of a table on the screen.
struct Column {
  std::string heading;
  size_t importance;  // 0: the most important
  size_t least;       // the width that its cells need
  size_t wish;        // the width where there is room
  bool is_right = true;
  std::function<std::string(size_t row, size_t width)> cell;
  size_t gap = 1;  // blanks in front
  size_t width = 0;
};

constexpr size_t kMargin = 2;

size_t LongestOf(size_t rows, std::string_view heading,
                 const std::function<std::string(size_t row)>& cell) {
  size_t longest = report::ColumnsOf(heading);
  for (size_t row = 0; row < rows; ++row) {
    longest = std::max(longest, report::ColumnsOf(cell(row)));
  }
  return longest;
}

// A column of numbers or words that are never cut.
Column Whole(std::string heading, size_t importance, size_t wish, size_t rows,
             const std::function<std::string(size_t row)>& cell) {
  const size_t least = LongestOf(rows, heading, cell);
  return {std::move(heading),    importance, least,
          std::max(least, wish), true,       [cell](size_t row, size_t) { return cell(row); }};
}

// The columns that fit, the most important first; in the order in which they were given.
std::vector<Column> Fitted(std::vector<Column> columns, size_t width) {
  std::vector<Column*> by_importance;
  for (Column& column : columns) {
    by_importance.push_back(&column);
  }
  std::sort(by_importance.begin(), by_importance.end(),
            [](const Column* a, const Column* b) { return a->importance < b->importance; });
  size_t room = width - std::min(width, kMargin);
  for (Column* const column : by_importance) {
    if (const size_t needed = column->gap + column->least; needed <= room) {
      column->width = column->least;
      room -= needed;
    }
  }
  for (Column* const column : by_importance) {
    if (column->width > 0) {
      const size_t more = std::min(room, column->wish - column->least);
      column->width += more;
      room -= more;
    }
  }
  std::erase_if(columns, [](const Column& column) { return column.width == 0; });
  return columns;
}

// `row`: none for the line of headings.
std::string TableLine(const std::vector<Column>& columns, std::optional<size_t> row) {
  std::string line(kMargin, ' ');
  for (size_t i = 0; i < columns.size(); ++i) {
    const Column& column = columns[i];
    const std::string text = row ? column.cell(*row, column.width) : column.heading;
    const std::string blanks(column.width - std::min(column.width, report::ColumnsOf(text)), ' ');
    line.append(i == 0 ? 0 : column.gap, ' ');
    line += column.is_right ? blanks + text : text + (i + 1 < columns.size() ? blanks : "");
  }
  return line;
}

// A heading, a fact or a key in the language of the screen.
std::string Say(const TopView& view, std::string_view english) {
  return report::InLanguage(english, view.language);
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
  const size_t count = std::min(ranks.size(), kMostRanks);
  const auto state = [&ranks](size_t row) -> const FollowedRank& { return *ranks[row].second; };
  const std::vector<Column> columns = Fitted(
      {Whole("rank", 0, 4, count, [&](size_t row) { return fmt::format("{}", ranks[row].first); }),
       Whole(Say(view, "step"), 1, 9, count,
             [&](size_t row) {
               const int64_t step = state(row).last_step;
               return step < 0 ? "-" : fmt::format("{}", step);
             }),
       Whole(Say(view, "steps/s"), 5, 9, count,
             [&](size_t row) { return Rate(state(row).steps_per_second); }),
       Whole(Say(view, "last row"), 4, 13, count,
             [&](size_t row) { return Age(state(row), view); }),
       Whole(Say(view, "alerts"), 3, 8, count,
             [&](size_t row) { return base::FormatCount(state(row).alerts); }),
       Whole("NaN/Inf", 2, 11, count,
             [&](size_t row) { return base::FormatCount(state(row).non_finite); })},
      screen.options().width);
  screen.CutLine(report::Ink::kBold, TableLine(columns, std::nullopt));
  for (size_t row = 0; row < count; ++row) {
    screen.CutLine(state(row).non_finite > 0 ? report::Ink::kRed : report::Ink::kNone,
                   TableLine(columns, row));
  }
  if (ranks.size() > kMostRanks) {
    screen.CutLine(report::Ink::kNone,
                   "  " + Say(view, fmt::format("and {} more below", ranks.size() - kMostRanks)));
  }
}

void ShowModules(const RunFollower& run, const TopView& view, const std::vector<ShownRow>& rows,
                 size_t room, report::Screen& screen) {
  constexpr size_t kLeastSpark = 8;
  constexpr size_t kMostTable = 14;
  const size_t width = screen.options().width;
  // Enough for the parts of a name that tell one layer from another.
  const size_t least_name = std::min<size_t>(28, width / 2);
  const auto ops = JudgedOps(run, view);
  const size_t first = std::min(view.scroll, rows.empty() ? 0 : rows.size() - 1);
  const size_t count = std::min(room, rows.size() - std::min(first, rows.size()));
  const auto row_at = [&](size_t row) -> const ShownRow& { return rows[first + row]; };
  const auto name = [&](size_t row) {
    const FollowedSeries& series = *row_at(row).series;
    return (series.stage > 0 ? fmt::format("{}:", series.stage) : "") +
           analysis::monitor::ShownName(series.name) +
           (series.micro_step > 0 ? fmt::format(":{}", series.micro_step) : "");
  };
  const auto table = [&](size_t row) { return Cut(row_at(row).series->table, kMostTable); };
  const auto value = [&](size_t row) {
    const std::vector<double>& history = row_at(row).series->history;
    return history.empty() ? "-" : ShownNumber(history.back());
  };
  const auto score = [&](size_t row) {
    return std::isinf(row_at(row).score)
               ? fmt::format("@{}", row_at(row).series->first_non_finite_step)
               : fmt::format("{:.1f}", std::min(row_at(row).score, 99999.0));
  };
  Column table_column = Whole(Say(view, "table"), 5, kMostTable, count, table);
  table_column.is_right = false;
  std::vector<Column> columns = Fitted(
      {{Say(view, "module"), 0, least_name,
        std::max(least_name, LongestOf(count, Say(view, "module"), name)), false,
        [&](size_t row, size_t room_of_name) { return Cut(name(row), room_of_name); }},
       std::move(table_column),
       Whole("rank", 4, 5, count,
             [&](size_t row) { return fmt::format("{}", row_at(row).series->rank); }),
       Whole(Say(view, "step"), 3, 8, count,
             [&](size_t row) { return fmt::format("{}", row_at(row).series->last_step); }),
       Whole(ops.size() == 1 ? Cut(ops[0].first, 11) : Say(view, "value"), 2, 11, count, value),
       Whole(Say(view, "score"), 1, 8, count, score),
       {Say(view, "history"), 6, kLeastSpark, kSparkWidth, false,
        [&](size_t row, size_t room_of_spark) {
          return Spark(row_at(row).series->history, room_of_spark, view.utf8);
        },
        2}},
      width);
  size_t used = kMargin;
  for (size_t i = 0; i < columns.size(); ++i) {
    used += columns[i].width + (i == 0 ? 0 : columns[i].gap);
  }
  columns.front().width += width - std::min(width, used);  // the others stand at the right edge
  screen.CutLine(report::Ink::kBold, TableLine(columns, std::nullopt));
  for (size_t row = 0; row < count; ++row) {
    const double found = row_at(row).score;
    screen.CutLine(std::isinf(found) || found >= kOutlierScore ? report::Ink::kRed
                   : found >= kUnusualScore                    ? report::Ink::kYellow
                                                               : report::Ink::kNone,
                   TableLine(columns, row));
  }
  if (rows.empty()) {
    screen.CutLine(report::Ink::kNone, "  " + Say(view, "no rows yet, or no matching rows"));
  }
}

size_t ShowAlerts(const RunFollower& run, const TopView& view, size_t room,
                  report::Screen& screen) {
  const size_t count = std::min({run.alerts().size(), kMostAlerts, room});
  for (size_t i = 0; i < count; ++i) {
    const analysis::monitor::Alert& alert = run.alerts()[run.alerts().size() - 1 - i];
    screen.CutLine(report::Ink::kYellow,
                   "  " + Say(view, fmt::format("step {} rank {}: {}", alert.step, alert.rank,
                                                base::Printable(alert.message))));
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
  const size_t width = screen.options().width;
  std::vector<Fact> facts = {{0, Say(view, "step " + (step < 0 ? "-" : fmt::format("{}", step)))},
                             {4, Say(view, Rate(rate) + " steps/s")},
                             {3, Say(view, base::Plural(run.ranks().size(), "rank"))},
                             {2, Say(view, base::Plural(run.alerts().size(), "alert"))},
                             {1, base::FormatCount(non_finite) + " NaN/Inf"}};
  if (view.paused) {
    facts.push_back({0, Say(view, "paused")});
  }
  constexpr size_t kLeastPath = 12;
  const std::string counts = JoinedFacts(std::move(facts), "  ", width);
  const size_t room = width - std::min(width, report::ColumnsOf(counts) + 2);
  screen.CutLine(report::Ink::kBold,
                 room >= kLeastPath ? Cut(root.string(), room) + "  " + counts : counts);

  const auto ops = JudgedOps(run, view);
  std::vector<Fact> chosen = {
      {0, Say(view, "table " + (view.table.empty() ? "all" : base::Printable(view.table)))},
      {1, Say(view, "statistic " + (ops.empty() ? "-" : base::Printable(ops[0].first)))}};
  for (size_t i = 1; i < ops.size(); ++i) {
    chosen.push_back({1 + i, fmt::format("{} of {}", base::Printable(ops[i].first),
                                         base::Printable(base::Join(ops[i].second, " ")))});
  }
  if (view.typing || !view.search.empty()) {
    chosen.push_back({0, Say(view, "search") + fmt::format(": {}{}", base::Printable(view.search),
                                                           view.typing ? "_" : "")});
  }
  if (run.bad_rows() > 0) {
    chosen.push_back(
        {0, Say(view, fmt::format("{} not read: {}", base::Plural(run.bad_rows(), "row"),
                                  base::Printable(run.first_diagnostic())))});
  }
  screen.CutLine(report::Ink::kNone, JoinedFacts(std::move(chosen), ", ", width));
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
      screen.Paragraph(report::Ink::kNone, Say(view, base::ReplaceAll(paragraph, "\n", " ")));
      screen.Blank();
    }
    screen.CutLine(report::Ink::kNone, Say(view, "any key: back"));
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
    screen.CutLine(report::Ink::kBold, "  " + Say(view, "newest alerts"));
    ShowAlerts(run, view, alerts, screen);
  }
  if (view.keys) {
    screen.Blank();
    std::vector<Fact> keys = {{0, "q quit"},       {3, "p pause"},  {4, "t table"},
                              {5, "o statistic"},  {2, "/ search"}, {1, "? help"},
                              {6, "arrows scroll"}};
    for (Fact& key : keys) {
      key.text = Say(view, key.text);
    }
    screen.CutLine(report::Ink::kNone, JoinedFacts(std::move(keys), "  ", view.width));
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
  document.verdict.outcome = broken > 0 || !run.alerts().empty() ? report::AnswerOutcome::kFindings
                                                                 : report::AnswerOutcome::kClean;
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
