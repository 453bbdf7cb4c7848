#include "src/base/progress.h"

#include <chrono>
#include <string>
#include <thread>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace msprobe::base {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

class ProgressOnStderr : public ::testing::Test {
 protected:
  void SetUp() override { SetProgressSink(&StderrProgress()); }
  void TearDown() override { SetProgressSink(nullptr); }
};

TEST_F(ProgressOnStderr, WithoutASinkNobodyIsTold) {
  SetProgressSink(nullptr);
  ::testing::internal::CaptureStderr();
  {
    Progress progress("comparing", 3, "rows", /*quiet=*/false);
    std::this_thread::sleep_for(std::chrono::milliseconds(1050));
    progress.Add(1);
  }
  EXPECT_EQ(::testing::internal::GetCapturedStderr(), "");
}

TEST_F(ProgressOnStderr, ShortJobsPrintNothing) {
  ::testing::internal::CaptureStderr();
  {
    Progress progress("comparing", 3, "rows", /*quiet=*/false);
    progress.Add(3);
  }
  EXPECT_EQ(::testing::internal::GetCapturedStderr(), "");
}

TEST_F(ProgressOnStderr, IntoAPipeItIsAPlainLineAndQuietIsSilent) {
  ::testing::internal::CaptureStderr();
  {
    Progress loud("comparing", 2000, "rows", /*quiet=*/false);
    Progress quiet("hidden", 2, "rows", /*quiet=*/true);
    std::this_thread::sleep_for(std::chrono::milliseconds(1050));
    loud.Add(1000, 5'000'000);
    quiet.Add(1);
    loud.Add(1);  // within the interval: no second line
  }
  const std::string text = ::testing::internal::GetCapturedStderr();
  EXPECT_THAT(text, HasSubstr("comparing:  50 % (1,000 of 2,000 rows, "));
  EXPECT_THAT(text, Not(HasSubstr("hidden")));
  EXPECT_THAT(text, Not(HasSubstr("\r"))) << "nothing is redrawn outside a terminal";
  EXPECT_EQ(std::count(text.begin(), text.end(), '\n'), 1);
}

}  // namespace
}  // namespace msprobe::base
