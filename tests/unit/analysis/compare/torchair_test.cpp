// Dumps of torchair against the reports that the Python tool made of them.
#include "src/analysis/compare/folders/torchair.h"

#include <cmath>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "src/base/numbers.h"
#include "src/base/threads.h"
#include "src/report/table.h"
#include "src/report/writers.h"
#include "tests/unit/support/csv_rows.h"
#include "tests/unit/support/temporary_folder.h"

namespace msprobe::analysis::compare {
namespace {

namespace fs = std::filesystem;
using test_support::CsvRows;
using test_support::Slurp;
using test_support::TemporaryFolder;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

const fs::path kTorchair = fs::path(MSPROBE_TEST_DATA) / "torchair";

Result<FolderComparison> Compare(const fs::path& mine, const fs::path& golden,
                                 std::optional<int64_t> rank = {}) {
  static base::ThreadPool pool(2);
  Options options;
  options.npu_path = mine;
  options.bench_path = golden;
  options.v26.emplace();
  options.v26->torchair = true;
  options.v26->torchair_rank = rank;
  return CompareTorchair(options, pool);
}

// By token and the place of the tensor under test.
std::map<std::pair<std::string, std::string>, std::vector<std::string>> ByTensor(
    std::vector<std::vector<std::string>> rows) {
  std::map<std::pair<std::string, std::string>, std::vector<std::string>> found;
  for (size_t i = 1; i < rows.size(); ++i) {
    std::string path = rows[i][9];
    path = path.substr(path.find("msprobe_ge_dump"));
    found[{rows[i][0], path}] = rows[i];
  }
  return found;
}

size_t ExpectRowsOf(const fs::path& expected_file, const report::Table& table) {
  const std::vector<std::vector<std::string>> expected = CsvRows(Slurp(expected_file));
  const std::vector<std::vector<std::string>> all = CsvRows(report::CsvText(table));
  EXPECT_EQ(expected[0], all[0]);
  const auto found = ByTensor(all);
  for (const auto& [key, row] : ByTensor(expected)) {
    const auto ours = found.find(key);
    if (ours == found.end()) {
      ADD_FAILURE() << key.second;
      continue;
    }
    for (const size_t column :
         {4U, 5U, 6U, 7U, 8U, 11U, 12U, 13U, 14U, 15U, 16U, 17U, 18U, 19U, 20U, 21U, 22U, 23U}) {
      const std::optional<double> a = base::ParseDouble(row[column]);
      const std::optional<double> b = base::ParseDouble(ours->second[column]);
      if (a && b) {
        EXPECT_NEAR(*a, *b, 2e-7 * (1 + std::fabs(*a))) << key.second << ", " << all[0][column];
      } else {
        EXPECT_EQ(row[column], ours->second[column]) << key.second << ", " << all[0][column];
      }
    }
  }
  return expected.size() - 1;
}

TEST(CompareTorchair, KernelsBesideCallsOfFx) {
  const Result<FolderComparison> comparison = Compare(kTorchair / "ge", kTorchair / "fx");
  ASSERT_TRUE(comparison.ok()) << comparison.status().message();
  ASSERT_EQ(comparison->tables.size(), 1U);
  const FolderTable& table = comparison->tables[0];
  EXPECT_EQ(ExpectRowsOf(kTorchair / "expected_fx.csv", table.table), 14U);
  EXPECT_EQ(table.table.row_count(), 14U);
  EXPECT_EQ(table.name, "msprobe_cmp_report");
  EXPECT_EQ(table.counts.npu_only, 0U);
  EXPECT_THAT(table.counts.first_differing,
              HasSubstr("1/Add.Add_0.1.1.1700000000001001,outputs,0"));
}

TEST(CompareTorchair, KernelsBesideThoseWithoutFusion) {
  const Result<FolderComparison> comparison = Compare(kTorchair / "ge", kTorchair / "unfused");
  ASSERT_TRUE(comparison.ok()) << comparison.status().message();
  const FolderTable& table = comparison->tables[0];
  EXPECT_EQ(ExpectRowsOf(kTorchair / "expected_unfused.csv", table.table), 6U);
  // The Python tool leaves the fused kernel out.
  EXPECT_EQ(table.table.row_count(), 12U);
  EXPECT_EQ(table.counts.npu_only, 2U) << "a Cast that the other side does not have";
  EXPECT_EQ(table.counts.matched, 12U);
}

TEST(CompareTorchair, RanksPairByNumber) {
  const TemporaryFolder scratch;
  for (const char* side : {"ge", "fx"}) {
    for (const char* rank : {"0", "1"}) {
      const fs::path top =
          scratch / side / (std::string(side) == "ge" ? "msprobe_ge_dump" : "msprobe_fx_dump");
      fs::create_directories(top);
      fs::copy(kTorchair / side / top.filename(),
               top / ("worldsize2_global_rank" + std::string(rank)), fs::copy_options::recursive);
    }
  }
  fs::remove_all(scratch / "fx/msprobe_fx_dump/worldsize2_global_rank0");
  const Result<FolderComparison> comparison = Compare(scratch / "ge", scratch / "fx");
  ASSERT_TRUE(comparison.ok()) << comparison.status().message();
  ASSERT_EQ(comparison->tables.size(), 1U);
  EXPECT_EQ(comparison->tables[0].name, "msprobe_cmp_report_rank1");
  EXPECT_THAT(comparison->warnings, ElementsAre(HasSubstr("rank 0 of")));
  EXPECT_THAT(Compare(scratch / "ge", scratch / "fx", 0).status().message(),
              HasSubstr("rank 0 is not in both"));
  EXPECT_EQ(Compare(scratch / "ge", scratch / "fx", 1)->tables.size(), 1U);
}

TEST(CompareTorchair, DamagedFilesAreRows) {
  const TemporaryFolder scratch;
  fs::copy(kTorchair / "ge", scratch / "ge", fs::copy_options::recursive);
  fs::resize_file(
      scratch / "ge/msprobe_ge_dump/20251120100000/0/graph_1/1/0/Add.Add_0.1.1.1700000000001000",
      30);
  const Result<FolderComparison> comparison = Compare(scratch / "ge", kTorchair / "fx");
  ASSERT_TRUE(comparison.ok()) << comparison.status().message();
  EXPECT_EQ(comparison->tables[0].counts.unreadable, 1U);
  EXPECT_EQ(Compare(kTorchair / "fx", kTorchair / "ge").status().code(), StatusCode::kNotFound);
}

TEST(GeGraph, ReadsOperatorsAndTheirOutputsOfFx) {
  GeGraph graph;
  ASSERT_TRUE(ReadGeGraph(R"(name: "g" # a remark "
    op { name: "a/b.c" output_desc { attr { key: "x" value { s: "no" } } attr { key: "_fx_tensor_name" value { s: "mul-aten.mul" } } }
         output_desc { attr { key: "_fx_tensor_name" value { s: "mul-aten.mul.OUTPUT.3" } } } }
    op { name: "d" })",
                          graph)
                  .ok());
  ASSERT_EQ(graph.size(), 2U);
  const GeNode& node = graph.at("a_b_c");
  ASSERT_EQ(node.outputs.size(), 2U);
  EXPECT_EQ(node.outputs[0].call, "mul-aten.mul");
  EXPECT_EQ(node.outputs[0].number, 0U);
  EXPECT_EQ(node.outputs[1].number, 3U);
  std::vector<std::string> names;
  EXPECT_EQ(SplitFused(graph, "a_b_cda_b_c", &names).size(), 3U);
  EXPECT_THAT(names, ElementsAre("a_b_c", "d", "a_b_c"));
  EXPECT_TRUE(SplitFused(graph, "a_b_cX").empty());
}

TEST(GeGraph, FusedNamesAreSplitIntoTheLongestThatAreKnown) {
  GeGraph graph;
  ASSERT_TRUE(ReadGeGraph(R"(op { name: "Add_1" } op { name: "Add_12" } op { name: "Add_1A" }
                             op { name: "Mul" } op { name: "Add_12Relu_X" })",
                          graph)
                  .ok());
  std::vector<std::string> names;
  EXPECT_EQ(SplitFused(graph, "Add_12MulAdd_1", &names).size(), 3U);
  EXPECT_THAT(names, ElementsAre("Add_12", "Mul", "Add_1"));
  EXPECT_TRUE(SplitFused(graph, "Add_12Relu_3").empty());
  EXPECT_TRUE(SplitFused(graph, "").empty());
}

TEST(GeGraph, RefusesTextsThatEndEarlyOrNestTooDeeply) {
  GeGraph graph;
  EXPECT_THAT(ReadGeGraph("op {\n name: \"a", graph).message(), HasSubstr("line 2"));
  EXPECT_FALSE(ReadGeGraph("op { name: \"a\"", graph).ok());
  EXPECT_FALSE(ReadGeGraph("}", graph).ok());
  EXPECT_FALSE(ReadGeGraph(std::string(10'000, '{'), graph).ok());
}

}  // namespace
}  // namespace msprobe::analysis::compare
