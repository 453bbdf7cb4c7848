#include "src/analysis/monitor/top/run_follower.h"

#include <algorithm>
#include <cmath>
#include <deque>
#include <limits>
#include <optional>
#include <system_error>
#include <utility>

#include <fmt/format.h>

#include "src/analysis/monitor/common/anomaly_reader.h"
#include "src/analysis/monitor/common/table_rows.h"
#include "src/analysis/monitor/laws/laws.h"
#include "src/base/files.h"

namespace msprobe::analysis::monitor {
namespace {

namespace fs = std::filesystem;

constexpr size_t kHistory = 48;                    // values per series: enough to judge and to draw
constexpr size_t kFollowedPieceBytes = 8U << 20U;  // read at once
constexpr size_t kLongestFollowedLine = 1U << 20U;  // what is longer is not a row
constexpr double kRateSeconds = 60;                 // a rate is of the last minute

bool EndsLine(std::string_view text) { return !text.empty() && text.back() == '\n'; }

std::string_view WithoutEnd(std::string_view line) {
  while (!line.empty() && (line.back() == '\n' || line.back() == '\r')) {
    line.remove_suffix(1);
  }
  return line;
}

double Seconds(fs::file_time_type::duration time) {
  return std::chrono::duration<double>(time).count();
}

}  // namespace

struct RunFollower::File {
  TableFile table;
  uint64_t offset = 0;  // up to here everything was taken
  std::optional<internal::TableHead> head;
  bool useless = false;  // no table of the monitor
  bool closed = false;   // newer files of the table are there: it does not grow
};

struct RunFollower::RankTimes {
  std::deque<std::pair<Clock::time_point, int64_t>> seen;
  // Without having watched: files of different steps tell by when they were written.
  std::optional<std::pair<fs::file_time_type, int64_t>> first_file;
  std::optional<std::pair<fs::file_time_type, int64_t>> last_file;
};

std::string_view MainOp(const std::vector<std::string>& ops) {
  if (ops.empty()) {
    return "";
  }
  const auto norm = std::find(ops.begin(), ops.end(), "norm");
  return norm != ops.end() ? *norm : ops.front();
}

RunFollower::RunFollower(FollowOptions options) : options_(std::move(options)), op_(options_.op) {}

RunFollower::~RunFollower() = default;

void RunFollower::Judge(std::string op) {
  op_ = std::move(op);
  judged_ops_.clear();
  files_.clear();
  index_.clear();
  series_.clear();
  for (auto& [rank, state] : ranks_) {
    state.non_finite = 0;
  }
}

std::string_view RunFollower::JudgedOp(std::string_view table) const {
  const auto found = judged_ops_.find(table);
  return found == judged_ops_.end() ? std::string_view() : found->second;
}

void RunFollower::Report(std::string text) {
  if (bad_rows_++ == 0) {
    first_diagnostic_ = std::move(text);
  }
}

void RunFollower::Report(const File& file, const std::string& text) {
  Report(fmt::format("{}: {}", file.table.path.filename().string(), text));
}

Status RunFollower::Look(Clock::time_point now) {
  MSP_ASSIGN_OR_RETURN(const std::vector<RankFolder> folders, FindRankFolders(options_.root));
  int64_t newest = std::numeric_limits<int64_t>::min();
  for (const RankFolder& folder : folders) {
    for (const TableFile& file : FindTableFiles(folder.path)) {
      newest = std::max(newest, file.first_step);
    }
  }
  const bool all = newest < std::numeric_limits<int64_t>::min() + options_.window_steps;
  for (const RankFolder& folder : folders) {
    LookAtFolder(folder, all ? newest : newest - options_.window_steps);
  }
  ReadAlerts(folders);
  RateRanks(now);
  return OkStatus();
}

void RunFollower::LookAtFolder(const RankFolder& folder, int64_t oldest_step) {
  const std::vector<TableFile> tables = FindTableFiles(folder.path);
  ranks_.try_emplace(folder.rank);
  told_rounding_ = std::max(told_rounding_, folder.rounding.value_or(0));
  is_told_ = is_told_ && folder.rounding.has_value();
  for (size_t i = 0; i < tables.size(); ++i) {
    if (tables[i].last_step < oldest_step) {
      continue;
    }
    std::unique_ptr<File>& file = files_[tables[i].path.string()];
    if (file == nullptr) {
      file = std::make_unique<File>();
      file->table = tables[i];
    }
    if (file->closed || file->useless) {
      continue;
    }
    // The one before the newest may get its last rows while the newest begins.
    const bool superseded = i + 2 < tables.size() && tables[i + 2].table == tables[i].table;
    ReadFile(*file, folder.rank);
    file->closed = superseded;
  }
}

void RunFollower::ReadFile(File& file, int64_t rank) {
  std::error_code error;
  const uint64_t size = fs::file_size(file.table.path, error);
  if (error) {
    Report(file, error.message());
    return;
  }
  if (size < file.offset) {  // written anew
    file.offset = 0;
    file.head.reset();
  }
  if (size == file.offset) {
    return;
  }
  const fs::file_time_type written = fs::last_write_time(file.table.path, error);
  const bool has_time = !error;
  if (has_time) {
    FollowedRank& state = ranks_[rank];
    state.last_write = std::max(state.last_write, written);
  } else {
    Report(file, error.message());
  }
  const Result<base::InputFile> input = base::InputFile::Open(file.table.path);
  Status failed = input.ok() ? OkStatus() : input.status();
  std::string text;
  for (bool ended = false; failed.ok() && !ended && file.offset < size && !file.useless;) {
    const size_t kept = text.size();  // the beginning of a line
    // Most files gained a few lines; a byte more than there was finds the end.
    const size_t known = file.offset + kept;
    const size_t wanted = std::min(kFollowedPieceBytes, (known < size ? size - known : 0) + 1);
    text.resize(kept + wanted);
    const Result<size_t> count = input->ReadAt(known, std::span(text).subspan(kept));
    failed = count.ok() ? OkStatus() : count.status();
    const size_t got = count.ok() ? *count : 0;
    ended = got < wanted;
    text.resize(kept + got);
    bytes_read_ += got;
    const size_t end = text.rfind('\n') + 1;  // 0 without one
    if (end == 0) {
      file.useless = text.size() > kLongestFollowedLine;
      continue;
    }
    TakeRows(std::string_view(text).substr(0, end), file, rank);
    file.offset += end;
    text.erase(0, end);
  }
  if (!failed.ok()) {
    Report(file, failed.message());
  }
  if (!has_time) {
    return;
  }
  std::unique_ptr<RankTimes>& times = times_[rank];
  if (times == nullptr) {
    times = std::make_unique<RankTimes>();
  }
  const std::pair<fs::file_time_type, int64_t> now(written, file.table.last_step);
  if (!times->first_file || now.second < times->first_file->second) {
    times->first_file = now;
  }
  if (!times->last_file || now.second > times->last_file->second) {
    times->last_file = now;
  }
}

void RunFollower::TakeRows(std::string_view text, File& file, int64_t rank) {
  if (!file.head) {
    const size_t end = text.find('\n') + 1;
    Result<internal::TableHead> head = internal::ReadTableHead(WithoutEnd(text.substr(0, end)), {});
    if (!head.ok()) {
      Report(file, head.status().message());
      file.useless = true;
      return;
    }
    file.head = std::move(*head);
    for (const std::string& op : file.head->ops) {
      if (std::find(ops_.begin(), ops_.end(), op) == ops_.end()) {
        ops_.push_back(op);
      }
    }
    const std::vector<std::string>& ops = file.head->ops;
    if (op_.empty() || std::find(ops.begin(), ops.end(), op_) != ops.end()) {
      judged_ops_.try_emplace(file.table.table, op_.empty() ? MainOp(ops) : op_);
    }
    if (std::find(tables_.begin(), tables_.end(), file.table.table) == tables_.end()) {
      tables_.push_back(file.table.table);
    }
    text.remove_prefix(end);
  }
  if (!EndsLine(text)) {
    return;
  }
  const internal::TableRows rows = internal::ReadTableRows(text, *file.head);
  for (const internal::TableRows::Diagnostic& diagnostic : rows.diagnostics) {
    Report(file, diagnostic.text);
  }
  bad_rows_ += rows.more_diagnostics;
  const size_t ops = file.head->ops.size();
  const auto judged =
      std::find(file.head->ops.begin(), file.head->ops.end(), JudgedOp(file.table.table));
  const auto judged_at = static_cast<size_t>(judged - file.head->ops.begin());
  std::vector<size_t> series_of;
  for (const internal::TableRows::Name& name : rows.names) {
    SeriesOf(file, name.stage, name.name, name.micro_step, rank);
    series_of.push_back(
        index_.at({file.table.table, name.stage, name.name, name.micro_step, rank}));
  }
  FollowedRank& state = ranks_[rank];
  for (size_t row = 0; row < rows.steps.size(); ++row) {
    FollowedSeries& series = series_[series_of[rows.name_of[row]]];
    const double* values = rows.values.data() + row * ops;
    uint64_t bad = 0;
    for (size_t i = 0; i < ops; ++i) {
      if (IsNoNumber(values[i])) {
        continue;
      }
      const bool is_finite = std::isfinite(values[i]);
      series.had_number = series.had_number || is_finite || file.head->tells_absence;
      bad += is_finite ? 0U : 1U;
      if (!is_told_) {
        seen_rounding_.Take(values[i]);
      }
    }
    if (bad > 0 && series.had_number) {
      if (series.non_finite == 0) {
        series.first_non_finite_step = rows.steps[row];
      }
      series.non_finite += bad;
      state.non_finite += bad;
    }
    series.last_step = rows.steps[row];
    state.last_step = std::max(state.last_step, rows.steps[row]);
    if (judged_at < ops) {
      if (series.history.size() == kHistory) {
        series.history.erase(series.history.begin());
      }
      series.history.push_back(values[judged_at]);
    }
  }
}

FollowedSeries& RunFollower::SeriesOf(const File& file, int32_t stage, const std::string& name,
                                      int32_t micro_step, int64_t rank) {
  const auto [place, fresh] = index_.try_emplace(
      SeriesKey(file.table.table, stage, name, micro_step, rank), series_.size());
  if (fresh) {
    FollowedSeries& series = series_.emplace_back();
    series.table = file.table.table;
    series.stage = stage;
    series.name = name;
    series.micro_step = micro_step;
    series.rank = static_cast<int32_t>(rank);
  }
  return series_[place->second];
}

// Files of alerts are written anew as a whole: each is read again when it is another file.
bool RunFollower::IsNewer(const fs::path& path) {
  std::error_code none;
  const uint64_t size = fs::file_size(path, none);
  const fs::file_time_type written = none ? fs::file_time_type() : fs::last_write_time(path, none);
  auto& known = alert_files_[path.string()];
  if (none || known == std::pair(size, written)) {
    return false;
  }
  known = {size, written};
  return true;
}

// Broken laws are alerts, too.
bool RunFollower::ReadLaws(const std::vector<RankFolder>& folders) {
  bool changed = false;
  for (const RankFolder& folder : folders) {
    const fs::path path = folder.path / "laws.csv";
    if (!IsNewer(path)) {
      continue;
    }
    changed = true;
    std::vector<Alert>& list = alerts_by_file_[path.string()];
    list.clear();
    for (const BrokenLaw& law : ReadLawsOfRank(folder.path)) {
      list.push_back({law.law, folder.rank, law.step, law.name, law.Sentence()});
    }
  }
  return changed;
}

void RunFollower::ReadAlerts(const std::vector<RankFolder>& folders) {
  bool changed = ReadLaws(folders);
  const fs::path folder = options_.root / "anomaly_detected";
  const Result<std::vector<std::string>> names = base::ListFolder(folder);
  if (!names.ok() && names.status().code() != StatusCode::kNotFound) {
    Report(names.status().message());
  }
  for (const std::string& name : names.ok() ? *names : std::vector<std::string>()) {
    const fs::path path = folder / name / "anomaly.json";
    if (!IsNewer(path)) {
      continue;
    }
    changed = true;
    std::vector<Alert>& list = alerts_by_file_[path.string()];
    list.clear();
    Result<AnomalyFile> file = ReadAnomalyFile(path);
    if (!file.ok()) {
      Report(file.status().message());
      continue;
    }
    for (msprobe::monitor::Anomaly& anomaly : file->entries) {
      list.push_back({std::move(anomaly.key), anomaly.rank, anomaly.step,
                      std::move(anomaly.tag_name), std::move(anomaly.message)});
    }
  }
  if (!changed) {
    return;
  }
  alerts_.clear();
  for (auto& [rank, state] : ranks_) {
    state.alerts = 0;
  }
  for (const auto& [path, list] : alerts_by_file_) {
    for (const Alert& alert : list) {
      alerts_.push_back(alert);
      if (const auto state = ranks_.find(alert.rank); state != ranks_.end()) {
        ++state->second.alerts;
      }
    }
  }
  std::stable_sort(alerts_.begin(), alerts_.end(),
                   [](const Alert& a, const Alert& b) { return a.step < b.step; });
}

void RunFollower::RateRanks(Clock::time_point now) {
  for (auto& [rank, state] : ranks_) {
    std::unique_ptr<RankTimes>& times = times_[rank];
    if (times == nullptr) {
      times = std::make_unique<RankTimes>();
    }
    auto& seen = times->seen;
    if (seen.empty() || seen.back().second != state.last_step) {
      seen.emplace_back(now, state.last_step);
    }
    const auto age = [&now](Clock::time_point time) {
      return std::chrono::duration<double>(now - time).count();
    };
    while (seen.size() > 2 && age(seen.front().first) > kRateSeconds) {
      seen.pop_front();
    }
    // The first observation is of a moment in the middle of a step.
    if (seen.size() > 2) {
      const double seconds =
          std::chrono::duration<double>(seen.back().first - seen[1].first).count();
      if (seconds > 0) {
        state.steps_per_second = static_cast<double>(seen.back().second - seen[1].second) / seconds;
      }
    } else if (times->first_file && times->last_file) {
      const double seconds = Seconds(times->last_file->first - times->first_file->first);
      const int64_t steps = times->last_file->second - times->first_file->second;
      state.steps_per_second = seconds > 0 && steps > 0 ? static_cast<double>(steps) / seconds : 0;
    }
  }
}

}  // namespace msprobe::analysis::monitor
