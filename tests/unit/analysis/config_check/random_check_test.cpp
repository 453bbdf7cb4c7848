#include <string>

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "src/base/strings.h"
#include "tests/unit/analysis/config_check/made_packs.h"

namespace msprobe::analysis::config_check {
namespace {

using test_support::Done;
using test_support::FindingThat;
using test_support::MadePacks;
using test_support::PackMembers;
using test_support::Rows;
using test_support::Sentences;
using ::testing::Contains;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Not;

constexpr const char* kRank0 = "random/rank0.json";

CheckResult CheckedRandom(const PackMembers& bench, const PackMembers& cmp) {
  const MadePacks packs(bench, cmp);
  return Done(CheckRandom(packs.pair()));
}

// Frames of a stack need no escapes here.
std::string Stack(const std::vector<std::string>& frames) {
  return frames.empty() ? "[]" : "[\"" + base::Join(frames, "\", \"") + "\"]";
}

std::string Call(const std::vector<std::string>& frames, const std::string& count) {
  return R"({"count": )" + count + R"(, "stack": )" + Stack(frames) + "}";
}

std::string Operation(const std::string& calls) { return R"({"torch.rand": [)" + calls + "]}"; }

constexpr const char* kHere = "File /a/train.py, line 10, in main, x = torch.rand(3)";
constexpr const char* kMoved = "File /b/c/train.py, line 99, in main, x = torch.rand(3)";
constexpr const char* kElsewhere = "File /a/model.py, line 10, in main, x = torch.rand(3)";

TEST(CheckRandom, CallsOfOnePlaceAreEqualWhereverTheFileLies) {
  const CheckResult result = CheckedRandom({{kRank0, Operation(Call({kHere}, "2"))}},
                                           {{kRank0, Operation(Call({kMoved}, "2"))}});
  EXPECT_TRUE(result.passed);
  EXPECT_THAT(Rows(result.table),
              ElementsAre("torch.rand|0|File /a/train.py, line 10, in main, x = torch.rand(3)|"
                          "File /b/c/train.py, line 99, in main, x = torch.rand(3)|2|2|TRUE"));
  EXPECT_THAT(result.findings, IsEmpty());
}

TEST(CheckRandom, AnotherNumberOfCallsDiffers) {
  const CheckResult result = CheckedRandom({{kRank0, Operation(Call({kHere}, "2"))}},
                                           {{kRank0, Operation(Call({kMoved}, "3"))}});
  EXPECT_FALSE(result.passed);
  const Finding finding =
      FindingThat(result, "1 of 1 places that draw or seed random numbers differ");
  EXPECT_THAT(finding.examples,
              ElementsAre("torch.rand (rank 0): 3 / 2 calls, File /a/train.py, line 10"));
}

TEST(CheckRandom, APlaceThatOneSideLacksHasNoMatch) {
  const CheckResult result = CheckedRandom({{kRank0, Operation(Call({kHere}, "2"))}},
                                           {{kRank0, Operation(Call({kElsewhere}, "2"))}});
  EXPECT_EQ(result.errors, 2U);
  EXPECT_THAT(Rows(result.table),
              ElementsAre(HasSubstr("train.py, line 10, in main, x = torch.rand(3)|"
                                    "no match stack|2|0|FALSE"),
                          HasSubstr("|no match stack|File /a/model.py, line 10, in main, "
                                    "x = torch.rand(3)|0|2|FALSE")));
}

TEST(CheckRandom, CodeMayDifferALittleAndFunctionsMayNot) {
  const auto errors = [](const std::string& frame) {
    return CheckedRandom({{kRank0, Operation(Call({kHere}, "2"))}},
                         {{kRank0, Operation(Call({frame}, "2"))}})
        .errors;
  };
  EXPECT_EQ(errors("File /a/train.py, line 10, in main, y = torch.rand(4)"), 0U);
  EXPECT_EQ(errors("File /a/train.py, line 10, in other, x = torch.rand(3)"), 2U);
  EXPECT_EQ(errors("File /a/train.py, line 10, in main, ((((((((((((((((((("), 2U);
}

TEST(CheckRandom, OneMoreFrameIsAnotherPlace) {
  EXPECT_EQ(CheckedRandom({{kRank0, Operation(Call({kHere}, "2"))}},
                          {{kRank0, Operation(Call({kHere, kHere}, "2"))}})
                .errors,
            2U);
}

TEST(CheckRandom, OperationsAndRanksOfOneSideDiffer) {
  const CheckResult result = CheckedRandom({{kRank0, Operation(Call({kHere}, "2"))}},
                                           {{"random/rank10.json", Operation(Call({kHere}, "1"))},
                                            {"random/rank2.json", Operation(Call({kHere}, "1"))}});
  EXPECT_EQ(result.errors, 3U);
  // Ranks are ordered as numbers.
  EXPECT_THAT(Rows(result.table), ElementsAre(HasSubstr("torch.rand|0|File"),
                                              HasSubstr("torch.rand|2|no match stack|File"),
                                              HasSubstr("torch.rand|10|no match stack|File")));
}

TEST(CheckRandom, WithoutACountNothingIsEqual) {
  const std::string call = R"({"stack": )" + Stack({kHere}) + "}";
  const CheckResult result =
      CheckedRandom({{kRank0, Operation(call)}}, {{kRank0, Operation(call)}});
  EXPECT_FALSE(result.passed);
  EXPECT_THAT(FindingThat(result, "differ").examples, ElementsAre(HasSubstr("None / None calls")));
}

TEST(CheckRandom, MembersOfOddFormAreNoCalls) {
  EXPECT_TRUE(CheckedRandom({{kRank0, R"({"torch.rand": 3, "seed": {}})"}},
                            {{kRank0, R"({"torch.rand": null})"}})
                  .passed);
}

TEST(CheckRandom, FilesThatBelongToNoRankAreTold) {
  const CheckResult result =
      CheckedRandom({{kRank0, "{}"}, {"random/rank.json", "{}"}, {"random/notes.txt", ""}},
                    {{kRank0, "{}"}, {"random/rank1x.json", "{}"}});
  EXPECT_TRUE(result.passed);
  EXPECT_THAT(Sentences(result), ElementsAre(HasSubstr("files left out")));
  EXPECT_THAT(
      result.findings[0].examples,
      ElementsAre("bench: random/notes.txt", "bench: random/rank.json", "cmp: random/rank1x.json"));
}

TEST(CheckRandom, IsCutShortWhereTooMuchCodeIsNearlyAlike) {
  constexpr int kCalls = 10;
  const auto calls = [](unsigned seed) {
    std::string text;
    for (const std::string& code : test_support::Shuffled(kCalls, seed)) {
      text += (text.empty() ? "" : ",") + Call({"File /a/x.py, line 1, in f, " + code}, "1");
    }
    return text;
  };
  // The last ones of both sides are equal, and found although the search was cut short.
  const std::string last = Call({"File /a/x.py, line 9, in f, ##"}, "1");
  const MadePacks packs({{kRank0, Operation(calls(1) + "," + last)}},
                        {{kRank0, Operation(calls(2) + "," + last)}});
  const CheckResult whole = Done(CheckRandom(packs.pair()));
  const CheckResult cut = Done(CheckRandom(packs.pair(), 100'000));
  for (const CheckResult* result : {&whole, &cut}) {
    EXPECT_EQ(result->errors, 2U * kCalls);
    EXPECT_EQ(result->table.row_count(), 2U * kCalls + 1);
  }
  EXPECT_THAT(Sentences(whole), Not(Contains(HasSubstr("cut short"))));
  EXPECT_THAT(Sentences(cut), Contains(HasSubstr("the search for similar code was cut short")));
}

TEST(CheckRandom, ManyCallsOfManyPlacesAreFound) {
  constexpr int kCalls = 20'000;
  const auto calls = [](int line) {
    std::string text;
    for (int i = 0; i < kCalls; ++i) {
      text += (text.empty() ? "" : ",") +
              Call({fmt::format("File /a/x.py, line {}, in f{}, draw(1)", line, i)}, "1");
    }
    return Operation(text);
  };
  EXPECT_TRUE(CheckedRandom({{kRank0, calls(1)}}, {{kRank0, calls(2)}}).passed);
}

}  // namespace
}  // namespace msprobe::analysis::config_check
