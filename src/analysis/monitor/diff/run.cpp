#include "src/analysis/monitor/diff/run.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <limits>
#include <map>
#include <set>
#include <tuple>

#include <fmt/format.h>

#include "src/analysis/monitor/common/monitored_run.h"
#include "src/analysis/monitor/common/table_rows.h"
#include "src/analysis/monitor/diff/rank_reduction.h"
#include "src/base/strings.h"

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

}  // namespace msprobe::analysis::monitor
