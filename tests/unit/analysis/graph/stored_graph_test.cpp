#include "src/analysis/graph/stored_graph.h"

#include <filesystem>
#include <string>

#include <fmt/format.h>
#include <gtest/gtest.h>
#include <sqlite3.h>

#include "tests/unit/support/temporary_folder.h"

namespace msprobe::analysis::graph {
namespace {

TEST(StoredGraph, NodesAreCountedInOnePassHoweverManyRanksAreListed) {
  const test_support::TemporaryFolder scratch;
  const std::filesystem::path path = scratch / "a.vis.db";
  // 300 steps of 300 ranks: a look through the rows for each would take minutes.
  std::string list;
  for (int i = 0; i < 300; ++i) {
    list += fmt::format("{}{}", i == 0 ? "[" : ",", i);
  }
  list += "]";
  sqlite3* database = nullptr;
  ASSERT_EQ(sqlite3_open(path.c_str(), &database), SQLITE_OK);
  const std::string sql = fmt::format(
      "CREATE TABLE tb_config(graph_type, task, micro_steps, rank_list, step_list);"
      "CREATE TABLE tb_nodes(step, rank, data_source); CREATE TABLE tb_stack(a);"
      "INSERT INTO tb_config VALUES('compare', 't', 1, '{0}', '{0}');"
      "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 10000)"
      "INSERT INTO tb_nodes SELECT 0, 1, 'NPU' FROM n;"
      "INSERT INTO tb_nodes VALUES(0, 1, 'Bench'), (2, 0, 'NPU'), (3, 3, 'Bench'), (500, 0, 'NPU'),"
      "(NULL, 0, 'NPU'), (0, 'x', 'NPU');",
      list);
  ASSERT_EQ(sqlite3_exec(database, sql.c_str(), nullptr, nullptr, nullptr), SQLITE_OK)
      << sqlite3_errmsg(database);
  sqlite3_close(database);
  const Result<StoredGraph> graph = StoredGraph::Open(*base::InputFile::Open(path));
  ASSERT_TRUE(graph.ok()) << graph.status().message();
  ASSERT_EQ(graph->ranks().size(), 2U);
  EXPECT_EQ(graph->ranks()[0].step, 0);
  EXPECT_EQ(graph->ranks()[0].rank, 1);
  EXPECT_EQ(graph->ranks()[0].nodes, 10'000);
  EXPECT_EQ(graph->ranks()[0].bench_nodes, 1);
  EXPECT_EQ(graph->ranks()[1].step, 2);
}

}  // namespace
}  // namespace msprobe::analysis::graph
