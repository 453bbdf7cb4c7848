#include <set>

#include <gtest/gtest.h>

#include "src/serve/http_server.h"

namespace msprobe::serve {
namespace {

TEST(Access, TokensAreLongAndNeverTheSame) {
  std::set<std::string> tokens;
  for (int i = 0; i < 100; ++i) {
    const std::string token = NewToken();
    EXPECT_EQ(token.size(), 32U);
    EXPECT_EQ(token.find_first_not_of("0123456789abcdef"), std::string::npos);
    tokens.insert(token);
  }
  EXPECT_EQ(tokens.size(), 100U);
}

TEST(Access, OnlyTheWholeTokenCounts) {
  EXPECT_TRUE(IsSameToken("abcd", "abcd"));
  for (const std::string_view wrong : {"", "abc", "abcde", "abce", "xbcd", "ABCD"}) {
    EXPECT_FALSE(IsSameToken(wrong, "abcd")) << wrong;
  }
  EXPECT_FALSE(IsSameToken(std::string_view("abcd\0", 5), "abcd"));
}

TEST(Access, AHostIsAnAddressOrAKnownName) {
  for (const std::string_view own : {"localhost", "LOCALHOST:1", "127.0.0.1:8080", "10.0.0.7",
                                     "[::1]:80", "[fe80::1]", "trainer", "trainer:80"}) {
    EXPECT_TRUE(IsOwnHost(own, "trainer")) << own;
  }
  for (const std::string_view other :
       {"", ":80", "evil.example", "localhost.evil.example", "127.0.0.1.evil.example", "[::1", "[]",
        "trainer.evil.example", "1.2.3", "0x7f000001"}) {
    EXPECT_FALSE(IsOwnHost(other, "trainer")) << other;
  }
}

TEST(Access, PagesOfOtherOriginsAreRefused) {
  const RequestHeaders plain{.host = "localhost:80",
                             .origin = {},
                             .fetch_site = {},
                             .fetch_mode = {},
                             .fetch_destination = {},
                             .accept_language = {}};
  EXPECT_EQ(WhyRefused(plain, "127.0.0.1"), "");
  RequestHeaders asked = plain;
  asked.origin = "http://localhost:80";
  EXPECT_EQ(WhyRefused(asked, "127.0.0.1"), "");
  for (const char* origin :
       {"null", "http://localhost:81", "https://localhost:80", "http://evil"}) {
    asked.origin = origin;
    EXPECT_NE(WhyRefused(asked, "127.0.0.1"), "") << origin;
  }
  asked = plain;
  asked.fetch_site = "cross-site";
  asked.fetch_mode = "cors";
  EXPECT_NE(WhyRefused(asked, "127.0.0.1"), "");
  asked.fetch_mode = "navigate";
  asked.fetch_destination = "iframe";
  EXPECT_NE(WhyRefused(asked, "127.0.0.1"), "");
  asked.fetch_destination = "document";  // a link that somebody follows
  EXPECT_EQ(WhyRefused(asked, "127.0.0.1"), "");
}

}  // namespace
}  // namespace msprobe::serve
