#include "src/analysis/monitor/diff/diff.h"

#include <algorithm>
#include <array>
#include <bit>
#include <cmath>
#include <cstdint>
#include <limits>
#include <map>
#include <set>
#include <string>
#include <string_view>
#include <tuple>
#include <utility>
#include <vector>

#include <fmt/format.h>

#include "src/analysis/monitor/common/document_parts.h"
#include "src/analysis/monitor/common/monitored_run.h"
#include "src/analysis/monitor/common/table_rows.h"
#include "src/base/strings.h"
#include "src/json/writer.h"

namespace msprobe::analysis::monitor::internal {
namespace {

// One value per name and step out of those of many ranks, so that runs on
// different numbers of ranks, or with other shards, can be compared at all. What the values alone
// do not tell (which ranks hold copies) comes from monitor.json, or from digits that are all equal.

class RankReduction {
 public:
  explicit RankReduction(const MonitoredRun& run);

  // The series with one row per step, of rank -1; ops that cannot be reduced are left out.
  Series Reduce(const Series& series) const;
  // The stage of the rank's pipeline group; 0 if it is not recorded.
  int64_t PipelineStage(int32_t rank) const;

 private:
  void KeepRepresentatives(const Series& series, std::vector<size_t>& rows) const;

  std::map<int32_t, int32_t> representatives_;  // of data-parallel groups, by rank
  std::map<int32_t, int64_t> stages_;
};

enum class Reduction : uint8_t { kNone, kRoot, kLeast, kMost, kSum, kAverage };

Reduction ReductionOf(std::string_view op) {
  if (op == "norm") {
    return Reduction::kRoot;
  }
  if (op == "min") {
    return Reduction::kLeast;
  }
  if (op == "max" || op == "amax") {
    return Reduction::kMost;
  }
  if (op == "nans" || op == "infs" || op == "subnormals") {
    return Reduction::kSum;
  }
  // Entropies of what a rank's tokens choose are averages over tokens, as mean is over elements.
  return op == "mean" || op == "zeros" || op == "per_token_expert_entropy" ? Reduction::kAverage
                                                                           : Reduction::kNone;
}

double Reduce(Reduction reduction, const std::vector<double>& column,
              const std::vector<size_t>& rows) {
  double result = reduction == Reduction::kLeast  ? std::numeric_limits<double>::infinity()
                  : reduction == Reduction::kMost ? -std::numeric_limits<double>::infinity()
                                                  : 0;
  double scale = 0;  // the largest magnitude, so that squares stay within range
  size_t measured = 0;
  for (const size_t row : rows) {
    if (IsNoNumber(column[row])) {
      continue;
    }
    if (std::isnan(column[row])) {
      return column[row];
    }
    ++measured;
    scale = std::max(scale, std::fabs(column[row]));
  }
  if (measured == 0) {
    return kNoNumber;
  }
  for (const size_t row : rows) {
    const double value = column[row];
    if (IsNoNumber(value)) {
      continue;
    }
    switch (reduction) {
      case Reduction::kRoot:
        result += scale > 0 && std::isfinite(scale) ? (value / scale) * (value / scale) : 0;
        break;
      case Reduction::kLeast:
        result = std::min(result, value);
        break;
      case Reduction::kMost:
        result = std::max(result, value);
        break;
      default:
        result += value;
    }
  }
  if (reduction == Reduction::kRoot) {
    return std::isfinite(scale) ? scale * std::sqrt(result) : scale;
  }
  return reduction == Reduction::kAverage ? result / static_cast<double>(measured) : result;
}

// Bits, so that NaN is equal to itself.
bool SameRow(const Series& series, size_t a, size_t b) {
  return std::all_of(series.values.begin(), series.values.end(), [a, b](const auto& value) {
    return std::bit_cast<uint64_t>(value.second[a]) == std::bit_cast<uint64_t>(value.second[b]);
  });
}

// What every rank of a data-parallel group holds alike.
bool IsSharedTable(std::string_view table) {
  return table == "grad_reduced" || table.starts_with("exp_avg") || table.starts_with("param_") ||
         table == "update_ratio";
}

// Whether values of several ranks can be made one.
bool IsReducible(std::string_view op) { return ReductionOf(op) != Reduction::kNone; }

// Unreduced gradients of data-parallel ranks are parts of a sum, which no norm tells.
bool IsReducibleTable(std::string_view table) {
  return table != "grad_unreduced" && table != "other";
}

RankReduction::RankReduction(const MonitoredRun& run) {
  for (const RankFolder& folder : run.folders) {
    if (!folder.topology.has_value()) {
      continue;
    }
    const auto rank = static_cast<int32_t>(folder.rank);
    stages_[rank] = folder.topology->pipeline_stage;
    if (folder.topology->data_ranks.has_value() && !folder.topology->data_ranks->empty()) {
      representatives_[rank] = static_cast<int32_t>(*std::min_element(
          folder.topology->data_ranks->begin(), folder.topology->data_ranks->end()));
    }
  }
}

int64_t RankReduction::PipelineStage(int32_t rank) const {
  const auto found = stages_.find(rank);
  return found == stages_.end() ? 0 : found->second;
}

// Drops rows that tell what another one of `rows` tells already.
void RankReduction::KeepRepresentatives(const Series& series, std::vector<size_t>& rows) const {
  std::set<int32_t> groups;
  std::vector<size_t> kept;
  for (const size_t row : rows) {
    const auto representative = representatives_.find(series.ranks[row]);
    const bool is_copy = (IsSharedTable(series.table) && representative != representatives_.end() &&
                          !groups.insert(representative->second).second) ||
                         std::any_of(kept.begin(), kept.end(), [&series, row](size_t other) {
                           return SameRow(series, row, other);
                         });
    if (!is_copy) {
      kept.push_back(row);
    }
  }
  rows = std::move(kept);
}

Series RankReduction::Reduce(const Series& series) const {
  Series reduced = {series.table, series.stage, series.name, series.micro_step,
                    series.order, {},           {},          {}};
  for (const auto& value : series.values) {
    if (IsReducible(value.first)) {
      reduced.values[value.first];
    }
  }
  for (size_t begin = 0; begin < series.steps.size();) {
    std::vector<size_t> rows;
    size_t end = begin;
    for (; end < series.steps.size() && series.steps[end] == series.steps[begin]; ++end) {
      rows.push_back(end);
    }
    KeepRepresentatives(series, rows);
    reduced.steps.push_back(series.steps[begin]);
    reduced.ranks.push_back(-1);
    for (auto& value : reduced.values) {
      value.second.push_back(internal::Reduce(ReductionOf(value.first),
                                              series.values.find(value.first)->second, rows));
    }
    begin = end;
  }
  return reduced;
}

}  // namespace

}  // namespace msprobe::analysis::monitor::internal

namespace msprobe::analysis::monitor {
namespace {

// Where in a step a table's values come about; unknown ones behind. Last come estimates, which
// another start of their iterations moves.
size_t PositionInStep(std::string_view table) {
  constexpr std::array<std::string_view, 13> kOrder = {"param_origin",   "moe_router_weight_hook",
                                                       "attention_hook", "moe_router_logit_hook",
                                                       "actv",           "actv_grad",
                                                       "grad_unreduced", "grad_reduced",
                                                       "exp_avg",        "exp_avg_sq",
                                                       "update_ratio",   "param_updated",
                                                       "linear_hook"};
  return static_cast<size_t>(std::find(kOrder.begin(), kOrder.end(), table) - kOrder.begin());
}

std::set<int32_t> RanksOf(const MonitoredRun& run) {
  std::set<int32_t> ranks;
  for (const RankFolder& folder : run.folders) {
    ranks.insert(static_cast<int32_t>(folder.rank));
  }
  return ranks;
}

struct Key {
  std::string_view table;
  int32_t stage;
  std::string_view name;
  int32_t micro_step;
  int64_t pipeline_stage;
  auto operator<=>(const Key& other) const = default;
};

// One side, ready to be compared. Names of different pipeline stages are apart where ranks are made
// one: each stage counts its layers from 0.
struct ComparedRun {
  std::vector<Series> series;
  std::map<Key, const Series*> index;
};

ComparedRun Prepare(MonitoredRun& run, bool reduce) {
  const internal::RankReduction reduction(run);
  ComparedRun side;
  std::vector<int64_t> stages;
  for (Series& series : run.series) {
    if (!reduce) {
      stages.push_back(0);
      side.series.push_back(std::move(series));
      continue;
    }
    std::map<int64_t, Series> parts;
    for (size_t row = 0; row < series.steps.size(); ++row) {
      Series& part = parts[reduction.PipelineStage(series.ranks[row])];
      part.steps.push_back(series.steps[row]);
      part.ranks.push_back(series.ranks[row]);
      for (const auto& value : series.values) {
        part.values[value.first].push_back(value.second[row]);
      }
    }
    for (auto& part : parts) {
      part.second.table = series.table;
      part.second.stage = series.stage;
      part.second.name = series.name;
      part.second.micro_step = series.micro_step;
      part.second.order = series.order;
      stages.push_back(part.first);
      side.series.push_back(reduction.Reduce(part.second));
    }
  }
  for (size_t i = 0; i < side.series.size(); ++i) {
    const Series& series = side.series[i];
    side.index[{series.table, series.stage, series.name, series.micro_step, stages[i]}] = &series;
  }
  return side;
}

struct Pair {
  const Series* a;
  const Series* b;
  // Rows of both with the same step and rank.
  std::vector<std::pair<size_t, size_t>> rows;
};

void PairRows(Pair& pair) {
  const auto key = [](const Series& series, size_t row) {
    return std::pair(series.steps[row], series.ranks[row]);
  };
  size_t i = 0;
  size_t j = 0;
  while (i < pair.a->steps.size() && j < pair.b->steps.size()) {
    const auto a = key(*pair.a, i);
    const auto b = key(*pair.b, j);
    if (a == b) {
      pair.rows.emplace_back(i++, j++);
    } else if (a < b) {
      ++i;
    } else {
      ++j;
    }
  }
}

bool Diverge(double a, double b, const DiffOptions& options) {
  if (std::isnan(a) || std::isnan(b)) {
    return std::isnan(a) != std::isnan(b) || IsNoNumber(a) != IsNoNumber(b);
  }
  if (std::isinf(a) || std::isinf(b)) {
    return a != b;
  }
  return std::fabs(a - b) > options.atol + options.rtol * std::max(std::fabs(a), std::fabs(b));
}

double Relative(double a, double b) {
  if (!std::isfinite(a) || !std::isfinite(b)) {
    return std::numeric_limits<double>::infinity();
  }
  return std::fabs(a - b) / std::max(std::fabs(a), std::fabs(b));
}

// The order in which divergences of one step come about.
using Order = std::tuple<int64_t, size_t, int64_t, int64_t>;

Order OrderOf(const Series& series, int64_t step) {
  return {step, PositionInStep(series.table), std::max(series.micro_step, 0), series.order};
}

void CompareOp(const Pair& pair, const std::string& op, const DiffOptions& options, DiffLine& line,
               Order& first) {
  const auto column_a = pair.a->values.find(op);
  const auto column_b = pair.b->values.find(op);
  if (column_a == pair.a->values.end() || column_b == pair.b->values.end()) {
    return;
  }
  for (const auto& rows : pair.rows) {
    const double a = column_a->second[rows.first];
    const double b = column_b->second[rows.second];
    if (IsNoNumber(a) && IsNoNumber(b)) {
      continue;
    }
    ++line.compared;
    const bool both_nan = std::isnan(a) && std::isnan(b) && IsNoNumber(a) == IsNoNumber(b);
    line.nan += both_nan ? 1U : 0U;
    line.unequal += both_nan || a == b ? 0U : 1U;
    if (!Diverge(a, b, options)) {
      continue;
    }
    ++line.divergent;
    const double relative = Relative(a, b);
    const Order order = OrderOf(*pair.a, pair.a->steps[rows.first]);
    const bool is_first = !line.first.has_value() || order < first;
    if (!is_first && !(relative > line.worst->relative)) {
      continue;
    }
    const Divergence divergence = {pair.a->steps[rows.first],
                                   pair.a->stage,
                                   pair.a->name,
                                   pair.a->micro_step,
                                   pair.a->ranks[rows.first],
                                   a,
                                   b,
                                   relative};
    if (is_first) {
      line.first = divergence;
      first = order;
    }
    if (!line.worst.has_value() || relative > line.worst->relative) {
      line.worst = divergence;
    }
  }
}

uint64_t CountRows(const ComparedRun& side) {
  uint64_t rows = 0;
  for (const Series& series : side.series) {
    rows += series.steps.size();
  }
  return rows;
}

// Tables of the first run in the order of a step.
std::vector<std::string> TablesInOrder(const MonitoredRun& run) {
  std::vector<std::string> tables;
  for (const auto& entry : run.ops) {
    tables.push_back(entry.first);
  }
  std::stable_sort(tables.begin(), tables.end(), [](const std::string& a, const std::string& b) {
    return PositionInStep(a) < PositionInStep(b);
  });
  return tables;
}

}  // namespace

Result<DiffResult> RunDiff(const DiffOptions& options) {
  ReadOptions read;
  read.tables = options.tables;
  read.ops = options.ops;
  read.threads = options.threads;
  MSP_ASSIGN_OR_RETURN(MonitoredRun run_a, ReadMonitoredRun(options.a, read));
  MSP_ASSIGN_OR_RETURN(MonitoredRun run_b, ReadMonitoredRun(options.b, read));
  DiffResult result;
  result.unread_files = run_a.unread_files + run_b.unread_files;
  result.warnings = std::move(run_a.warnings);
  result.warnings.insert(result.warnings.end(), run_b.warnings.begin(), run_b.warnings.end());
  const std::set<int32_t> ranks_a = RanksOf(run_a);
  const std::set<int32_t> ranks_b = RanksOf(run_b);
  result.ranks_a = ranks_a.size();
  result.ranks_b = ranks_b.size();
  result.reduced = options.reduce || ranks_a != ranks_b;
  const std::vector<std::string> tables = TablesInOrder(run_a);
  const auto ops = run_a.ops;

  const ComparedRun a = Prepare(run_a, result.reduced);
  const ComparedRun b = Prepare(run_b, result.reduced);
  std::map<std::string_view, std::vector<Pair>> pairs;
  uint64_t partners = 0;
  for (const auto& entry : a.index) {
    const auto other = b.index.find(entry.first);
    if (other != b.index.end()) {
      Pair pair = {entry.second, other->second, {}};
      PairRows(pair);
      partners += pair.rows.size();
      pairs[entry.first.table].push_back(std::move(pair));
    }
  }
  result.only_a = CountRows(a) - partners;
  result.only_b = CountRows(b) - partners;
  if (partners == 0) {
    return MismatchError(fmt::format("nothing compared: {} and {} have no name and step in common",
                                     options.a.string(), options.b.string()))
        .WithHint("were they made with the same targets, and of the same steps?");
  }

  std::vector<Order> firsts;
  std::set<std::string> left_out;
  for (const std::string& table : tables) {
    if (result.reduced && !internal::IsReducibleTable(table)) {
      result.notes.push_back(
          fmt::format("{} is not compared: its values cannot be combined across ranks", table));
      continue;
    }
    for (const std::string& op : ops.find(table)->second) {
      if (result.reduced && !internal::IsReducible(op)) {
        left_out.insert(op);
        continue;
      }
      DiffLine line = {table, op, 0, 0, 0, 0, {}, {}};
      Order first;
      for (const Pair& pair : pairs[table]) {
        CompareOp(pair, op, options, line, first);
      }
      if (line.compared > 0) {
        result.lines.push_back(std::move(line));
        firsts.push_back(first);
      }
    }
  }
  for (const std::string& op : left_out) {
    result.notes.push_back(
        fmt::format("{} is not compared: it cannot be combined across ranks", op));
  }
  if (result.lines.empty()) {
    return MismatchError(
               fmt::format("nothing compared: {} and {} have no statistic that can be compared",
                           options.a.string(), options.b.string()))
        .WithHint(result.notes.empty() ? "were they made with the same \"ops\"?"
                                       : base::Join(result.notes, "; "));
  }
  for (size_t i = 0; i < result.lines.size(); ++i) {
    if (result.lines[i].first.has_value() &&
        (result.first_line == SIZE_MAX || firsts[i] < firsts[result.first_line])) {
      result.first_line = i;
    }
  }
  return result;
}

namespace {

void WriteDivergence(const char* key, const std::optional<Divergence>& divergence,
                     json::Writer& json) {
  json.Key(key);
  if (!divergence.has_value()) {
    json.Null();
    return;
  }
  json.BeginObject();
  json.Member("step", divergence->step);
  json.Member("vpp_stage", static_cast<int64_t>(divergence->stage));
  json.Member("name", divergence->name);
  if (divergence->micro_step >= 0) {
    json.Member("micro_step", static_cast<int64_t>(divergence->micro_step));
  }
  if (divergence->rank >= 0) {
    json.Member("rank", static_cast<int64_t>(divergence->rank));
  }
  json.Member("a", divergence->a);
  json.Member("b", divergence->b);
  json.Member("relative", divergence->relative);
  json.EndObject();
}

}  // namespace

std::string DiffJson(const DiffOptions& options, const DiffResult& result) {
  std::string text;
  json::Writer json(text, 1, json::Writer::NonFinite::kText);
  json.BeginObject();
  json.Member("run_a", options.a.string());
  json.Member("run_b", options.b.string());
  json.Member("rtol", options.rtol);
  json.Member("atol", options.atol);
  json.Member("ranks_a", static_cast<uint64_t>(result.ranks_a));
  json.Member("ranks_b", static_cast<uint64_t>(result.ranks_b));
  json.Member("reduced", result.reduced);
  json.Member("rows_only_in_a", result.only_a);
  json.Member("rows_only_in_b", result.only_b);
  const DiffLine* const first = result.first();
  json.Key("first");
  if (first == nullptr) {
    json.Null();
  } else {
    json.BeginObject();
    json.Member("table", first->table);
    json.Member("statistic", first->op);
    WriteDivergence("at", first->first, json);
    json.EndObject();
  }
  json.Key("statistics");
  json.BeginArray();
  for (const DiffLine& line : result.lines) {
    json.BeginObject();
    json.Member("table", line.table);
    json.Member("statistic", line.op);
    json.Member("compared", line.compared);
    json.Member("divergent", line.divergent);
    json.Member("unequal", line.unequal);
    json.Member("nan_in_both", line.nan);
    WriteDivergence("first", line.first, json);
    WriteDivergence("worst", line.worst, json);
    json.EndObject();
  }
  json.EndArray();
  json.Member("notes", result.notes);
  json.EndObject();
  return text + "\n";
}

namespace {

using base::Plural;
using report::AnswerOutcome;
using report::Cell;
using report::List;
using report::ListKind;
using report::Section;
using report::Tone;

std::string Where(const Divergence& divergence) {
  std::string text = base::Printable(ShownName(divergence.name));
  if (divergence.stage != 0) {
    text += fmt::format(" (stage {})", divergence.stage);
  }
  if (divergence.micro_step > 0) {
    text += fmt::format(" micro step {}", divergence.micro_step);
  }
  if (divergence.rank >= 0) {
    text += fmt::format(" rank {}", divergence.rank);
  }
  return text;
}

std::string Percent(double relative) {
  return std::isfinite(relative) ? fmt::format("{:.3g} %", relative * 100) : "not finite";
}

std::string Number(double value) {
  return IsNoNumber(value) ? "no tensor" : fmt::format("{:.6g}", value);
}

struct Totals {
  uint64_t compared = 0;
  uint64_t unequal = 0;
  uint64_t nan = 0;
};

Totals TotalsOf(const DiffResult& result) {
  Totals totals;
  for (const DiffLine& line : result.lines) {
    totals.compared += line.compared;
    totals.unequal += line.unequal;
    totals.nan += line.nan;
  }
  return totals;
}

report::Verdict MakeVerdict(const DiffResult& result) {
  report::Verdict verdict;
  const Totals totals = TotalsOf(result);
  const bool whole = result.only_a + result.only_b == 0 && result.unread_files == 0;
  const std::string all = fmt::format("{} of {}", Plural(totals.compared, "value"),
                                      Plural(result.lines.size(), "statistic"));
  if (const DiffLine* const first = result.first()) {
    const Divergence& at = *first->first;
    verdict.word = "DIFFERENT";
    verdict.text = fmt::format(
        "DIFFERENT: the runs diverge at step {}: {} of {} {}: {} against {}, {} apart", at.step,
        first->op, first->table, Where(at), Number(at.a), Number(at.b), Percent(at.relative));
    verdict.number = static_cast<double>(at.step);
    verdict.unit = "step";
    verdict.tone = Tone::kBad;
    verdict.outcome = AnswerOutcome::kFindings;
    return verdict;
  }
  if (totals.compared == 0) {
    verdict.Say("NOTHING COMPARED", "no value of one run has a partner in the other", Tone::kBad,
                AnswerOutcome::kNothingCompared);
    return verdict;
  }
  verdict.word = totals.unequal > 0 ? "CLOSE" : whole ? "IDENTICAL" : "EQUAL IN PART";
  verdict.text = totals.unequal > 0
                     ? fmt::format(
                           "CLOSE: all {} agree within the tolerance, {} of them not "
                           "exactly",
                           all, base::FormatCount(totals.unequal))
                     : fmt::format("{}: all {} are equal", verdict.word, all);
  if (totals.nan > 0) {
    verdict.text += fmt::format(", but {} NaN in both runs",
                                totals.nan == 1 ? "1 is" : base::FormatCount(totals.nan) + " are");
  }
  verdict.tone = whole && totals.nan == 0 ? Tone::kGood : Tone::kCaution;
  verdict.outcome = whole && totals.nan == 0 ? AnswerOutcome::kClean : AnswerOutcome::kFindings;
  return verdict;
}

Section LinesSection(const DiffResult& result) {
  report::Table table("statistics", {"table", "statistic", "compared", "differ", "step",
                                     "first difference, largest difference"});
  for (const DiffLine& line : result.lines) {
    table.AddRow({table.KeepText(line.table), table.KeepText(line.op),
                  Cell::Integer(static_cast<int64_t>(line.compared)),
                  Cell::Integer(static_cast<int64_t>(line.divergent)),
                  line.first ? Cell::Integer(line.first->step) : Cell(),
                  line.first ? table.KeepText(fmt::format("{}, {}", Where(*line.first),
                                                          Percent(line.worst->relative)))
                             : Cell()});
  }
  report::DataTable data{std::move(table)};
  // Where nothing parts the verdict says it all.
  data.display_limit.items = result.first() == nullptr ? 0 : SIZE_MAX;
  return report::MakeSection("", std::move(data));
}

Section NotesSection(const DiffResult& result) {
  List list{ListKind::kSentences, {}};
  if (result.reduced) {
    list.items.push_back({"", fmt::format("ranks: {} against {}; values are combined across ranks",
                                          result.ranks_a, result.ranks_b)});
  }
  if (result.only_a + result.only_b > 0) {
    list.items.push_back(
        {"", fmt::format("without a partner: {} of the test, {} of the reference",
                         Plural(result.only_a, "row"), Plural(result.only_b, "row"))});
  }
  for (const std::string& note : result.notes) {
    list.items.push_back({"", note});
  }
  return report::MakeSection("Notes", std::move(list));
}

// A case per statistic of a table.
std::vector<report::TestCase> CasesOf(const DiffResult& result) {
  std::vector<report::TestCase> cases;
  for (const DiffLine& line : result.lines) {
    report::TestCase& test = cases.emplace_back();
    test.name = fmt::format("{} {}", line.table, line.op);
    if (line.first) {
      test.Fail("different", "different",
                fmt::format("{} of {} differ, first at step {}: {}, {} at most", line.divergent,
                            Plural(line.compared, "value"), line.first->step, Where(*line.first),
                            Percent(line.worst->relative)));
    }
  }
  return cases;
}

}  // namespace

report::Document MakeDocument(const DiffResult& result) {
  report::Document document;
  document.command = "monitor diff";
  document.verdict = MakeVerdict(result);
  internal::TellUnread(result.unread_files, document.verdict);
  document.levels = report::OutcomesOf(kDiffLevels);
  report::SetFound(document.levels, "different", result.first() != nullptr);
  document.cases = CasesOf(result);
  document.sections.push_back(LinesSection(result));
  document.sections.push_back(NotesSection(result));
  document.warnings = result.warnings;
  return document;
}

}  // namespace msprobe::analysis::monitor
