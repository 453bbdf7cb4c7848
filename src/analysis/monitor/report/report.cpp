#include "src/analysis/monitor/report/report.h"

#include <algorithm>
#include <array>
#include <bit>
#include <cmath>
#include <cstddef>
#include <limits>
#include <memory>
#include <numeric>
#include <optional>
#include <set>
#include <string_view>
#include <tuple>
#include <type_traits>
#include <utility>
#include <vector>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "src/analysis/monitor/common/document_parts.h"
#include "src/analysis/monitor/diff/diff.h"
#include "src/analysis/monitor/laws/laws.h"
#include "src/base/numbers.h"
#include "src/base/output_files.h"
#include "src/base/strings.h"
#include "src/base/threads.h"
#include "src/json/writer.h"
#include "src/report/web_page.h"

namespace msprobe::resources {
extern const std::string_view kMonitorReportPage;  // empty: not built
}

namespace msprobe::analysis::monitor {
namespace {

// The table whose rows a task's statistics are.
std::string_view TableOfTask(std::string_view task) {
  if (task == "pre_grad" || task == "acc_grad") {
    return "grad_unreduced";
  }
  return task == "post_grad" ? "grad_reduced" : task;
}

// A small count, or -1.
int32_t ParseCount(std::string_view text) {
  const auto number = base::ParseInt(text);
  const bool fits = number && *number >= 0 && *number <= std::numeric_limits<int32_t>::max();
  return fits ? static_cast<int32_t>(*number) : -1;
}

}  // namespace

AlertSeriesFinder::AlertSeriesFinder(const MonitoredRun& run) {
  for (size_t i = 0; i < run.series.size(); ++i) {
    const Series& series = run.series[i];
    series_.emplace(Key(series.table, series.stage, series.name, series.micro_step),
                    static_cast<int64_t>(i));
  }
}

int64_t AlertSeriesFinder::FindKey(const Key& key) const {
  const auto place = series_.find(key);
  return place == series_.end() ? -1 : place->second;
}

int64_t AlertSeriesFinder::Find(std::string_view tag) const {
  const size_t rank = tag.rfind("/rank");
  const size_t task = tag.rfind('/');
  const size_t stage_end = tag.find(':');
  if (rank == std::string_view::npos || task <= rank || stage_end >= rank) {
    return -1;
  }
  const std::string_view table = TableOfTask(tag.substr(task + 1));
  const int32_t stage = ParseCount(tag.substr(0, stage_end));
  const std::string_view name = tag.substr(stage_end + 1, rank - stage_end - 1);
  if (const size_t colon = name.rfind(':'); colon != std::string_view::npos) {
    const int32_t micro_step = ParseCount(name.substr(colon + 1));
    for (const int32_t candidate : {micro_step, -1}) {
      const int64_t found = FindKey(Key(table, stage, name.substr(0, colon), candidate));
      if (micro_step >= 0 && found >= 0) {
        return found;
      }
    }
  }
  return FindKey(Key(table, stage, name, -1));
}

namespace {

constexpr uint8_t kFloat = 16;
constexpr uint8_t kDouble = 17;
constexpr uint8_t kAbsent = 255;
constexpr int kMaxDigits = 15;
// Differences of such integers, doubled and with the three special codes below them, are exact in
// a browser's numbers (2^53).
constexpr double kMaxInteger = 1125899906842624.0;  // 2^50
constexpr uint64_t kSpecialCodes = 3;

constexpr std::array<double, kMaxDigits + 1> kPowersOfTen = {
    1e0, 1e1, 1e2, 1e3, 1e4, 1e5, 1e6, 1e7, 1e8, 1e9, 1e10, 1e11, 1e12, 1e13, 1e14, 1e15};

struct Coded {
  uint8_t kind = kAbsent;
  uint8_t distance = 0;
  uint8_t planes = 0;
  std::vector<uint64_t> codes;
};

bool IsDecimal(double value, double scale) {
  const double scaled = std::rint(value * scale);
  // Minus zero has no integer of its own; shown, it is a zero.
  return std::abs(scaled) <= kMaxInteger && scaled / scale == value;
}

// Digits behind the point with which all finite values are written exactly; -1: more than 15.
int CommonDigits(std::span<const double> values) {
  int digits = 0;
  for (const double value : values) {
    if (!std::isfinite(value)) {
      continue;
    }
    while (!IsDecimal(value, kPowersOfTen[static_cast<size_t>(digits)])) {
      if (++digits > kMaxDigits) {
        return -1;
      }
    }
  }
  // A value that is exact with few digits may be too large with many.
  const double scale = kPowersOfTen[static_cast<size_t>(digits)];
  const bool all = std::all_of(values.begin(), values.end(), [scale](double value) {
    return !std::isfinite(value) || IsDecimal(value, scale);
  });
  return all ? digits : -1;
}

bool FitsFloat(std::span<const double> values) {
  constexpr double kLargest = std::numeric_limits<float>::max();
  constexpr double kSmallest = std::numeric_limits<float>::min();
  return std::all_of(values.begin(), values.end(), [](double value) {
    const double size = std::abs(value);
    return !std::isfinite(value) || value == 0 || (size >= kSmallest && size <= kLargest);
  });
}

int64_t FloatInteger(double value) {
  const auto bits = std::bit_cast<uint32_t>(static_cast<float>(value));
  const auto size = static_cast<int64_t>(bits & 0x7FFFFFFFU);
  return (bits >> 31U) != 0 ? -size - 1 : size;
}

uint64_t ZigZag(int64_t value) {
  return value >= 0 ? static_cast<uint64_t>(value) * 2
                    : static_cast<uint64_t>(-(value + 1)) * 2 + 1;
}

uint64_t SpecialCode(double value) { return std::isnan(value) ? 0 : value > 0 ? 1 : 2; }

template <typename ToInteger>
void FillCodes(std::span<const double> values, size_t distance, const ToInteger& to_integer,
               std::vector<int64_t>& integers, std::vector<uint64_t>& codes) {
  integers.resize(values.size());
  codes.resize(values.size());
  for (size_t i = 0; i < values.size(); ++i) {
    const int64_t before = distance != 0 && i >= distance ? integers[i - distance] : 0;
    if (std::isfinite(values[i])) {
      integers[i] = to_integer(values[i]);
      codes[i] = ZigZag(integers[i] - before) + kSpecialCodes;
    } else {
      integers[i] = before;
      codes[i] = SpecialCode(values[i]);
    }
  }
}

// Roughly what an entropy coder would spend.
uint64_t BitsOf(const std::vector<uint64_t>& codes) {
  uint64_t bits = 0;
  for (const uint64_t code : codes) {
    bits += static_cast<uint64_t>(std::bit_width(code));
  }
  return bits;
}

uint8_t PlanesOf(const std::vector<uint64_t>& codes) {
  const uint64_t largest = codes.empty() ? 0 : *std::max_element(codes.begin(), codes.end());
  return static_cast<uint8_t>((std::bit_width(largest) + 7) / 8);
}

class Coder {
 public:
  Coded Code(const ColumnToCode& column) {
    Coded best;
    if (column.values.empty()) {
      return best;
    }
    best_bits_ = std::numeric_limits<uint64_t>::max();
    const int digits = CommonDigits(column.values);
    if (digits >= 0) {
      const double scale = kPowersOfTen[static_cast<size_t>(digits)];
      Try(column, static_cast<uint8_t>(digits), best,
          [scale](double value) { return static_cast<int64_t>(std::rint(value * scale)); });
    }
    if (FitsFloat(column.values)) {
      Try(column, kFloat, best, FloatInteger);
    }
    if (best.kind == kAbsent) {
      best.kind = kDouble;
      for (const double value : column.values) {
        best.codes.push_back(std::bit_cast<uint64_t>(value));
      }
      best.planes = 8;
      return best;
    }
    best.planes = PlanesOf(best.codes);
    return best;
  }

 private:
  template <typename ToInteger>
  void Try(const ColumnToCode& column, uint8_t kind, Coded& best, const ToInteger& to_integer) {
    const std::array<size_t, 3> distances = {0, 1, column.rank_distance};
    for (size_t i = 0; i < distances.size(); ++i) {
      if (i == 2 && (distances[i] <= 1 || distances[i] >= column.values.size())) {
        continue;
      }
      FillCodes(column.values, distances[i], to_integer, integers_, codes_);
      if (const uint64_t bits = BitsOf(codes_); bits < best_bits_) {
        best_bits_ = bits;
        best.kind = kind;
        best.distance = static_cast<uint8_t>(i);
        best.codes.swap(codes_);
      }
    }
  }

  uint64_t best_bits_ = 0;
  std::vector<int64_t> integers_;
  std::vector<uint64_t> codes_;
};

}  // namespace

void AppendColumns(std::span<const ColumnToCode> columns, std::string& out) {
  Coder coder;
  std::vector<Coded> coded;
  coded.reserve(columns.size());
  size_t bytes = 0;
  for (const ColumnToCode& column : columns) {
    coded.push_back(coder.Code(column));
    bytes += coded.back().codes.size() * coded.back().planes;
  }
  out.reserve(out.size() + columns.size() * 4 + bytes);
  for (const Coded& column : coded) {
    for (const uint8_t part : {column.kind, column.distance, column.planes, uint8_t{0}}) {
      out += static_cast<char>(part);
    }
  }
  for (unsigned plane = 0; plane < 8; ++plane) {
    for (const Coded& column : coded) {
      if (column.planes <= plane) {
        continue;
      }
      for (const uint64_t code : column.codes) {
        out += static_cast<char>((code >> (8 * plane)) & 0xFFU);
      }
    }
  }
}

namespace {

constexpr size_t kRowsPerChunk = 65'536;  // a block of up to half a megabyte: quick to unpack
// A page with more of them helps no one; all are counted.
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

namespace {

// Integers and texts, one after the other, into the array that is open.
template <typename... Items>
void WriteItems(json::Writer& writer, const Items&... items) {
  const auto put = [&writer](const auto& item) {
    if constexpr (std::is_integral_v<std::remove_cvref_t<decltype(item)>>) {
      writer.Int(static_cast<int64_t>(item));
    } else {
      writer.Text(item);
    }
  };
  (put(items), ...);
}

template <typename... Items>
void WriteRow(json::Writer& writer, const Items&... items) {
  writer.BeginArray();
  WriteItems(writer, items...);
  writer.EndArray();
}

template <typename Body>
void WriteArray(json::Writer& writer, std::string_view key, const Body& body) {
  writer.Key(key);
  writer.BeginArray();
  body();
  writer.EndArray();
}

}  // namespace

void ReportModel::WriteListing(json::Writer& writer) const {
  writer.BeginObject();
  const std::filesystem::path name =
      run_.root.filename().empty() ? run_.root.parent_path().filename() : run_.root.filename();
  writer.Member("name", name.string());
  writer.Member("rows", run_.rows);
  writer.Member("rounding", rounding_);
  writer.Member("unmeasured", run_.unmeasured);
  writer.Member("warnings", run_.warnings);
  writer.Member("tables", tables_);
  writer.Member("ops", ops_);
  writer.Member("table_ops", table_ops_);
  WriteArray(writer, "grids", [&] {
    for (const RowGrid& grid : grids_) {
      WriteGrid(grid, writer);
    }
  });
  WriteSeries(writer);
  WriteArray(writer, "chunks", [&] {
    for (const SeriesChunk& chunk : chunks_) {
      WriteItems(writer, chunk.first, chunk.count);
    }
  });
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
    WriteItems(writer, grid.ranks[begin], end - begin);
    if (even) {
      WriteItems(writer, grid.steps[begin], distance(begin + 1));
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
  WriteArray(writer, "series", [&] {
    for (size_t i = 0; i < run_.series.size(); ++i) {
      const Series& series = run_.series[i];
      WriteRow(writer, table_of_[i], series.stage, series.name, series.micro_step, grid_of_[i]);
    }
  });
}

// "scores": per statistic one number per series, tenths. "peaks": series, statistic, step and rank
// of those far from usual. "non_finite": series, statistic, how many, step and rank of the first.
// "never_numbers": series of NaN only.
void ReportModel::WriteScores(json::Writer& writer) const {
  const auto for_each_score = [this](const auto& use) {
    for (size_t series = 0; series < scores_.size(); ++series) {
      for (size_t op = 0; op < ops_.size(); ++op) {
        use(series, op, grids_[grid_of_[series]], scores_[series][op]);
      }
    }
  };
  WriteArray(writer, "scores", [&] {
    for (size_t op = 0; op < ops_.size(); ++op) {
      writer.BeginArray();
      for (const std::vector<SeriesScore>& of_series : scores_) {
        const double score = std::min(of_series[op].score, kLargestScore);
        writer.Int(static_cast<int64_t>(std::lround(score * 10)));
      }
      writer.EndArray();
    }
  });
  WriteArray(writer, "peaks", [&] {
    for_each_score([&](size_t series, size_t op, const RowGrid& grid, const SeriesScore& score) {
      if (score.score >= kFarScore) {
        WriteRow(writer, series, op, grid.steps[score.at], grid.ranks[score.at]);
      }
    });
  });
  WriteArray(writer, "non_finite", [&] {
    for_each_score([&](size_t series, size_t op, const RowGrid& grid, const SeriesScore& score) {
      if (score.non_finite > 0) {
        WriteRow(writer, series, op, score.non_finite, grid.steps[score.first_non_finite],
                 grid.ranks[score.first_non_finite]);
      }
    });
  });
  WriteArray(writer, "never_numbers", [&] {
    for (size_t series = 0; series < scores_.size(); ++series) {
      if (IsNeverANumber(series)) {
        WriteItems(writer, series);
      }
    }
  });
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
  WriteArray(writer, "alert_steps", [&] {
    for (const auto& [step, count] : by_step) {
      WriteItems(writer, step, count);
    }
  });
  WriteArray(writer, "alerts", [&] {
    for (size_t i = 0; i < std::min(run_.alerts.size(), kMostAlerts); ++i) {
      const Alert& alert = run_.alerts[i];
      WriteRow(writer, alert.step, alert.rank, finder.Find(alert.tag), alert.tag, alert.message);
    }
  });
}

namespace {

constexpr int64_t kPageFormat = 1;  // what main.js of the page expects

void AddBlocks(const ReportModel& model, char side, std::vector<report::PageBlock>& blocks) {
  for (size_t chunk = 0; chunk < model.chunks().size(); ++chunk) {
    for (const size_t op : model.OpsOf(model.chunks()[chunk])) {
      blocks.push_back(
          {fmt::format("{}{}_{}", side, chunk, op), [&model, chunk, op](std::string& out) {
             model.AppendChunk(model.chunks()[chunk], model.ops()[op], out);
           }});
    }
  }
}

void Describe(const MonitoredRun& run, ReportResult& outcome) {
  outcome.series = run.series.size();
  outcome.first_step = std::numeric_limits<int64_t>::max();
  outcome.last_step = std::numeric_limits<int64_t>::min();
  std::set<int32_t> ranks;
  for (const Series& series : run.series) {
    ranks.insert(series.ranks.begin(), series.ranks.end());
    if (!series.steps.empty()) {
      outcome.first_step = std::min(outcome.first_step, series.steps.front());
      outcome.last_step = std::max(outcome.last_step, series.steps.back());
    }
  }
  outcome.ranks = ranks.size();
}

// A name that no run has is a slip: the page would be empty, or lack what was meant.
Status CheckNames(const std::vector<MonitoredRun>& runs, const ReportOptions& options) {
  std::set<std::string> tables;
  std::set<std::string> ops;
  for (const MonitoredRun& run : runs) {
    for (const Series& series : run.series) {
      tables.insert(series.table);
      for (const auto& [op, values] : series.values) {
        ops.insert(op);
      }
    }
  }
  const auto check = [](std::string_view kind, const std::vector<std::string>& wanted,
                        const std::set<std::string>& known) {
    for (const std::string& name : wanted) {
      if (!known.contains(name)) {
        return NotFoundError(fmt::format("the run has no {} \"{}\"", kind, name))
            .WithHint(
                "names are those of the files: table actv of actv_0-9.csv, statistic norm of "
                "its columns");
      }
    }
    return OkStatus();
  };
  MSP_RETURN_IF_ERROR(check("table", options.read.tables, tables));
  return check("statistic", options.read.ops, ops);
}

// Where two runs diverge, as `monitor diff` tells it: {"compared", "first": {...} or null}; null
// for one run, or where nothing could be held against anything.
void WriteComparison(const std::optional<DiffResult>& diff, json::Writer& writer) {
  uint64_t compared = 0;
  if (diff) {
    for (const DiffLine& line : diff->lines) {
      compared += line.compared;
    }
  }
  writer.Key("divergence");
  if (compared == 0) {
    writer.Null();
    return;
  }
  writer.BeginObject();
  writer.Member("compared", compared);
  writer.Key("first");
  if (const DiffLine* const line = diff->first(); line != nullptr && line->first) {
    const Divergence& first = *line->first;
    writer.BeginObject();
    writer.Member("table", line->table);
    writer.Member("op", line->op);
    writer.Member("step", first.step);
    writer.Member("stage", first.stage);
    writer.Member("name", first.name);
    writer.Member("micro_step", first.micro_step);
    writer.Member("rank", first.rank);
    writer.Member("a", first.a);
    writer.Member("b", first.b);
    writer.Member("relative", first.relative);
    writer.EndObject();
  } else {
    writer.Null();
  }
  writer.EndObject();
}

struct PackedPage {
  std::vector<std::string> elements;
  uint64_t bytes = 0;  // of the file
  uint64_t non_finite = 0;
  std::vector<std::string> ops;  // the main one first
};

PackedPage Pack(const std::vector<MonitoredRun>& runs, const std::optional<DiffResult>& diff,
                base::ThreadPool& pool) {
  PackedPage page;
  std::vector<std::unique_ptr<ReportModel>> models;
  std::vector<report::PageBlock> blocks;
  blocks.push_back({"listing", [&models, &diff](std::string& out) {
                      json::Writer writer(out, -1, json::Writer::NonFinite::kText);
                      writer.BeginObject();
                      writer.Member("format", kPageFormat);
                      WriteComparison(diff, writer);
                      writer.Key("runs");
                      writer.BeginArray();
                      for (const auto& model : models) {
                        model->WriteListing(writer);
                      }
                      writer.EndArray();
                      writer.EndObject();
                    }});
  for (const MonitoredRun& run : runs) {
    models.push_back(std::make_unique<ReportModel>(run, pool));
    AddBlocks(*models.back(), models.size() == 1 ? 'a' : 'b', blocks);
    page.non_finite += models.back()->non_finite();
  }
  page.ops = models[0]->ops();
  page.elements = report::PackBlocks(blocks, pool);
  page.bytes = resources::kMonitorReportPage.size();
  for (const std::string& element : page.elements) {
    page.bytes += element.size();
  }
  return page;
}

// Takes so many of the last statistics out of the runs as the page is too large by; each series
// keeps one. False when there was nothing to take.
bool LeaveOut(const PackedPage& page, uint64_t most_bytes, std::vector<MonitoredRun>& runs,
              std::set<std::string>& left_out) {
  const double share = static_cast<double>(most_bytes) / static_cast<double>(page.bytes);
  const auto fitting = static_cast<size_t>(static_cast<double>(page.ops.size()) * share);
  const size_t kept = std::clamp<size_t>(fitting, 1, std::max<size_t>(page.ops.size(), 2) - 1);
  bool any = false;
  for (size_t op = page.ops.size(); op > kept; --op) {
    for (MonitoredRun& run : runs) {
      for (Series& series : run.series) {
        if (series.values.size() > 1 && series.values.erase(page.ops[op - 1]) > 0) {
          left_out.insert(page.ops[op - 1]);
          any = true;
        }
      }
    }
  }
  return any;
}

}  // namespace

namespace {

// Above the other alerts of their steps, as the alerts that they are.
void AddBrokenLaws(const LawsOfRun& laws, MonitoredRun& run) {
  std::vector<Alert> alerts;
  for (const BrokenLaw& law : laws.broken) {
    const std::string first = law.ranks.substr(0, law.ranks.find(' '));
    alerts.push_back(
        {law.law, base::ParseInt(first).value_or(0), law.step, law.name, law.Sentence()});
  }
  alerts.insert(alerts.end(), std::make_move_iterator(run.alerts.begin()),
                std::make_move_iterator(run.alerts.end()));
  std::stable_sort(alerts.begin(), alerts.end(),
                   [](const Alert& a, const Alert& b) { return a.step < b.step; });
  run.alerts = std::move(alerts);
}

}  // namespace

Result<ReportResult> RunReport(const ReportOptions& options) {
  for (const std::filesystem::path& run : {options.run, options.other}) {
    if (!run.empty() && !base::Exists(run)) {
      return NotFoundError(fmt::format("{} does not exist", run.string()));
    }
  }
  MSP_RETURN_IF_ERROR(base::CheckOutputFile(options.output));
  if (resources::kMonitorReportPage.empty()) {
    return UnsupportedError("this msprobe was built without the page for reports")
        .WithHint(
            "run tools/dev/build_web.sh (needs npm) and build msprobe again; analyse, diff, top "
            "and csv2tb do not need it");
  }
  std::vector<MonitoredRun> runs;
  MSP_ASSIGN_OR_RETURN(MonitoredRun first, ReadMonitoredRun(options.run, options.read));
  runs.push_back(std::move(first));
  if (!options.other.empty()) {
    MSP_ASSIGN_OR_RETURN(MonitoredRun second, ReadMonitoredRun(options.other, options.read));
    runs.push_back(std::move(second));
  }
  MSP_RETURN_IF_ERROR(CheckNames(runs, options));
  std::optional<DiffResult> diff;
  if (!options.other.empty()) {
    DiffOptions diff_options;
    diff_options.a = options.run;
    diff_options.b = options.other;
    diff_options.tables = options.read.tables;
    diff_options.ops = options.read.ops;
    // Runs that have nothing in common still make a page.
    if (Result<DiffResult> found = RunDiff(diff_options); found.ok()) {
      diff = std::move(*found);
    }
  }
  ReportResult outcome;
  Describe(runs[0], outcome);
  for (MonitoredRun& run : runs) {
    MSP_ASSIGN_OR_RETURN(const LawsOfRun laws, ReadLaws(run.root));
    AddBrokenLaws(laws, run);
    outcome.broken_laws += laws.broken.size();
    if (run.series.empty()) {
      return NotFoundError(fmt::format("{} has no rows to show", run.root.string()))
          .WithHint("a monitored run has files such as actv_0-0.csv in <stamp>-rank<R>-<id>/");
    }
    outcome.rows += run.rows;
    outcome.unread_files += run.unread_files;
    outcome.alerts += run.alerts.size();
  }
  for (MonitoredRun& run : runs) {
    LeaveOutUnmeasured(run);
  }
  base::ThreadPool pool(0);
  const size_t warnings = runs[0].warnings.size();
  PackedPage page = Pack(runs, diff, pool);
  outcome.non_finite = page.non_finite;  // before anything is left out
  std::set<std::string> left_out;
  while (page.bytes > options.most_bytes && LeaveOut(page, options.most_bytes, runs, left_out)) {
    runs[0].warnings.resize(warnings);
    runs[0].warnings.push_back(
        fmt::format("left out of the page, which would be larger than {} otherwise: {}; --tables "
                    "and --statistics choose what it shows",
                    base::FormatBytes(options.most_bytes), fmt::join(left_out, ", ")));
    page = Pack(runs, diff, pool);
  }
  for (const MonitoredRun& run : runs) {
    outcome.warnings.insert(outcome.warnings.end(), run.warnings.begin(), run.warnings.end());
  }
  if (page.bytes > options.most_bytes) {
    outcome.warnings.push_back(
        fmt::format("a page of {} may take a browser long to open; --tables, --time_start and "
                    "--time_end choose a part of the run",
                    base::FormatBytes(page.bytes)));
  }
  MSP_ASSIGN_OR_RETURN(
      outcome.size_bytes,
      report::WriteWebPage(options.output, resources::kMonitorReportPage, page.elements));
  return outcome;
}

report::Document MakeDocument(const ReportResult& outcome, const std::filesystem::path& page) {
  report::Document document;
  document.command = "monitor report";
  const bool is_clean = outcome.alerts + outcome.non_finite == 0;
  document.verdict.Say(
      is_clean ? "GOOD" : "FOUND",
      fmt::format("{}, {} not finite; {} of {} series and {}, steps {} to {}; a page of {}",
                  base::Plural(outcome.alerts, "alert"), base::Plural(outcome.non_finite, "number"),
                  base::Plural(outcome.rows, "row"), base::FormatCount(outcome.series),
                  base::Plural(outcome.ranks, "rank"), outcome.first_step, outcome.last_step,
                  base::FormatBytes(outcome.size_bytes)),
      is_clean ? report::Tone::kGood : report::Tone::kCaution,
      is_clean ? report::AnswerOutcome::kClean : report::AnswerOutcome::kFindings);
  document.verdict.number = static_cast<double>(outcome.rows);
  document.verdict.unit = "rows";
  internal::TellUnread(outcome.unread_files, document.verdict);
  document.levels = report::OutcomesOf(kReportLevels);
  report::SetFound(document.levels, "not_finite", outcome.non_finite > 0);
  report::SetFound(document.levels, "law", outcome.broken_laws > 0);
  report::SetFound(document.levels, "alert", outcome.alerts > 0);
  document.cases.push_back(
      internal::CaseOf("broken laws", "law", outcome.broken_laws, "broken law"));
  document.cases.push_back(
      internal::CaseOf("numbers that are not finite", "not_finite", outcome.non_finite, "number"));
  document.cases.push_back(internal::CaseOf("alerts", "alert", outcome.alerts, "alert"));
  document.sections.push_back(
      internal::FiguresSection({{"series", static_cast<double>(outcome.series)},
                                {"ranks", static_cast<double>(outcome.ranks)},
                                {"first step", static_cast<double>(outcome.first_step)},
                                {"last step", static_cast<double>(outcome.last_step)},
                                {"alerts", static_cast<double>(outcome.alerts)},
                                {"not finite", static_cast<double>(outcome.non_finite)},
                                {"bytes", static_cast<double>(outcome.size_bytes)}}));
  document.files.push_back({page});
  document.warnings = outcome.warnings;
  return document;
}

}  // namespace msprobe::analysis::monitor
