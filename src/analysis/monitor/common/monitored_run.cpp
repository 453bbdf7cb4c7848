#include "src/analysis/monitor/common/monitored_run.h"

#include <algorithm>
#include <cmath>
#include <ctime>
#include <numeric>
#include <optional>
#include <tuple>
#include <unordered_map>
#include <utility>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "src/analysis/monitor/common/anomaly_reader.h"
#include "src/analysis/monitor/common/table_rows.h"
#include "src/base/files.h"
#include "src/base/log.h"
#include "src/base/numbers.h"
#include "src/base/output_files.h"
#include "src/base/strings.h"
#include "src/base/threads.h"
#include "src/json/document.h"
#include "src/monitor/output_folder.h"
#include "src/monitor/settings.h"

namespace msprobe::analysis::monitor {
namespace {

namespace fs = std::filesystem;

constexpr int64_t kYearSeconds = int64_t{366} * 24 * 3600;
constexpr uint64_t kPlaceLimitBytes = 16U << 20U;

bool IsDigits(std::string_view text) {
  return !text.empty() && text.find_first_not_of("0123456789") == std::string_view::npos;
}

std::optional<std::vector<int64_t>> Integers(const json::Json& object, std::string_view key) {
  const json::Json& list = json::Member(object, key);
  if (!list.is_array()) {
    return std::nullopt;
  }
  std::vector<int64_t> numbers;
  for (const json::Json& item : list) {
    if (item.is_number_integer()) {
      numbers.push_back(json::IntOf(item));
    }
  }
  return numbers;
}

// The decimals of the settings, see docs/formats/monitor_config.md.
double RoundingOf(const json::Json& settings) {
  constexpr int64_t kMostDigits = 20;
  const json::Json& digits = json::Member(settings, "ndigits");
  const int64_t count = json::IntOf(digits);
  if (digits.is_number_integer() && count >= 0 && count <= kMostDigits) {
    return std::pow(10.0, -static_cast<double>(count));
  }
  return json::BoolOf(json::Member(settings, "compat"))
             ? std::pow(10.0, -msprobe::monitor::Settings().digits)
             : 0;
}

// What monitor.json says.
void ReadMonitorFile(RankFolder& folder) {
  const fs::path path = folder.path / msprobe::monitor::kTopologyFileName;
  if (!base::IsRegularFile(path)) {
    return;
  }
  const Result<std::string> text = base::ReadTextFile(path, kPlaceLimitBytes);
  if (!text.ok()) {
    base::NoteUnseen(text.status());
    return;
  }
  const Result<json::Json> parsed = json::ParseDocument(*text);
  if (!parsed.ok() || !parsed->is_object()) {
    return;
  }
  const auto integer = [&](std::string_view key) {
    return json::IntOf(json::Member(*parsed, key));
  };
  msprobe::monitor::RankTopology& topology = folder.topology.emplace();
  topology.rank = integer("rank");
  topology.world_size = integer("world_size");
  topology.pipeline_stage = integer("pipeline_stage");
  topology.pipeline_ranks = Integers(*parsed, "group_mates").value_or(std::vector<int64_t>());
  topology.tensor_ranks = Integers(*parsed, "tensor_ranks");
  topology.data_ranks = Integers(*parsed, "data_ranks");
  folder.rounding = RoundingOf(json::Member(*parsed, "settings"));
}

// Where the year turns: the stamp behind the longest pause, if that is more than half a year.
int64_t FirstSecondOfRuns(std::vector<int64_t> seconds) {
  std::sort(seconds.begin(), seconds.end());
  int64_t first = 0;
  int64_t longest = kYearSeconds / 2;
  for (size_t i = 1; i < seconds.size(); ++i) {
    if (seconds[i] - seconds[i - 1] > longest) {
      longest = seconds[i] - seconds[i - 1];
      first = seconds[i];
    }
  }
  return first;
}

void SortFolders(std::vector<RankFolder>& folders) {
  std::vector<int64_t> seconds;
  for (const RankFolder& folder : folders) {
    if (const std::optional<int64_t> second = msprobe::monitor::StampOrder(folder.stamp)) {
      seconds.push_back(*second);
    }
  }
  const int64_t first = FirstSecondOfRuns(seconds);
  const auto key = [first](const RankFolder& folder) {
    const int64_t second = msprobe::monitor::StampOrder(folder.stamp).value_or(-1);
    return std::tuple(folder.rank, second < first && second >= 0 ? second + kYearSeconds : second,
                      folder.path.native());
  };
  std::sort(folders.begin(), folders.end(),
            [&key](const RankFolder& a, const RankFolder& b) { return key(a) < key(b); });
}

}  // namespace

Result<std::vector<RankFolder>> FindRankFolders(const fs::path& root, const FindOptions& options) {
  std::optional<int64_t> start;
  std::optional<int64_t> end;
  for (const bool is_start : {true, false}) {
    const std::string& stamp = is_start ? options.time_start : options.time_end;
    if (!stamp.empty()) {
      std::optional<int64_t>& second = is_start ? start : end;
      second = msprobe::monitor::StampOrder(stamp);
      if (!second.has_value()) {
        return UsageError(fmt::format("the {} time {} is not a time stamp",
                                      is_start ? "start" : "end", base::Printable(stamp)))
            .WithHint("write it as in the folder names: Dec03_21-34-40");
      }
    }
  }
  if (start.has_value() && end.has_value() && *start > *end) {
    return UsageError(fmt::format("the start time {} is after the end time {}", options.time_start,
                                  options.time_end));
  }
  std::error_code error;
  if (!base::IsFolder(root)) {
    return NotFoundError(fmt::format("{}: no such directory", root.string()));
  }
  std::vector<RankFolder> folders;
  size_t outside = 0;
  const auto add = [&](const fs::path& path, const std::string& name) {
    const std::optional<msprobe::monitor::OutputFolderName> parts =
        msprobe::monitor::ParseOutputFolderName(name);
    if (!parts.has_value()) {
      return;
    }
    const std::optional<int64_t> second = msprobe::monitor::StampOrder(parts->stamp);
    if ((start.has_value() && (!second.has_value() || *second < *start)) ||
        (end.has_value() && (!second.has_value() || *second > *end))) {
      ++outside;
      return;
    }
    folders.push_back({path, parts->stamp, parts->rank, std::nullopt, std::nullopt});
    ReadMonitorFile(folders.back());
  };
  MSP_ASSIGN_OR_RETURN(const std::vector<std::string> names, base::ListFolder(root));
  for (const std::string& name : names) {
    if (base::IsFolder(root / name)) {
      add(root / name, name);
    }
  }
  if (folders.empty() && outside == 0) {
    const fs::path whole = fs::absolute(root, error).lexically_normal();
    add(root, base::WithoutLastSlash(whole).filename().string());
  }
  if (folders.empty()) {
    return NotFoundError(
               outside > 0 ? fmt::format("{}: none of the {} of runs is within the requested times",
                                         root.string(), base::Plural(outside, "folder"))
                           : fmt::format("{} contains no monitored run", root.string()))
        .WithHint(
            "its folders are named like Nov21_09-58-35-rank0-1a197c9e, below $MONITOR_OUTPUT_DIR");
  }
  SortFolders(folders);
  return folders;
}

std::vector<TableFile> FindTableFiles(const fs::path& folder) {
  std::vector<TableFile> files;
  constexpr std::string_view kEnding = ".csv";
  for (const std::string& name : base::NamesIn(folder)) {
    if (!name.ends_with(kEnding)) {
      continue;
    }
    const std::string_view stem = std::string_view(name).substr(0, name.size() - kEnding.size());
    const size_t underscore = stem.rfind('_');
    const size_t minus = stem.rfind('-');
    if (underscore == std::string_view::npos || underscore == 0 ||
        minus == std::string_view::npos || minus < underscore ||
        !IsDigits(stem.substr(underscore + 1, minus - underscore - 1)) ||
        !IsDigits(stem.substr(minus + 1))) {
      continue;
    }
    const std::optional<int64_t> first =
        base::ParseInt(stem.substr(underscore + 1, minus - underscore - 1));
    const std::optional<int64_t> last = base::ParseInt(stem.substr(minus + 1));
    if (first.has_value() && last.has_value()) {
      files.push_back({folder / name, std::string(stem.substr(0, underscore)), *first, *last});
    }
  }
  std::sort(files.begin(), files.end(), [](const TableFile& a, const TableFile& b) {
    return std::tie(a.table, a.first_step, a.last_step) <
           std::tie(b.table, b.first_step, b.last_step);
  });
  return files;
}

namespace {

using internal::TableHead;
using internal::TableRows;

constexpr size_t kPieceBytes = size_t{4} << 20U;  // of a file, per item of work
constexpr size_t kLongestLine = size_t{1} << 20U;

struct OpenTable {
  TableFile file;
  int32_t rank = 0;
  base::FileBytes bytes;
  TableHead head;
  std::string_view rows;   // behind the head, ends with a line end
  std::string diagnostic;  // why it is not read
};

std::string TooLong(const fs::path& path, size_t at) {
  return fmt::format("{}: a line of more than {} bytes at byte {}; tables of the monitor have none",
                     path.string(), kLongestLine, at);
}

void OpenTableFile(OpenTable& table, const std::vector<std::string>& ops) {
  Result<base::FileBytes> bytes = base::FileBytes::Open(table.file.path);
  if (!bytes.ok()) {
    table.diagnostic = bytes.status().message();
    return;
  }
  table.bytes = *std::move(bytes);
  std::string_view text = table.bytes.text();
  const size_t head_end = text.substr(0, kLongestLine).find('\n');
  if (head_end == std::string_view::npos) {
    if (text.size() > kLongestLine) {
      table.diagnostic = TooLong(table.file.path, 0);
    }
    return;
  }
  // What follows the last line end is half a row. Files may be sparse and of any size: it is looked
  // for where a line can be.
  const size_t last = text.size() > kLongestLine ? text.size() - kLongestLine : 0;
  const size_t last_end = text.substr(last).rfind('\n');
  if (last_end == std::string_view::npos) {
    table.diagnostic = TooLong(table.file.path, last);
    return;
  }
  text = text.substr(0, last + last_end + 1);
  Result<TableHead> head = internal::ReadTableHead(text.substr(0, head_end), ops);
  if (!head.ok()) {
    table.diagnostic = fmt::format("{}: {}", table.file.path.string(), head.status().message());
    return;
  }
  table.head = *std::move(head);
  table.rows = text.substr(head_end + 1);
}

struct Piece {
  size_t table = 0;
  std::string_view text;
  TableRows rows;
  // Per name of the piece: its series and the place of its next row there.
  std::vector<uint32_t> series;
  std::vector<size_t> next_row;
};

// Behind the line end at kPieceBytes, or behind one of the next if a row goes on there.
size_t EndOfPiece(std::string_view rest, const internal::TableHead& head) {
  constexpr int kMostLines = 64;
  const size_t first = rest.substr(0, kPieceBytes + kLongestLine).find('\n', kPieceBytes) + 1;
  for (size_t end = first, i = 0; end != 0 && i < kMostLines; ++i) {
    const std::string_view next = rest.substr(end, kLongestLine);
    if (next.empty() || internal::BeginsWithRow(next, head)) {
      return end;
    }
    const size_t line_end = next.find('\n');
    end = line_end == std::string_view::npos ? 0 : end + line_end + 1;
  }
  return first;
}

// A table with a line that is too long is read as far as the pieces before it.
std::vector<Piece> CutIntoPieces(std::vector<OpenTable>& tables) {
  std::vector<Piece> pieces;
  for (size_t i = 0; i < tables.size(); ++i) {
    std::string_view rest = tables[i].rows;
    while (!rest.empty()) {
      size_t end = rest.size();
      if (end > kPieceBytes) {
        end = EndOfPiece(rest, tables[i].head);
      }
      if (end == 0) {
        tables[i].diagnostic =
            TooLong(tables[i].file.path,
                    static_cast<size_t>(rest.data() - tables[i].bytes.text().data()) + kPieceBytes);
        break;
      }
      pieces.push_back({i, rest.substr(0, end), {}, {}, {}});
      rest.remove_prefix(end);
    }
  }
  return pieces;
}

struct SeriesKey {
  std::string_view table;
  std::string_view name;
  int32_t stage;
  int32_t micro_step;
  bool operator==(const SeriesKey& other) const = default;
};
struct SeriesKeyHash {
  size_t operator()(const SeriesKey& key) const {
    const std::hash<std::string_view> hash;
    const uint64_t numbers = (static_cast<uint64_t>(static_cast<uint32_t>(key.stage)) << 32U) |
                             static_cast<uint32_t>(key.micro_step);
    return hash(key.name) + 31 * hash(key.table) +
           static_cast<size_t>(numbers * 0x9E3779B97F4A7C15U);
  }
};

// Gives every name of every piece its series, and each series room for all its rows.
void AllotSeries(const std::vector<OpenTable>& tables, std::vector<Piece>& pieces,
                 std::vector<Series>& series) {
  std::unordered_map<SeriesKey, uint32_t, SeriesKeyHash> index;
  std::vector<size_t> counts;
  std::vector<std::vector<std::string>> ops;
  for (Piece& piece : pieces) {
    const OpenTable& table = tables[piece.table];
    for (const TableRows::Name& name : piece.rows.names) {
      const SeriesKey key = {table.file.table, name.name, name.stage, name.micro_step};
      const auto [place, is_new] = index.emplace(key, static_cast<uint32_t>(counts.size()));
      if (is_new) {  // the views stay: neither tables nor names of pieces move any more
        counts.push_back(0);
        ops.emplace_back();
        series.push_back(
            {table.file.table, name.stage, name.name, name.micro_step, place->second, {}, {}, {}});
      }
      piece.series.push_back(place->second);
      piece.next_row.push_back(counts[place->second]);
      counts[place->second] += name.rows;
      for (const std::string& op : table.head.ops) {
        std::vector<std::string>& known = ops[place->second];
        if (std::find(known.begin(), known.end(), op) == known.end()) {
          known.push_back(op);
        }
      }
    }
  }
  for (size_t i = 0; i < series.size(); ++i) {
    series[i].steps.resize(counts[i]);
    series[i].ranks.resize(counts[i]);
    for (const std::string& op : ops[i]) {
      series[i].values.emplace(op, std::vector<double>(counts[i], kNoNumber));
    }
  }
}

void FillSeries(const OpenTable& table, Piece& piece, std::vector<Series>& series) {
  const size_t ops = table.head.ops.size();
  std::vector<double*> columns;  // per name and op
  for (const uint32_t index : piece.series) {
    for (const std::string& op : table.head.ops) {
      columns.push_back(series[index].values.find(op)->second.data());
    }
  }
  const double* values = piece.rows.values.data();
  for (size_t row = 0; row < piece.rows.steps.size(); ++row) {
    const uint32_t name = piece.rows.name_of[row];
    Series& target = series[piece.series[name]];
    const size_t place = piece.next_row[name]++;
    target.steps[place] = piece.rows.steps[row];
    target.ranks[place] = table.rank;
    for (size_t op = 0; op < ops; ++op) {
      columns[name * ops + op][place] = *values++;
    }
  }
  piece.rows = TableRows();
}

template <typename Value>
void Reorder(std::vector<Value>& column, const std::vector<uint32_t>& order) {
  std::vector<Value> sorted(order.size());
  for (size_t i = 0; i < order.size(); ++i) {
    sorted[i] = column[order[i]];
  }
  column = std::move(sorted);
}

// Ascending by step and rank. Returns how many rows gave way to a later one.
uint64_t SortRows(Series& series) {
  const size_t rows = series.steps.size();
  const auto key = [&series](size_t row) {
    return std::pair(series.steps[row], series.ranks[row]);
  };
  bool ascending = true;
  for (size_t row = 1; row < rows && ascending; ++row) {
    ascending = key(row - 1) < key(row);
  }
  if (ascending) {
    return 0;
  }
  std::vector<uint32_t> order(rows);
  std::iota(order.begin(), order.end(), 0U);
  std::stable_sort(order.begin(), order.end(),
                   [&key](uint32_t a, uint32_t b) { return key(a) < key(b); });
  size_t kept = 0;
  for (size_t i = 0; i < rows; ++i) {
    if (i + 1 == rows || key(order[i]) != key(order[i + 1])) {
      order[kept++] = order[i];
    }
  }
  order.resize(kept);
  Reorder(series.steps, order);
  Reorder(series.ranks, order);
  for (auto& value : series.values) {
    Reorder(value.second, order);
  }
  return rows - kept;
}

void SortSeries(std::vector<Series>& series) {
  std::vector<uint32_t> order(series.size());
  std::iota(order.begin(), order.end(), 0U);
  std::sort(order.begin(), order.end(), [&series](uint32_t i, uint32_t j) {
    const Series& a = series[i];
    const Series& b = series[j];
    if (a.table != b.table || a.stage != b.stage) {
      return std::tie(a.table, a.stage) < std::tie(b.table, b.stage);
    }
    if (a.name != b.name) {
      return base::NaturalLess(a.name, b.name);
    }
    return a.micro_step < b.micro_step;
  });
  std::vector<Series> sorted;
  sorted.reserve(series.size());
  for (const uint32_t i : order) {
    sorted.push_back(std::move(series[i]));
  }
  series = std::move(sorted);
}

void CollectWarnings(const std::vector<OpenTable>& tables, const std::vector<Piece>& pieces,
                     base::LimitedWarnings& warnings) {
  size_t next = 0;
  for (size_t i = 0; i < tables.size(); ++i) {
    if (!tables[i].diagnostic.empty()) {
      warnings.Add(tables[i].diagnostic);
    }
    uint64_t line = 1;  // the head
    for (; next < pieces.size() && pieces[next].table == i; ++next) {
      const TableRows& rows = pieces[next].rows;
      for (const TableRows::Diagnostic& diagnostic : rows.diagnostics) {
        warnings.Add(fmt::format("{}:{}: {}", tables[i].file.path.string(), line + diagnostic.line,
                                 diagnostic.text));
      }
      warnings.Count(rows.more_diagnostics);
      line += rows.lines;
    }
  }
}

// How many files are not read to their end; an error where that is all of them.
Result<size_t> CountUnread(const std::vector<OpenTable>& tables) {
  const auto is_unread = [](const OpenTable& table) { return !table.diagnostic.empty(); };
  const auto unread = static_cast<size_t>(std::count_if(tables.begin(), tables.end(), is_unread));
  const bool nothing = std::all_of(tables.begin(), tables.end(), [](const OpenTable& table) {
    return !table.diagnostic.empty() && table.rows.empty();
  });
  if (unread > 0 && nothing) {
    return IoError(tables.front().diagnostic)
        .WithHint(fmt::format("none of {} could be read: check their permissions, the limits of "
                              "the process (ulimit -n, -v) and the disk",
                              base::Plural(tables.size(), "table")));
  }
  return unread;
}

// Alerts lie beside the folders of the ranks; of a single folder only its own rank's count.
void ReadAlerts(const fs::path& root, bool is_single, MonitoredRun& run,
                base::LimitedWarnings& warnings) {
  std::error_code error;
  const fs::path single_parent =
      base::WithoutLastSlash(fs::absolute(root, error).lexically_normal()).parent_path();
  const fs::path folder = (is_single ? single_parent : root) / "anomaly_detected";
  if (!base::IsFolder(folder)) {
    return;
  }
  Result<std::vector<RankAnomalies>> ranks = ReadAllAnomalies(folder);
  if (!ranks.ok()) {
    warnings.Add(ranks.status().message());
    return;
  }
  for (RankAnomalies& rank : *ranks) {
    if (is_single && rank.rank != run.folders.front().rank) {
      continue;
    }
    for (std::string& warning : rank.file.warnings) {
      warnings.Add(std::move(warning));
    }
    for (msprobe::monitor::Anomaly& entry : rank.file.entries) {
      run.alerts.push_back({std::move(entry.key), entry.rank, entry.step, std::move(entry.tag_name),
                            std::move(entry.message)});
    }
  }
  std::stable_sort(run.alerts.begin(), run.alerts.end(), [](const Alert& a, const Alert& b) {
    return std::tie(a.step, a.rank) < std::tie(b.step, b.rank);
  });
}

std::vector<OpenTable> ListTables(const MonitoredRun& run, const std::vector<std::string>& wanted) {
  std::vector<OpenTable> tables;
  for (const RankFolder& folder : run.folders) {
    for (TableFile& file : FindTableFiles(folder.path)) {
      if (wanted.empty() || std::find(wanted.begin(), wanted.end(), file.table) != wanted.end()) {
        OpenTable table;
        table.file = std::move(file);
        table.rank = static_cast<int32_t>(folder.rank);
        tables.push_back(std::move(table));
      }
    }
  }
  return tables;
}

// The starts of the first rank that began more than once.
std::string StartsOf(const std::vector<RankFolder>& folders) {
  for (size_t i = 1; i < folders.size(); ++i) {
    if (folders[i].rank != folders[i - 1].rank) {
      continue;
    }
    std::vector<std::string> starts;
    for (const RankFolder& folder : folders) {
      if (folder.rank == folders[i].rank) {
        starts.push_back(
            fmt::format("{} ({} local time)", folder.path.filename().string(),
                        msprobe::monitor::LocalTimeOf(folder.stamp, std::time(nullptr))));
      }
    }
    return fmt::format("; rank {} began as {}", folders[i].rank, base::Join(starts, ", "));
  }
  return "";
}

}  // namespace

Result<MonitoredRun> ReadMonitoredRun(const fs::path& root, const ReadOptions& options) {
  MonitoredRun run;
  run.root = root;
  MSP_ASSIGN_OR_RETURN(run.folders, FindRankFolders(root, options.find));
  base::LimitedWarnings warnings(run.warnings, base::LimitedWarnings::kOfRows);

  base::ThreadPool pool(options.threads);
  std::vector<OpenTable> tables = ListTables(run, options.tables);
  pool.ParallelFor(tables.size(), [&](size_t i, size_t) { OpenTableFile(tables[i], options.ops); });
  std::vector<Piece> pieces = CutIntoPieces(tables);
  pool.ParallelFor(pieces.size(), [&](size_t i, size_t) {
    pieces[i].rows = internal::ReadTableRows(pieces[i].text, tables[pieces[i].table].head);
  });
  CollectWarnings(tables, pieces, warnings);
  MSP_ASSIGN_OR_RETURN(run.unread_files, CountUnread(tables));
  for (const OpenTable& table : tables) {
    std::vector<std::string>& ops = run.ops[table.file.table];
    for (const std::string& op : table.head.ops) {
      if (std::find(ops.begin(), ops.end(), op) == ops.end()) {
        ops.push_back(op);
      }
    }
  }
  for (const Piece& piece : pieces) {
    run.rows += piece.rows.steps.size();
  }
  AllotSeries(tables, pieces, run.series);
  pool.ParallelFor(pieces.size(), [&](size_t i, size_t) {
    FillSeries(tables[pieces[i].table], pieces[i], run.series);
  });
  std::vector<uint64_t> replaced(run.series.size());
  pool.ParallelFor(run.series.size(),
                   [&](size_t i, size_t) { replaced[i] = SortRows(run.series[i]); });
  const uint64_t repeated = std::accumulate(replaced.begin(), replaced.end(), uint64_t{0});
  SortSeries(run.series);
  std::error_code error;
  ReadAlerts(root, run.folders.size() == 1 && fs::equivalent(run.folders.front().path, root, error),
             run, warnings);
  if (repeated > 0) {
    warnings.Add(fmt::format(
        "{}: {} a name, step and rank that was there before; the later one counts (a training "
        "that went on from a checkpoint, or two modules of one name){}",
        root.string(), repeated == 1 ? "1 row has" : base::Plural(repeated, "row") + " have",
        StartsOf(run.folders)));
  }
  if (warnings.more() > 0) {
    run.warnings.push_back(
        fmt::format("... and {} more like this", base::FormatCount(warnings.more())));
  }
  return run;
}

void LeaveOutUnmeasured(MonitoredRun& run) {
  for (Series& series : run.series) {
    std::erase_if(series.values, [](const auto& column) {
      return std::all_of(column.second.begin(), column.second.end(), IsNoNumber);
    });
    std::vector<uint32_t> kept;
    for (size_t row = 0; row < series.steps.size(); ++row) {
      const bool is_measured =
          std::any_of(series.values.begin(), series.values.end(),
                      [row](const auto& column) { return !IsNoNumber(column.second[row]); });
      if (is_measured) {
        kept.push_back(static_cast<uint32_t>(row));
      }
    }
    if (series.values.empty()) {
      run.unmeasured.push_back(fmt::format("{} of {}", ShownName(series.name), series.table));
    } else if (kept.size() < series.steps.size()) {
      Reorder(series.steps, kept);
      Reorder(series.ranks, kept);
      for (auto& column : series.values) {
        Reorder(column.second, kept);
      }
    }
  }
  std::erase_if(run.series, [](const Series& series) { return series.values.empty(); });
}

std::string ShownName(std::string_view name) {
  return (name.empty() || name.front() == '.' ? "(root)" : "") + std::string(name);
}

}  // namespace msprobe::analysis::monitor
