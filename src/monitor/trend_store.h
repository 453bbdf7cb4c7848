// A trend store: the SQLite file that trend viewers read, one row per rank, step, name and table.
#pragma once

#include <cstdint>
#include <filesystem>
#include <map>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <tuple>
#include <unordered_map>
#include <vector>

#include "msprobe/status.h"

#include "src/monitor/sqlite_api.h"

namespace msprobe::monitor {

class TrendStore {
 public:
  enum class Use : uint8_t {
    kLive,   // each Commit is there for readers, and survives the end of the process
    kWhole,  // the file counts when it is closed; nothing guards it until then
  };
  // Continues a file that is there.
  static Result<std::unique_ptr<TrendStore>> Open(const SqliteApi& api,
                                                  const std::filesystem::path& path, Use use);
  TrendStore(const TrendStore&) = delete;
  TrendStore& operator=(const TrendStore&) = delete;
  ~TrendStore();

  // Names that become columns; anything else is refused.
  static bool IsStatistic(std::string_view name);
  static bool IsMetric(std::string_view name);

  // A table ("actv") with the statistics of its rows, which are made columns. Repeatable.
  Result<int64_t> Metric(std::string_view name, std::span<const std::string> statistics);
  // A tag by which a viewer can filter names.
  struct NameTag {
    std::string name;
    std::string_view category;  // of a lasting text
  };
  using TagsOfName = std::vector<NameTag> (*)(std::string_view name);
  // "layers.1.mlp.input": layer layers.1, modules layers, mlp and input.
  static std::vector<NameTag> TagsOfParts(std::string_view name);
  // A name of it. `tags_of` is asked once per name and metric.
  Result<int64_t> Target(std::string_view name, int64_t stage, int64_t micro_step, int64_t metric,
                         TagsOfName tags_of = &TagsOfParts);
  // One row; it replaces what was there. `values` as many as the metric has statistics, in their
  // order; NaN is stored as null, what is beyond 1e9 as 1e9, infinities as 1e9 + 1.
  Status Insert(int64_t rank, int64_t step, int64_t target, int64_t metric,
                std::span<const double> values);

  // The largest rank stands first among the extents, as in the Python tool's stores of dumps.
  // Before the first Commit.
  void PutRankFirst() { rank_first_ = true; }

  Status Begin();
  // With the extent of all rows so far.
  Status Commit();
  Status Close();

 private:
  struct MetricColumns {
    std::string name;
    std::vector<std::string> statistics;
    sqlite3_stmt* insert = nullptr;
  };
  struct Extent {
    int64_t min_step = INT64_MAX;
    int64_t max_step = INT64_MIN;
    int64_t max_rank = 0;
    bool operator==(const Extent& other) const = default;
  };

  TrendStore(const SqliteApi& api, std::filesystem::path path)
      : api_(api), path_(std::move(path)) {}
  Status MakeTables(Use use);
  Status ReadExtent();
  Status Execute(const std::string& sql);
  Status Prepare(const std::string& sql, sqlite3_stmt*& statement);
  // Runs a statement whose values are bound and makes it ready for the next ones. `id`: of its
  // first row and column, when there is one.
  Status Run(sqlite3_stmt* statement, int64_t* id = nullptr);
  // The one number of a query; `otherwise` where it has no row.
  Result<int64_t> Ask(const std::string& sql, int64_t otherwise);
  void BindText(sqlite3_stmt* statement, int index, std::string_view text);
  Result<int64_t> TagId(const NameTag& tag, int64_t metric);
  Status AddTag(const NameTag& tag, int64_t target, int64_t metric);
  Status WriteGlobalStatistics();
  Status Failure(std::string_view what);

  const SqliteApi& api_;
  const std::filesystem::path path_;
  sqlite3* database_ = nullptr;
  sqlite3_stmt* insert_target_ = nullptr;
  sqlite3_stmt* find_target_ = nullptr;
  sqlite3_stmt* insert_tag_ = nullptr;
  sqlite3_stmt* find_tag_ = nullptr;
  sqlite3_stmt* insert_mapping_ = nullptr;
  std::map<int64_t, MetricColumns> metrics_;
  std::map<std::string, int64_t, std::less<>> metric_ids_;
  std::unordered_map<std::string, int64_t> targets_;
  std::map<std::pair<int64_t, int64_t>, bool> tagged_;  // targets of metrics
  std::unordered_map<std::string, int64_t> tags_;
  Extent extent_;
  bool rank_first_ = false;
  Extent written_extent_;
  bool columns_changed_ = true;
  bool in_transaction_ = false;
};

}  // namespace msprobe::monitor
