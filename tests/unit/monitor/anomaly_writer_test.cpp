#include <filesystem>

#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include "src/monitor/alert_judge.h"
#include "tests/unit/support/temporary_folder.h"

namespace msprobe::monitor {
namespace {

namespace fs = std::filesystem;

bool Opens(const fs::path& path) {
  AnomalyFileWriter writer;
  bool replaced = false;
  return writer.Open(path, replaced).ok();
}

TEST(AnomalyFileWriter, ReplacesItsOwnFileOfAnEarlierRun) {
  const test_support::TemporaryFolder folder;
  folder.Write("rank0/anomaly.json", "{\"old\": 1}");
  EXPECT_TRUE(Opens(folder / "rank0/anomaly.json"));
  EXPECT_EQ(test_support::Slurp(folder / "rank0/anomaly.json"), "{}");
}

// Where everybody may write, anybody knows its name beforehand.
TEST(AnomalyFileWriter, LeavesLinksAndWhatIsNoRegularFileAlone) {
  const test_support::TemporaryFolder folder;
  folder.Write("precious", "text");
  fs::create_symlink(folder / "precious", folder / "link.json");
  fs::create_hard_link(folder / "precious", folder / "hard.json");
  fs::create_symlink(folder / "new", folder / "dangling.json");
  ASSERT_EQ(::mkfifo((folder / "fifo.json").c_str(), 0600), 0);
  for (const char* name : {"link.json", "hard.json", "dangling.json", "fifo.json"}) {
    EXPECT_FALSE(Opens(folder / name)) << name;
  }
  EXPECT_EQ(test_support::Slurp(folder / "precious"), "text");
  EXPECT_FALSE(fs::exists(folder / "new"));
}

TEST(AnomalyFileWriter, LeavesTheFileOfAnotherUserAlone) {
  if (::geteuid() != 0) {
    GTEST_SKIP() << "only root can give a file to another user";
  }
  const test_support::TemporaryFolder folder;
  folder.Write("anomaly.json", "text");
  ASSERT_EQ(::chown((folder / "anomaly.json").c_str(), 12345, 12345), 0);
  EXPECT_FALSE(Opens(folder / "anomaly.json"));
  EXPECT_EQ(test_support::Slurp(folder / "anomaly.json"), "text");
}

}  // namespace
}  // namespace msprobe::monitor
