#include "src/json/settings_table.h"

#include <array>
#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace msprobe::json {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

enum class Mode { kFast, kExact };
constexpr std::array<Choice<Mode>, 2> kModes = {{{"fast", Mode::kFast}, {"exact", Mode::kExact}}};
constexpr std::array<std::string_view, 2> kSides = {"left", "right"};

struct Inner {
  std::filesystem::path folder = "in";
};

struct Options {
  bool is_on = false;
  int32_t count = 3;
  std::optional<uint64_t> limit;
  std::string name;
  std::vector<std::string> texts;
  std::vector<int64_t> steps;
  Mode mode = Mode::kFast;
  std::string side = "left";
  Inner inner;
};

const std::vector<SettingsRow<Options>>& Rows() {
  static const std::vector<SettingsRow<Options>> kRows = {
      {"on", Switch(&Options::is_on)},
      {"count", Number(&Options::count, 1, 9)},
      {"limit", Number(&Options::limit, 0, 100)},
      {"name", Text(&Options::name)},
      {"texts", TextList(&Options::texts)},
      {"steps", NumberSet(&Options::steps)},
      {"mode", OneOf(&Options::mode, kModes)},
      {"side", OneOf(&Options::side, kSides), [](const Options& options) { return options.is_on; },
       [](const Options& options) { return options.side != "left"; }},
      {"folder", Text<Options>([](auto& options) -> auto& { return options.inner.folder; })}};
  return kRows;
}

Status Read(std::string_view text, Options& options) {
  MSP_ASSIGN_OR_RETURN(const Config config, ParseJsonConfig(text, "it.json"));
  return ReadRows(Rows(), SettingsReader(config, config.root(), ""), options);
}

TEST(SettingsTable, LeavesWhatIsNotGivenAsItIs) {
  Options options;
  ASSERT_TRUE(Read(R"({"name": null})", options).ok());
  EXPECT_EQ(RowsJson(Rows(), options),
            R"({"on": false, "count": 3, "name": "", "texts": [], "steps": [], "mode": "fast", )"
            R"("folder": "in"})");
}

TEST(SettingsTable, WritesWhatItHasRead) {
  const std::string text =
      R"({"on": true, "count": 9, "limit": 0, "name": "n", "texts": ["a"], "steps": [1, 2], )"
      R"("mode": "exact", "side": "right", "folder": "out"})";
  Options options;
  ASSERT_TRUE(Read(text, options).ok());
  EXPECT_EQ(RowsJson(Rows(), options), text);
}

TEST(SettingsTable, PassesOverARowWhoseConditionDoesNotHold) {
  Options options;
  ASSERT_TRUE(Read(R"({"side": "right"})", options).ok());
  EXPECT_EQ(options.side, "left");
}

TEST(SettingsTable, NamesKeyAndLimitsOfAWrongValue) {
  Options options;
  EXPECT_THAT(Read(R"({"count": 10})", options).message(),
              HasSubstr(R"(it.json line 1: key "count": is 10; allowed: integers from 1 to 9)"));
  EXPECT_THAT(Read(R"({"mode": "slow"})", options).message(), HasSubstr("allowed: fast, exact"));
}

TEST(SettingsTable, SuggestsTheNearestKeyOrListsAll) {
  const Result<Config> config = ParseJsonConfig(R"({"cuont": 1})", "it.json");
  ASSERT_TRUE(config.ok());
  const SettingsReader reader(*config, config->root(), "");
  const Json& value = *reader.Find("cuont");
  EXPECT_EQ(UnknownKeyError(reader, value, "cuont", KeyNames(Rows())).hint(),
            "did you mean \"count\"?");
  const std::vector<std::string> few = {"one", "two"};
  EXPECT_EQ(UnknownKeyError(reader, value, "cuont", few).hint(), "valid here: one, two");
  EXPECT_EQ(KeyNames(Rows()).front(), "on");
}

}  // namespace
}  // namespace msprobe::json
