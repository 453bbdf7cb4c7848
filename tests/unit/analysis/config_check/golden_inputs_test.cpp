// Launch scripts and configs with what the Python tool makes of them (tests/data/config_check).
#include <filesystem>
#include <map>
#include <string>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "src/analysis/config_check/hyperparameters.h"
#include "src/base/strings.h"
#include "src/json/config.h"

namespace msprobe::analysis::config_check::internal {
namespace {

namespace fs = std::filesystem;
using json::Json;

const fs::path& Folder() {
  static const fs::path folder = fs::path(MSPROBE_TEST_DATA) / "config_check" / "dump_inputs";
  return folder;
}

Json Expected() {
  Result<json::Config> config = json::LoadJsonConfig(Folder() / "expected.json");
  EXPECT_TRUE(config.ok()) << config.status().message();
  return config.ok() ? (*config).root() : Json();
}

// What a pack of these files holds; null when it has no hyperparameters.
Json Collected(const std::string& files, bool compat) {
  HyperparameterReader reader(compat);
  for (const std::string_view name : base::Split(files, ' ')) {
    // Files that cannot be read count as empty.
    static_cast<void>(reader.Add(Folder() / name).ok());
  }
  if (reader.merged().size() == 0) {
    return {};
  }
  Result<Json> config = json::ParseJsonData(reader.Json(), files);
  EXPECT_TRUE(config.ok()) << config.status().message();
  return config.ok() ? *config : Json();
}

// "lr: 5" per line where the two differ, for the messages of a failure.
std::string Differences(const Json& expected, const Json& actual) {
  std::string text;
  for (const auto& [name, value] : expected.items()) {
    const Json* other = json::Find(actual, name);
    if (other == nullptr) {
      text += "missing " + name + "\n";
    } else if (!PythonEqual(value, *other)) {
      text += name + ": expected " + json::TextOf(value) + ", is " + json::TextOf(*other) + "\n";
    }
  }
  for (const auto& [name, value] : actual.items()) {
    if (json::Find(expected, name) == nullptr) {
      text += "too much: " + name + " = " + json::TextOf(value) + "\n";
    }
  }
  return text;
}

class GoldenInputs : public ::testing::TestWithParam<const char*> {};

TEST_P(GoldenInputs, AreReadWithEveryQuirkOfThePythonToolUnderCompat) {
  const Json expected = Expected();
  const Json* value = json::Find(expected, GetParam());
  ASSERT_NE(value, nullptr);
  const Json actual = Collected(GetParam(), true);
  EXPECT_EQ(value->type(), actual.type());
  EXPECT_TRUE(PythonEqual(*value, actual)) << Differences(*value, actual);
}

INSTANTIATE_TEST_SUITE_P(All, GoldenInputs,
                         ::testing::Values("bench.sh", "s1.sh", "s2.sh", "s3.sh", "s4.sh", "s5.sh",
                                           "s6.sh", "s7.sh", "sh2_s1.sh", "sh2_s2.sh", "sh2_s3.sh",
                                           "sh2_s4.sh", "y1.yaml", "y2.yaml", "y3.yaml", "y4.yaml",
                                           "y5.yaml", "y6.yaml", "y7.yaml", "y8.yaml",
                                           "y1.yaml y2.yaml", "y1.yaml y2.yaml y8.yaml",
                                           "y2.yaml y5.yaml sh2_s1.sh"));

class OrdinaryInputs : public ::testing::TestWithParam<const char*> {};

TEST_P(OrdinaryInputs, AreReadAsByThePythonToolWithoutAnyFlag) {
  const Json expected = Expected();
  const Json* value = json::Find(expected, GetParam());
  ASSERT_NE(value, nullptr);
  const Json actual = Collected(GetParam(), false);
  EXPECT_TRUE(PythonEqual(*value, actual)) << Differences(*value, actual);
}

INSTANTIATE_TEST_SUITE_P(All, OrdinaryInputs,
                         ::testing::Values("bench.sh", "s7.sh", "sh2_s2.sh", "sh2_s3.sh", "y2.yaml",
                                           "y5.yaml", "y6.yaml", "y7.yaml", "y8.yaml"));

TEST(GoldenInputs, AllAreTested) { EXPECT_EQ(Expected().size(), 23U); }

}  // namespace
}  // namespace msprobe::analysis::config_check::internal
