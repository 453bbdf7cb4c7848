// The result of a comparison of two checkpoints.
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "msprobe/tensor_view.h"

#include "src/analysis/ckpt/metrics.h"
#include "src/checkpoint/checkpoint.h"

namespace msprobe::analysis::ckpt {

// What is asked of a comparison of two checkpoints.

// When two elements count as agreeing although they are not equal: |a - b| <= atol + rtol * |b|,
// the second checkpoint being b.
struct Tolerance {
  double relative = 0;
  double absolute = 0;

  bool given() const { return relative > 0 || absolute > 0; }
};

struct Options {
  std::filesystem::path path_a;  // checkpoints of any kind
  std::filesystem::path path_b;
  std::filesystem::path output = "ckpt_similarity.json";
  bool strict_json = false;  // null instead of the bare words NaN and Infinity
  // Everything that is known of each parameter, in files beside the output:
  // <stem>_details.<format>.
  bool write_json = false;
  bool write_xlsx = false;
  bool write_csv = false;
  bool write_html = false;               // for browsers
  std::filesystem::path unmatched_file;  // empty: none
  std::filesystem::path draft_file;      // a mapping made from equal elements; empty: none
  checkpoint::Options open;
  std::vector<std::filesystem::path> also;  // other steps that a side may have been taken for
  std::filesystem::path mapping_file;       // rules for names; empty: built-in ones only
  std::optional<int64_t> vocabulary;        // rows of embeddings to compare, without padding
  std::optional<int64_t> attention_heads;   // for checkpoints that do not record them
  std::optional<int64_t> query_groups;
  Tolerance tolerance;
  // Figures as the Python tool's float32 arithmetic gives them, see PairSettings.
  bool float32_figures = false;
  // Rank parameters by what their quantisation costs; with a dump, by the effect on outputs.
  bool sensitivity = false;
  std::filesystem::path activations;
  size_t threads = 0;  // 0: all cores
  bool quiet = false;  // no progress
};

// The parameters of two checkpoints that belong together.

struct MatchedPair {
  std::string name;         // what the results call it
  checkpoint::Parameter a;  // made from the first checkpoint's; borrows from its files
  checkpoint::Parameter b;
  std::vector<std::string> notes;  // how the two were made comparable, when something was done
};

struct Unmatched {
  std::string name;
  std::string reason;      // why nothing of the other side fits; empty when there is no such name
  std::string cause = {};  // "part_missing", as PairResult::cause
};

struct MatchedParameters {
  std::vector<MatchedPair> pairs;  // in order of first appearance in the first checkpoint
  std::vector<Unmatched> only_in_a;
  std::vector<Unmatched> only_in_b;
  // Without partner, too, but no difference between the models: buffers that are computed anew.
  std::vector<Unmatched> left_out_a;
  std::vector<Unmatched> left_out_b;
  std::vector<std::string> warnings;
};

// Equal names belong together.
MatchedParameters MatchByName(const checkpoint::Checkpoint& a, const checkpoint::Checkpoint& b);

// Best first.
enum class Outcome : uint8_t {
  kIdentical,      // same dtype, same bits
  kEqual,          // same values, in other dtypes or with zeros of other signs
  kClose,          // within the tolerance that was asked for
  kRounding,       // within the rounding of the coarser side's format
  kDifferent,      // apart
  kShapes,         // shapes differ: nothing was computed
  kUnreadable,     // one side could not be read
  kNotComparable,  // of digests: they do not say whether the values are equal
};
inline constexpr size_t kOutcomeCount = 8;
std::string_view OutcomeName(Outcome outcome);  // "identical", "equal", "close", ...

struct PairResult {
  std::string name;
  std::string name_a;  // as the checkpoint calls it
  std::string name_b;
  DType dtype_a = DType::kFloat32;
  DType dtype_b = DType::kFloat32;
  Shape shape_a;
  Shape shape_b;
  std::string format_a;  // checkpoint::FormatOf
  std::string format_b;
  std::string cause;  // of a difference, as far as one was found (see causes.h)
  std::string rows;   // of digests that differ: "0-127", the first and the last row
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

// What one process found of a pair, for another one (base/shared_run.h): without what both know,
// and without the sums beyond the range of double, whose metrics are made.
template <typename Archive>
void PackMembers(Archive& archive, PairSums& sums) {
  kernels::ComparePartial& finite = sums.finite;
  archive(finite.element_count, finite.nonfinite_mismatch_count, finite.nonfinite_match_count,
          finite.opposite_inf_count, finite.dot, finite.npu_square_sum, finite.bench_square_sum,
          finite.difference_square_sum, finite.max_abs_error, finite.max_relative_error,
          finite.below_one_thousandth_count, finite.below_five_thousandths_count,
          finite.different_count, sums.nan_count_a, sums.nan_count_b, sums.inf_count_a,
          sums.inf_count_b, sums.same_inf_count, sums.exceeding_count, sums.beyond_a, sums.beyond_b,
          sums.equal_bits, sums.sum_a, sums.sum_b);
}

template <typename Archive>
void PackMembers(Archive& archive, PairMetrics& metrics) {
  archive(metrics.l2, metrics.cosine, metrics.norm_a, metrics.norm_b, metrics.norm_ratio,
          metrics.relative_l2, metrics.rms_error);
}

template <typename Archive>
void PackMembers(Archive& archive, PairResult& pair) {
  archive.Choice(pair.outcome, kOutcomeCount);
  archive(pair.sums, pair.metrics, pair.notes);
}

struct SideFacts {
  checkpoint::Kind kind = checkpoint::Kind::kTensorFile;
  std::filesystem::path path;  // what was read
  std::optional<int64_t> iteration;
  size_t parameter_count = 0;
  std::string text = {};  // instead of the kind: "digest (live model, 8 of 8 ranks)"
};

// A setting of the optimizer that is not a number and differs.
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

// What quantisation did to a parameter, or to all of a layer.
struct Sensitivity {
  std::string name;
  std::string layer;
  std::string format;
  double error_square = 0;  // sums of squares of the error and of the weights
  double weight_square = 0;
  double relative_error = 0;     // the root of their quotient
  double share = 0;              // of the errors of all parameters, as sums of squares
  std::optional<double> effect;  // the error of the output, relative to the output
  double effect_error = 0;       // the sums of squares that it is the root of
  double effect_output = 0;
  std::string basis;          // of the effect: "recorded" or "at most"
  std::string why_no_effect;  // where there is none although activations were given
  uint64_t tokens = 0;        // that were multiplied
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
  bool with_sensitivity = false;
  std::filesystem::path activations;
  std::vector<Sensitivity> sensitivity;  // of parameters, the most sensitive one first
  std::vector<Sensitivity> sensitivity_of_layers;
  std::vector<std::string> warnings;
  uint64_t bytes = 0;  // of both sides' compared elements
  bool with_means = false;
  bool of_digests = false;                   // pairs have no figures
  std::vector<std::filesystem::path> files;  // what was written, the main result first
  std::filesystem::path page;                // for browsers, to be written; empty: none
  double seconds = 0;
  bool is_incomplete = false;  // a process that shared the work did not deliver
  // False in a process that handed its share to another one; nothing else here is of use then.
  bool reports = true;

  size_t CountOf(Outcome outcome) const;
  // No element of one side was held against one of the other.
  bool nothing_compared() const;
};

}  // namespace msprobe::analysis::ckpt
