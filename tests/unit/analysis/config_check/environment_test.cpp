#include <array>
#include <cstdlib>
#include <string>
#include <utility>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "src/analysis/config_check/collect.h"
#include "src/analysis/config_check/packages.h"
#include "tests/unit/support/temporary_folder.h"

namespace msprobe::analysis::config_check {
namespace internal {
namespace {

using ::testing::ElementsAre;
using ::testing::IsSupersetOf;
using ::testing::Pair;

TEST(Environment, KeepsTheFirstOfARepeatedName) {
  const std::array<const char*, 6> entries = {"A=1", "B=x=y", "A=2", "nothing", "=C", nullptr};
  EXPECT_THAT(ParseEnvironment(entries.data()), ElementsAre(Pair("A", "1"), Pair("B", "x=y")));
}

TEST(Environment, IsThatOfThisProcess) {
  ::setenv("MSPROBE_TEST_VARIABLE", "here", 1);
  EXPECT_EQ(ValueOf(ThisEnvironment(), "MSPROBE_TEST_VARIABLE"), "here");
  ::unsetenv("MSPROBE_TEST_VARIABLE");
  EXPECT_EQ(ValueOf(ThisEnvironment(), "MSPROBE_TEST_VARIABLE"), "");
}

TEST(Environment, IsWrittenAsThePythonToolDoes) {
  const EnvironmentJson json = WriteEnvironment({{"A", "1"}, {"B", "\xC3\xBC\xFF"}, {"C", ""}});
  EXPECT_EQ(json.text, "{\n    \"A\": \"1\",\n    \"B\": \"\\u00fc\\udcff\",\n    \"C\": \"\"\n}");
  EXPECT_EQ(json.masked, 0U);
}

TEST(Environment, ShowsNoSecrets) {
  const EnvironmentJson json = WriteEnvironment(
      {{"HF_TOKEN", "hf_x"}, {"PWD", "/work"}, {"http_proxy", "http://me:pw@proxy:80"}});
  EXPECT_EQ(json.masked, 2U);
  EXPECT_EQ(json.text.find("hf_x"), std::string::npos);
  EXPECT_EQ(json.text.find("pw@"), std::string::npos);
  EXPECT_NE(json.text.find("/work"), std::string::npos);
}

TEST(Versions, AreReadFromEveryKindOfFile) {
  EXPECT_EQ(ParseVersion("package_name=Ascend\nversion=8.0.RC1\n", "version"), "8.0.RC1");
  EXPECT_EQ(ParseVersion("Version = 24.1.rc1\r\n", "version"), "24.1.rc1");
  EXPECT_EQ(ParseVersion("runtime_running_version=[7.3:8.0.0]\n", "runtime_running_version"),
            "8.0.0");
  EXPECT_EQ(ParseVersion("nothing", "version"), "");
}

TEST(Versions, AreFoundWhereTheyAreInstalled) {
  const msprobe::test_support::TemporaryFolder root;
  root.Write("usr/local/Ascend/driver/version.info", "Version=24.1.rc1\n");
  root.Write("usr/local/Ascend/firmware/version.info", "Version=7.1.0\n");
  root.Write("usr/local/Ascend/ascend-toolkit/latest/version.cfg",
             "runtime_running_version=[7.3.0:CANN-8.0]\n");
  root.Write("proc/driver/nvidia/version",
             "NVRM version: NVIDIA UNIX x86_64 Kernel Module  535.129.03  Thu Oct 19\nGCC 12.1\n");
  root.Write("usr/local/cuda/version.json", "{\"cuda\": {\"version\": \"12.1.1\"}}");
  EXPECT_THAT(FindVersions({}, root.path()),
              IsSupersetOf({Pair("cann", "CANN-8.0"), Pair("ascend_driver", "24.1.rc1"),
                            Pair("ascend_firmware", "7.1.0"), Pair("nvidia_driver", "535.129.03"),
                            Pair("cuda", "12.1.1")}));
  // What the environment names comes first.
  root.Write("home/x86_64-linux/ascend_toolkit_install.info", "version=8.1\n");
  const Environment environment = {{"ASCEND_HOME_PATH", (root / "home").string()}};
  EXPECT_THAT(FindVersions(environment, root.path()), IsSupersetOf({Pair("cann", "8.1")}));
}

TEST(Versions, AreLeftOutWhereThereAreNone) {
  const msprobe::test_support::TemporaryFolder root;
  EXPECT_THAT(FindVersions({}, root.path()), ElementsAre(Pair("architecture", ::testing::_)));
}

}  // namespace
}  // namespace internal
}  // namespace msprobe::analysis::config_check
