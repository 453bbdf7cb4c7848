// .vis.db: the graphs of all ranks and steps in one SQLite file, as the 26.x line writes it.
#pragma once

#include <cstdint>
#include <filesystem>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "msprobe/status.h"

#include "src/analysis/graph/graph_page.h"
#include "src/analysis/graph/step_views.h"
#include "src/base/files.h"
#include "src/base/threads.h"

struct sqlite3;
struct sqlite3_stmt;

namespace msprobe::analysis::graph {

// The tables tb_config and msprobe_rank.
struct DatabaseConfig {
  bool is_comparison = false;
  std::optional<compare::CompareMode> mode;  // of a comparison
  int64_t micro_steps = 1;
  bool overflow_check = false;
  std::vector<int64_t> ranks;  // rising
  std::vector<int64_t> steps;
  std::vector<ListedRank> verdicts;  // of ranks that `compare` was asked about
};

// Everything is written in one transaction without a journal; the file is nothing until Finish().
class Database {
 public:
  static Result<std::unique_ptr<Database>> Create(const std::filesystem::path& path,
                                                  bool is_comparison);
  // The rows of ranks, for a database that another process makes: a private form, nothing until
  // Finish().
  static Result<std::unique_ptr<Database>> Record(const std::filesystem::path& path,
                                                  bool is_comparison);
  Database(const Database&) = delete;
  Database& operator=(const Database&) = delete;
  ~Database();

  // Both sides of one rank.
  Status Add(const RankView& view, base::ThreadPool& pool);
  // What was recorded of ranks, as Add() would have entered it.
  Status AddRecorded(const std::filesystem::path& path);
  // The configuration, what `compare` says of the ranks, and all that is still in memory.
  Status Finish(const DatabaseConfig& config);

 private:
  Database(std::filesystem::path path, bool is_comparison)
      : path_(std::move(path)), is_comparison_(is_comparison) {}
  Status Failure(std::string_view what) const;
  Status Execute(const char* sql);
  Status Prepare(const char* sql, sqlite3_stmt** statement);
  // The tables that ranks have rows in.
  enum class Rows : uint8_t { kNodes, kStacks, kDivergence };
  static constexpr size_t kRowKinds = 3;
  sqlite3_stmt* StatementOf(Rows rows) const;
  // A row, its values in the order of the columns. Empty optionals and NaN are NULL.
  template <typename... Values>
  Status Insert(Rows rows, const Values&... values);
  template <typename... Values>
  Status Insert(sqlite3_stmt* statement, const Values&... values);
  Status AddSide(const RankView& view, bool is_npu, base::ThreadPool& pool);

  Status AddDivergence(const RankView& view, uint32_t node, bool is_npu);
  Status AddRanks(const DatabaseConfig& config);

  const std::filesystem::path path_;
  const bool is_comparison_;
  std::optional<base::AtomicFile> record_;  // in place of a database
  std::string recorded_;                    // rows that are not in it yet
  sqlite3* database_ = nullptr;
  sqlite3_stmt* node_ = nullptr;
  sqlite3_stmt* stack_ = nullptr;
  sqlite3_stmt* divergence_ = nullptr;  // null in a build
};

}  // namespace msprobe::analysis::graph
