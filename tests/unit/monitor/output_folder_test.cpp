// Names of run folders and their time stamps.
#include "src/monitor/output_folder.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/unit/support/temporary_folder.h"

namespace msprobe::monitor {
namespace {

namespace fs = std::filesystem;
using ::testing::HasSubstr;

TEST(OutputFolderName, HasStampRankAndId) {
  const auto name = ParseOutputFolderName("Nov21_09-58-35-rank12-1a197c9e");
  ASSERT_TRUE(name);
  EXPECT_EQ(name->stamp, "Nov21_09-58-35");
  EXPECT_EQ(name->rank, 12);
  EXPECT_EQ(name->id, "1a197c9e");
}

TEST(OutputFolderName, NeedsAHyphenBehindARankOfAtMostFiveDigits) {
  EXPECT_FALSE(ParseOutputFolderName("Nov21_09-58-35-rank12"));
  EXPECT_FALSE(ParseOutputFolderName("Nov21_09-58-35-rank123456-a"));
  EXPECT_FALSE(ParseOutputFolderName("Nov21_09-58-35-rank-a"));
  EXPECT_FALSE(ParseOutputFolderName("a stamp with blanks-rank0-a"));
  EXPECT_FALSE(ParseOutputFolderName(""));
  EXPECT_TRUE(ParseOutputFolderName("-rank0-"));
}

TEST(StampOrder, GrowsWithTime) {
  EXPECT_EQ(*StampOrder("Jan01_00-00-01") - *StampOrder("Jan01_00-00-00"), 1);
  EXPECT_LT(*StampOrder("Feb29_23-59-59"), *StampOrder("Mar01_00-00-00"));
  EXPECT_LT(*StampOrder("Nov21_09-58-35"), *StampOrder("Dec01_00-00-00"));
}

TEST(StampOrder, RefusesWhatIsNoTime) {
  for (const char* stamp : {"", "Nov21", "Nov31_00-00-00", "Nob21_00-00-00", "Nov21_24-00-00",
                            "Nov21_00:00:00", "Nov2x_00-00-00", "Nov21_00-00-000"}) {
    EXPECT_FALSE(StampOrder(stamp)) << stamp;
  }
}

TEST(StampOf, IsTimeInShanghai) {
  EXPECT_EQ(StampOf(0), "Jan01_08-00-00");
  EXPECT_EQ(StampOf(1763690315), "Nov21_09-58-35");
}

// The same moments by `TZ=... date -d "2026-11-29 18:50:32 +0800"`.
TEST(LocalTimeOf, IsThatOfTheZoneOfTheProcess) {
  const int64_t now = 1795950000;  // 2026-11-29 19:00:00 in Shanghai
  const auto in = [now](const char* zone, const char* stamp) {
    ::setenv("TZ", zone, 1);
    ::tzset();
    return LocalTimeOf(stamp, now);
  };
  EXPECT_EQ(in("UTC", "Nov29_18-50-32"), "Nov29 10:50:32");
  EXPECT_EQ(in("Asia/Shanghai", "Nov29_18-50-32"), "Nov29 18:50:32");
  EXPECT_EQ(in("EST5EDT", "Nov29_18-50-32"), "Nov29 05:50:32");
  EXPECT_EQ(in("EST5EDT", "Jul01_03-00-00"), "Jun30 15:00:00");  // summer time
  EXPECT_EQ(in("UTC", "Jan01_00-00-00"), "Dec31 16:00:00");
  EXPECT_EQ(in("UTC", "Mar01_08-00-00"), "Mar01 00:00:00");
  EXPECT_EQ(in("UTC", "Nov31_18-50-32"), "");
  ::unsetenv("TZ");
  ::tzset();
}

TEST(MakeOutputFolder, NeverGivesOneFolderTwice) {
  const test_support::TemporaryFolder root;
  const auto first = MakeOutputFolder(root / "out", 3);
  const auto second = MakeOutputFolder(root / "out", 3);
  ASSERT_TRUE(first.ok() && second.ok());
  EXPECT_NE(*first, *second);
  EXPECT_EQ(ParseOutputFolderName(first->filename().string())->rank, 3);
  EXPECT_EQ(fs::status(*first).permissions(), fs::perms(0750));
}

TEST(FindOutputFolder, TakesTheLatestOfTheRankInTheInterval) {
  const test_support::TemporaryFolder root;
  for (const char* name : {"Dec03_21-34-40-rank0-aa", "Dec03_21-34-41-rank0-bb",
                           "Dec03_21-34-42-rank0-cc", "Dec03_21-34-41-rank1-dd"}) {
    fs::create_directory(root / name);
  }
  const auto found = FindOutputFolder(root.path(), 0, {"Dec03_21-34-40", "Dec03_21-34-41"});
  ASSERT_TRUE(found.ok()) << found.status().message();
  EXPECT_EQ(found->filename(), "Dec03_21-34-41-rank0-bb");
  const auto none = FindOutputFolder(root.path(), 2, {"Dec03_21-34-40", "Dec03_21-34-41"});
  ASSERT_FALSE(none.ok());
  EXPECT_THAT(none.status().message(), HasSubstr("no folder of rank 2"));
}

}  // namespace
}  // namespace msprobe::monitor
