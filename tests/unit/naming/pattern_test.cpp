#include <gtest/gtest.h>

#include "src/naming/rules.h"

namespace msprobe::naming {
namespace {

NamePattern Pattern(const std::string& text) {
  Result<NamePattern> pattern = NamePattern::Parse(text);
  EXPECT_TRUE(pattern.ok()) << text;
  return *pattern;
}

bool Fits(const std::string& pattern, std::string_view name) {
  Bindings bindings;
  return Pattern(pattern).Match(name, bindings);
}

TEST(NamePattern, TakesNamesWithoutPlaceholdersLiterally) {
  EXPECT_TRUE(Fits("norm.weight", "norm.weight"));
  EXPECT_FALSE(Fits("norm.weight", "norm.weights"));
  EXPECT_FALSE(Fits("norm.weight", "norm"));
}

TEST(NamePattern, PlaceholdersEndAtDots) {
  EXPECT_TRUE(Fits("layers.{n}.weight", "layers.17.weight"));
  EXPECT_FALSE(Fits("layers.{n}.weight", "layers.17.mlp.weight"));
  EXPECT_FALSE(Fits("layers.{n}.weight", "layers..weight"));
  EXPECT_FALSE(Fits("layers.{n}.{p}", "layers.1."));
}

TEST(NamePattern, StarredPlaceholdersSpanDots) {
  EXPECT_TRUE(Fits("{path*}.gamma", "a.b.gamma"));
  EXPECT_TRUE(Fits("{path*}.gamma", "a.gamma.b.gamma"));
  EXPECT_FALSE(Fits("{path*}.gamma", ".gamma"));
  EXPECT_FALSE(Fits("{path*}.gamma", "gamma"));
  EXPECT_TRUE(Fits("decoder.{path*}", "decoder.a.b.c"));
}

TEST(NamePattern, APlaceholderThatComesTwiceStandsForTheSameText) {
  EXPECT_TRUE(Fits("a.{n}.b.{n}", "a.3.b.3"));
  EXPECT_FALSE(Fits("a.{n}.b.{n}", "a.3.b.4"));
  EXPECT_FALSE(Fits("a.{n}.b.{n}", "a.3.b.33"));
}

TEST(NamePattern, WritesTheNameThatFitsAnotherPattern) {
  const NamePattern from = Pattern("h.{n}.ln_{k}.{p}");
  const NamePattern to = Pattern("blocks.{n}.norm{k}.{p}");
  Bindings bindings;
  const std::string name = "h.11.ln_2.bias";
  ASSERT_TRUE(from.Match(name, bindings));
  EXPECT_EQ(to.Format(bindings), "blocks.11.norm2.bias");
  EXPECT_EQ(from.Format(bindings), name);
}

TEST(NamePattern, HasAFewPlaceholders) {
  std::string few;
  for (int i = 0; i < 64; ++i) {
    few += "{a" + std::to_string(i) + "}.";
  }
  EXPECT_TRUE(NamePattern::Parse(few).ok());
  EXPECT_FALSE(NamePattern::Parse(few + "{b}").ok());
}

TEST(NamePattern, KnowsTheLengthOfANameBeforeItIsWritten) {
  const NamePattern from = Pattern("{a}.{b*}");
  Bindings bindings;
  ASSERT_TRUE(from.Match("x.yy.z", bindings));
  const NamePattern to = Pattern("{b*}-{b*}/{a}");
  EXPECT_EQ(to.FormattedBytes(bindings), to.Format(bindings).size());
}

TEST(NamePattern, RefusesWhatItCouldNotTellApart) {
  EXPECT_FALSE(NamePattern::Parse("").ok());
  EXPECT_FALSE(NamePattern::Parse("a.{n").ok());
  EXPECT_FALSE(NamePattern::Parse("a.n}").ok());
  EXPECT_FALSE(NamePattern::Parse("a.{}").ok());
  EXPECT_FALSE(NamePattern::Parse("a.{*}").ok());
  EXPECT_FALSE(NamePattern::Parse("a.{b c}").ok());
  EXPECT_FALSE(NamePattern::Parse("{a}{b}").ok());
}

}  // namespace
}  // namespace msprobe::naming
