// A run that is still going on: what its folders gained since the last look. Files are read from
// where the last look ended and only as far as whole lines go, for the training writes meanwhile.
#pragma once

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <filesystem>
#include <map>
#include <memory>
#include <string>
#include <string_view>
#include <tuple>
#include <vector>

#include "msprobe/status.h"

#include "src/analysis/monitor/common/monitored_run.h"
#include "src/analysis/monitor/common/table_rows.h"

namespace msprobe::analysis::monitor {

// The run that is followed, and how far back.

struct FollowOptions {
  std::filesystem::path root;
  std::string op;              // the statistic that is judged; empty: MainOp of every table
  int64_t window_steps = 200;  // files that end earlier before the newest step are not read
};

// The statistic by which a table is judged by default: norm, or the first.
std::string_view MainOp(const std::vector<std::string>& ops);

// One name of one table on one rank.
struct FollowedSeries {
  std::string table;
  int32_t stage = 0;
  std::string name;
  int32_t micro_step = -1;
  int32_t rank = 0;
  // Values of the judged statistic, the newest last, a limited number; empty where the table lacks
  // it.
  std::vector<double> history;
  int64_t last_step = 0;
  // Seen in all statistics. Where a table does not record what was measured, rows of NaN before the
  // first number count as "no tensor".
  bool had_number = false;
  uint64_t non_finite = 0;
  int64_t first_non_finite_step = 0;
};

struct FollowedRank {
  int64_t last_step = -1;  // -1: no row yet
  // min(): not known. The epoch of this clock is not a beginning: it may lie in the future.
  std::filesystem::file_time_type last_write = std::filesystem::file_time_type::min();
  double steps_per_second = 0;  // 0: not known yet
  uint64_t alerts = 0;
  uint64_t non_finite = 0;
};

class RunFollower {
 public:
  using Clock = std::chrono::steady_clock;

  explicit RunFollower(FollowOptions options);
  ~RunFollower();
  RunFollower(const RunFollower&) = delete;
  RunFollower& operator=(const RunFollower&) = delete;

  // Reads what is new. An error only when there is no run to follow (yet); what cannot be read is
  // a warning.
  Status Look(Clock::time_point now);
  // Another statistic, or "" as in FollowOptions: everything in the window is read again at the
  // next look.
  void Judge(std::string op);

  const std::vector<FollowedSeries>& series() const { return series_; }
  const std::map<int64_t, FollowedRank>& ranks() const { return ranks_; }
  const std::vector<Alert>& alerts() const { return alerts_; }  // by step
  const std::vector<std::string>& ops() const { return ops_; }
  const std::vector<std::string>& tables() const { return tables_; }
  const std::string& op() const { return op_; }  // as asked for
  // What a table is judged by; empty where it lacks what was asked for, or is not known.
  std::string_view JudgedOp(std::string_view table) const;
  // What the numbers of the run are multiples of; 0: of nothing in common.
  double rounding() const { return std::max(told_rounding_, is_told_ ? 0 : seen_rounding_.unit()); }
  uint64_t bytes_read() const { return bytes_read_; }
  uint64_t bad_rows() const { return bad_rows_; }
  const std::string& first_diagnostic() const { return first_diagnostic_; }

 private:
  struct File;
  struct RankTimes;
  using SeriesKey = std::tuple<std::string, int32_t, std::string, int32_t, int64_t>;

  void LookAtFolder(const RankFolder& folder, int64_t oldest_step);
  void ReadFile(File& file, int64_t rank);
  void TakeRows(std::string_view text, File& file, int64_t rank);
  FollowedSeries& SeriesOf(const File& file, int32_t stage, const std::string& name,
                           int32_t micro_step, int64_t rank);
  void ReadAlerts(const std::vector<RankFolder>& folders);
  bool IsNewer(const std::filesystem::path& path);        // than when it was read last
  bool ReadLaws(const std::vector<RankFolder>& folders);  // whether there are new ones
  void RateRanks(Clock::time_point now);
  void Report(std::string text);
  void Report(const File& file, const std::string& text);

  FollowOptions options_;
  std::string op_;
  std::vector<std::string> ops_;
  std::vector<std::string> tables_;
  std::map<std::string, std::string, std::less<>> judged_ops_;  // by table
  std::map<std::string, std::unique_ptr<File>> files_;          // by path
  std::map<SeriesKey, size_t> index_;
  std::vector<FollowedSeries> series_;
  std::map<int64_t, FollowedRank> ranks_;
  std::map<int64_t, std::unique_ptr<RankTimes>> times_;
  std::vector<Alert> alerts_;
  std::map<std::string, std::pair<uint64_t, std::filesystem::file_time_type>> alert_files_;
  std::map<std::string, std::vector<Alert>> alerts_by_file_;
  double told_rounding_ = 0;  // by monitor.json of the ranks; is_told_: by all
  bool is_told_ = true;
  RoundingSeen seen_rounding_;
  uint64_t bytes_read_ = 0;
  uint64_t bad_rows_ = 0;
  std::string first_diagnostic_;
};

}  // namespace msprobe::analysis::monitor
