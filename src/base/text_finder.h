// Many texts looked for at once: time grows with the text that is searched, not with how many there
// are.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string_view>
#include <vector>

namespace msprobe::base {

// Keeps copies of nothing but letters; an empty pattern is never found.
class TextFinder {
 public:
  TextFinder() = default;
  explicit TextFinder(std::span<const std::string_view> patterns);

  // The lowest index of the patterns that stand anywhere in `text`.
  std::optional<uint32_t> First(std::string_view text) const;

  // The indices of all patterns that stand anywhere in `text`, ascending.
  std::vector<uint32_t> All(std::string_view text) const;

  // Calls visit(index, end) for each place where a pattern stands, in order of its end, of one end
  // long ones first, until it returns true.
  template <typename Visit>
  void ForEachHit(std::string_view text, Visit&& visit) const {
    uint32_t state = 0;
    for (size_t i = 0; i < text.size(); ++i) {
      state = Step(state, text[i]);
      for (uint32_t end = states_[state].pattern != kNone ? state : states_[state].ending;
           end != kNone; end = states_[end].ending) {
        for (uint32_t index = states_[end].pattern; index != kNone; index = next_equal_[index]) {
          if (visit(index, i + 1)) {
            return;
          }
        }
      }
    }
  }

  // Calls visit(index) for the patterns that `text` starts with, and that end there or are followed
  // by a dot, short ones first, until it returns true.
  template <typename Visit>
  void ForEachDottedPrefix(std::string_view text, Visit&& visit) const {
    uint32_t state = 0;
    for (size_t i = 0; i < text.size(); ++i) {
      state = Child(state, text[i]);
      if (state == kNone) {
        return;
      }
      if (i + 1 < text.size() && text[i + 1] != '.') {
        continue;
      }
      for (uint32_t index = states_[state].pattern; index != kNone; index = next_equal_[index]) {
        if (visit(index)) {
          return;
        }
      }
    }
  }

 private:
  static constexpr uint32_t kNone = UINT32_MAX;

  // A text that patterns begin with.
  struct State {
    uint32_t child = kNone;    // the first of those that are one letter longer
    uint32_t sibling = kNone;  // the next one that is as long and differs in the last letter
    uint32_t shorter = 0;      // the longest ending of this one that is a state
    uint32_t ending = kNone;   // the longest ending of this one that is a pattern
    uint32_t pattern = kNone;  // the first pattern that this is
    uint32_t lowest = kNone;   // the lowest index of the patterns that this ends with
    char letter = 0;
  };

  uint32_t Child(uint32_t state, char letter) const;
  uint32_t Step(uint32_t state, char letter) const;

  std::vector<State> states_ = std::vector<State>(1);
  std::vector<uint32_t> next_equal_;  // by pattern: the next one of the same text
};

}  // namespace msprobe::base
