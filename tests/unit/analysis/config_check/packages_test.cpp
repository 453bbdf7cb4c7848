#include "src/analysis/config_check/packages.h"

#include <chrono>
#include <filesystem>
#include <string>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "src/analysis/config_check/collect.h"
#include "tests/unit/support/child_process.h"
#include "tests/unit/support/temporary_folder.h"

namespace msprobe::analysis::config_check::internal {
namespace {

namespace fs = std::filesystem;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

std::string Listed(const std::vector<fs::path>& folders) {
  std::vector<std::string> warnings;
  return WritePackages(FindPackages(folders, warnings));
}

fs::path Program(const msprobe::test_support::TemporaryFolder& folder, const char* name,
                 std::string_view text) {
  const fs::path path = folder.Write(name, text);
  fs::permissions(path, fs::perms::owner_all);
  return path;
}

TEST(Packages, AreToldByEveryKindOfMetadata) {
  const msprobe::test_support::TemporaryFolder folder;
  folder.Write("numpy-1.24.2.dist-info/METADATA",
               "Metadata-Version: 2.1\nName: numpy\nVersion: 1.24.2\n");
  folder.Write("old.egg-info/PKG-INFO", "Name: old-style\nVersion: 0.1\n\nName: no\n");
  folder.Write("flat-2.0.egg-info", "Metadata-Version: 1.0\nname: flat\nversion: 2.0\n");
  folder.Write("egg-3.0-py3.10.egg/EGG-INFO/PKG-INFO", "Name: egg\nVersion: 3.0\n");
  folder.Write("torch_npu-2.1.0.post3.dist-info/RECORD", "");
  folder.Write("plain/__init__.py", "");
  EXPECT_EQ(Listed({folder.path()}),
            "egg=3.0\nflat=2.0\nnumpy=1.24.2\nold-style=0.1\ntorch_npu=2.1.0.post3\n");
}

TEST(Packages, CountWherePythonWouldFindThemFirst) {
  const msprobe::test_support::TemporaryFolder folder;
  folder.Write("a/Torch_X-2.0.dist-info/METADATA", "Name: Torch_X\nVersion: 2.0\n");
  folder.Write("b/torch_x-1.0.dist-info/METADATA", "Name: torch-x\nVersion: 1.0\n");
  EXPECT_EQ(Listed({"", folder / "missing", folder / "a", folder / "b", folder / "a"}),
            "Torch_X=2.0\n");
}

TEST(Packages, CannotBreakTheLinesOfThePack) {
  EXPECT_EQ(ParseMetadata("Name: a\rb\nVersion: 1\n").name, "");
  EXPECT_EQ(ParseMetadata("Description: x\n Name: folded\nName: real\n").name, "real");
  EXPECT_EQ(ParseMetadata("").name, "");
  EXPECT_EQ(ParseMetadata("no colon at all").version, "");
}

TEST(Interpreter, IsLookedUpLikeAProgram) {
  const msprobe::test_support::TemporaryFolder folder;
  Program(folder, "bin/python3", "#!/bin/sh\n");
  Program(folder, "venv/bin/python3", "#!/bin/sh\n");
  const std::string path = (folder / "none").string() + ":" + (folder / "bin").string();
  const auto find = [](const std::string& wanted, const Environment& environment) {
    const Result<fs::path> found = FindInterpreter(wanted, environment);
    return found.ok() ? (*found).string() : found.status().message();
  };
  EXPECT_EQ(find("", {{"PATH", path}}), (folder / "bin/python3").string());
  EXPECT_EQ(find("python3", {{"PATH", path}}), (folder / "bin/python3").string());
  EXPECT_EQ(find("", {{"PATH", "/nowhere"}, {"VIRTUAL_ENV", (folder / "venv").string()}}),
            (folder / "venv/bin/python3").string());
  EXPECT_THAT(find("", {{"PATH", "/nowhere"}}), HasSubstr("no Python in PATH"));
  EXPECT_THAT(find("python4", {{"PATH", path}}), HasSubstr("--python python4"));
  EXPECT_THAT(find((folder / "bin").string(), {}), HasSubstr("no such program"));
}

TEST(Interpreter, TellsItsSearchPath) {
  const msprobe::test_support::TemporaryFolder folder;
  const fs::path program =
      Program(folder, "python3",
              "#!/bin/sh\necho noise\nprintf "
              "'\\001msprobe\\0013.10.1\\000/real/python\\000\\000/a\\000/b c\\002'\n");
  const Result<Interpreter> interpreter = AskInterpreter(program, 10);
  ASSERT_TRUE(interpreter.ok()) << interpreter.status().message();
  EXPECT_EQ((*interpreter).version, "3.10.1");
  EXPECT_EQ((*interpreter).path, "/real/python");
  EXPECT_THAT((*interpreter).search_path, ElementsAre("", "/a", "/b c"));
}

std::string ErrorOf(const fs::path& interpreter, double seconds) {
  const Result<Interpreter> answer = AskInterpreter(interpreter, seconds);
  return answer.ok() ? "no error" : answer.status().message();
}

TEST(Interpreter, ThatIsNoneIsAnErrorAndNoHang) {
  const msprobe::test_support::TemporaryFolder folder;
  const auto error = [&folder](const char* name, const char* text, double seconds) {
    return ErrorOf(Program(folder, name, text), seconds);
  };
  EXPECT_THAT(error("silent", "#!/bin/sh\n", 10), HasSubstr("did not report its package path"));
  EXPECT_THAT(error("slow", "#!/bin/sh\nsleep 60 & sleep 60\n", 0.05), HasSubstr("did not answer"));
  EXPECT_THAT(
      error("endless", "#!/bin/sh\nwhile :; do echo xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx; done\n", 5),
      HasSubstr("endless"));
}

TEST(Interpreter, ThatCannotBeExecutedIsToldAsSuch) {
  if (msprobe::test_support::IsEmulated()) {
    GTEST_SKIP() << "qemu does not tell the parent that a program could not be executed";
  }
  const msprobe::test_support::TemporaryFolder folder;
  EXPECT_THAT(ErrorOf(Program(folder, "broken",
                              "\x7f"
                              "ELF"),
                      10),
              HasSubstr("cannot run"));
}

TEST(Interpreter, OfThisMachineAnswers) {
  const Result<fs::path> program = FindInterpreter("", ThisEnvironment());
  if (!fs::exists("/usr/bin/python3")) {
    GTEST_SKIP() << "/usr/bin/python3 is not here: there is no interpreter to ask";
  }
  ASSERT_TRUE(program.ok()) << program.status().message();
  const Result<Interpreter> interpreter = AskInterpreter(*program, 30);
  ASSERT_TRUE(interpreter.ok()) << interpreter.status().message();
  EXPECT_TRUE((*interpreter).version.starts_with("3."));
  EXPECT_FALSE((*interpreter).search_path.empty());
}

}  // namespace
}  // namespace msprobe::analysis::config_check::internal
