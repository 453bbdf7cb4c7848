#include "src/base/log.h"

#include <cstdlib>
#include <string>

#include <gtest/gtest.h>

namespace msprobe::base {
namespace {

TEST(Log, WritesWordsToStderrWithoutColourOutsideATerminal) {
  ::testing::internal::CaptureStderr();
  LogWarning("shapes differ");
  LogError("cannot read a.pt");
  LogHint("copy it again");
  LogInfo("done");
  EXPECT_EQ(::testing::internal::GetCapturedStderr(),
            "warning: shapes differ\nerror: cannot read a.pt\n  hint: copy it again\ndone\n");
}

TEST(Log, PassesNothingOnThatSteersATerminal) {
  ::testing::internal::CaptureStderr();
  LogWarning("name \x1b]0;title\x07 is odd\n\tsecond line");
  EXPECT_EQ(::testing::internal::GetCapturedStderr(),
            "warning: name ?]0;title? is odd\n\tsecond line\n");
}

TEST(Log, LevelSilencesWhatIsBelow) {
  ::testing::internal::CaptureStderr();
  SetLogLevel(LogLevel::kError);
  LogWarning("hidden");
  LogError("shown");
  SetLogLevel(LogLevel::kOff);
  LogError("hidden too");
  SetLogLevel(LogLevel::kInfo);
  EXPECT_EQ(::testing::internal::GetCapturedStderr(), "error: shown\n");
}

TEST(WantsColor, NeverIntoAPipe) {
  ::testing::internal::CaptureStderr();
  EXPECT_FALSE(WantsColor(2));
  ::testing::internal::GetCapturedStderr();
}

}  // namespace
}  // namespace msprobe::base
