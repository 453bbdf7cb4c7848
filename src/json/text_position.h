// Inside of the room: where something stands in a text, as messages tell it.
#pragma once

#include <cstddef>
#include <iterator>
#include <string_view>

#include "msprobe/status.h"

namespace msprobe::json::internal {

// Where an offset lies, 1-based; columns count bytes. Lines end at '\n'.
struct TextPosition {
  size_t line = 1;
  size_t column = 1;
};
TextPosition Locate(std::string_view text, size_t offset);

// kBadFormat: "line 3 column 1 (byte 11): expected ':' behind a key".
Status ErrorAt(std::string_view text, size_t offset, std::string_view what);

// What a CountingIterator went over: the place of the byte that was taken last.
struct LineCounter {
  size_t taken = 0;  // bytes
  int line = 1;
  bool line_ends = false;  // the byte is a line break, so the next one stands on the next line

  void Take(char byte) {
    line += line_ends ? 1 : 0;
    line_ends = byte == '\n';
    ++taken;
  }
};

// Goes over a text and counts in `counter`, which is borrowed, as all copies do: for parsers that
// take iterators and tell of a value right behind its last byte, or one byte later. In both cases
// counter->line is the line of the value's end, because what ends a number is at most the line
// break itself.
class CountingIterator {
 public:
  using iterator_category = std::input_iterator_tag;
  using value_type = char;
  using difference_type = std::ptrdiff_t;
  using pointer = const char*;
  using reference = const char&;

  CountingIterator(const char* at, LineCounter* counter) : at_(at), counter_(counter) {}

  const char& operator*() const { return *at_; }
  CountingIterator& operator++() {
    counter_->Take(*at_);
    ++at_;
    return *this;
  }
  CountingIterator operator++(int) {
    CountingIterator before = *this;
    ++*this;
    return before;
  }
  bool operator==(const CountingIterator& other) const { return at_ == other.at_; }

 private:
  const char* at_;
  LineCounter* counter_;
};

}  // namespace msprobe::json::internal
