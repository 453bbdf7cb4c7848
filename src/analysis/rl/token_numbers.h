// How far the probabilities of the same tokens are apart, given as log-probabilities on two sides.
#pragma once

#include <cstdint>
#include <span>

#include "msprobe/status.h"
#include "msprobe/tensor_view.h"

#include "src/analysis/rl/worst_tokens.h"

namespace msprobe::analysis::rl {

// Rounding of bfloat16 logits can lift a log-probability above 0 by so much; what lies above is
// none.
inline constexpr double kMaxLogProbability = 0.1;

// Count, mean and squared deviations of numbers that are not kept. Merging in another order changes
// the last digits, so results are merged in one order.
class Moments {
 public:
  void Add(std::span<const double> values);
  void Add(const Moments& others);

  uint64_t count() const { return count_; }
  double mean() const { return mean_; }  // 0 without numbers
  double standard_deviation() const;     // of the numbers themselves: divided by count()

 private:
  uint64_t count_ = 0;
  double mean_ = 0;
  double squares_ = 0;  // sum of squared deviations from the mean
};

struct OddValues {  // of one side
  uint64_t nan = 0;
  uint64_t minus_infinity = 0;  // probability 0
  uint64_t too_large = 0;       // above kMaxLogProbability
};

struct TokenNumbers {
  uint64_t tokens = 0;     // compared: neither masked, nor NaN or too large on a side
  uint64_t masked = 0;     // looked at on neither side
  uint64_t different = 0;  // log-probabilities that are not equal, NaN being equal to NaN
  OddValues first;
  OddValues second;
  double max_difference = 0;  // of probabilities
  Moments difference;         // of probabilities, absolute, over `tokens`
  Moments log_difference;     // first - second, over tokens that are finite on both sides

  void Add(const TokenNumbers& others);
};

// Compares what both shapes have in common; the last axis is the position in a sequence, the others
// together number the sequences. Tokens where `mask` (null: none; otherwise of the first shape) is
// 0 do not count. Tokens that differ in probability are offered to `worst` as those of `pair`.
Result<TokenNumbers> CompareTokens(const TensorView& first, const TensorView& second,
                                   const TensorView* mask, size_t pair, WorstTokens& worst);

}  // namespace msprobe::analysis::rl
