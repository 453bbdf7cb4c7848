#include <string>

#include <gtest/gtest.h>

#include "src/profile/common/values.h"

namespace msprobe::profile {
namespace {

TEST(Texts, GiveEqualTextsEqualNumbers) {
  Texts texts;
  EXPECT_EQ(texts.Intern(""), kNoText);
  EXPECT_EQ(texts.Intern("aten::mm"), 1U);
  EXPECT_EQ(texts.Intern("aten::add"), 2U);
  EXPECT_EQ(texts.Intern(std::string("aten::") + "mm"), 1U);
  EXPECT_EQ(texts[1], "aten::mm");
  EXPECT_EQ(texts[kNoText], "");
  EXPECT_EQ(texts.Find("aten::add"), 2U);
  EXPECT_EQ(texts.Find("aten::sub"), kNoText);
}

TEST(Texts, KeepTheirAddressesWhileMoreArrive) {
  Texts texts;
  const std::string_view first = texts[texts.Intern("first")];
  for (int i = 0; i < 100'000; ++i) {
    texts.Intern(std::to_string(i));
  }
  EXPECT_EQ(texts[1].data(), first.data());
  EXPECT_EQ(texts.size(), 100'002U);
  EXPECT_EQ(texts.Intern("99999"), 100'001U);
}

}  // namespace
}  // namespace msprobe::profile
