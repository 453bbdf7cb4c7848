#include "src/analysis/monitor/report/page_model.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <numeric>
#include <set>
#include <tuple>

#include "src/analysis/monitor/report/alert_series.h"
#include "src/analysis/monitor/report/column_code.h"

namespace msprobe::analysis::monitor {
namespace {

constexpr size_t kRowsPerChunk = 65'536;  // a block of up to half a megabyte: quick to unpack
// A page with more of them is no help to anybody; all are counted.
constexpr size_t kMostAlerts = 20'000;
constexpr double kLargestScore = 1e9;
constexpr double kFarScore = 6;  // what the page calls far from usual (numbers.js)

// What people look at first.
constexpr std::array<std::string_view, 10> kFirstOps = {"norm", "mean",  "std",  "rms",     "min",
                                                        "max",  "zeros", "nans", "entropy", "sr"};

size_t PlaceOfOp(std::string_view op) {
  return static_cast<size_t>(std::find(kFirstOps.begin(), kFirstOps.end(), op) - kFirstOps.begin());
}

RowGrid GridOf(const Series& series) {
  RowGrid grid;
  grid.order.resize(series.steps.size());
  std::iota(grid.order.begin(), grid.order.end(), size_t{0});
  std::stable_sort(grid.order.begin(), grid.order.end(), [&series](size_t a, size_t b) {
    return std::tie(series.ranks[a], series.steps[a]) < std::tie(series.ranks[b], series.steps[b]);
  });
  for (const size_t row : grid.order) {
    grid.steps.push_back(series.steps[row]);
    grid.ranks.push_back(series.ranks[row]);
  }
  grid.rank_distance = static_cast<uint32_t>(
      std::count(grid.ranks.begin(), grid.ranks.end(), grid.ranks.empty() ? 0 : grid.ranks[0]));
  return grid;
}

// The worst of the ranks, each judged by its own history.
SeriesScore ScoreByRank(const RowGrid& grid, const std::vector<double>& values,
                        std::vector<double>& scratch, double rounding) {
  SeriesScore worst;
  size_t begin = 0;
  while (begin < values.size()) {
    size_t end = begin;
    while (end < values.size() && grid.ranks[end] == grid.ranks[begin]) {
      ++end;
    }
    const std::span<const double> part(values.data() + begin, end - begin);
    const SeriesScore score = ScoreSeries(part, scratch, rounding);
    if (score.score > worst.score) {
      worst.score = score.score;
      worst.at = begin + score.at;
    }
    const bool earlier = score.non_finite > 0 &&
                         (worst.non_finite == 0 || grid.steps[begin + score.first_non_finite] <
                                                       grid.steps[worst.first_non_finite]);
    if (earlier) {
      worst.first_non_finite = begin + score.first_non_finite;
    }
    worst.non_finite += score.non_finite;
    begin = end;
  }
  return worst;
}

double RoundingOfRun(const MonitoredRun& run) {
  double unit = 0;
  bool is_known = true;
  for (const RankFolder& folder : run.folders) {
    unit = std::max(unit, folder.rounding.value_or(0));
    is_known = is_known && folder.rounding.has_value();
  }
  RoundingSeen seen;
  for (const Series& series : run.series) {
    for (const auto& [op, values] : series.values) {
      for (size_t i = 0; !is_known && i < values.size(); ++i) {
        seen.Take(values[i]);
      }
    }
  }
  return is_known ? unit : std::max(unit, seen.unit());
}

}  // namespace

ReportModel::ReportModel(const MonitoredRun& run, base::ThreadPool& pool)
    : run_(run), rounding_(RoundingOfRun(run)) {
  FindGrids();
  FindOps();
  FindChunks();
  scores_.resize(run_.series.size());
  std::vector<std::vector<double>> scratch(pool.thread_count());
  pool.ParallelFor(run_.series.size(), [&](size_t series, size_t worker) {
    for (const std::string& op : ops_) {
      scores_[series].push_back(ScoreByRank(grids_[grid_of_[series]], InGridOrder(series, op),
                                            scratch[worker], rounding_));
    }
  });
}

void ReportModel::FindGrids() {
  const auto before = [](const Series* a, const Series* b) {
    return std::tie(a->steps, a->ranks) < std::tie(b->steps, b->ranks);
  };
  std::map<const Series*, size_t, decltype(before)> known(before);
  for (const Series& series : run_.series) {
    const auto [place, fresh] = known.emplace(&series, grids_.size());
    if (fresh) {
      grids_.push_back(GridOf(series));
    }
    grid_of_.push_back(place->second);
  }
}

void ReportModel::FindOps() {
  std::set<std::string, std::less<>> all;
  for (const Series& series : run_.series) {
    for (const auto& [op, values] : series.values) {
      all.insert(op);
    }
    if (tables_.empty() || tables_.back() != series.table) {
      tables_.push_back(series.table);
    }
    table_of_.push_back(tables_.size() - 1);
  }
  ops_.assign(all.begin(), all.end());
  std::stable_sort(ops_.begin(), ops_.end(), [](const std::string& a, const std::string& b) {
    return PlaceOfOp(a) < PlaceOfOp(b);
  });
  std::vector<std::set<size_t>> found(tables_.size());
  for (size_t i = 0; i < run_.series.size(); ++i) {
    for (size_t op = 0; op < ops_.size(); ++op) {
      if (run_.series[i].values.contains(ops_[op])) {
        found[table_of_[i]].insert(op);
      }
    }
  }
  for (const std::set<size_t>& ops : found) {
    table_ops_.emplace_back(ops.begin(), ops.end());
  }
}

const std::vector<size_t>& ReportModel::OpsOf(const SeriesChunk& chunk) const {
  return table_ops_[table_of_[chunk.first]];
}

void ReportModel::FindChunks() {
  size_t rows = 0;
  for (size_t i = 0; i < run_.series.size(); ++i) {
    const bool same_table = i > 0 && run_.series[i].table == run_.series[i - 1].table;
    if (!same_table || rows >= kRowsPerChunk) {
      chunks_.push_back({i, 0});
      rows = 0;
    }
    ++chunks_.back().count;
    rows += run_.series[i].steps.size();
  }
}

uint64_t ReportModel::non_finite() const {
  uint64_t count = 0;
  for (const std::vector<SeriesScore>& of_series : scores_) {
    for (const SeriesScore& score : of_series) {
      count += score.non_finite;
    }
  }
  return count;
}

// One finding, and not one for each of its rows.
bool ReportModel::IsNeverANumber(size_t series) const {
  const auto& columns = run_.series[series].values;
  return std::all_of(columns.begin(), columns.end(), [](const auto& column) {
    return std::all_of(column.second.begin(), column.second.end(),
                       [](double value) { return std::isnan(value); });
  });
}

std::vector<double> ReportModel::InGridOrder(size_t series, std::string_view op) const {
  std::vector<double> values;
  const auto column = run_.series[series].values.find(op);
  if (column == run_.series[series].values.end()) {
    return values;
  }
  const RowGrid& grid = grids_[grid_of_[series]];
  values.reserve(grid.order.size());
  for (const size_t row : grid.order) {
    values.push_back(column->second[row]);
  }
  return values;
}

void ReportModel::AppendChunk(const SeriesChunk& chunk, std::string_view op,
                              std::string& out) const {
  std::vector<std::vector<double>> values;
  std::vector<ColumnToCode> columns;
  for (size_t i = chunk.first; i < chunk.first + chunk.count; ++i) {
    values.push_back(InGridOrder(i, op));
  }
  for (size_t i = 0; i < chunk.count; ++i) {
    columns.push_back({values[i], grids_[grid_of_[chunk.first + i]].rank_distance});
  }
  AppendColumns(columns, out);
}

void ReportModel::WriteListing(json::Writer& writer) const {
  writer.BeginObject();
  const std::filesystem::path name =
      run_.root.filename().empty() ? run_.root.parent_path().filename() : run_.root.filename();
  writer.Member("name", name.string());
  writer.Member("rows", run_.rows);
  writer.Member("rounding", rounding_);
  writer.Member("unmeasured", run_.unmeasured);
  writer.Key("warnings");
  writer.BeginArray();
  for (const std::string& warning : run_.warnings) {
    writer.Text(warning);
  }
  writer.EndArray();
  writer.Key("tables");
  writer.BeginArray();
  for (const std::string& table : tables_) {
    writer.Text(table);
  }
  writer.EndArray();
  writer.Key("ops");
  writer.BeginArray();
  for (const std::string& op : ops_) {
    writer.Text(op);
  }
  writer.EndArray();
  writer.Key("table_ops");
  writer.BeginArray();
  for (const std::vector<size_t>& ops : table_ops_) {
    writer.BeginArray();
    for (const size_t op : ops) {
      writer.Int(static_cast<int64_t>(op));
    }
    writer.EndArray();
  }
  writer.EndArray();
  writer.Key("grids");
  writer.BeginArray();
  for (const RowGrid& grid : grids_) {
    WriteGrid(grid, writer);
  }
  writer.EndArray();
  WriteSeries(writer);
  writer.Key("chunks");
  writer.BeginArray();
  for (const SeriesChunk& chunk : chunks_) {
    writer.Int(static_cast<int64_t>(chunk.first));
    writer.Int(static_cast<int64_t>(chunk.count));
  }
  writer.EndArray();
  WriteScores(writer);
  WriteAlerts(writer);
  writer.EndObject();
}

// Per rank: the rank, how many steps, and either the first step and the distance of one to the
// next, or all of them.
void ReportModel::WriteGrid(const RowGrid& grid, json::Writer& writer) const {
  writer.BeginArray();
  size_t begin = 0;
  while (begin < grid.ranks.size()) {
    size_t end = begin + 1;
    while (end < grid.ranks.size() && grid.ranks[end] == grid.ranks[begin]) {
      ++end;
    }
    // Steps of a file may be anything: unsigned, so that the distance cannot overflow.
    const auto distance = [&grid](size_t i) {
      return static_cast<uint64_t>(grid.steps[i]) - static_cast<uint64_t>(grid.steps[i - 1]);
    };
    bool even = end - begin > 2;
    for (size_t i = begin + 2; even && i < end; ++i) {
      even = distance(i) == distance(begin + 1);
    }
    writer.BeginArray();
    writer.Int(grid.ranks[begin]);
    writer.Int(static_cast<int64_t>(end - begin));
    if (even) {
      writer.Int(grid.steps[begin]);
      writer.Int(static_cast<int64_t>(distance(begin + 1)));
    } else {
      writer.BeginArray();
      for (size_t i = begin; i < end; ++i) {
        writer.Int(grid.steps[i]);
      }
      writer.EndArray();
    }
    writer.EndArray();
    begin = end;
  }
  writer.EndArray();
}

void ReportModel::WriteSeries(json::Writer& writer) const {
  writer.Key("series");
  writer.BeginArray();
  for (size_t i = 0; i < run_.series.size(); ++i) {
    const Series& series = run_.series[i];
    writer.BeginArray();
    writer.Int(static_cast<int64_t>(table_of_[i]));
    writer.Int(series.stage);
    writer.Text(series.name);
    writer.Int(series.micro_step);
    writer.Int(static_cast<int64_t>(grid_of_[i]));
    writer.EndArray();
  }
  writer.EndArray();
}

// "scores": per statistic one number per series, tenths. "peaks": series, statistic, step and rank
// of those far from usual. "non_finite": series, statistic, how many, step and rank of the first.
// "never_numbers": series of NaN only.
void ReportModel::WriteScores(json::Writer& writer) const {
  writer.Key("scores");
  writer.BeginArray();
  for (size_t op = 0; op < ops_.size(); ++op) {
    writer.BeginArray();
    for (const std::vector<SeriesScore>& of_series : scores_) {
      const double score = std::min(of_series[op].score, kLargestScore);
      writer.Int(static_cast<int64_t>(std::lround(score * 10)));
    }
    writer.EndArray();
  }
  writer.EndArray();
  writer.Key("peaks");
  writer.BeginArray();
  for (size_t series = 0; series < scores_.size(); ++series) {
    const RowGrid& grid = grids_[grid_of_[series]];
    for (size_t op = 0; op < ops_.size(); ++op) {
      const SeriesScore& score = scores_[series][op];
      if (score.score >= kFarScore) {
        writer.BeginArray();
        writer.Int(static_cast<int64_t>(series));
        writer.Int(static_cast<int64_t>(op));
        writer.Int(grid.steps[score.at]);
        writer.Int(grid.ranks[score.at]);
        writer.EndArray();
      }
    }
  }
  writer.EndArray();
  writer.Key("non_finite");
  writer.BeginArray();
  std::vector<size_t> never_numbers;
  for (size_t series = 0; series < scores_.size(); ++series) {
    const RowGrid& grid = grids_[grid_of_[series]];
    if (IsNeverANumber(series)) {
      never_numbers.push_back(series);
    }
    for (size_t op = 0; op < ops_.size(); ++op) {
      const SeriesScore& score = scores_[series][op];
      if (score.non_finite == 0) {
        continue;
      }
      writer.BeginArray();
      writer.Int(static_cast<int64_t>(series));
      writer.Int(static_cast<int64_t>(op));
      writer.Int(static_cast<int64_t>(score.non_finite));
      writer.Int(grid.steps[score.first_non_finite]);
      writer.Int(grid.ranks[score.first_non_finite]);
      writer.EndArray();
    }
  }
  writer.EndArray();
  writer.Key("never_numbers");
  writer.BeginArray();
  for (const size_t series : never_numbers) {
    writer.Int(static_cast<int64_t>(series));
  }
  writer.EndArray();
}

// "alerts": step, rank, series (-1: none of this report), tag, message. "alert_steps": step, how
// many, step, how many, ... of all alerts.
void ReportModel::WriteAlerts(json::Writer& writer) const {
  const AlertSeriesFinder finder(run_);
  std::map<int64_t, int64_t> by_step;
  for (const Alert& alert : run_.alerts) {
    ++by_step[alert.step];
  }
  writer.Member("alert_count", static_cast<uint64_t>(run_.alerts.size()));
  writer.Key("alert_steps");
  writer.BeginArray();
  for (const auto& [step, count] : by_step) {
    writer.Int(step);
    writer.Int(count);
  }
  writer.EndArray();
  writer.Key("alerts");
  writer.BeginArray();
  for (size_t i = 0; i < std::min(run_.alerts.size(), kMostAlerts); ++i) {
    const Alert& alert = run_.alerts[i];
    writer.BeginArray();
    writer.Int(alert.step);
    writer.Int(alert.rank);
    writer.Int(finder.Find(alert.tag));
    writer.Text(alert.tag);
    writer.Text(alert.message);
    writer.EndArray();
  }
  writer.EndArray();
}

}  // namespace msprobe::analysis::monitor
