#include "src/analysis/accuracy/check/result_files.h"

#include <filesystem>
#include <fstream>
#include <string>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "src/base/files.h"
#include "tests/unit/support/temporary_folder.h"

namespace msprobe::analysis::accuracy {
namespace {

namespace fs = std::filesystem;
using ::testing::ElementsAre;
using ::testing::EndsWith;
using ::testing::HasSubstr;

std::vector<std::string> RowOf(const std::string& name, const std::string& message = "") {
  return {name, "pass", message};
}

constexpr std::string_view kHeader[] = {"API name", "Status", "Message"};

std::string TextOf(const fs::path& path) {
  const Result<std::string> text = base::ReadTextFile(path, 1U << 20U);
  return text.ok() ? *text : std::string();
}

void AddTo(const fs::path& path, std::string_view text) {
  std::ofstream(path, std::ios::binary | std::ios::app) << text;
}

TEST(ResultFiles, GoOnAfterTheLastWholeOperator) {
  const test_support::TemporaryFolder folder;
  fs::path result;
  fs::path details;
  {
    Result<ResultFiles> files = ResultFiles::Create(folder.path(), kHeader, kHeader);
    ASSERT_TRUE(files.ok()) << files.status().message();
    result = files->result_path();
    details = files->details_path();
    ASSERT_TRUE(files
                    ->Append({RowOf("Torch.exp.0.forward.output.0", "two\nlines, \"quoted\"")},
                             {"Torch.exp.0", "pass", " "})
                    .ok());
    ASSERT_TRUE(files
                    ->Append({RowOf("Torch.a.b.c.0.forward.output.0")},
                             {"Torch.a.b.c.0", "SKIP", "SKIP", "no"})
                    .ok());
  }
  const std::string whole_details = TextOf(details);
  AddTo(details, "Torch.exp.1.forward.output.0,x,x\r\nTorch.exp.1.forw");
  AddTo(result, "Torch.exp.1,\"half");
  {
    Result<ResultFiles> files = ResultFiles::Resume(result);
    ASSERT_TRUE(files.ok()) << files.status().message();
    EXPECT_THAT(files->finished(), ElementsAre("Torch.a.b.c.0", "Torch.exp.0"));
    EXPECT_EQ(TextOf(details), whole_details);
    ASSERT_TRUE(
        files->Append({RowOf("Torch.exp.1.forward.output.0")}, {"Torch.exp.1", "pass", " "}).ok());
  }
  EXPECT_THAT(TextOf(result), EndsWith("Torch.a.b.c.0,SKIP,SKIP,no\r\nTorch.exp.1,pass, \r\n"));
}

TEST(ResultFiles, LosesNoRowsOfOthers) {
  // Rows of several processes, as the Python tool mixes them.
  const test_support::TemporaryFolder folder;
  const fs::path result = folder.Write("accuracy_checking_result_20250101000000.csv",
                                       "API name,F,B,Message\r\nTorch.a.1,pass, \r\n");
  const fs::path details = folder.Write("accuracy_checking_details_20250101000000.csv",
                                        "API Name,x\r\nTorch.a.0.forward.output.0,1\r\n"
                                        "Torch.a.1.forward.output.0,2\r\n"
                                        "Torch.a.2.forward.output.0,3\r\n");
  ASSERT_TRUE(ResultFiles::Resume(result).ok());
  EXPECT_THAT(TextOf(details), EndsWith("Torch.a.1.forward.output.0,2\r\n"));
  EXPECT_THAT(TextOf(details), HasSubstr("Torch.a.0"));
}

TEST(ResultFiles, AreKnownByTheirName) {
  const test_support::TemporaryFolder folder;
  for (const char* name : {"result.csv", "accuracy_checking_result_2025.csv",
                           "accuracy_checking_result_20250101000000.txt",
                           "accuracy_checking_result_20250101000000x.csv"}) {
    EXPECT_EQ(ResultFiles::Resume(folder.Write(name, "a")).status().code(), StatusCode::kUsage);
  }
  // The details must be there.
  EXPECT_FALSE(
      ResultFiles::Resume(folder.Write("accuracy_checking_result_20250101000000.csv", "a")).ok());
}

TEST(WholeRows, EndWithALineEndOutsideOfQuotes) {
  EXPECT_EQ(WholeRows("a\r\nb"), 3U);
  EXPECT_EQ(WholeRows("a\r\n\"b\r\nc"), 3U);
  EXPECT_EQ(WholeRows("a\r\n\"b\r\nc\"\r\n"), 11U);
  EXPECT_EQ(WholeRows(""), 0U);
}

}  // namespace
}  // namespace msprobe::analysis::accuracy
