// Every damaged or hostile file through the door that checkpoints take.
#include <filesystem>
#include <string>
#include <vector>

#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include "src/checkpoint/checkpoint.h"
#include "src/json/config.h"

namespace msprobe::checkpoint {
namespace {

std::string BadFolder() { return std::string(MSPROBE_TEST_DATA) + "/formats/bad/"; }

const json::Json& Expected() {
  static const Result<json::Config> expected = json::LoadJsonConfig(BadFolder() + "expected.json");
  return expected->root();
}

std::vector<std::string> Files() {
  std::vector<std::string> files;
  for (const auto& [name, value] : Expected().items()) {
    if (!name.ends_with(".zip")) {  // packs of another command
      files.push_back(name);
    }
  }
  return files;
}

bool SomethingWasExecuted() {
  for (const auto& entry :
       std::filesystem::directory_iterator(std::filesystem::temp_directory_path())) {
    if (entry.path().filename().string().starts_with("msprobe_pwned_")) {
      return true;
    }
  }
  return false;
}

class BadCheckpointFile : public ::testing::TestWithParam<std::string> {};

TEST_P(BadCheckpointFile, IsAnsweredAsItMustBe) {
  const json::Json* entry = json::Find(Expected(), GetParam());
  ASSERT_NE(entry, nullptr);
  const std::string must = json::TextOf(json::Member(*entry, "must"));
  const Result<Checkpoint> checkpoint = OpenCheckpoint(BadFolder() + GetParam(), Options());
  bool good = checkpoint.ok();
  if (checkpoint.ok()) {
    for (const Parameter& parameter : checkpoint->parameters) {
      good = good && parameter.status.ok();
      EXPECT_TRUE(parameter.status.ok() || parameter.pieces.empty()) << parameter.name;
    }
  } else {
    EXPECT_NE(checkpoint.status().message().find(GetParam()), std::string::npos)
        << "the message names the file: " << checkpoint.status().message();
  }
  if (must == "error") {
    EXPECT_FALSE(good);
  } else if (must == "ok") {
    EXPECT_TRUE(good) << checkpoint.status().message();
  }
  EXPECT_FALSE(SomethingWasExecuted());
}

INSTANTIATE_TEST_SUITE_P(Files, BadCheckpointFile, ::testing::ValuesIn(Files()),
                         [](const ::testing::TestParamInfo<std::string>& file) {
                           std::string name = file.param;
                           for (char& c : name) {
                             c = std::isalnum(static_cast<unsigned char>(c)) != 0 ? c : '_';
                           }
                           return name;
                         });

TEST(BadCheckpointFolder, CallsInPicklesAreReportedAndNotMade) {
  const Result<Checkpoint> checkpoint =
      OpenCheckpoint(BadFolder() + "os_system_in_dict.pt", Options());
  ASSERT_TRUE(checkpoint.ok()) << checkpoint.status().message();
  ASSERT_EQ(checkpoint->warnings.size(), 1U);
  EXPECT_NE(checkpoint->warnings[0].find("system"), std::string::npos) << checkpoint->warnings[0];
  EXPECT_EQ(checkpoint->parameters.size(), 1U);
}

}  // namespace
}  // namespace msprobe::checkpoint
