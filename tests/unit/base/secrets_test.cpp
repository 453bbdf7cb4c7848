// What every build must know; tests/security/masking has the corpus.
#include "src/base/secrets.h"

#include <cstddef>
#include <string>
#include <utility>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace msprobe::base {
namespace {

using ::testing::ElementsAre;

TEST(Secrets, AreToldByTheNamesOfVariables) {
  for (const char* name :
       {"HF_TOKEN", "GITHUB_TOKEN", "WANDB_API_KEY", "AWS_SECRET_ACCESS_KEY", "AWS_ACCESS_KEY_ID",
        "PGPASSWORD", "MYSQL_PWD", "DB_PASS", "SSHPASS", "my_secret", "GOOGLE_CREDENTIALS",
        "APIKEY", "DOCKER_AUTH_CONFIG", "GITHUB_PAT", "hfToken", "SESSION_COOKIE", "TOKEN"}) {
    EXPECT_EQ(MaskValue(name, "value").text, kMaskedText) << name;
    EXPECT_EQ(MaskValue(name, "").text, "") << name;
  }
  for (const char* name :
       {"PWD", "OLDPWD", "PATH", "TOKENIZERS_PARALLELISM", "KEYBOARD", "SSH_AUTH_SOCK",
        "HCCL_DETERMINISTIC", "ASCEND_RT_VISIBLE_DEVICES", "CUDA_VISIBLE_DEVICES", "NCCL_ALGO",
        "PATTERN", "MONKEY", "AUTHOR", "COMPASS"}) {
    EXPECT_EQ(MaskValue(name, "value").text, "value") << name;
  }
}

TEST(Secrets, AreFoundInsideOfUrls) {
  const std::vector<std::pair<std::string, std::string>> cases = {
      {"http://me:pw@proxy:80", "http://***@proxy:80"},
      {"https://ghp_abc@github.com/x", "https://***@github.com/x"},
      {"a,http://u:p@x.com,https://u:p@y.com/@z", "a,http://***@x.com,https://***@y.com/@z"},
      {"redis://:p@ss@host/0", "redis://***@host/0"},
      {"ssh://git@host/x", "ssh://git@host/x"},
      {"http://host/a@b", "http://host/a@b"},
      {"https://h/x?api_key=abc&b=1", "https://h/x?api_key=***&b=1"},
      {"authorization=Bearer abc,x=1", "authorization=***,x=1"},
      {"--conf db.password=\"a b\" z", "--conf db.password=\"***\" z"},
      {"nothing here = 1", "nothing here = 1"},
      {"://@", "://@"}};
  for (const auto& [value, masked] : cases) {
    EXPECT_EQ(MaskValue("X", value).text, masked);
    EXPECT_EQ(MaskValue("X", masked).text, masked) << "masking twice";
  }
}

TEST(Secrets, AreLookedForInTextsOfAnySize) {
  std::string urls;
  std::string assignments;
  for (int i = 0; i < 700'000; ++i) {
    urls += "://";
    assignments += "a=";
  }
  EXPECT_EQ(MaskValue("X", urls).text, urls);
  EXPECT_EQ(MaskValue("X", assignments + "b").text, assignments + "b");
}

TEST(Secrets, ThatAreNumbersAreToldByHowSureTheNameIs) {
  EXPECT_TRUE(IsSecretValue(SecrecyOf("password"), "123456"));
  EXPECT_FALSE(IsSecretValue(SecrecyOf("use_password"), "1"));
  EXPECT_FALSE(IsSecretValue(SecrecyOf("token"), "4096"));
  EXPECT_TRUE(IsSecretValue(SecrecyOf("token"), "1234567890123"));
  EXPECT_FALSE(IsSecretValue(SecrecyOf("max_tokens"), "1234567890123"));
  EXPECT_FALSE(IsSecretValue(SecrecyOf("session"), "training"));
  EXPECT_TRUE(IsSecretValue(SecrecyOf("session"), "0123456789abcdef"));
}

TEST(Secrets, AreCountedOnce) {
  const Masked masked = MaskText("a=1 token=x --pwd y https://u:z@h\n");
  EXPECT_EQ(masked.text, "a=1 token=*** --pwd *** https://***@h\n");
  EXPECT_EQ(masked.count, 3U);
  EXPECT_EQ(MaskText(masked.text).count, 0U);
}

TEST(Secrets, LeaveTheirQuotesWhereTheyAre) {
  EXPECT_EQ(MaskText(R"({"password": 123456, "lr": 1})").text, R"({"password": "***", "lr": 1})");
  EXPECT_EQ(MaskText(R"({"a": "{\"token\": \"x\\\"y\"}"})").text,
            R"({"a": "{\"token\": \"***\"}"})");
  EXPECT_EQ(MaskText("password: x # y\nlr: 1").text, "password: \"***\"\nlr: 1");
  EXPECT_EQ(MaskText("password = 'a b'\nlr = 1").text, "password = '***'\nlr = 1");
}

TEST(Secrets, InWordsOfACommandLineAreMaskedWithTheirBlanks) {
  const std::vector<std::string> words = {"x",           "--api-key", "a b",
                                          "--pwd=c d",   "--token",   "--lr",
                                          "1",           "--header",  "Authorization: Bearer e",
                                          "--pad-token", "<pad>"};
  size_t count = 0;
  EXPECT_THAT(MaskArguments(words, &count),
              ElementsAre("x", "--api-key", "***", "--pwd=***", "--token", "--lr", "1", "--header",
                          "Authorization: \"***\"", "--pad-token", "<pad>"));
  EXPECT_EQ(count, 3U);
}

}  // namespace
}  // namespace msprobe::base
