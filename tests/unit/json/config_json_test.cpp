#include <filesystem>
#include <string>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "src/base/files.h"
#include "src/json/config.h"

namespace msprobe::json {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

Config Parse(std::string_view text) {
  Result<Config> config = ParseJsonConfig(text, "a.json");
  EXPECT_TRUE(config.ok()) << config.status().message();
  return config.ok() ? *std::move(config) : Config{};
}

std::string ErrorOf(std::string_view text) {
  const Result<Config> config = ParseJsonConfig(text, "a.json");
  return config.ok() ? "no error" : config.status().message();
}

TEST(JsonConfig, KeepsKindsOrderAndLines) {
  const Config config =
      Parse("{\n\"b\": [1, 2.5,\n null],\n\n\"a\": {\"x\": true}, \"t\": \"\\u4f60\"}");
  ASSERT_EQ(config.root.members.size(), 3U);
  EXPECT_EQ(config.root.members[0].first, "b");
  EXPECT_EQ(config.root.members[1].first, "a");
  const ConfigValue& list = config.root.members[0].second;
  ASSERT_EQ(list.items.size(), 3U);
  EXPECT_EQ(list.items[0].integer, 1);
  EXPECT_EQ(list.items[0].number, 1.0);
  EXPECT_EQ(list.items[1].kind, ConfigKind::kFloat);
  EXPECT_EQ(list.items[2].kind, ConfigKind::kNull);
  EXPECT_EQ(list.items[2].line, 3);
  EXPECT_EQ(list.line, 2);
  EXPECT_EQ(config.root.Find("a")->line, 5);
  EXPECT_TRUE(config.root.Find("a")->Find("x")->boolean);
  EXPECT_EQ(config.root.Find("t")->text, "\u4f60");
  EXPECT_EQ(config.root.Find("none"), nullptr);
}

TEST(JsonConfig, AllowsCommentsAndTrailingCommas) {
  const Config config =
      Parse("// head\n{\"a\": 1, /* in\n between */ \"b\": [1, 2,], // tail\n}\n");
  EXPECT_EQ(config.root.Find("b")->items.size(), 2U);
  EXPECT_EQ(config.root.Find("b")->line, 3);
}

TEST(JsonConfig, NamesFileLineAndColumnOfASyntaxError) {
  EXPECT_THAT(ErrorOf("{\n\"a\": 1\n\"b\": 2}"), HasSubstr("a.json: line 3 column 1"));
  EXPECT_THAT(ErrorOf(""), HasSubstr("empty"));
  EXPECT_THAT(ErrorOf("{\"a\": [1, 2"), HasSubstr("ends too early"));
}

TEST(JsonConfig, RefusesDuplicateKeysWithBothLines) {
  const std::string error = ErrorOf("{\"a\": 1,\n\"b\": 2,\n\"a\": 3}");
  EXPECT_THAT(error, HasSubstr("line 3: key \"a\": already given on line 1"));
}

TEST(JsonConfig, RefusesDeepNesting) {
  EXPECT_THAT(ErrorOf(std::string(100000, '[')), HasSubstr("nested levels"));
  EXPECT_THAT(ErrorOf(std::string(101, '[') + std::string(101, ']')), HasSubstr("nested levels"));
  EXPECT_EQ(ErrorOf(std::string(100, '[') + std::string(100, ']')), "no error");
}

TEST(JsonConfig, GivesTypedMembersOrTheirFallbacks) {
  const Config config = Parse(R"({"t": "x", "b": true, "n": null, "i": [1, 2], "l": ["a", "b"]})");
  EXPECT_EQ(*config.Text(config.root, "t", "y"), "x");
  EXPECT_EQ(*config.Text(config.root, "n", "y"), "y");
  EXPECT_EQ(*config.Text(config.root, "absent", "y"), "y");
  EXPECT_EQ(*config.RequiredText(config.root, "t"), "x");
  EXPECT_TRUE(*config.Bool(config.root, "b", false));
  EXPECT_TRUE(*config.Bool(config.root, "absent", true));
  EXPECT_THAT(*config.IntList(config.root, "i"), ElementsAre(1, 2));
  EXPECT_THAT(*config.TextList(config.root, "l"), ElementsAre("a", "b"));
  EXPECT_TRUE(config.TextList(config.root, "absent")->empty());
}

TEST(JsonConfig, SaysWhichKindAMemberMustHave) {
  const Config config = Parse("{\n\"t\": [1],\n\"b\": \"yes\",\n\"l\": [\"a\",\n3]}");
  EXPECT_EQ(config.Text(config.root, "t", "").status().message(),
            "a.json line 2: key \"t\": must be text, not a list");
  EXPECT_EQ(config.Bool(config.root, "b", false).status().message(),
            "a.json line 3: key \"b\": must be true or false, not text");
  EXPECT_EQ(config.TextList(config.root, "l").status().message(),
            "a.json line 5: key \"l\": every item must be text, not an integer");
  EXPECT_EQ(config.IntList(config.root, "l").status().message(),
            "a.json line 4: key \"l\": every item must be an integer, not text");
  EXPECT_EQ(config.RequiredText(config.root, "npu_path").status().message(),
            "a.json line 1: key \"npu_path\": is missing");
  EXPECT_EQ(config.RequiredText(config.root, "npu_path").status().code(), StatusCode::kUsage);
}

TEST(JsonConfig, SuggestsTheNearestValidKey) {
  const Config config = Parse("{\"npu_path\": \"a\",\n\"bench_pth\": \"b\"}");
  const std::vector<std::string> valid = {"npu_path", "bench_path", "stack_path"};
  const Status status = config.CheckKeys(config.root, valid);
  EXPECT_EQ(status.message(), "a.json line 2: key \"bench_pth\": no such key");
  EXPECT_EQ(status.hint(), "did you mean \"bench_path\"?");
  EXPECT_TRUE(Parse("{\"npu_path\": 1}").CheckKeys(config.root.members[0].second, valid).ok());
}

TEST(JsonConfig, ListsTheValidKeysWhenNoneIsNear) {
  const Config config = Parse("{\"zzzzzzzz\": 1}");
  const std::vector<std::string> valid = {"npu_path", "bench_path"};
  EXPECT_EQ(config.CheckKeys(config.root, valid).hint(), "valid keys: npu_path, bench_path");
}

TEST(JsonConfig, LoadsFilesAndNamesTheMissingOne) {
  const std::filesystem::path path =
      std::filesystem::path(::testing::TempDir()) / "config_json_test.json";
  std::filesystem::remove(path);  // of an earlier run
  ASSERT_TRUE(base::WriteFileAtomically(path, "{\"a\": 1}").ok());
  const Result<Config> config = LoadJsonConfig(path);
  ASSERT_TRUE(config.ok());
  EXPECT_EQ(config->file, path.string());
  EXPECT_EQ(LoadJsonConfig("/nonexistent.json").status().code(), StatusCode::kNotFound);
}

}  // namespace
}  // namespace msprobe::json
