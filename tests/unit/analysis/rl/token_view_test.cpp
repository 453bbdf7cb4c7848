#include <algorithm>
#include <cmath>
#include <string>
#include <vector>

#include <fmt/format.h>
#include <gtest/gtest.h>

#include "msprobe/tensor_file.h"

#include "src/analysis/rl/rl.h"
#include "src/analysis/rl/token_tables.h"
#include "src/report/render.h"
#include "tests/unit/support/table_rows.h"
#include "tests/unit/support/temporary_folder.h"
#include "tests/unit/support/view_of.h"

namespace msprobe::analysis::rl {
namespace {

namespace fs = std::filesystem;

class TokenView : public ::testing::Test {
 protected:
  void Save(const std::string& key, int step, const std::vector<double>& values, Shape shape,
            const std::string& member = "") {
    const fs::path path = folder_ / fmt::format("data/{}/step{}/rank0/{}{}{}.npy", key, step, key,
                                                member.empty() ? "" : ".", member);
    fs::create_directories(path.parent_path());
    ASSERT_TRUE(WriteNpyFile(path, msprobe::test_support::ViewOf(values, std::move(shape))).ok());
  }

  SavedData Found() const {
    Result<SavedData> data = FindSavedData(folder_.path());
    EXPECT_TRUE(data.ok());
    return data.ok() ? *std::move(data) : SavedData();
  }

  TokenComparison Compared(const TokenOptions& options, size_t threads = 1) const {
    const SavedData data = Found();
    base::ThreadPool pool(threads);
    return CompareTokenKey(options.keys.at(0), options, data, data, pool, true);
  }

  test_support::TemporaryFolder folder_;
  const double half_ = std::log(0.5);
  const double quarter_ = std::log(0.25);
};

TEST_F(TokenView, NamesPlacePositionAndIdOfTheWorstTokens) {
  Save("a", 0, {half_, half_, half_, half_}, {2, 2});
  Save("b", 0, {half_, half_, quarter_, half_}, {2, 2});
  Save("id", 0, {11, 12, 13, 14}, {2, 2});
  Save("a", 1, {half_, half_}, {1, 2});
  Save("b", 1, {half_, quarter_}, {1, 2});
  Save("id", 1, {21, 22}, {1, 2});
  const TokenComparison comparison = Compared({{{"a", "b"}}, "", "id", 20});
  const std::vector<std::string> rows =
      test_support::Rows(WorstTokensTable(comparison, Language::kEnglish));
  ASSERT_EQ(rows.size(), 2u);
  EXPECT_TRUE(rows[0].starts_with("0|0|0|0|1|0|")) << rows[0];
  EXPECT_TRUE(rows[0].ends_with("|0.5|0.25|0.25|13")) << rows[0];
  EXPECT_TRUE(rows[1].starts_with("1|0|0|0|0|1|")) << rows[1];
  EXPECT_TRUE(rows[1].ends_with("|22")) << rows[1];
  const TokenSummary summary = Summarize(comparison);
  EXPECT_EQ(summary.worst_token,
            "step 0, rank 0, micro step 0, sequence 1, position 0, token 13: 0.5 and 0.25");
  EXPECT_EQ(summary.largest_mean, "0.125 at step 1, rank 0, micro step 0");
  EXPECT_EQ(summary.smallest_mean, "0.0625 at step 0, rank 0, micro step 0");
  EXPECT_TRUE(HasDifferences(summary));
}

TEST_F(TokenView, HasARowPerPlaceAndTellsWhatIsAlone) {
  Save("a", 0, {half_, half_}, {2});
  Save("b", 0, {quarter_, half_}, {2});
  Save("a", 1, {half_}, {1});
  Save("a", 2, {half_, half_}, {2});
  Save("b", 2, {half_}, {1});
  const TokenComparison comparison = Compared({{{"a", "b"}}, "", "", 20});
  const std::vector<std::string> rows =
      test_support::Rows(TokenStepsTable(comparison, Language::kEnglish));
  ASSERT_EQ(rows.size(), 3u);
  EXPECT_TRUE(rows[0].starts_with("0|0|0|0|[2]|[2]|2|0|0.25|0.125|0.125|0.34657359")) << rows[0];
  EXPECT_EQ(rows[1], "1|0|0|0|[1]||||||||||||||only in the first run");
  EXPECT_EQ(rows[2],
            "2|0|0|0|[2]|[1]|1|0|0|0|0|0|0|0|0|0|0|0|shapes differ: only the common part is "
            "compared");
  const TokenSummary summary = Summarize(comparison);
  EXPECT_EQ(summary.compared, 2u);
  EXPECT_EQ(summary.unpaired, 1u);
  EXPECT_EQ(summary.other_shape, 1u);
}

TEST_F(TokenView, GivesTheSameWhateverTheNumberOfThreads) {
  for (int step = 0; step < 12; ++step) {
    std::vector<double> a(300);
    std::vector<double> b(300);
    for (size_t i = 0; i < a.size(); ++i) {
      a[i] = -0.001 * static_cast<double>(i % 50);
      b[i] = a[i] - 0.01 * static_cast<double>((i + static_cast<size_t>(step)) % 5);
    }
    Save("a", step, a, {3, 100});
    Save("b", step, b, {3, 100});
  }
  const auto text = [&](size_t threads) {
    const TokenComparison comparison = Compared({{{"a", "b"}}, "", "", 33}, threads);
    Comparison whole;
    whole.tokens = {Summarize(comparison)};
    const std::string answer = report::RenderTerminal(MakeDocument(whole), {.has_edge = false});
    std::string all = answer.substr(answer.find("tokens of"));
    for (const report::Table& table : {WorstTokensTable(comparison, Language::kChinese),
                                       TokenStepsTable(comparison, Language::kChinese)}) {
      for (const std::string& row : test_support::Rows(table)) {
        all += row + "\n";
      }
    }
    return all;
  };
  const std::string item = text(1);
  EXPECT_EQ(std::count(item.begin(), item.end(), '\n'), 4 + 33 + 12);
  EXPECT_EQ(text(4), item);
  EXPECT_EQ(text(7), item);
}

TEST_F(TokenView, UsesALoneMaskForEveryMember) {
  Save("a", 0, {half_, half_}, {2}, "0");
  Save("a", 0, {half_, half_}, {2}, "1");
  Save("b", 0, {half_, quarter_}, {2}, "0");
  Save("b", 0, {half_, quarter_}, {2}, "1");
  Save("m", 0, {1, 0}, {2});
  const TokenComparison comparison = Compared({{{"a", "b"}}, "m", "", 20});
  EXPECT_EQ(comparison.all.tokens, 2u);
  EXPECT_EQ(comparison.all.masked, 2u);
  EXPECT_TRUE(comparison.worst.empty());
  EXPECT_FALSE(HasDifferences(Summarize(comparison)));
}

TEST_F(TokenView, FailsAPairWithoutItsMaskInsteadOfCountingThePadding) {
  Save("a", 0, {half_}, {1});
  Save("b", 0, {quarter_}, {1});
  Save("m", 1, {1}, {1});
  const TokenComparison comparison = Compared({{{"a", "b"}}, "m", "", 20});
  EXPECT_EQ(comparison.all.tokens, 0u);
  EXPECT_EQ(Summarize(comparison).failed, 1u);
  const std::vector<std::string> warnings = WarningsOf(comparison);
  ASSERT_EQ(warnings.size(), 1u);
  EXPECT_EQ(warnings[0],
            "tokens of a: step 0, rank 0, micro step 0: no mask: m is not stored there");
}

TEST_F(TokenView, LeavesIdsOfAnotherShapeEmptyAndSaysSo) {
  Save("a", 0, {half_, half_}, {2});
  Save("b", 0, {quarter_, half_}, {2});
  Save("id", 0, {1, 2, 3}, {3});
  const TokenComparison comparison = Compared({{{"a", "b"}}, "", "id", 20});
  const std::vector<std::string> rows =
      test_support::Rows(WorstTokensTable(comparison, Language::kEnglish));
  ASSERT_EQ(rows.size(), 1u);
  EXPECT_TRUE(rows[0].ends_with("|0.25|")) << rows[0];
  ASSERT_EQ(WarningsOf(comparison).size(), 1u);
  EXPECT_NE(WarningsOf(comparison)[0].find("shape [3]"), std::string::npos);
}

TEST_F(TokenView, TellsWhatWasLeftOut) {
  Save("a", 0, {std::nan(""), 3, -HUGE_VAL, half_}, {4});
  Save("b", 0, {half_, half_, half_, half_}, {4});
  const std::vector<std::string> warnings = WarningsOf(Compared({{{"a", "b"}}, "", "", 20}));
  ASSERT_EQ(warnings.size(), 3u);
  EXPECT_EQ(warnings[0], "tokens of a: 1 of the test and 0 of the reference are NaN: left out");
  EXPECT_NE(warnings[1].find("-inf"), std::string::npos);
  EXPECT_NE(warnings[2].find("was another key meant?"), std::string::npos);
}

TEST_F(TokenView, RefusesKeysThatAreMissingOrWouldShareAName) {
  Save("log_prob", 0, {half_}, {1});
  Save("other", 0, {half_}, {1});
  Save("other.tokens", 0, {half_}, {1});
  const SavedData data = Found();
  const auto check = [&](const TokenOptions& options) {
    return CheckTokenKeys(options, data, data);
  };
  EXPECT_TRUE(check({{{"log_prob", "other"}}, "other", "other", 20}).ok());
  EXPECT_EQ(check({{{"log_porb", "log_porb"}}, "", "", 20}).hint(), "did you mean log_prob?");
  EXPECT_NE(check({{{"log_prob", "othr"}}, "", "", 20}).message().find("reference run"),
            std::string::npos);
  EXPECT_EQ(check({{{"log_prob", "log_prob"}}, "mask", "", 20}).code(), StatusCode::kUsage);
  EXPECT_EQ(check({{{"log_prob", "log_prob"}}, "", "ids", 20}).code(), StatusCode::kUsage);
  EXPECT_FALSE(check({{{"log_prob", "log_prob"}, {"log_prob", "other"}}, "", "", 20}).ok());
  EXPECT_FALSE(check({{{"other", "other"}}, "", "", 20}).ok());
}

}  // namespace
}  // namespace msprobe::analysis::rl
