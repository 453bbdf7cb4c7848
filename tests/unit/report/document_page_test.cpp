#include <filesystem>
#include <string>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "src/report/web_page.h"
#include "tests/unit/report/made_document.h"

namespace msprobe::report {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

class DocumentPage : public ::testing::Test {
 protected:
  void SetUp() override {
    if (const Status available = CheckAnswerPage(); !available.ok()) {
      GTEST_SKIP() << available.message();
    }
    std::filesystem::remove(path_);  // of an earlier one
  }

  const std::filesystem::path path_ =
      std::filesystem::path(::testing::TempDir()) /
      (std::string("document_page_") +
       ::testing::UnitTest::GetInstance()->current_test_info()->name() + ".html");
};

TEST_F(DocumentPage, TakesEveryKindOfBlock) {
  Document document = test_support::MadeDocument();
  document.warnings.clear();
  const Status written = WriteAnswerPage(path_, document);
  ASSERT_TRUE(written.ok()) << written.message();
  EXPECT_THAT(document.warnings, IsEmpty());
  EXPECT_LT(std::filesystem::file_size(path_), 100'000U);
}

TEST_F(DocumentPage, SaysWhichListsAndTablesItCuts) {
  Document document;
  document.command = "compare";
  List list;
  for (size_t i = 0; i <= kMostPageItems; ++i) {
    list.items.push_back({"label", "text"});
  }
  document.sections.push_back({"Long list", {}});
  document.sections.back().blocks.emplace_back(list);
  Table table("long", {"Number"});
  for (size_t i = 0; i <= kMostPageRows; ++i) {
    const Cell cells[] = {Cell::Integer(static_cast<int64_t>(i))};
    table.AddRow(cells);
  }
  document.sections.push_back({"Long table", {}});
  document.sections.back().blocks.emplace_back(DataTable{std::move(table)});
  ASSERT_TRUE(WriteAnswerPage(path_, document).ok());
  EXPECT_THAT(
      document.warnings,
      ElementsAre(HasSubstr("Long list: the page holds the first 5,000 of 5,001 items"),
                  HasSubstr("Long table: the page holds the first 100,000 of 100,001 rows")));
}

}  // namespace
}  // namespace msprobe::report
