#include <algorithm>
#include <string_view>
#include <utility>
#include <vector>

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

TEST(CountingIterator, KnowsTheLineOfTheByteThatWasTakenLast) {
  constexpr std::string_view kText = "a\n\nb\r\nc";
  LineCounter counter;
  std::vector<int> lines;
  CountingIterator at(kText.data(), &counter);
  const CountingIterator end(kText.data() + kText.size(), &counter);
  for (; at != end; ++at) {
    const char byte = *at;
    EXPECT_EQ(byte, kText[counter.taken]);
    lines.push_back(counter.line + (counter.line_ends ? 1 : 0));
  }
  EXPECT_EQ(lines, (std::vector<int>{1, 1, 2, 3, 3, 3, 4}));
  EXPECT_EQ(counter.taken, kText.size());
  EXPECT_EQ(counter.line, 4);
}

TEST(CountingIterator, ALineBreakIsTheLastByteOfItsLine) {
  LineCounter counter;
  CountingIterator at("1\n2", &counter);
  ++at;
  at++;
  EXPECT_EQ(counter.line, 1);
  ++at;
  EXPECT_EQ(counter.line, 2);
}

TEST(CountingIterator, CopiesCountTogether) {
  LineCounter counter;
  CountingIterator first("\n\nx", &counter);
  ++first;
  CountingIterator second = first;
  ++second;
  ++second;
  EXPECT_EQ(counter.taken, 3U);
  EXPECT_EQ(counter.line, 3);
}

}  // namespace
}  // namespace msprobe::json::internal
