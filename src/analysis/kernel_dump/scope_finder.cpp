#include <algorithm>
#include <deque>
#include <utility>

#include "src/analysis/kernel_dump/code_mapping.h"

namespace msprobe::analysis::kernel_dump {

ScopeFinder::ScopeFinder(const IrNodes& nodes) : states_(1) {
  for (const auto& [pattern, node] : nodes) {
    uint32_t state = 0;
    for (const char c : pattern) {
      const auto [next, is_new] =
          states_[state].next.try_emplace(c, static_cast<uint32_t>(states_.size()));
      state = next->second;
      if (is_new) {
        states_.emplace_back();
      }
    }
    states_[state].node = &node;
    states_[state].length = static_cast<uint32_t>(pattern.size());
  }
  std::deque<uint32_t> queue;
  for (const auto& [c, next] : states_[0].next) {
    queue.push_back(next);
  }
  while (!queue.empty()) {
    const uint32_t state = queue.front();
    queue.pop_front();
    for (const auto& [c, next] : states_[state].next) {
      uint32_t fail = states_[state].fail;
      auto same = states_[fail].next.find(c);
      while (same == states_[fail].next.end() && fail != 0) {
        fail = states_[fail].fail;
        same = states_[fail].next.find(c);
      }
      const uint32_t target = same != states_[fail].next.end() ? same->second : 0;
      states_[next].fail = target;
      states_[next].report = states_[target].node != nullptr ? target : states_[target].report;
      queue.push_back(next);
    }
  }
}

ScopeFinder::Found ScopeFinder::Find(std::string_view op_name) const {
  struct Hit {
    size_t begin;
    uint32_t length;
    const IrNode* node;
  };
  std::vector<Hit> hits;
  Found found;
  uint32_t state = 0;
  for (size_t i = 0; i < op_name.size() && !found.cut; ++i) {
    auto next = states_[state].next.find(op_name[i]);
    while (next == states_[state].next.end() && state != 0) {
      state = states_[state].fail;
      next = states_[state].next.find(op_name[i]);
    }
    state = next != states_[state].next.end() ? next->second : 0;
    for (uint32_t end = states_[state].node != nullptr ? state : states_[state].report; end != 0;
         end = states_[end].report) {
      if (hits.size() == kMostScopes) {
        found.cut = true;
        break;
      }
      hits.push_back({i + 1 - states_[end].length, states_[end].length, states_[end].node});
    }
  }
  std::stable_sort(hits.begin(), hits.end(), [](const Hit& a, const Hit& b) {
    return std::pair(a.begin, a.length) < std::pair(b.begin, b.length);
  });
  for (const Hit& hit : hits) {
    if (found.code_stack.size() + hit.node->code_stack.size() > kMostCodeBytes ||
        found.scope_name.size() + hit.node->scope.size() > kMostCodeBytes) {
      found.cut = true;
      break;
    }
    if (!found.scope_name.empty()) {
      found.code_stack += '\n';
      found.scope_name += '\n';
    }
    found.code_stack += hit.node->code_stack;
    found.scope_name += hit.node->scope;
  }
  return found;
}

}  // namespace msprobe::analysis::kernel_dump
