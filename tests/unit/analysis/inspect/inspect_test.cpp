#include "src/analysis/inspect/inspect.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "msprobe/tensor_file.h"

#include "tests/unit/analysis/inspect/table_access.h"

namespace msprobe::analysis::inspect {
namespace {

namespace fs = std::filesystem;
using ::testing::HasSubstr;

TEST(Inspect, TellsADumpFromATensorFileByContent) {
  const TemporaryFolder folder;
  const auto dump = InspectPath(
      folder.Write("renamed.txt", R"( {"data": {"a.0.debug": {"type": "int", "value": 1}}})"));
  ASSERT_TRUE(dump.ok()) << dump.status().message();
  EXPECT_EQ(At(dump->table, 0, "Value"), "1");
  const auto other = InspectPath(folder.Write("a.txt", "hello"));
  EXPECT_FALSE(other.ok());
}

TEST(Inspect, NamesMissingPathsAndFoldersWithNothingToShow) {
  const TemporaryFolder folder;
  EXPECT_EQ(InspectPath(folder.path() / "no").status().code(), StatusCode::kNotFound);
  const auto empty = InspectPath(folder.path());
  ASSERT_FALSE(empty.ok());
  EXPECT_THAT(empty.status().message(), HasSubstr("no dump in"));
}

TEST(Inspect, GivesTheSameRowsForAnyNumberOfThreads) {
  Options options;
  options.path = MSPROBE_TEST_DATA "/dump/cnn_tensor_mix/dump/step0/rank/dump_tensor_data";
  options.statistics = true;
  options.threads = 1;
  const auto item = inspect::Run(options);
  options.threads = 5;
  const auto five = inspect::Run(options);
  ASSERT_TRUE(item.ok() && five.ok());
  ASSERT_EQ(item->table.row_count(), five->table.row_count());
  ASSERT_GT(item->table.row_count(), 20U);
  for (size_t row = 0; row < item->table.row_count(); ++row) {
    for (const std::string& column : item->table.columns()) {
      ASSERT_EQ(At(item->table, row, column), At(five->table, row, column)) << row << " " << column;
    }
  }
}

// The collection of hostile files: whatever they claim, inspecting ends soon with rows or with a
// reason.
TEST(Inspect, SurvivesTheHostileFiles) {
  const fs::path hostile = MSPROBE_TEST_DATA "/formats/bad";
  size_t seen = 0;
  for (const fs::directory_entry& entry : fs::directory_iterator(hostile)) {
    if (entry.path().extension() == ".json") {
      continue;
    }
    ++seen;
    const auto result = InspectPath(entry.path(), true);
    if (!result.ok()) {
      EXPECT_FALSE(result.status().message().empty()) << entry.path();
    }
  }
  EXPECT_GT(seen, 50U);
}

}  // namespace
}  // namespace msprobe::analysis::inspect
