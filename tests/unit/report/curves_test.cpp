// Curves in every form of an answer.
#include <cmath>
#include <limits>
#include <string>

#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include "src/report/document.h"
#include "src/report/render.h"

namespace msprobe::report {
namespace {

Document WithCurves() {
  Curves curves{"share", "step", {"3", "5", "8"}, {}};
  const double none = std::numeric_limits<double>::quiet_NaN();
  curves.items.push_back({"summary", {1, 0.5, 0.75}});
  curves.items.push_back({"late", {none, 0.25, none}});
  curves.items.push_back({"never", {none, none, none}});
  Document document;
  document.sections.push_back({"Shares", {}});
  document.sections[0].blocks.emplace_back(std::move(curves));
  return document;
}

TEST(Curves, JsonHoldsEveryValueAndSaysWhereThereIsNone) {
  const nlohmann::json json = nlohmann::json::parse(RenderJson(WithCurves()), nullptr, false);
  ASSERT_FALSE(json.is_discarded());
  const nlohmann::json& block = json["sections"][0]["blocks"][0];
  EXPECT_EQ(block["kind"], "curves");
  EXPECT_EQ(block["positions"], nlohmann::json({"3", "5", "8"}));
  EXPECT_EQ(block["items"][0]["numbers"], nlohmann::json({1.0, 0.5, 0.75}));
  EXPECT_EQ(block["items"][1]["numbers"], nlohmann::json({"NaN", 0.25, "NaN"}));
}

TEST(Curves, ATerminalShowsBeginLowestPointAndEnd) {
  const std::string text = RenderTerminal(WithCurves(), {});
  EXPECT_NE(text.find("summary: first 1 at step 3, lowest 0.5 at step 5, last 0.75 at step 8"),
            std::string::npos)
      << text;
  EXPECT_NE(text.find("late: first 0.25 at step 5, lowest 0.25 at step 5, last 0.25 at step 5"),
            std::string::npos)
      << text;
  EXPECT_NE(text.find("never: no values"), std::string::npos) << text;
}

TEST(Curves, ATerminalShowsAsManyAsAreEnough) {
  Document document = WithCurves();
  std::get<Curves>(document.sections[0].blocks[0]).display_limit.items = 1;
  const std::string text = RenderTerminal(document, {});
  EXPECT_EQ(text.find("late"), std::string::npos);
  EXPECT_NE(text.find("and 2 more"), std::string::npos) << text;
}

}  // namespace
}  // namespace msprobe::report
