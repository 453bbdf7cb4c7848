// What a running program says of its hyperparameters.
#include <string>

#include <gtest/gtest.h>

#include "src/analysis/config_check/hyperparameters.h"
#include "tests/unit/support/temporary_folder.h"

namespace msprobe::analysis::config_check::internal {
namespace {

Result<std::string> Read(const std::string& text) {
  const msprobe::test_support::TemporaryFolder folder;
  return ReadDynamicParameters(folder.Write("dynamic_parameters.json", text));
}

TEST(DynamicParameters, KeepTheirValuesAndOrder) {
  const std::string text = R"({
    "lr": 0.1,
    "eps": 1e-08,
    "big": 123456789012345678901234567890,
    "flag": true,
    "betas": [
        0.9,
        NaN,
        -Infinity
    ],
    "nested": {
        "a": null,
        "b": "text"
    }
})";
  const Result<std::string> read = Read(text);
  ASSERT_TRUE(read.ok()) << read.status().message();
  EXPECT_EQ(*read, text);
}

TEST(DynamicParameters, LoseTheirSecrets) {
  const Result<std::string> read = Read(R"({"hf_token": "abc", "pad_token": "<pad>",
      "logger": {"password": "abc", "url": "https://me:abc@host/"}})");
  ASSERT_TRUE(read.ok()) << read.status().message();
  EXPECT_EQ(read->find("abc"), std::string::npos) << *read;
  EXPECT_NE(read->find("<pad>"), std::string::npos) << *read;
}

TEST(DynamicParameters, AreOneObject) {
  EXPECT_FALSE(Read("[1, 2]").ok());
  EXPECT_FALSE(Read("{\"a\": ").ok());
  EXPECT_FALSE(Read("").ok());
  EXPECT_FALSE(Read(std::string(100000, '[')).ok());
}

}  // namespace
}  // namespace msprobe::analysis::config_check::internal
