#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "src/analysis/perf/operator_compare.h"
#include "tests/unit/analysis/perf/made_profile.h"

namespace msprobe::analysis::perf {
namespace {

using test_support::MadeProfile;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

// "base=comparison" per pair, "." for nothing.
std::vector<std::string> MatchedNames(MadeProfile& base, MadeProfile& comparison,
                                      const PairOptions& options = {}) {
  const OperatorSide left(*base, options.base_step);
  const OperatorSide right(*comparison, options.comparison_step);
  std::vector<std::string> warnings;
  std::vector<std::string> texts;
  for (const AlignedPair& pair : MatchOperators(left, right, options, warnings)) {
    texts.push_back(
        (pair.base == kUnmatched ? "." : std::string(left.name(pair.base))) + "=" +
        (pair.comparison == kUnmatched ? "." : std::string(right.name(pair.comparison))));
  }
  return texts;
}

// Operators one after the other, 10 us each; those after a blank on the thread of backward passes.
MadeProfile Sequence(const std::vector<std::string>& names) {
  MadeProfile made;
  made.BackwardThread("2");
  int64_t at = 0;
  for (const std::string& name : names) {
    made.Op(name, at, at + 8, name[0] == 'b' ? "2" : "1");
    at += 10;
  }
  return made;
}

TEST(MatchOperators, PairsEqualNamesInOrder) {
  MadeProfile base = Sequence({"x", "y", "z"});
  MadeProfile comparison = Sequence({"x", "z", "w"});
  EXPECT_THAT(MatchedNames(base, comparison), ElementsAre("x=x", "y=.", "z=z", ".=w"));
}

TEST(MatchOperators, RenamesOnBothSides) {
  MadeProfile base = Sequence({"fused", "x"});
  MadeProfile comparison = Sequence({"plain", "x"});
  PairOptions options;
  EXPECT_THAT(MatchedNames(base, comparison, options), ElementsAre(".=plain", "fused=.", "x=x"));
  options.operator_names["fused"] = "plain";
  EXPECT_THAT(MatchedNames(base, comparison, options), ElementsAre("fused=plain", "x=x"));
  options.operator_names = {{"fused", "same"}, {"plain", "same"}};
  EXPECT_THAT(MatchedNames(base, comparison, options), ElementsAre("fused=plain", "x=x"));
}

TEST(MatchOperators, GoesByShapesOnlyWhereAsked) {
  MadeProfile base = Sequence({"x"});
  MadeProfile comparison = Sequence({"x"});
  comparison->operators[0].shape_key = comparison.Text("5,5");
  PairOptions options;
  EXPECT_THAT(MatchedNames(base, comparison, options), ElementsAre("x=x"));
  options.use_input_shape = true;
  EXPECT_EQ(MatchedNames(base, comparison, options).size(), 2U);
  comparison->operators[0].shape_key = comparison.Text("2,3");
  EXPECT_THAT(MatchedNames(base, comparison, options), ElementsAre("x=x"));
}

TEST(MatchOperators, PairsForwardAndBackwardStretchesByPosition) {
  // Without stretches x would be matched across the backward pass.
  MadeProfile base = Sequence({"x", "b1", "y"});
  MadeProfile comparison = Sequence({"y", "b1", "x"});
  EXPECT_THAT(MatchedNames(base, comparison), ElementsAre(".=y", "x=.", "b1=b1", ".=x", "y=."));
}

TEST(MatchOperators, LeavesTheFirstStretchOfTheLongerSideAloneWhereTheyDiffer) {
  MadeProfile base = Sequence({"b0", "x", "b1"});
  MadeProfile comparison = Sequence({"x", "b1"});
  EXPECT_THAT(MatchedNames(base, comparison), ElementsAre("b0=.", "x=x", "b1=b1"));
  // Of two equally long ones the comparison's.
  MadeProfile other = Sequence({"x", "b1", "y"});
  EXPECT_THAT(MatchedNames(base, other), ElementsAre(".=x", ".=b1", "b0=.", ".=y", "x=.", "b1=."));
}

TEST(MatchOperators, ListsEverythingAloneWithoutDetails) {
  MadeProfile base = Sequence({"x", "y"});
  MadeProfile comparison = Sequence({"x"});
  PairOptions options;
  options.details = false;
  EXPECT_THAT(MatchedNames(base, comparison, options), ElementsAre("x=.", "y=.", ".=x"));
}

TEST(MatchOperators, LooksIntoPairsWithTooManyKernels) {
  const auto make = [](std::string_view inner) {
    MadeProfile made;
    made.Op("outer", 0, 100);
    made.Op("deeper", 10, 60);
    made.Op(inner, 20, 30);
    made.Op("last", 70, 80);
    for (int i = 0; i < 5; ++i) {
      made.Launch(20, "k", 1);
    }
    made.Op("small", 200, 210);
    return made;
  };
  MadeProfile base = make("p");
  MadeProfile comparison = make("q");
  PairOptions options;
  options.max_kernels = 5;
  EXPECT_THAT(MatchedNames(base, comparison, options), ElementsAre("outer=outer", "small=small"));
  options.max_kernels = 4;
  EXPECT_THAT(MatchedNames(base, comparison, options),
              ElementsAre(".=q", "p=.", "last=last", "small=small"));
}

TEST(MatchOperators, SaysWhenTheSidesHaveNothingInCommon) {
  MadeProfile base = Sequence({"x"});
  MadeProfile comparison = Sequence({"y", "z"});
  const OperatorSide left(*base, std::nullopt);
  const OperatorSide right(*comparison, std::nullopt);
  std::vector<std::string> warnings;
  MatchOperators(left, left, {}, warnings);
  EXPECT_THAT(warnings, IsEmpty());
  MatchOperators(left, right, {}, warnings);
  EXPECT_THAT(warnings,
              ElementsAre(HasSubstr("no operator in common: 1 operator and 2 operators")));
}

TEST(MatchOperators, SurvivesEmptySides) {
  MadeProfile empty;
  MadeProfile some = Sequence({"x", "b"});
  EXPECT_THAT(MatchedNames(empty, empty), IsEmpty());
  EXPECT_THAT(MatchedNames(some, empty), ElementsAre("x=.", "b=."));
  empty.BackwardThread("2");
  EXPECT_THAT(MatchedNames(empty, some), ElementsAre(".=x", ".=b"));
}

}  // namespace
}  // namespace msprobe::analysis::perf
