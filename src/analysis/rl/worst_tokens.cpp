#include "src/analysis/rl/worst_tokens.h"

#include <algorithm>
#include <tuple>

namespace msprobe::analysis::rl {

bool IsWorse(const WorstToken& a, const WorstToken& b) {
  if (a.difference != b.difference) {
    return a.difference > b.difference;
  }
  return std::tie(a.pair, a.sequence, a.position) < std::tie(b.pair, b.sequence, b.position);
}

void WorstTokens::Add(const WorstToken& token) {
  if (!Wants(token.difference)) {
    return;
  }
  if (heap_.size() == limit_) {
    if (!IsWorse(token, heap_.front())) {
      return;
    }
    std::pop_heap(heap_.begin(), heap_.end(), IsWorse);
    heap_.pop_back();
  }
  heap_.push_back(token);
  std::push_heap(heap_.begin(), heap_.end(), IsWorse);
}

void WorstTokens::Add(const WorstTokens& others) {
  for (const WorstToken& token : others.heap_) {
    Add(token);
  }
}

std::vector<WorstToken> WorstTokens::Sorted() const {
  std::vector<WorstToken> tokens = heap_;
  std::sort(tokens.begin(), tokens.end(), IsWorse);
  return tokens;
}

}  // namespace msprobe::analysis::rl
