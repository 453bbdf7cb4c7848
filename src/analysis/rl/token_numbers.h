// How far the probabilities of the same tokens are apart, given as log-probabilities on two sides.
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <span>
#include <vector>

#include "msprobe/status.h"
#include "msprobe/tensor_file.h"
#include "msprobe/tensor_view.h"

namespace msprobe::analysis::rl {

// Saved arrays: opened, and read side by side as doubles.

struct OpenArray {
  TensorFile file;
  TensorView view;  // borrows from the file and from the scratch it was opened with
};
// `scratch` must outlive the result; one per array that is open.
Result<OpenArray> OpenSavedArray(const std::filesystem::path& path,
                                 std::vector<std::byte>& scratch);

// The common prefix of every axis. An error when the numbers of axes differ or there is nothing in
// common.
Result<Shape> CommonShape(const Shape& first, const Shape& second);

// The part of a view that lies in `shape`; axes of `shape` are no longer than its own.
TensorView Crop(const TensorView& view, const Shape& shape);

// The tokens whose probabilities differ most, out of any number.

struct WorstToken {
  double difference = 0;  // of the probabilities, above 0
  size_t pair = 0;        // the number of its pair of arrays
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
