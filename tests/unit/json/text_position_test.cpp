#include <string_view>
#include <utility>

#include <gtest/gtest.h>

#include "src/json/stream_reader.h"

namespace msprobe::json::internal {
namespace {

TEST(Locate, CountsLinesAndBytesOfALineFromOne) {
  constexpr std::string_view kText = "ab\nc\r\n\nd";
  const auto at = [&](size_t offset) {
    const TextPosition place = Locate(kText, offset);
    return std::pair(place.line, place.column);
  };
  EXPECT_EQ(at(0), std::pair(size_t{1}, size_t{1}));
  EXPECT_EQ(at(2), std::pair(size_t{1}, size_t{3}));
  EXPECT_EQ(at(3), std::pair(size_t{2}, size_t{1}));
  EXPECT_EQ(at(7), std::pair(size_t{4}, size_t{1}));
  EXPECT_EQ(at(kText.size()), std::pair(size_t{4}, size_t{2}));
}

}  // namespace
}  // namespace msprobe::json::internal
