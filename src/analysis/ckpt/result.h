// What a comparison of two checkpoints came to.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "msprobe/tensor_view.h"

#include "src/analysis/ckpt/match.h"
#include "src/analysis/ckpt/metrics.h"
#include "src/checkpoint/checkpoint.h"

namespace msprobe::analysis::ckpt {

// Best first.
enum class Outcome : uint8_t {
  kIdentical,   // same dtype, same bits
  kEqual,       // same values, in other dtypes or with zeros of other signs
  kClose,       // within the tolerance that was asked for
  kDifferent,   // apart
  kShapes,      // shapes differ: nothing was computed
  kUnreadable,  // one side could not be read
};
inline constexpr size_t kOutcomeCount = 6;
std::string_view OutcomeName(Outcome outcome);  // "identical", "equal", "close", ...

struct PairResult {
  std::string name;
  std::string name_a;  // as the checkpoint calls it
  std::string name_b;
  DType dtype_a = DType::kFloat32;
  DType dtype_b = DType::kFloat32;
  Shape shape_a;
  Shape shape_b;
  Outcome outcome = Outcome::kIdentical;
  PairSums sums;  // all zero when nothing was computed
  PairMetrics metrics;
  std::vector<std::string> notes;  // of both sides, of matching, and why something is unreadable

  bool computed() const { return outcome < Outcome::kShapes; }
  // NaN or infinity on one side where the other has none.
  bool has_non_finite_on_one_side() const { return sums.finite.nonfinite_mismatch_count > 0; }
  bool has_non_finite() const {
    return sums.nan_count_a + sums.nan_count_b + sums.inf_count_a + sums.inf_count_b > 0;
  }
};

struct SideFacts {
  checkpoint::Kind kind = checkpoint::Kind::kTensorFile;
  std::filesystem::path path;  // what was read
  std::optional<int64_t> iteration;
  size_t parameter_count = 0;
};

// A setting of the optimizer that is no number and differs.
struct SettingDifference {
  std::string name;
  std::string text_a;
  std::string text_b;
};

// Two parameters of other names with the same elements.
struct SameContent {
  std::string name_a;
  std::string name_b;
  bool transposed = false;  // one of them is the transposed other
};

struct Comparison {
  SideFacts a;
  SideFacts b;
  std::vector<PairResult> pairs;  // in order of first appearance in the first checkpoint
  std::vector<Unmatched> only_in_a;
  std::vector<Unmatched> only_in_b;
  std::vector<Unmatched> left_out_a;  // without partner, but no difference
  std::vector<Unmatched> left_out_b;
  std::vector<SettingDifference> settings;
  std::vector<SameContent> same_content;  // of parameters without partner, or that differ from it
  bool wrote_mapping = false;             // a draft made of them
  std::vector<std::string> warnings;
  uint64_t bytes = 0;  // of both sides' compared elements
  bool with_means = false;
  std::vector<std::filesystem::path> files;  // what was written, the main result first
  double seconds = 0;

  size_t CountOf(Outcome outcome) const;
  // No element of one side was held against one of the other.
  bool nothing_compared() const;
};

}  // namespace msprobe::analysis::ckpt
