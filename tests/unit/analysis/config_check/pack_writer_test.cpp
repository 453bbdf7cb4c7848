#include <cstdlib>
#include <filesystem>
#include <string>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>

#include "src/analysis/config_check/collect.h"
#include "src/analysis/config_check/document.h"
#include "src/base/files.h"
#include "src/io/zip.h"
#include "tests/unit/support/temporary_folder.h"

namespace msprobe::analysis::config_check {
namespace internal {
namespace {

namespace fs = std::filesystem;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

// "name: content" of each member.
std::vector<std::string> MembersOf(const fs::path& path) {
  const Result<base::FileBytes> file = base::FileBytes::Open(path);
  EXPECT_TRUE(file.ok());
  const Result<io::ZipArchive> zip = io::ZipArchive::Open((*file).bytes());
  EXPECT_TRUE(zip.ok()) << zip.status().message();
  std::vector<std::string> members;
  for (const io::ZipEntry& entry : (*zip).entries()) {
    const Result<io::ZipBytes> content = (*zip).Read(entry, 1U << 20U, true);
    EXPECT_TRUE(content.ok()) << content.status().message();
    members.push_back(std::string(entry.name) + ": " + std::string((*content).text()));
  }
  return members;
}

std::vector<std::string> NamesOf(const fs::path& path) {
  std::vector<std::string> names = MembersOf(path);
  for (std::string& name : names) {
    name.erase(name.find(':'));
  }
  return names;
}

TEST(PackWriter, WritesDeflatedMembersWithOwnersRights) {
  const msprobe::test_support::TemporaryFolder folder;
  const fs::path path = folder / "new/pack.zip";
  Result<PackWriter> pack = PackWriter::Create(path);
  ASSERT_TRUE(pack.ok()) << pack.status().message();
  ASSERT_TRUE((*pack).Add("env", "{}").ok());
  ASSERT_TRUE((*pack).Add("a/b", "").ok());
  EXPECT_FALSE(fs::exists(path));
  ASSERT_TRUE((*pack).Finish().ok());
  EXPECT_THAT(MembersOf(path), ElementsAre("env: {}", "a/b: "));
  struct stat info {};
  ASSERT_EQ(::stat(path.c_str(), &info), 0);
  EXPECT_EQ(info.st_mode & 0777U & ~0640U, 0U);
}

TEST(PackWriter, GivesTheSameBytesForTheSameContent) {
  const msprobe::test_support::TemporaryFolder folder;
  for (const char* name : {"a.zip", "b.zip"}) {
    Result<PackWriter> pack = PackWriter::Create(folder / name);
    ASSERT_TRUE(pack.ok());
    ASSERT_TRUE((*pack).Add("env", std::string(1000, 'x')).ok());
    ASSERT_TRUE((*pack).Finish().ok());
  }
  EXPECT_EQ(msprobe::test_support::Slurp(folder / "a.zip"),
            msprobe::test_support::Slurp(folder / "b.zip"));
}

TEST(PackWriter, WantsANameThatEndsWithZip) {
  const msprobe::test_support::TemporaryFolder folder;
  for (const char* name : {"x.tar", "", "zip", "x.zip/y"}) {
    const Status status = CheckPackPath(name);
    EXPECT_EQ(status.code(), StatusCode::kUsage) << name;
    EXPECT_THAT(status.message(), HasSubstr("must end with .zip")) << name;
  }
  fs::create_directory(folder / "folder.zip");
  EXPECT_THAT(CheckPackPath(folder / "folder.zip").message(), HasSubstr("it is a directory"));
}

TEST(Collect, PacksWhatItFinds) {
  const msprobe::test_support::TemporaryFolder folder;
  folder.Write("site/torch-2.1.0.dist-info/METADATA", "Name: torch\nVersion: 2.1.0+cu121\n");
  const fs::path python =
      folder.Write("python3", "#!/bin/sh\nprintf '\\001msprobe\\0013.10.1\\000/real/python\\000" +
                                  (folder / "site").string() + "\\002'\n");
  fs::permissions(python, fs::perms::owner_all);
  CollectOptions options;
  options.inputs = {folder.Write("run.sh", "torchrun t.py --lr 1"),
                    folder.Write("a.yaml", "wd: 0.1")};
  options.python = python.string();
  options.dynamic = folder.Write("dynamic.json", "{\"lr\": 0.1, \"api_key\": \"abc\", \"x\": NaN}");
  options.output = folder / "pack.zip";
  const Result<CollectSummary> summary = config_check::Run(options);
  ASSERT_TRUE(summary.ok()) << summary.status().message();
  EXPECT_TRUE((*summary).complete);
  EXPECT_THAT((*summary).warnings, IsEmpty());
  EXPECT_EQ((*summary).packages, 1U);
  EXPECT_EQ((*summary).parameters, 2U);
  EXPECT_EQ((*summary).interpreter, "/real/python");
  const std::vector<std::string> members = MembersOf(options.output);
  ASSERT_EQ(members.size(), 5U);
  EXPECT_THAT(members[0], ::testing::StartsWith("env: {\n    \""));
  EXPECT_EQ(members[1], "pip: torch=2.1.0+cu121\n");
  EXPECT_THAT(members[2], HasSubstr("\"python\": \"3.10.1\""));
  EXPECT_EQ(
      members[3],
      "hyperparameters/hyperparameters_static.json: {\n    \"lr\": \"1\",\n    \"wd\": 0.1\n}");
  EXPECT_EQ(members[4],
            "hyperparameters/hyperparameters_dynamic.json: {\n    \"lr\": 0.1,\n"
            "    \"api_key\": \"***\",\n    \"x\": NaN\n}");
}

TEST(Collect, GoesOnWithoutWhatIsMissing) {
  const msprobe::test_support::TemporaryFolder folder;
  CollectOptions options;
  options.inputs = {folder / "no.sh", folder.Write("a.yaml", "wd: 0.1"),
                    folder.Write("b.txt", "x")};
  options.python = (folder / "no_python").string();
  options.output = folder / "pack.zip";
  options.dynamic = folder.Write("dynamic.json", "[1]");
  const Result<CollectSummary> summary = config_check::Run(options);
  ASSERT_TRUE(summary.ok()) << summary.status().message();
  EXPECT_FALSE((*summary).complete);
  EXPECT_THAT((*summary).warnings, ElementsAre(HasSubstr("no_python"), HasSubstr("no.sh"),
                                               HasSubstr("b.txt"), HasSubstr("one JSON object")));
  EXPECT_EQ((*summary).inputs[1].parameters, 1U);
  EXPECT_THAT(NamesOf(options.output),
              ElementsAre("env", "versions", "hyperparameters/hyperparameters_static.json"));
}

TEST(Collect, LeavesAnOlderPackAlone) {
  const msprobe::test_support::TemporaryFolder folder;
  CollectOptions options;
  options.python = "no_such_python";
  options.output = folder.Write("pack.zip", "no zip at all");
  const Result<CollectSummary> summary = config_check::Run(options);
  ASSERT_FALSE(summary.ok());
  EXPECT_THAT(summary.status().message(), HasSubstr("exists"));
  EXPECT_THAT(summary.status().hint(), HasSubstr("--force"));
}

TEST(Collect, LeavesAnOlderPackAloneWhenItFails) {
  const msprobe::test_support::TemporaryFolder folder;
  CollectOptions options;
  options.output = folder.Write("pack.tar", "precious");
  const Result<CollectSummary> summary = config_check::Run(options);
  ASSERT_FALSE(summary.ok());
  EXPECT_EQ(msprobe::test_support::Slurp(folder / "pack.tar"), "precious");
}

}  // namespace
}  // namespace internal
}  // namespace msprobe::analysis::config_check
