#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "src/analysis/inspect/dump_contents.h"
#include "tests/unit/analysis/inspect/table_access.h"

namespace msprobe::analysis::inspect {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

TEST(InspectDumpFolder, GivesOneRowPerRankOfACapturedModel) {
  const auto result = InspectPath(MSPROBE_TEST_DATA "/dump/dist_statistics_mix/dump");
  ASSERT_TRUE(result.ok()) << result.status().message();
  const report::Table& table = result->table;
  ASSERT_EQ(table.row_count(), 2U);
  EXPECT_EQ(At(table, 0, "Rank"), "step0/rank0");
  EXPECT_EQ(At(table, 1, "Rank"), "step0/rank1");
  EXPECT_EQ(At(table, 0, "Task"), "statistics");
  EXPECT_EQ(At(table, 0, "Level"), "mix");
  EXPECT_EQ(At(table, 0, "Framework"), "pytorch");
  EXPECT_EQ(At(table, 0, "State"), "complete");
  EXPECT_EQ(At(table, 0, "Files"), "0");
  EXPECT_TRUE(result->warnings.empty());
}

TEST(InspectDumpFolder, CountsTheTensorFilesOfACapture) {
  const auto result = InspectPath(MSPROBE_TEST_DATA "/dump/cnn_tensor_mix/dump/step0");
  ASSERT_TRUE(result.ok()) << result.status().message();
  const report::Table& table = result->table;
  ASSERT_EQ(table.row_count(), 1U);
  EXPECT_EQ(At(table, 0, "Rank"), "step0/rank");
  EXPECT_EQ(At(table, 0, "State"), "complete");
  EXPECT_EQ(At(table, 0, "Tensors"), At(table, 0, "Files"));
}

TEST(InspectDumpFolder, TellsWhatSharedFilesSave) {
  const TemporaryFolder folder;
  folder.Write("step0/rank/dump.json", R"({"task": "tensor", "data": {}})");
  const auto first = folder.Write("step0/rank/dump_tensor_data/a.pt", std::string(3000, 'a'));
  folder.Write("step0/rank/dump_tensor_data/b.pt", std::string(1000, 'b'));
  const auto saved = [&folder] {
    const auto result = InspectPath(folder.path());
    EXPECT_TRUE(result.ok());
    return result.ok() ? result->summary : std::vector<std::string>();
  };
  EXPECT_EQ(saved().size(), 2U);
  std::filesystem::create_hard_link(first, first.parent_path() / "c.pt");
  ASSERT_EQ(saved().size(), 3U);
  EXPECT_EQ(saved()[2], "equal tensors share a file: 4 kB on the disk, 43 % saved");
}

constexpr std::string_view kNamesAFile =
    R"({"task": "tensor", "data": {"a.0.debug": {"type": "torch.Tensor", "dtype": "torch.int8", "data_name": "a.0.debug.pt"}}})";

TEST(InspectDumpFolder, MarksMissingTensorFilesTruncatedAndUnreadableDumps) {
  const TemporaryFolder folder;
  folder.Write("step0/rank0/debug.json", kNamesAFile);
  folder.Write("step0/rank1/dump.json", kNamesAFile.substr(0, kNamesAFile.size() - 1));
  folder.Write("step0/rank2/dump.json", "[]");
  folder.Write("step0/rank3/dump.json", kNamesAFile);
  folder.Write("step0/rank3/dump_tensor_data/a.0.debug.pt", "12345");
  folder.Write("step0/rank4/dump.json", "{}");
  const auto result = InspectPath(folder.path());
  ASSERT_TRUE(result.ok()) << result.status().message();
  const report::Table& table = result->table;
  ASSERT_EQ(table.row_count(), 5U);
  EXPECT_EQ(At(table, 0, "State"), "files missing");
  EXPECT_THAT(At(table, 0, "Note"), HasSubstr("1 of 1 tensor file"));
  EXPECT_EQ(At(table, 1, "State"), "truncated");
  EXPECT_EQ(At(table, 1, "Entries"), "1");
  EXPECT_EQ(At(table, 2, "State"), "unreadable");
  EXPECT_THAT(At(table, 2, "Note"), HasSubstr("rank2/dump.json"));
  EXPECT_EQ(table.fill(2), report::Fill::kRed);
  EXPECT_EQ(At(table, 3, "State"), "complete");
  EXPECT_EQ(At(table, 3, "Bytes"), "5");
  EXPECT_EQ(table.fill(3), report::Fill::kNone);
  EXPECT_EQ(At(table, 4, "State"), "no data");
}

TEST(InspectDumpFolder, NamesRanksThatSomeStepsLack) {
  const TemporaryFolder folder;
  folder.Write("step0/rank0/dump.json", kNamesAFile);
  folder.Write("step0/rank1/dump.json", kNamesAFile);
  folder.Write("step1/rank0/dump.json", kNamesAFile);
  const auto result = InspectPath(folder.path());
  ASSERT_TRUE(result.ok());
  EXPECT_THAT(result->warnings, ElementsAre("step1 lacks rank1, which other steps have"));
}

TEST(InspectDumpFolder, FiltersRanksByName) {
  const TemporaryFolder folder;
  for (const char* rank :
       {"step0/rank0/dump.json", "step0/rank1/dump.json", "step1/rank0/dump.json"}) {
    folder.Write(rank, kNamesAFile);
  }
  Options options;
  options.path = folder.path();
  options.name_filter = "*/rank0";
  options.row_limit = 1;
  const auto result = inspect::Run(options);
  ASSERT_TRUE(result.ok());
  EXPECT_EQ(result->table.row_count(), 1U);
  EXPECT_EQ(result->rows_left_out, 1U);
}

TEST(InspectDumpFolder, FailsWhenNoRankCanBeRead) {
  const TemporaryFolder folder;
  folder.Write("step0/rank0/dump.json", "nonsense");
  const auto result = InspectPath(folder.path());
  ASSERT_FALSE(result.ok());
  EXPECT_THAT(result.status().message(), HasSubstr("rank0/dump.json"));
}

}  // namespace
}  // namespace msprobe::analysis::inspect
