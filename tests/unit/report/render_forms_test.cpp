// The forms for programs: JSON, JUnit.
#include <algorithm>
#include <cstddef>
#include <span>
#include <string>
#include <utility>

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include "src/report/render.h"
#include "src/report/table.h"
#include "tests/unit/report/made_document.h"

namespace msprobe::report {
namespace {

using test_support::MadeDocument;
using ::testing::HasSubstr;
using ::testing::Not;

TEST(RenderJson, HoldsAllOfTheAnswer) {
  Document document = MadeDocument();
  document.exit_code = 1;
  const nlohmann::json json = nlohmann::json::parse(RenderJson(document), nullptr, false);
  ASSERT_FALSE(json.is_discarded());
  EXPECT_EQ(json["schema_version"], 1);
  EXPECT_EQ(json["command"], "compare");
  EXPECT_EQ(json["exit_code"], 1);
  EXPECT_EQ(json["verdict"]["word"], "DIFFERENT");
  EXPECT_EQ(json["verdict"]["number"], 3);
  EXPECT_EQ(json["verdict"]["standing"], "findings");
  EXPECT_EQ(json["levels"][2]["word"], "different");
  EXPECT_EQ(json["levels"][2]["found"], true);
  const nlohmann::json& sections = json["sections"];
  EXPECT_EQ(sections[0]["blocks"][0]["items"][0]["line"], 13);
  EXPECT_EQ(sections[1]["blocks"][0]["items"].size(), 2U) << "lists are whole";
  EXPECT_EQ(sections[2]["blocks"][0]["rows"].size(), 3U);
  EXPECT_EQ(json["files"][1], "out/summary.json");
  EXPECT_EQ(json["warnings"].size(), 1U);
}

TEST(RenderJson, IsValidWhateverTheNumbersAndTexts) {
  Document document = MadeDocument();
  document.verdict.text = "\xff\xfe \" \\ \n \x01";
  const std::string text = RenderJson(document);
  const nlohmann::json json = nlohmann::json::parse(text, nullptr, false);
  ASSERT_FALSE(json.is_discarded()) << text;
  EXPECT_EQ(json["sections"][2]["blocks"][0]["rows"][0][0], "NaN");
  EXPECT_EQ(json["sections"][2]["blocks"][1]["items"][2]["number"], "Infinity");
}

TEST(NumberText, SpellsWhatIsNotFiniteInOneWay) {
  EXPECT_EQ(NumberText(std::numeric_limits<double>::quiet_NaN()), "NaN");
  EXPECT_EQ(NumberText(-std::numeric_limits<double>::infinity()), "-Infinity");
  EXPECT_EQ(NumberText(0.1234567, 3), "0.123");
}

TEST(RenderJunit, CountsFailuresAndLeavesLevelsOnRequestToTheGate) {
  EXPECT_THAT(RenderJunit(MadeDocument(), Gate()),
              HasSubstr("tests=\"3\" failures=\"1\" errors=\"0\""));
  EXPECT_THAT(RenderJunit(MadeDocument(), Gate({"drift"})),
              HasSubstr("tests=\"3\" failures=\"2\" errors=\"0\""));
}

TEST(RenderJunit, AnAnswerWithoutCasesIsOneCase) {
  Document document = MadeDocument();
  document.cases.clear();
  EXPECT_THAT(RenderJunit(document, Gate()), HasSubstr("tests=\"1\" failures=\"0\""));
  EXPECT_THAT(RenderJunit(document, Gate({"different"})), HasSubstr("failures=\"1\""));
  document.verdict.outcome = AnswerOutcome::kIncomplete;
  EXPECT_THAT(RenderJunit(document, Gate()), HasSubstr("errors=\"1\""));
}

TEST(RenderJunit, SaysWhatTheExitCodeSays) {
  // No case tells of what the gate found, or the cases tell of what it was not asked about.
  Document document = MadeDocument();
  document.levels = OutcomesOf(test_support::kLevels);
  document.cases = {{"rank0"}, {"rank1", 0, CaseOutcome::kFailed, "different", "differ", "rows"}};
  SetFound(document.levels, "error", true);
  EXPECT_THAT(RenderJunit(document, Gate({"error"})), HasSubstr("failures=\"1\" errors=\"0\""));
  EXPECT_THAT(RenderJunit(document, Gate({"error"})), HasSubstr("message=\"--fail-on error: "));
  EXPECT_THAT(RenderJunit(document, Gate({"different"})), HasSubstr("failures=\"0\""));
  EXPECT_THAT(RenderJunit(document, Gate()), HasSubstr("failures=\"1\"")) << "nothing is asked";
  SetFound(document.levels, "different", true);
  EXPECT_THAT(RenderJunit(document, Gate({"different"})), HasSubstr("tests=\"2\" failures=\"1\""));
  document.cases[1].level = "warning";
  document.cases[1].further_levels = {"different"};
  EXPECT_THAT(RenderJunit(document, Gate({"different"})), HasSubstr("tests=\"2\" failures=\"1\""));
  document.exit_code = 3;  // an input was damaged in the meantime
  EXPECT_THAT(RenderJunit(document, Gate({"different"})), HasSubstr("errors=\"1\""));
}

TEST(RenderJunit, NothingComparedIsAFailure) {
  Document document = MadeDocument();
  document.cases = {{"rank0"}};
  document.verdict.outcome = AnswerOutcome::kNothingCompared;
  EXPECT_THAT(RenderJunit(document, Gate()), HasSubstr("tests=\"2\" failures=\"1\""));
}

TEST(RenderJunit, TextsAreEscaped) {
  Document document = MadeDocument();
  document.cases[1].message = "<\"it\"> & \x01\xff more";
  const std::string xml = RenderJunit(document, Gate());
  EXPECT_THAT(xml, HasSubstr("&lt;&quot;it&quot;&gt; &amp; "));
  EXPECT_EQ(xml.find('\x01'), std::string::npos);
  EXPECT_EQ(xml.find('\xff'), std::string::npos);
}

TEST(RenderJunit, NamesTheLineOfCodeThatDetailsNameAndNothingThatLooksLikeOne) {
  Document document = MadeDocument();
  document.cases[1].details = "first Torch.a:12 b\ncode /home/u/train.py:13 in step: x = y[1:2 ]";
  EXPECT_THAT(RenderJunit(document, Gate()), HasSubstr("file=\"/home/u/train.py\" line=\"13\""));
  document.cases[1].details = "first Torch.a:12 b";
  EXPECT_THAT(RenderJunit(document, Gate()), Not(HasSubstr(" line=")));
}

Document DocumentWith(std::string name, std::string message, std::string details) {
  Document document = MadeDocument();
  document.cases.clear();
  TestCase& test = document.cases.emplace_back();
  test.name = std::move(name);
  test.Fail("different", "differ", std::move(message));
  test.details = std::move(details);
  return document;
}

TEST(GithubAnnotations, NothingInANameOrMessageEndsThemOrIsACommand) {
  const Document document = DocumentWith("r,a=b::error ::x\n::stop", "50 %\n::add-mask::y\r\x1b[1m",
                                         "code /a\x1b[2J,b::c.py:3 in f");
  EXPECT_EQ(RenderGithubAnnotations(document, Gate(), ""),
            "::warning file=/a?[2J%2Cb%3A%3Ac.py,line=3,title=msprobe compare%3A "
            "r%2Ca=b%3A%3Aerror %3A%3Ax%0A%3A%3Astop::50 %25%0A::add-mask::y??[1m\n");
}

TEST(GithubAnnotations, PathsAreThoseOfTheWorkspaceThatHoldsThem) {
  const Document document = DocumentWith("r", "m", "code /home/user/a.py:3 in f");
  EXPECT_THAT(RenderGithubAnnotations(document, Gate(), "/home/user/"), HasSubstr("file=a.py,"));
  EXPECT_THAT(RenderGithubAnnotations(document, Gate(), "/home"), HasSubstr("file=user/a.py,"));
  EXPECT_THAT(RenderGithubAnnotations(document, Gate(), "/home/us"),
              HasSubstr("file=/home/user/a.py,"));
}

TEST(GithubAnnotations, AreLimitedAndSayHowManyThereAre) {
  Document document = DocumentWith("r", "m", "");
  document.cases.resize(300, document.cases.front());
  const std::string text = RenderGithubAnnotations(document, Gate(), "");
  EXPECT_EQ(std::count(text.begin(), text.end(), '\n'), 51);
  EXPECT_THAT(text, HasSubstr("::notice title=msprobe compare::and 250 more"));
}

}  // namespace
}  // namespace msprobe::report
