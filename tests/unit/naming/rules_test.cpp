#include "src/naming/rules.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace msprobe::naming {
namespace {

using ::testing::HasSubstr;

std::string ErrorOf(std::string_view yaml) {
  const Result<RuleSet> rules = ParseRules(yaml, "rules.yaml");
  return rules.ok() ? "" : rules.status().message();
}

TEST(MappingRules, ReadNamesLayoutsAndReasons) {
  const Result<RuleSet> rules = ParseRules(R"(
- from: "a.{n}.qkv"
  to: ["a.{n}.q", "a.{n}.k", "a.{n}.v"]
  layout: query_groups
  transpose: true
  side: second
- {from: [x, y], to: z, axis: 1}
- {from: u, to: [v, w], sizes: [3, 1]}
- {ignore: "{path*}.mask", reason: a mask}
)",
                                           "rules.yaml");
  ASSERT_TRUE(rules.ok()) << rules.status().message();
  ASSERT_EQ(rules->rules.size(), 3u);
  EXPECT_EQ(rules->rules[0].arrangement, Arrangement::kQueryGroups);
  EXPECT_TRUE(rules->rules[0].transpose);
  EXPECT_EQ(rules->rules[0].side, RuleSide::kSecond);
  EXPECT_EQ(rules->rules[1].axis, 1u);
  EXPECT_EQ(rules->rules[1].line, 7);
  EXPECT_EQ(rules->rules[2].sizes, (std::vector<int64_t>{3, 1}));
  ASSERT_EQ(rules->ignored.size(), 1u);
  EXPECT_EQ(rules->ignored[0].reason, "a mask");
}

TEST(MappingRules, AnEmptyFileHoldsNone) { EXPECT_EQ(ErrorOf("# nothing\n"), ""); }

TEST(MappingRules, ErrorsNameLineAndKey) {
  EXPECT_THAT(ErrorOf("a: b"), HasSubstr("a mapping is a list of rules"));
  EXPECT_THAT(ErrorOf("- a"), HasSubstr("line 1: a rule is an object"));
  EXPECT_THAT(ErrorOf("- {from: a}"), HasSubstr("key \"to\": is missing"));
  EXPECT_THAT(ErrorOf("- {from: a, to: b}\n- {form: a, to: b}"), HasSubstr("line 2: key \"form\""));
  EXPECT_THAT(ErrorOf("- {from: [a, b], to: [c, d]}"), HasSubstr("not both"));
  EXPECT_THAT(ErrorOf("- {from: \"a.{n}\", to: b}"), HasSubstr("same placeholders"));
  EXPECT_THAT(ErrorOf("- {from: \"a.{n\", to: b}"), HasSubstr("without its '}'"));
  EXPECT_THAT(ErrorOf("- {from: a, to: [b, c], layout: rows}"), HasSubstr("query_groups"));
  EXPECT_THAT(ErrorOf("- {from: a, to: [b, c], layout: query_groups}"), HasSubstr("three parts"));
  EXPECT_THAT(ErrorOf("- {from: a, to: [b, c], sizes: [1]}"), HasSubstr("2 relative lengths"));
  EXPECT_THAT(ErrorOf("- {from: a, to: [b, c], sizes: [1, 0]}"), HasSubstr("above 0"));
  EXPECT_THAT(ErrorOf("- {from: a, to: b, axis: -1}"), HasSubstr("number of an axis"));
  EXPECT_THAT(ErrorOf("- {from: a, to: b, side: left}"), HasSubstr("both, first, second"));
  EXPECT_THAT(ErrorOf("- {ignore: a, to: b}"), HasSubstr("cannot be combined with from and to"));
  EXPECT_THAT(ErrorOf("- {from: [], to: b}"), HasSubstr("at least one name"));
}

// What the built-in tables promise to the code that reads them.
TEST(BuiltInMapping, IsWellFormed) {
  const Result<BuiltInMapping> mapping = LoadBuiltInMapping();
  ASSERT_TRUE(mapping.ok()) << mapping.status().message();
  EXPECT_FALSE(mapping->wrappers.empty());
  EXPECT_FALSE(mapping->prefixes.empty());
  EXPECT_EQ(mapping->dialects.front().name, "Megatron");
  for (const Rule& rule : mapping->spellings.rules) {
    EXPECT_EQ(rule.from.size() + rule.to.size(), 2u) << rule.line;
  }
  for (const Dialect& dialect : mapping->dialects) {
    for (const Rule& rule : dialect.set.rules) {
      EXPECT_EQ(rule.from.size(), 1u) << dialect.name << " line " << rule.line;
      EXPECT_EQ(rule.side, RuleSide::kBoth);
    }
  }
}

}  // namespace
}  // namespace msprobe::naming
