#include "src/analysis/config_check/hyperparameters.h"

#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/unit/support/temporary_folder.h"

namespace msprobe::analysis::config_check::internal {
namespace {

using ::testing::HasSubstr;

using Files = std::vector<std::pair<std::string, std::string>>;

std::string JsonOf(const Files& files, bool compat = false) {
  HyperparameterReader reader(compat);
  for (const auto& [name, text] : files) {
    const Result<size_t> count = reader.AddText(name, text);
    EXPECT_TRUE(count.ok()) << count.status().message();
  }
  std::string json = reader.Json();
  std::erase(json, '\n');
  while (json.find("  ") != std::string::npos) {
    json.replace(json.find("  "), 2, " ");
  }
  return json;
}

std::string ErrorOf(const std::string& name, std::string_view text, bool compat = false) {
  HyperparameterReader reader(compat);
  const Result<size_t> count = reader.AddText(name, text);
  return count.ok() ? "no error" : count.status().message();
}

TEST(Hyperparameters, AreWrittenAsThePythonToolDoes) {
  HyperparameterReader reader(false);
  ASSERT_TRUE(reader.AddText("a.yaml", "b: 1\nc: [1.5, .nan]\nd: \"\\u00fc\"\ne: -.inf").ok());
  EXPECT_EQ(reader.Json(),
            "{\n    \"b\": 1,\n    \"c\": [\n        1.5,\n        NaN\n    ],\n"
            "    \"d\": \"\\u00fc\",\n    \"e\": -Infinity\n}");
}

TEST(Hyperparameters, OfYamlKeepFloatsNullsListsAndDates) {
  EXPECT_EQ(JsonOf({{"a.yml", "a: {b: 0.001, c: null}\nl: [1, {x: 2}]\nd: 2024-01-02\ne: {}"}}),
            "{ \"a.b\": 0.001, \"a.c\": null, \"l\": [ 1, { \"x\": 2 } ], \"d\": \"2024-01-02\", "
            "\"e\": {}}");
}

TEST(Hyperparameters, OfYamlFollowYaml11) {
  EXPECT_EQ(JsonOf({{"a.yaml",
                     "a: yes\nb: off\nc: 014\nd: 0x1F\ne: 1:30\nf: 1_000\ng: 1e-4\n"
                     "h: 1.0e-4\ni: 1.5e3\nj: 1:30.5\nk: 0o7\nl: 08:30\nm: 1:75"}}),
            "{ \"a\": true, \"b\": false, \"c\": 12, \"d\": 31, \"e\": 90, \"f\": 1000, "
            "\"g\": \"1e-4\", \"h\": 0.0001, \"i\": \"1.5e3\", \"j\": 90.5, \"k\": \"0o7\", "
            "\"l\": \"08:30\", \"m\": \"1:75\"}");
}

TEST(Hyperparameters, OfYamlMergeMappings) {
  EXPECT_EQ(
      JsonOf({{"a.yaml", "x: &x {a: 1, b: 2}\ny: &y {b: 3, c: 4}\nz: {<<: [*x, *y], a: 5}"}}),
      "{ \"x.a\": 1, \"x.b\": 2, \"y.b\": 3, \"y.c\": 4, \"z.b\": 2, \"z.c\": 4, \"z.a\": 5}");
  EXPECT_THAT(ErrorOf("a.yaml", "z: {<<: 5}"), HasSubstr("must be a mapping"));
}

TEST(Hyperparameters, OfAKeyGivenTwiceKeepTheLastValue) {
  EXPECT_EQ(JsonOf({{"a.yaml", "a: 1\nb: 2\na: 3"}}), "{ \"a\": 3, \"b\": 2}");
  EXPECT_EQ(JsonOf({{"a.json", "{\"a\": 1, \"b\": 2, \"a\": 3}"}}), "{ \"a\": 3, \"b\": 2}");
}

TEST(Hyperparameters, OfJsonAreFlattenedLikeThoseOfYaml) {
  EXPECT_EQ(JsonOf({{"ds.json",
                     "{\"zero\": {\"stage\": 2, \"offload\": false}, \"lr\": 1e-5, "
                     "\"big\": 123456789012345678901234567890}"}}),
            "{ \"zero.stage\": 2, \"zero.offload\": false, \"lr\": 1e-05, "
            "\"big\": 123456789012345678901234567890}");
}

TEST(Hyperparameters, KeepIntegersBeyond64Bits) {
  EXPECT_EQ(JsonOf({{"a.yaml", "a: 123456789012345678901234567890\nb: -18446744073709551616"}}),
            "{ \"a\": 123456789012345678901234567890, \"b\": -18446744073709551616}");
}

TEST(Hyperparameters, ThatDifferBetweenFilesAreAllKept) {
  const Files files = {{"a.yaml", "n: 3\nsame: 1"},
                       {"b.yaml", "n: 4\nsame: 1"},
                       {"c.yaml", "n: 7"},
                       {"d.yaml", "n: 4"}};
  EXPECT_EQ(
      JsonOf(files),
      "{ \"n\": { \"description\": \"duplicate_value\", \"values\": [ 3, 4, 7 ] }, \"same\": 1}");
  // The Python tool wraps what is already wrapped, and its later YAML files repeat the earlier
  // ones.
  EXPECT_EQ(JsonOf({files[0], files[1], files[2]}, true),
            "{ \"n\": { \"description\": \"duplicate_value\", \"values\": [ { \"description\": "
            "\"duplicate_value\", \"values\": [ 3, 4 ] }, 7 ] }, \"same\": 1}");
}

TEST(Hyperparameters, OfObjectsAreEqualInAnyOrder) {
  const std::string one = R"({"list": [{"a": 1, "b": 2, "c": {"d": 3, "e": 4}}]})";
  const std::string same = R"({"list": [{"a": 1, "c": {"e": 4.0, "d": 3}, "b": 2}]})";
  const std::string other = R"({"list": [{"a": 1, "c": {"e": 3, "d": 4}, "b": 2}]})";
  EXPECT_EQ(JsonOf({{"a.json", one}, {"b.json", same}}), JsonOf({{"a.json", one}}));
  EXPECT_THAT(JsonOf({{"a.json", one}, {"b.json", other}}), HasSubstr("duplicate_value"));
  // An object with very many members is no more work than its size.
  constexpr int kMany = 100'000;
  std::string forwards = "{\"list\": [{";
  std::string backwards = forwards;
  for (int i = 0; i < kMany; ++i) {
    forwards += fmt::format("{}\"{:06}\": 1", i == 0 ? "" : ",", i);
    backwards += fmt::format("{}\"{:06}\": 1", i == 0 ? "" : ",", kMany - 1 - i);
  }
  HyperparameterReader reader(false);
  ASSERT_TRUE(reader.AddText("a.json", forwards + "}]}").ok());
  ASSERT_TRUE(reader.AddText("b.json", backwards + "}]}").ok());
  EXPECT_TRUE(reader.merged().Find("list")->is_array());
}

TEST(Hyperparameters, OfLongPathsAreRefused) {
  // Twenty thousand leaves below a key of a thousand letters: each is named by both.
  std::string leaves;
  for (int i = 0; i < 20'000; ++i) {
    leaves += fmt::format("{}\"{}\": 1", i == 0 ? "" : ",", i);
  }
  const std::string text = "{\"" + std::string(1000, 'k') + "\": {" + leaves + "}}";
  EXPECT_THAT(ErrorOf("a.json", text), HasSubstr("the names of its nested values come to more"));
  EXPECT_THAT(ErrorOf("a.json", text, true), HasSubstr("come to more than"));
  EXPECT_EQ(ErrorOf("a.json", "{" + leaves + "}"), "no error");
}

TEST(Hyperparameters, OfDeeplyNestedListsAreRefused) {
  const auto nested = [](size_t levels) {
    std::string values = "1";
    for (int i = 0; i < 200'000; ++i) {
      values += ",1";
    }
    return "{\"a\":" + std::string(levels, '[') + values + std::string(levels, ']') + "}";
  };
  EXPECT_EQ(ErrorOf("a.json", nested(3)), "no error");
  EXPECT_THAT(ErrorOf("a.json", nested(95)), HasSubstr("bytes of blanks"));
}

TEST(Hyperparameters, OfAScriptThatIsWrongInEveryLineAreToldShortly) {
  std::string script;
  for (int i = 0; i < 1000; ++i) {
    script += "a\\ \n";
  }
  HyperparameterReader reader(false);
  ASSERT_TRUE(reader.AddText("a.sh", script).ok());
  ASSERT_EQ(reader.warnings().size(), 21U);
  EXPECT_EQ(reader.warnings().back(), "a.sh: 980 more like these");
}

TEST(Hyperparameters, UnderCompatLoseWhatThePythonToolLoses) {
  EXPECT_EQ(JsonOf({{"a.yaml",
                     "f: 0.5\nn: null\nl: [1, 2]\nd: 2024-01-02\ne: []\n\"q\": \"2024-01-02\""}},
                   true),
            "{ \"l\": 2, \"q\": \"2024-01-02\"}");
  EXPECT_THAT(ErrorOf("a.yaml", "a:\n  2: 3", true),
              HasSubstr("line 2: the key 2 is not a string"));
  EXPECT_EQ(JsonOf({{"a.yaml", "2: 3\nyes: 1\nno: 2\n~: 4\na: {\"2\": 5}"}}, true),
            "{ \"2\": 3, \"true\": 1, \"false\": 2, \"null\": 4, \"a.2\": 5}");
}

TEST(Hyperparameters, ComeFromScriptsWithAnySuffixThatBeginLikeOne) {
  EXPECT_EQ(JsonOf({{"run", "#!/bin/bash\npython t.py --a 1"}}), "{ \"a\": \"1\"}");
  EXPECT_EQ(JsonOf({{"job.slurm", "srun python t.py --a 1"}}), "{ \"a\": \"1\"}");
  EXPECT_THAT(ErrorOf("notes.txt", "a: 1"), HasSubstr("neither a launch script nor a config"));
}

TEST(Hyperparameters, OfScriptsFromOtherSystemsAreReadToo) {
  EXPECT_EQ(JsonOf({{"a.sh", "\xEF\xBB\xBFpython t.py \\\r\n --a 1 \\\r\n --b\r\n"}}),
            "{ \"a\": \"1\", \"b\": true}");
}

TEST(Hyperparameters, HideSecretsAndNothingElse) {
  EXPECT_EQ(JsonOf({{"a.sh",
                     "python t.py --wandb-api-key abc --password=x --hf_token t "
                     "--pad-token '<pad>' --max-tokens 4096 --num-query-key-values 8 "
                     "--tokenizer-model m --eod-token-id 2 "
                     "--url https://me:pw@host/x?access_token=abc'&'a=1"}}),
            "{ \"wandb-api-key\": \"***\", \"password\": \"***\", \"hf_token\": \"***\", "
            "\"pad-token\": \"<pad>\", \"max-tokens\": \"4096\", \"num-query-key-values\": \"8\", "
            "\"tokenizer-model\": \"m\", \"eod-token-id\": \"2\", "
            "\"url\": \"https://***@host/x?access_token=***&a=1\"}");
  EXPECT_EQ(
      JsonOf({{"a.yaml", "hub: {token: abc, secret_list: [a, 1]}\nkeys: [{api_key: x, b: y}]"}}),
      "{ \"hub.token\": \"***\", \"hub.secret_list\": [ \"***\", 1 ], "
      "\"keys\": [ { \"api_key\": \"***\", \"b\": \"y\" } ]}");
}

TEST(Hyperparameters, OfFilesThatCannotBeReadAreAnErrorThatNamesThem) {
  const msprobe::test_support::TemporaryFolder folder;
  HyperparameterReader reader(false);
  const Result<size_t> missing = reader.Add(folder / "no.sh");
  ASSERT_FALSE(missing.ok());
  EXPECT_EQ(missing.status().code(), StatusCode::kNotFound);
  EXPECT_THAT(missing.status().message(), HasSubstr("no.sh"));
  EXPECT_FALSE(reader.Add(folder.path()).ok());
  folder.Write("large.sh", std::string((size_t{1} << 20U) + 1, ' '));
  const Result<size_t> large = reader.Add(folder / "large.sh");
  ASSERT_FALSE(large.ok());
  EXPECT_THAT(large.status().message(), HasSubstr("more than the limit"));
  folder.Write("bad.yaml", "a: [");
  EXPECT_FALSE(reader.Add(folder / "bad.yaml").ok());
  EXPECT_EQ(reader.merged().size(), 0U);
}

}  // namespace
}  // namespace msprobe::analysis::config_check::internal
