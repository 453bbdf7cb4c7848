#include <string>
#include <string_view>
#include <vector>

#include <gtest/gtest.h>

#include "src/base/strings.h"

namespace msprobe::base {
namespace {

TEST(TextArena, KeepsTextsOfEverySizeAtStableAddresses) {
  TextArena arena;
  std::vector<std::string_view> kept;
  std::vector<std::string> expected;
  for (size_t length : {0, 1, 100, 70000, 5, 400000, 262144, 3}) {
    for (int copy = 0; copy < 5; ++copy) {
      expected.emplace_back(length, static_cast<char>('a' + copy));
      kept.push_back(arena.Keep(expected.back()));
    }
  }
  for (size_t i = 0; i < kept.size(); ++i) {
    EXPECT_EQ(kept[i], expected[i]);
  }
}

}  // namespace
}  // namespace msprobe::base
