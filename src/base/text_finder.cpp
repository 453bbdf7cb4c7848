// The automaton of Aho and Corasick.
#include "src/base/text_finder.h"

#include <algorithm>
#include <unordered_set>

namespace msprobe::base {

TextFinder::TextFinder(std::span<const std::string_view> patterns)
    : next_equal_(patterns.size(), kNone) {
  for (auto index = static_cast<uint32_t>(patterns.size()); index-- > 0;) {
    if (patterns[index].empty()) {
      continue;
    }
    uint32_t state = 0;
    for (const char letter : patterns[index]) {
      uint32_t next = Child(state, letter);
      if (next == kNone) {
        next = static_cast<uint32_t>(states_.size());
        State& added = states_.emplace_back();
        added.letter = letter;
        added.sibling = states_[state].child;
        states_[state].child = next;
      }
      state = next;
    }
    next_equal_[index] = states_[state].pattern;
    states_[state].pattern = index;
  }
  // Shorter ones before longer ones.
  std::vector<uint32_t> queue = {0};
  queue.reserve(states_.size());
  for (size_t at = 0; at < queue.size(); ++at) {
    const uint32_t state = queue[at];
    for (uint32_t next = states_[state].child; next != kNone; next = states_[next].sibling) {
      State& own = states_[next];
      own.shorter = state == 0 ? 0 : Step(states_[state].shorter, own.letter);
      const State& shorter = states_[own.shorter];
      own.ending = shorter.pattern != kNone ? own.shorter : shorter.ending;
      own.lowest = std::min(own.pattern, shorter.lowest);
      queue.push_back(next);
    }
  }
}

uint32_t TextFinder::Child(uint32_t state, char letter) const {
  uint32_t child = states_[state].child;
  while (child != kNone && states_[child].letter != letter) {
    child = states_[child].sibling;
  }
  return child;
}

uint32_t TextFinder::Step(uint32_t state, char letter) const {
  uint32_t next = Child(state, letter);
  while (next == kNone && state != 0) {
    state = states_[state].shorter;
    next = Child(state, letter);
  }
  return next == kNone ? 0 : next;
}

std::optional<uint32_t> TextFinder::First(std::string_view text) const {
  uint32_t lowest = kNone;
  uint32_t state = 0;
  for (const char letter : text) {
    state = Step(state, letter);
    lowest = std::min(lowest, states_[state].lowest);
  }
  return lowest == kNone ? std::nullopt : std::optional(lowest);
}

std::vector<uint32_t> TextFinder::All(std::string_view text) const {
  std::vector<uint32_t> found;
  std::unordered_set<uint32_t> seen;  // states whose patterns, and those they end with, are found
  uint32_t state = 0;
  for (const char letter : text) {
    state = Step(state, letter);
    for (uint32_t end = states_[state].pattern != kNone ? state : states_[state].ending;
         end != kNone && seen.insert(end).second; end = states_[end].ending) {
      for (uint32_t index = states_[end].pattern; index != kNone; index = next_equal_[index]) {
        found.push_back(index);
      }
    }
  }
  std::sort(found.begin(), found.end());
  return found;
}

}  // namespace msprobe::base
