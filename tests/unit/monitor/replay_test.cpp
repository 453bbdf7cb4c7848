// Recorded tensors give the recorded tables.
#include "src/monitor/replay.h"

#include <cstdlib>
#include <set>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "src/base/output_files.h"
#include "src/base/strings.h"
#include "tests/unit/support/temporary_folder.h"

namespace msprobe::monitor {
namespace {

namespace fs = std::filesystem;
using test_support::Slurp;
using test_support::Spill;
using test_support::TemporaryFolder;
using ::testing::HasSubstr;

// Tables of a case, in whatever folder of "output" they are.
std::vector<fs::path> TablesOf(const fs::path& folder) {
  std::vector<fs::path> tables;
  for (const fs::directory_entry& entry : fs::recursive_directory_iterator(folder / "output")) {
    if (entry.path().extension() == ".csv") {
      tables.push_back(entry.path());
    }
  }
  return tables;
}

Result<ReplayTotals> ReplayCase(const fs::path& folder, const fs::path& output, bool compat) {
  msprobe::base::SetExistingFiles(msprobe::base::Existing::kReplace);
  return Replay(
      {.feed = folder, .config = folder / "config.json", .output = output, .compat = compat});
}

void ExpectByteEqual(const fs::path& folder) {
  const TemporaryFolder output;
  const auto totals = ReplayCase(folder, output.path(), true);
  ASSERT_TRUE(totals.ok()) << totals.status().message();
  const std::vector<fs::path> tables = TablesOf(folder);
  EXPECT_FALSE(tables.empty());
  EXPECT_EQ(output.EntryCount(), tables.size());
  for (const fs::path& table : tables) {
    EXPECT_EQ(Slurp(output / table.filename().string()), Slurp(table)) << table;
  }
}

class ReplayedCase : public ::testing::TestWithParam<const char*> {};

TEST_P(ReplayedCase, GivesTheSameBytesInCompatMode) {
  ExpectByteEqual(fs::path(MSPROBE_TEST_DATA) / "monitor/replay" / GetParam());
}

INSTANTIATE_TEST_SUITE_P(Cases, ReplayedCase,
                         ::testing::Values("csv_edge_dtypes", "csv_edge_dtypes_nd12", "csv_odd_io"),
                         [](const auto& parameter) { return std::string(parameter.param); });

TEST(Replay, GivesTheSameBytesForEveryGoldenFeedInCompatMode) {
  const char* golden = std::getenv("MSPROBE_GOLDEN");
  const fs::path root =
      (golden != nullptr ? fs::path(golden)
                         : fs::path(MSPROBE_TEST_DATA "/../../../shared/golden")) /
      "monitor";
  if (!fs::exists(root / "README.md")) {
    GTEST_SKIP() << "no golden feeds in " << root << " (set MSPROBE_GOLDEN)";
  }
  for (const fs::directory_entry& entry : fs::directory_iterator(root)) {
    if (fs::exists(entry.path() / "feed")) {
      ExpectByteEqual(entry.path());
    }
  }
}

// Where we say otherwise than the Python tool on purpose: rows by name, with the columns that
// differ.
TEST(Replay, DiffersOnlyInTheDocumentedCellsByDefault) {
  const fs::path folder = fs::path(MSPROBE_TEST_DATA) / "monitor/replay/csv_edge_dtypes_nd12";
  const TemporaryFolder output;
  const auto totals = ReplayCase(folder, output.path(), false);
  ASSERT_TRUE(totals.ok()) << totals.status().message();
  const std::string ours = Slurp(output / "single_0-0.csv");
  const std::string golden = Slurp(folder / "output/single_0-0.csv");
  const auto our_lines = base::Split(ours, '\n');
  const auto golden_lines = base::Split(golden, '\n');
  ASSERT_EQ(our_lines.size(), golden_lines.size());
  std::set<std::string> differing;
  for (size_t i = 0; i < our_lines.size(); ++i) {
    if (our_lines[i] != golden_lines[i]) {
      differing.insert(std::string(base::Split(our_lines[i], ',')[1]));
    }
  }
  // zeros of float16; of the most negative integers; zeros, min and max of bool.
  EXPECT_EQ(differing, (std::set<std::string>{"f16", "i8", "i32", "bool", "boolf"}));
}

TEST(Replay, ReplacesTablesOfAnEarlierOne) {
  const fs::path folder = fs::path(MSPROBE_TEST_DATA) / "monitor/replay/csv_odd_io";
  const TemporaryFolder output;
  ASSERT_TRUE(ReplayCase(folder, output.path(), true).ok());
  const std::string first = Slurp(output / "actv_0-0.csv");
  ASSERT_TRUE(ReplayCase(folder, output.path(), true).ok());
  EXPECT_EQ(Slurp(output / "actv_0-0.csv"), first);
}

TEST(Replay, WritesAllTablesOrNone) {
  const TemporaryFolder folder;
  Spill(folder / "config.json", R"({"targets": {}})");
  Spill(folder / "feed.bin", "12345678");
  const std::string good =
      R"({"event":"metrics","ops":["norm"],"eps":1e-8,"items":[{"tag":"0:a","offset":0,)"
      R"("nbytes":8,"dtype":"torch.float32","shape":[2]}]})"
      "\n"
      R"({"event":"write","prefix":"actv","step":0,"tags":["0:a"]})"
      "\n"
      R"({"event":"write","prefix":"actv","step":1,"tags":["0:a"]})"
      "\n";
  const auto replay = [&] {
    return Replay(
        {.feed = folder.path(), .config = folder / "config.json", .output = folder / "out"});
  };
  // The first step has ended before the feed breaks.
  Spill(folder / "feed.jsonl", good + "{}\n");
  EXPECT_FALSE(replay().ok());
  EXPECT_FALSE(fs::exists(folder / "out"));
  // A table that may not be replaced: the other one is not written beside it.
  Spill(folder / "feed.jsonl", good);
  msprobe::base::SetExistingFiles(msprobe::base::Existing::kRefuse);
  fs::create_directory(folder / "out");
  Spill(folder / "out/actv_1-1.csv", "earlier");
  EXPECT_FALSE(replay().ok());
  EXPECT_EQ(Slurp(folder / "out/actv_1-1.csv"), "earlier");
  EXPECT_FALSE(fs::exists(folder / "out/actv_0-0.csv"));
  EXPECT_EQ(std::distance(fs::directory_iterator(folder / "out"), fs::directory_iterator()), 1);
  fs::remove(folder / "out/actv_1-1.csv");
  ASSERT_TRUE(replay().ok());
  EXPECT_TRUE(fs::exists(folder / "out/actv_0-0.csv"));
  EXPECT_TRUE(fs::exists(folder / "out/actv_1-1.csv"));
}

std::string ErrorOf(std::string_view events) {
  const TemporaryFolder folder;
  Spill(folder / "feed.jsonl", events);
  Spill(folder / "feed.bin", "12345678");
  const auto totals = Replay({.feed = folder.path(), .config = {}, .output = folder / "out"});
  return totals.ok() ? "no error" : totals.status().message();
}

TEST(Replay, NamesTheLineOfABrokenFeed) {
  EXPECT_THAT(ErrorOf("{}\n"), HasSubstr("feed.jsonl line 1: \"event\" is missing"));
  EXPECT_THAT(ErrorOf("\n{\"event\": \"sleep\"}"), HasSubstr("line 2"));
  EXPECT_THAT(ErrorOf("{\"event\": "), HasSubstr("line 1"));
  EXPECT_THAT(ErrorOf(R"({"event":"write","prefix":"../a","step":0,"tags":[]})"),
              HasSubstr("is not the name of a table"));
  EXPECT_THAT(ErrorOf(R"({"event":"write","prefix":"a","step":0,"tags":["0:x/rank0/actv"]})"),
              HasSubstr("never measured"));
}

TEST(Replay, TheLastStepOf64BitsHasATable) {
  const TemporaryFolder folder;
  Spill(folder / "config.json", R"({"targets": {}, "step_count_per_record": 1000})");
  Spill(folder / "feed.bin", "12345678");
  Spill(folder / "feed.jsonl",
        R"({"event":"metrics","ops":["norm"],"eps":1e-8,"items":[{"tag":"0:a","offset":0,)"
        R"("nbytes":8,"dtype":"torch.float32","shape":[2]}]})"
        "\n"
        R"({"event":"write","prefix":"actv","step":9223372036854775807,"tags":["0:a"]})"
        "\n");
  const auto totals =
      Replay({.feed = folder.path(), .config = folder / "config.json", .output = folder / "out"});
  ASSERT_TRUE(totals.ok()) << totals.status().message();
  EXPECT_TRUE(fs::exists(folder / "out/actv_9223372036854775000-9223372036854775807.csv"));
}

TEST(Replay, RefusesTensorsBeyondTheEndOfTheBytes) {
  const auto item = [](std::string_view members) {
    return R"({"event":"metrics","ops":["norm"],"eps":1e-8,"items":[{"tag":"0:a/rank0/t",)" +
           std::string(members) + "}]}";
  };
  EXPECT_THAT(ErrorOf(item(R"("offset":0,"nbytes":8,"dtype":"torch.float32","shape":[2])")),
              HasSubstr("no error"));
  EXPECT_THAT(ErrorOf(item(R"("offset":4,"nbytes":8,"dtype":"torch.float32","shape":[2])")),
              HasSubstr("behind the end"));
  EXPECT_THAT(ErrorOf(item(R"("offset":0,"nbytes":4,"dtype":"torch.float32","shape":[2])")),
              HasSubstr("not a tensor"));
  EXPECT_THAT(
      ErrorOf(
          item(R"("offset":0,"nbytes":8,"dtype":"torch.float32","shape":[4611686018427387904,4])")),
      HasSubstr("not a tensor"));
  // The sizes of an empty one are multiplied, too: for its strides.
  EXPECT_THAT(
      ErrorOf(item(
          R"("offset":0,"nbytes":0,"dtype":"torch.float32","shape":[0,4611686018427387904,4])")),
      HasSubstr("not a tensor"));
  EXPECT_THAT(ErrorOf(item(R"("offset":0,"nbytes":0,"dtype":"torch.float32","shape":[2,0,3])")),
              HasSubstr("no error"));
  EXPECT_THAT(ErrorOf(item(R"("offset":0,"nbytes":8,"dtype":"torch.float31","shape":[2])")),
              HasSubstr("no dtype"));
}

}  // namespace
}  // namespace msprobe::monitor
