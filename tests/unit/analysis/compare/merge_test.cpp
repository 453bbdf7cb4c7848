#include <filesystem>
#include <string>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "src/analysis/compare/merge/merge_result.h"
#include "src/analysis/compare/result_table.h"
#include "src/base/threads.h"
#include "src/report/readers.h"
#include "src/report/writers.h"
#include "tests/unit/analysis/compare/dump_fixture.h"

namespace msprobe::analysis::compare::merge {
namespace {

namespace fs = std::filesystem;
using ::testing::Contains;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::Pair;
using ::testing::SizeIs;

struct ResultRow {
  std::string name;
  report::Cell max_diff;
};

class MergeResultTest : public ::testing::Test {
 protected:
  MergeResultTest() : pool_(2) {
    options_.input_folder = folder_.path() / "results";
    options_.output_folder = folder_.path() / "merged";
    options_.threads = 2;
    fs::create_directories(options_.input_folder);
    Config("api: [Distributed.all_reduce]\ncompare_index: [Max diff]\n");
  }

  void Config(const std::string& text) { options_.config_file = folder_.Write("merge.yaml", text); }

  report::Table MakeTable(const std::vector<ResultRow>& rows,
                          CompareMode mode = CompareMode::kStatistics) {
    report::Table table("Sheet", ResultColumns(mode, false));
    std::vector<report::Cell> cells;
    for (const ResultRow& row : rows) {
      cells.assign(table.columns().size(), report::Cell::Text("N/A"));
      cells[0] = table.KeepText(row.name);
      if (mode != CompareMode::kMd5) {
        cells[6] = row.max_diff;
      }
      table.AddRow(cells);
    }
    return table;
  }

  void WriteResult(const std::string& name, const std::vector<ResultRow>& rows,
                   CompareMode mode = CompareMode::kStatistics) {
    const report::Table table = MakeTable(rows, mode);
    const report::Table* sheet = &table;
    ASSERT_TRUE(report::WriteXlsx(options_.input_folder / name, {&sheet, 1}, {}, pool_).ok());
  }

  // The first sheet's cells as texts, row by row, columns first.
  static std::vector<std::vector<std::string>> FirstSheet(const Summary& run) {
    const auto sheets = report::ReadXlsx(run.result_file);
    EXPECT_TRUE(sheets.ok()) << sheets.status().message();
    std::vector<std::vector<std::string>> rows;
    if (sheets.ok() && !sheets->empty()) {
      const report::Table& sheet = sheets->front();
      rows.push_back(sheet.columns());
      for (size_t i = 0; i < sheet.row_count(); ++i) {
        std::vector<std::string>& row = rows.emplace_back();
        for (const report::Cell& cell : sheet.row(i)) {
          row.push_back(report::CellText(cell));
        }
      }
    }
    return rows;
  }

  const test_support::TemporaryFolder folder_;
  base::ThreadPool pool_;
  Options options_;
};

TEST(ParseRankFileName, KnowsBothFormsAndNothingElse) {
  EXPECT_EQ(ParseRankFileName("compare_result_rank10_20250101000000.xlsx")->rank, 10);
  EXPECT_EQ(ParseRankFileName("compare_result_rank10-rank10_20250101000000.xlsx")->rank, 10);
  EXPECT_TRUE(ParseRankFileName("compare_result_rank0_20250101000000.csv")->is_csv);
  EXPECT_EQ(ParseRankFileName("compare_result_rank_20250101000000.xlsx")->rank, std::nullopt);
  EXPECT_EQ(ParseRankFileName("compare_result_rank-rank_20250101000000.xlsx")->rank, std::nullopt);
  for (const char* name :
       {"compare_result_rank1-rank2_20250101000000.xlsx", "compare_result_20250101000000.xlsx",
        "compare_result_rank1_2025.xlsx", "compare_result_rank1_20250101000000.txt",
        "compare_result_rank-1_20250101000000.xlsx", "compare_result_rankx_20250101000000.xlsx"}) {
    EXPECT_FALSE(ParseRankFileName(name).has_value()) << name;
  }
}

TEST_F(MergeResultTest, JoinsRanksByNumberAndShowsMaximaWhereThereIsNoMetric) {
  WriteResult("compare_result_rank10_20250101000000.xlsx",
              {{"Distributed.all_reduce.0.forward.input.0", report::Cell::Number(2.5)},
               {"Distributed.all_reduce.1.forward.input.0", report::Cell::Number(7)}});
  WriteResult("compare_result_rank2-rank2_20250101000000.xlsx",
              {{"Torch.add.0.forward.input.0", report::Cell::Number(9)},
               {"Distributed.all_reduce.0.forward.input.0", report::Cell::Text("N/A")}});
  const auto run = merge::Run(options_);
  ASSERT_TRUE(run.ok()) << run.status().message();
  EXPECT_EQ(run->rank_count, 2U);
  EXPECT_THAT(FirstSheet(*run),
              ElementsAre(ElementsAre("NPU Name", "rank2", "rank10"),
                          ElementsAre("Distributed.all_reduce.0.forward.input.0",
                                      "NPU:N/A  Bench:N/A", "2.5"),
                          ElementsAre("Distributed.all_reduce.1.forward.input.0", "", "7")));
}

TEST_F(MergeResultTest, WithoutMetricsEveryMetricOfTheModeGetsASheet) {
  Config("api: [Distributed.all_reduce]\ncompare_index: null\n");
  for (const char* name :
       {"compare_result_rank0_20250101000000.xlsx", "compare_result_rank1_20250101000000.xlsx"}) {
    WriteResult(name, {{"Distributed.all_reduce.0.forward.input.0", report::Cell::Number(1)}});
  }
  const auto run = merge::Run(options_);
  ASSERT_TRUE(run.ok()) << run.status().message();
  EXPECT_EQ(run->metrics, MetricColumns(CompareMode::kStatistics));
  const auto sheets = report::ReadXlsx(run->result_file);
  ASSERT_TRUE(sheets.ok());
  ASSERT_EQ(sheets->size(), 8U);
  EXPECT_EQ((*sheets)[1].name(), "Min diff");
}

TEST_F(MergeResultTest, AMetricThatIsListedAgainGetsOneSheet) {
  std::string list = "Min diff";
  for (int i = 0; i < 2000; ++i) {
    list += i % 2 == 0 ? ", Max diff" : ", Min diff";
  }
  Config("api: [Distributed.all_reduce]\ncompare_index: [" + list + "]\n");
  for (const char* name :
       {"compare_result_rank0_20250101000000.xlsx", "compare_result_rank1_20250101000000.xlsx"}) {
    WriteResult(name, {{"Distributed.all_reduce.0.forward.input.0", report::Cell::Number(1)}});
  }
  const auto run = merge::Run(options_);
  ASSERT_TRUE(run.ok()) << run.status().message();
  EXPECT_THAT(run->metrics, ElementsAre("Min diff", "Max diff"));
}

TEST_F(MergeResultTest, MoreMetricsThanARowHasPlacesAreRefused) {
  WriteResult("compare_result_rank0_20250101000000.xlsx",
              {{"Distributed.all_reduce.0.forward.input.0", report::Cell::Number(1)}});
  MergeConfig config;
  config.apis = {"Distributed.all_reduce"};
  config.metrics.assign(kMetricSlots + 1, "Max diff");
  const auto rows =
      ReadRankRows({0, "20250101000000",
                    options_.input_folder / "compare_result_rank0_20250101000000.xlsx", false},
                   config);
  ASSERT_FALSE(rows.ok());
  EXPECT_EQ(rows.status().code(), StatusCode::kUsage);
}

TEST_F(MergeResultTest, CallsComeInConfigOrderAndMissingOnesAreWarnings) {
  Config("api: [Distributed.b, Distributed.a, Distributed.c]\ncompare_index: [Max diff]\n");
  for (const char* name :
       {"compare_result_rank0_20250101000000.xlsx", "compare_result_rank1_20250101000000.xlsx"}) {
    WriteResult(name, {{"Distributed.a.0.forward.input.0", report::Cell::Number(1)},
                       {"Distributed.ab.0.forward.input.0", report::Cell::Number(2)},
                       {"Distributed.b.0.forward.input.0", report::Cell::Number(3)}});
  }
  const auto run = merge::Run(options_);
  ASSERT_TRUE(run.ok()) << run.status().message();
  EXPECT_THAT(FirstSheet(*run),
              ElementsAre(ElementsAre("NPU Name", "rank0", "rank1"),
                          ElementsAre("Distributed.b.0.forward.input.0", "3", "3"),
                          ElementsAre("Distributed.a.0.forward.input.0", "1", "1")));
  EXPECT_THAT(run->warnings, ElementsAre(HasSubstr("Distributed.c"), HasSubstr("Distributed.c")));
}

TEST_F(MergeResultTest, TheFirstMissingCallsAreNamedTheRestCounted) {
  std::string calls = "Distributed.a";
  for (int i = 0; i < 1000; ++i) {
    calls += ", Distributed.missing" + std::to_string(i);
  }
  Config("api: [" + calls + "]\ncompare_index: [Max diff]\n");
  for (const char* name :
       {"compare_result_rank0_20250101000000.xlsx", "compare_result_rank1_20250101000000.xlsx"}) {
    WriteResult(name, {{"Distributed.a.0.forward.input.0", report::Cell::Number(1)}});
  }
  const auto run = merge::Run(options_);
  ASSERT_TRUE(run.ok()) << run.status().message();
  ASSERT_THAT(run->warnings, SizeIs(42));
  EXPECT_EQ(run->warnings[19], "rank 0 has no call Distributed.missing19");
  EXPECT_EQ(run->warnings[20], "rank 0 has none of 980 calls more");
}

TEST_F(MergeResultTest, RepeatedNamesPairByOccurrence) {
  for (const char* name :
       {"compare_result_rank0_20250101000000.xlsx", "compare_result_rank1_20250101000000.xlsx"}) {
    WriteResult(name, {{"Distributed.all_reduce.0.forward.input.0", report::Cell::Number(1)},
                       {"Distributed.all_reduce.0.forward.input.0", report::Cell::Number(2)}});
  }
  const auto run = merge::Run(options_);
  ASSERT_TRUE(run.ok()) << run.status().message();
  EXPECT_THAT(
      FirstSheet(*run),
      ElementsAre(SizeIs(3), ElementsAre("Distributed.all_reduce.0.forward.input.0", "1", "1"),
                  ElementsAre("Distributed.all_reduce.0.forward.input.0", "2", "2")));
}

TEST_F(MergeResultTest, ReadsCsvResultsAsNumbers) {
  WriteResult("compare_result_rank0_20250101000000.xlsx",
              {{"Distributed.all_reduce.0.forward.input.0", report::Cell::Number(-0.5)}});
  const report::Table table =
      MakeTable({{"Distributed.all_reduce.0.forward.input.0", report::Cell::Number(-0.25)}});
  ASSERT_TRUE(
      report::WriteCsv(options_.input_folder / "compare_result_rank1_20250101000000.csv", table)
          .ok());
  const auto run = merge::Run(options_);
  ASSERT_TRUE(run.ok()) << run.status().message();
  EXPECT_TRUE(run->warnings.empty());
  const auto sheets = report::ReadXlsx(run->result_file);
  ASSERT_TRUE(sheets.ok());
  const report::Cell cell = sheets->front().row(0)[2];
  EXPECT_EQ(report::CellText(cell), "-0.25");
  EXPECT_NE(cell.kind(), report::CellKind::kText);
}

TEST_F(MergeResultTest, TextsThatLookLikeFormulasStayTextsWithAWarning) {
  for (const char* name :
       {"compare_result_rank0_20250101000000.xlsx", "compare_result_rank1_20250101000000.xlsx"}) {
    WriteResult(name, {{"Distributed.all_reduce.0.forward.input.0", report::Cell::Text("=1+1")}});
  }
  const auto run = merge::Run(options_);
  ASSERT_TRUE(run.ok()) << run.status().message();
  EXPECT_THAT(run->warnings, SizeIs(2));
  EXPECT_THAT(FirstSheet(*run), Contains(Contains("=1+1")));
}

TEST_F(MergeResultTest, TheNewestOfSeveralResultsOfARankCounts) {
  WriteResult("compare_result_rank0_20250101000000.xlsx",
              {{"Distributed.all_reduce.0.forward.input.0", report::Cell::Number(1)}});
  WriteResult("compare_result_rank0_20250301000000.xlsx",
              {{"Distributed.all_reduce.0.forward.input.0", report::Cell::Number(3)}});
  WriteResult("compare_result_rank1_20250101000000.xlsx",
              {{"Distributed.all_reduce.0.forward.input.0", report::Cell::Number(5)}});
  const auto run = merge::Run(options_);
  ASSERT_TRUE(run.ok()) << run.status().message();
  EXPECT_THAT(FirstSheet(*run)[1],
              ElementsAre("Distributed.all_reduce.0.forward.input.0", "3", "5"));
  EXPECT_THAT(run->warnings, ElementsAre(HasSubstr("rank 0 has several results")));
}

TEST_F(MergeResultTest, ChecksumsAndForeignModesAreLeftOutAndTooFewRanksAreAnError) {
  WriteResult("compare_result_rank0_20250101000000.xlsx",
              {{"Distributed.all_reduce.0.forward.input.0", report::Cell::Number(1)}});
  WriteResult("compare_result_rank1_20250101000000.xlsx",
              {{"Distributed.all_reduce.0.forward.input.0", {}}}, CompareMode::kMd5);
  const auto run = merge::Run(options_);
  ASSERT_FALSE(run.ok());
  EXPECT_EQ(run.status().code(), StatusCode::kMismatch);
  EXPECT_THAT(run.status().message(), HasSubstr("checksums"));
  EXPECT_FALSE(fs::exists(options_.output_folder));
}

TEST_F(MergeResultTest, AWorkbookThatIsNoResultIsRefusedButOurOtherFilesAreNot) {
  for (const char* name :
       {"compare_result_rank0_20250101000000.xlsx", "compare_result_rank1_20250101000000.xlsx",
        "debug_compare_result_rank0_20250101000000.xlsx"}) {
    WriteResult(name, {{"Distributed.all_reduce.0.forward.input.0", report::Cell::Number(1)}});
  }
  ASSERT_TRUE(merge::Run(options_).ok());
  folder_.Write("results/notes.xlsx", "");
  const auto run = merge::Run(options_);
  ASSERT_FALSE(run.ok());
  EXPECT_EQ(run.status().code(), StatusCode::kUsage);
  EXPECT_THAT(run.status().message(), HasSubstr("notes.xlsx"));
}

TEST_F(MergeResultTest, ConfigsWithoutCallsOrWithUnknownKeysAreRefused) {
  for (const char* text : {"", "api: []\n", "api: Distributed.all_reduce\n", "apis: [a]\n",
                           "api: [a]\ncompare_index: 3\n"}) {
    Config(text);
    EXPECT_FALSE(merge::Run(options_).ok()) << text;
  }
}

TEST_F(MergeResultTest, AnUnknownMetricNamesTheFileAndTheMetric) {
  Config("api: [Distributed.all_reduce]\ncompare_index: [Cosine]\n");
  for (const char* name :
       {"compare_result_rank0_20250101000000.xlsx", "compare_result_rank1_20250101000000.xlsx"}) {
    WriteResult(name, {{"Distributed.all_reduce.0.forward.input.0", report::Cell::Number(1)}});
  }
  const auto run = merge::Run(options_);
  ASSERT_FALSE(run.ok());
  EXPECT_THAT(run.status().message(), HasSubstr("Cosine"));
}

}  // namespace
}  // namespace msprobe::analysis::compare::merge
