#include "src/monitor/trend_store.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <initializer_list>
#include <utility>

#include <fmt/format.h>

#include "src/base/strings.h"
#include "src/monitor/batch.h"

namespace msprobe::monitor {
namespace {

// Constants of sqlite3.h.
constexpr int kOk = 0;
constexpr int kRow = 100;
constexpr int kDone = 101;
constexpr int kOpenReadWrite = 2;
constexpr int kOpenCreate = 4;

constexpr double kLargest = 1e9;

constexpr std::array<std::string_view, 18> kMetrics = {"actv",
                                                       "actv_grad",
                                                       "exp_avg",
                                                       "exp_avg_sq",
                                                       "grad_unreduced",
                                                       "grad_reduced",
                                                       "param_origin",
                                                       "param_updated",
                                                       "update_ratio",
                                                       "other",
                                                       "attention_hook",
                                                       "linear_hook",
                                                       "moe_router_weight_hook",
                                                       "moe_router_logit_hook",
                                                       "forward",  // of dumps, these four
                                                       "backward",
                                                       "recompute",
                                                       "parameters_grad"};

constexpr const char* kSchema = R"(
CREATE TABLE IF NOT EXISTS monitoring_targets(
  target_id INTEGER PRIMARY KEY AUTOINCREMENT, target_name TEXT NOT NULL, vpp_stage INTEGER NOT NULL,
  micro_step INTEGER NOT NULL DEFAULT 0, UNIQUE(target_name, vpp_stage, micro_step));
CREATE TABLE IF NOT EXISTS monitoring_metrics(
  metric_id INTEGER PRIMARY KEY AUTOINCREMENT, metric_name TEXT UNIQUE NOT NULL);
CREATE TABLE IF NOT EXISTS monitoring_tags(
  tag_id INTEGER PRIMARY KEY AUTOINCREMENT, tag_name TEXT NOT NULL, category TEXT NOT NULL,
  metric_id INTEGER NOT NULL, UNIQUE(tag_name, category, metric_id),
  FOREIGN KEY (metric_id) REFERENCES monitoring_metrics(metric_id));
CREATE TABLE IF NOT EXISTS tag_target_mapping(
  tag_id INTEGER NOT NULL, target_id INTEGER NOT NULL, PRIMARY KEY (tag_id, target_id),
  FOREIGN KEY (tag_id) REFERENCES monitoring_tags(tag_id),
  FOREIGN KEY (target_id) REFERENCES monitoring_targets(target_id));
CREATE TABLE IF NOT EXISTS trend_data(
  rank INTEGER NOT NULL, step INTEGER NOT NULL, target_id INTEGER NOT NULL,
  metric_id INTEGER NOT NULL, PRIMARY KEY (rank, step, target_id, metric_id),
  FOREIGN KEY (target_id) REFERENCES monitoring_targets(target_id),
  FOREIGN KEY (metric_id) REFERENCES monitoring_metrics(metric_id)) WITHOUT ROWID;
)";

bool IsNumber(std::string_view text) {
  return !text.empty() && text.find_first_not_of("0123456789") == std::string_view::npos;
}

// The store has one row for equal names; the text separates name and numbers.
std::string KeyOf(std::string_view name, int64_t a, int64_t b) {
  return fmt::format("{}\n{}\n{}", a, b, name);
}

double Stored(double value) {
  if (std::isinf(value)) {
    return value > 0 ? kLargest + 1 : -kLargest - 1;
  }
  return std::clamp(value, -kLargest, kLargest);
}

}  // namespace

bool TrendStore::IsStatistic(std::string_view name) {
  const std::optional<Statistic> op = FindStatistic(name);
  return op.has_value() && *op != Statistic::kShape && *op != Statistic::kDType &&
         *op != Statistic::kId;
}

bool TrendStore::IsMetric(std::string_view name) {
  return std::find(kMetrics.begin(), kMetrics.end(), name) != kMetrics.end();
}

Status TrendStore::Failure(std::string_view what) {
  return IoError(fmt::format("{}: {}: {}", path_.string(), what,
                             database_ == nullptr ? "out of memory" : api_.errmsg(database_)));
}

Status TrendStore::Execute(const std::string& sql) {
  return api_.exec(database_, sql.c_str(), nullptr, nullptr, nullptr) == kOk
             ? Status()
             : Failure("cannot write the store");
}

Status TrendStore::Prepare(const std::string& sql, sqlite3_stmt*& statement) {
  return api_.prepare_v2(database_, sql.c_str(), -1, &statement, nullptr) == kOk
             ? Status()
             : Failure("is not a trend store");
}

Status TrendStore::Run(sqlite3_stmt* statement, int64_t* id) {
  int code = api_.step(statement);
  if (code == kRow) {
    if (id != nullptr) {
      *id = api_.column_int64(statement, 0);
    }
    code = kDone;
  }
  Status status = code == kDone ? Status() : Failure("cannot write the store");
  api_.reset(statement);
  return status;
}

Result<int64_t> TrendStore::Ask(const std::string& sql, int64_t otherwise) {
  sqlite3_stmt* statement = nullptr;
  MSP_RETURN_IF_ERROR(Prepare(sql, statement));
  Status status = Run(statement, &otherwise);
  api_.finalize(statement);
  MSP_RETURN_IF_ERROR(std::move(status));
  return otherwise;
}

void TrendStore::BindText(sqlite3_stmt* statement, int index, std::string_view text) {
  // The text outlives the statement's run.
  api_.bind_text(statement, index, text.data(), static_cast<int>(text.size()), nullptr);
}

Result<std::unique_ptr<TrendStore>> TrendStore::Open(const SqliteApi& api,
                                                     const std::filesystem::path& path, Use use) {
  std::unique_ptr<TrendStore> store(new TrendStore(api, path));
  if (api.open_v2(path.c_str(), &store->database_, kOpenReadWrite | kOpenCreate, nullptr) != kOk) {
    return store->Failure("cannot open the store");
  }
  MSP_RETURN_IF_ERROR(store->MakeTables(use));
  return store;
}

Status TrendStore::MakeTables(Use use) {
  // A process that dies leaves a journal that the next reader rolls back; a machine that dies is
  // not guarded against, which would cost a wait for the disk in every step.
  MSP_RETURN_IF_ERROR(Execute(use == Use::kLive
                                  ? "PRAGMA synchronous=OFF;"
                                  : "PRAGMA journal_mode=OFF; PRAGMA synchronous=OFF; "
                                    "PRAGMA locking_mode=EXCLUSIVE; PRAGMA cache_size=-65536;"));
  MSP_RETURN_IF_ERROR(Execute(kSchema));
  for (const auto& [statement, sql] : std::initializer_list<std::pair<sqlite3_stmt**, const char*>>{
           {&insert_target_,
            "INSERT OR IGNORE INTO monitoring_targets(target_name, vpp_stage, micro_step) "
            "VALUES(?1, ?2, ?3)"},
           {&find_target_,
            "SELECT target_id FROM monitoring_targets WHERE target_name=?1 AND vpp_stage=?2 AND "
            "micro_step=?3"},
           {&insert_tag_,
            "INSERT OR IGNORE INTO monitoring_tags(tag_name, category, metric_id) "
            "VALUES(?1, ?2, ?3)"},
           {&find_tag_,
            "SELECT tag_id FROM monitoring_tags WHERE tag_name=?1 AND category=?2 AND "
            "metric_id=?3"},
           {&insert_mapping_, "INSERT OR IGNORE INTO tag_target_mapping VALUES(?1, ?2)"}}) {
    MSP_RETURN_IF_ERROR(Prepare(sql, *statement));
  }
  return use == Use::kLive ? ReadExtent() : Status();
}

Status TrendStore::ReadExtent() {
  for (const auto& [expression, place] :
       {std::pair("min(step)", &extent_.min_step), std::pair("max(step)", &extent_.max_step),
        std::pair("max(rank)", &extent_.max_rank)}) {
    MSP_ASSIGN_OR_RETURN(
        *place,
        Ask(fmt::format("SELECT {} FROM trend_data HAVING count(*) > 0", expression), *place));
  }
  return {};
}

TrendStore::~TrendStore() { static_cast<void>(Close()); }

Status TrendStore::Close() {
  if (database_ == nullptr) {
    return {};
  }
  Status status = in_transaction_ ? Commit() : Status();
  for (sqlite3_stmt** statement :
       {&insert_target_, &find_target_, &insert_tag_, &find_tag_, &insert_mapping_}) {
    api_.finalize(*statement);
    *statement = nullptr;
  }
  for (auto& metric : metrics_) {
    api_.finalize(metric.second.insert);
    metric.second.insert = nullptr;
  }
  if (api_.close(database_) != kOk && status.ok()) {
    status = Failure("cannot close the store");
  }
  database_ = nullptr;
  return status;
}

Status TrendStore::Begin() {
  MSP_RETURN_IF_ERROR(Execute("BEGIN"));
  in_transaction_ = true;
  return {};
}

Status TrendStore::Commit() {
  in_transaction_ = false;
  Status status = WriteGlobalStatistics();
  if (status.ok()) {
    status = Execute("COMMIT");
  }
  if (!status.ok()) {
    api_.exec(database_, "ROLLBACK", nullptr, nullptr, nullptr);
  }
  return status;
}

Status TrendStore::WriteGlobalStatistics() {
  if (extent_.min_step > extent_.max_step || (extent_ == written_extent_ && !columns_changed_)) {
    return {};
  }
  std::string columns;
  std::string values;
  for (const auto& metric : metrics_) {
    columns += fmt::format(", {} TEXT DEFAULT NULL", metric.second.name);
    values += fmt::format(", '{}'", base::Join(metric.second.statistics, ","));
  }
  const std::string extent =
      rank_first_ ? fmt::format("{}, {}, {}", extent_.max_rank, extent_.min_step, extent_.max_step)
                  : fmt::format("{}, {}, {}", extent_.min_step, extent_.max_step, extent_.max_rank);
  if (columns_changed_) {
    MSP_RETURN_IF_ERROR(Execute(fmt::format(
        "DROP TABLE IF EXISTS global_stats; CREATE TABLE global_stats({}{})",
        rank_first_ ? "max_rank INTEGER DEFAULT 0, min_step INTEGER DEFAULT 0, max_step INTEGER "
                      "DEFAULT 0"
                    : "min_step INTEGER DEFAULT 0, max_step INTEGER DEFAULT 0, max_rank INTEGER "
                      "DEFAULT 0",
        columns)));
  }
  MSP_RETURN_IF_ERROR(Execute(fmt::format(
      "DELETE FROM global_stats; INSERT INTO global_stats VALUES({}{})", extent, values)));
  written_extent_ = extent_;
  columns_changed_ = false;
  return {};
}

Result<int64_t> TrendStore::Metric(std::string_view name, std::span<const std::string> statistics) {
  const auto known = metric_ids_.find(name);
  if (known != metric_ids_.end() &&
      std::equal(statistics.begin(), statistics.end(), metrics_[known->second].statistics.begin(),
                 metrics_[known->second].statistics.end())) {
    return known->second;
  }
  if (!IsMetric(name) || !std::all_of(statistics.begin(), statistics.end(),
                                      [](const std::string& text) { return IsStatistic(text); })) {
    return UsageError(fmt::format("a trend store has no table {} of these statistics", name));
  }
  MSP_RETURN_IF_ERROR(Execute(
      fmt::format("INSERT OR IGNORE INTO monitoring_metrics(metric_name) VALUES('{}')", name)));
  MSP_ASSIGN_OR_RETURN(
      const int64_t id,
      Ask(fmt::format("SELECT metric_id FROM monitoring_metrics WHERE metric_name='{}'", name), 0));
  std::string names;
  std::string places;
  for (size_t i = 0; i < statistics.size(); ++i) {
    MSP_ASSIGN_OR_RETURN(
        const int64_t count,
        Ask(fmt::format("SELECT count(*) FROM pragma_table_info('trend_data') WHERE name='{}'",
                        statistics[i]),
            0));
    if (count == 0) {
      MSP_RETURN_IF_ERROR(Execute(
          fmt::format("ALTER TABLE trend_data ADD COLUMN {} REAL DEFAULT NULL", statistics[i])));
    }
    names += ", " + statistics[i];
    places += fmt::format(", ?{}", i + 5);
  }
  MetricColumns& metric = metrics_[id];
  api_.finalize(metric.insert);
  metric = {std::string(name), {statistics.begin(), statistics.end()}, nullptr};
  metric_ids_[std::string(name)] = id;
  columns_changed_ = true;
  MSP_RETURN_IF_ERROR(
      Prepare(fmt::format("INSERT OR REPLACE INTO trend_data(rank, step, target_id, metric_id{}) "
                          "VALUES(?1, ?2, ?3, ?4{})",
                          names, places),
              metric.insert));
  return id;
}

Result<int64_t> TrendStore::Target(std::string_view name, int64_t stage, int64_t micro_step,
                                   int64_t metric, TagsOfName tags_of) {
  const auto [place, is_new] = targets_.emplace(KeyOf(name, stage, micro_step), 0);
  if (is_new) {
    for (sqlite3_stmt* statement : {insert_target_, find_target_}) {
      BindText(statement, 1, name);
      api_.bind_int64(statement, 2, stage);
      api_.bind_int64(statement, 3, micro_step);
      MSP_RETURN_IF_ERROR(Run(statement, &place->second));
    }
  }
  if (tagged_.emplace(std::pair(place->second, metric), true).second) {
    for (const NameTag& tag : tags_of(name)) {
      MSP_RETURN_IF_ERROR(AddTag(tag, place->second, metric));
    }
  }
  return place->second;
}

Result<int64_t> TrendStore::TagId(const NameTag& tag, int64_t metric) {
  const auto [place, is_new] =
      tags_.emplace(fmt::format("{}\n{}\n{}", metric, tag.category, tag.name), 0);
  if (is_new) {
    for (sqlite3_stmt* statement : {insert_tag_, find_tag_}) {
      BindText(statement, 1, tag.name);
      BindText(statement, 2, tag.category);
      api_.bind_int64(statement, 3, metric);
      MSP_RETURN_IF_ERROR(Run(statement, &place->second));
    }
  }
  return place->second;
}

Status TrendStore::AddTag(const NameTag& tag, int64_t target, int64_t metric) {
  MSP_ASSIGN_OR_RETURN(const int64_t id, TagId(tag, metric));
  api_.bind_int64(insert_mapping_, 1, id);
  api_.bind_int64(insert_mapping_, 2, target);
  return Run(insert_mapping_);
}

std::vector<TrendStore::NameTag> TrendStore::TagsOfParts(std::string_view name) {
  std::vector<NameTag> tags;
  const std::vector<std::string_view> parts = base::Split(name, '.');
  for (size_t i = 0; i < parts.size(); ++i) {
    const bool is_number = IsNumber(parts[i]);
    if (parts[i].empty() || (is_number && (i == 0 || IsNumber(parts[i - 1])))) {
      continue;
    }
    if (is_number) {
      tags.push_back({fmt::format("{}.{}", parts[i - 1], parts[i]), "layer"});
    } else {
      tags.push_back({std::string(parts[i]), "module"});
    }
  }
  return tags;
}

Status TrendStore::Insert(int64_t rank, int64_t step, int64_t target, int64_t metric,
                          std::span<const double> values) {
  sqlite3_stmt* const statement = metrics_[metric].insert;
  api_.bind_int64(statement, 1, rank);
  api_.bind_int64(statement, 2, step);
  api_.bind_int64(statement, 3, target);
  api_.bind_int64(statement, 4, metric);
  for (size_t i = 0; i < values.size(); ++i) {
    const int place = static_cast<int>(i) + 5;
    if (std::isnan(values[i])) {
      api_.bind_null(statement, place);
    } else {
      api_.bind_double(statement, place, Stored(values[i]));
    }
  }
  extent_.min_step = std::min(extent_.min_step, step);
  extent_.max_step = std::max(extent_.max_step, step);
  extent_.max_rank = std::max(extent_.max_rank, rank);
  return Run(statement);
}

}  // namespace msprobe::monitor
