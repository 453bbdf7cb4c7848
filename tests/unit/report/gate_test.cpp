#include <gtest/gtest.h>

#include "src/report/document.h"
#include "tests/unit/report/made_document.h"

namespace msprobe::report {
namespace {

using test_support::kLevels;
using test_support::MadeDocument;

Document With(std::string_view found) {
  Document document = MadeDocument();
  document.levels = OutcomesOf(kLevels);
  if (!found.empty()) {
    SetFound(document.levels, found, true);
  }
  return document;
}

bool Fails(const Document& document, const char* word) { return Gate({word}).Fails(document); }

TEST(Gate, AsksForNothingUnlessToldTo) {
  Document document = With("error");
  EXPECT_FALSE(Gate().Fails(document));
  document.verdict.outcome = AnswerOutcome::kNothingCompared;
  EXPECT_FALSE(Gate().Fails(document));
}

TEST(Gate, AWordIncludesTheWordsBeforeItAsFarAsTheyAreLinked) {
  EXPECT_TRUE(Fails(With("error"), "error"));
  EXPECT_TRUE(Fails(With("error"), "warning"));
  EXPECT_FALSE(Fails(With("warning"), "error"));
  EXPECT_FALSE(Fails(With("error"), "different"));
  EXPECT_FALSE(Fails(With("error"), "drift"));
  EXPECT_TRUE(Fails(With("different"), "drift"));
  EXPECT_FALSE(Fails(With("drift"), "different"));
}

TEST(Gate, PassesWhereNothingIsFound) {
  for (const GateLevel& level : kLevels) {
    EXPECT_FALSE(Fails(With(""), level.word.data())) << level.word;
  }
}

TEST(Gate, EveryWordFailsWhereNothingWasCompared) {
  Document document = With("");
  document.verdict.outcome = AnswerOutcome::kNothingCompared;
  for (const GateLevel& level : kLevels) {
    EXPECT_TRUE(Fails(document, level.word.data())) << level.word;
  }
}

TEST(Gate, AWordThatNobodyLookedForFails) { EXPECT_TRUE(Fails(With(""), "e2e>5%")); }

TEST(Gate, AnyOfSeveralWordsIsEnough) {
  EXPECT_TRUE(Gate({"error", "different"}).Fails(With("different")));
  EXPECT_FALSE(Gate({"error", "warning"}).Fails(With("different")));
}

TEST(Judge, AnIncompleteAnswerFailsWhateverTheGateSays) {
  Document document = With("different");
  EXPECT_EQ(Judge(document, Gate()), ExitClass::kDone);
  EXPECT_EQ(Judge(document, Gate({"different"})), ExitClass::kFindings);
  document.verdict.outcome = AnswerOutcome::kIncomplete;
  EXPECT_EQ(Judge(document, Gate({"different"})), ExitClass::kFailed);
  EXPECT_EQ(Judge(document, Gate()), ExitClass::kFailed);
}

TEST(Gate, LevelsOnRequestCountOnlyWhenAskedAbout) {
  const Document document = With("drift");
  EXPECT_FALSE(Gate().Counts(document, "drift"));
  EXPECT_FALSE(Gate({"different"}).Counts(document, "drift"));
  EXPECT_TRUE(Gate({"drift"}).Counts(document, "drift"));
  EXPECT_TRUE(Gate().Counts(document, "different"));
  EXPECT_TRUE(Gate().Counts(document, ""));
  EXPECT_FALSE(Gate({"drift"}).Counts(document, "error")) << "nor what is not asked about";
}

TEST(Gate, TellsInOneLineWhatWasAskedAndWhatWasFound) {
  Document document = With("different");
  document.verdict.text = "DIFFERENT: it starts here";
  EXPECT_EQ(Gate({"different"}).Reason(document), "--fail-on different: DIFFERENT: it starts here");
  document.levels[2].what = "3 rows";
  EXPECT_EQ(Gate({"error", "drift"}).Reason(document),
            "--fail-on error, drift: DIFFERENT: it starts here; 3 rows");
}

}  // namespace
}  // namespace msprobe::report
