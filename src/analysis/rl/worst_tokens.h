// The tokens whose probabilities differ most, out of any number.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

namespace msprobe::analysis::rl {

struct WorstToken {
  double difference = 0;  // of the probabilities, above 0
  size_t pair = 0;        // the number of the pair of arrays it stands in
  int64_t sequence = 0;   // row-major over all axes of the first array but the last
  int64_t position = 0;   // along the last axis
  double first = 0;       // log-probabilities
  double second = 0;
};

// The larger difference first; among equals the earlier token: a total order, so that what is kept
// does not depend on the order of adding.
bool IsWorse(const WorstToken& a, const WorstToken& b);

class WorstTokens {
 public:
  explicit WorstTokens(size_t limit) : limit_(limit) {}

  // Whether a token with this difference may belong to those that are kept.
  bool Wants(double difference) const {
    return limit_ > 0 && (heap_.size() < limit_ || difference >= heap_.front().difference);
  }
  void Add(const WorstToken& token);
  void Add(const WorstTokens& others);

  std::vector<WorstToken> Sorted() const;  // the worst first

 private:
  size_t limit_;
  std::vector<WorstToken> heap_;  // the least bad in front
};

}  // namespace msprobe::analysis::rl
