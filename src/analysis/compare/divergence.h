// Where two runs part: the first calls, in execution order, whose inputs agree but whose outputs do
// not, told apart by kind.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "src/analysis/compare/agreement.h"
#include "src/analysis/compare/options.h"
#include "src/analysis/compare/pair_result.h"
#include "src/analysis/compare/side.h"
#include "src/analysis/compare/step_record.h"
#include "src/dump/stack_file.h"

namespace msprobe::analysis::compare {

// Recognises a differing tensor when it is met again under another name.

// What a differing row is known by.
struct RowPrints {
  uint64_t extremes = 0;  // Max and Min of both sides; Norm too when both have the same Max and Min
  uint64_t checksums = 0;
  bool same_extremes = false;
};

// One result row while divergences are sought.
struct RowView {
  uint32_t result = 0;  // index into PairResult::rows
  const SideRow* npu = nullptr;
  const SideRow* bench = nullptr;  // null: shapes differ, so there is no pair
  Distance distance;
  RowPrints prints;  // of rows that are not identical
  bool agrees = true;
  bool forgiven = false;  // agrees although its relative error is large: a gradient that cancels
  bool stored = false;    // a weight or running statistic
  UpdateJudgement update = UpdateJudgement::kUnknown;  // stored: by what the step before left
  double hidden = 0;  // how far single elements may be apart although the statistics hardly are
};

// Both sides' values take part: that two different tensors differ in the same way by chance is out
// of the question. Views keep the checksum; transposed copies keep Max and Min, while Mean and Norm
// may be summed in another order.
RowPrints PrintsOf(const RowView& row, bool has_checksums);

class DifferingRows {
 public:
  explicit DifferingRows(bool has_checksums) : has_checksums_(has_checksums) {}

  void Remember(const RowPrints& prints);
  bool IsKnown(const RowPrints& prints) const;

 private:
  // Open addressing; 0 marks a free place. Several times faster than std::unordered_set when every
  // row differs.
  class PrintSet {
   public:
    void Insert(uint64_t print);
    bool Contains(uint64_t print) const;

   private:
    void Grow();
    std::vector<uint64_t> places_;  // a power of two
    size_t used_ = 0;
  };

  const bool has_checksums_;
  PrintSet prints_;
};

// The scale of a tensor's elements: Norm / sqrt(elements); 0 when unknown.
double RootMeanSquare(const SideRow& row);

enum class OriginKind : uint8_t {
  kParameter,    // a weight, bias or running statistic that was not the same before the call
  kInput,        // data or random state that enters from outside: an input that no earlier recorded
                 // output explains, a random call, data from another rank
  kComputation,  // outputs are further apart than inputs, parameters and rounding explain
  kOptimizer,    // a parameter whose value and gradient agreed in the step before
  kDType,        // one side computes this call in another dtype than the other
  kUnmatchedCall,  // only one side made the call
};
inline constexpr size_t kOriginKindCount = 6;
// "parameter", "input", "computation", "optimizer", "dtype", "unmatched call".
std::string_view OriginKindName(OriginKind kind);

// Which side computed a call wrong, by its own inputs.
enum class WrongSide : uint8_t { kNpu, kBench, kBoth, kNeither, kUnknown };
// "npu", "bench", "both", "neither", "unknown".
std::string_view WrongSideName(WrongSide side);

// The result of recomputing a call on both sides.
struct SideOpinion {
  WrongSide side = WrongSide::kUnknown;
  std::string reason;  // "the NPU side, off by ...; the bench is ...", without a full stop
};

// How sure an origin is: by how far it is beyond what inputs and rounding explain.
enum class Confidence : uint8_t { kLow, kMedium, kHigh, kCertain };
std::string_view ConfidenceName(Confidence confidence);  // "low", "medium", "high", "certain"

// What the sides gave to a call, as Python shows it, or "not given".
struct ArgumentDifference {
  std::string name;  // "input.1", "kwargs.approximate"
  std::string npu;
  std::string bench;
};

// Texts are copies: a point outlives the sides it was found in.
struct DivergencePoint {
  OriginKind kind = OriginKind::kComputation;
  uint32_t entry = 0;       // index into npu.entries
  uint32_t row = 0;         // index into PairResult::rows: the first row that differs
  double input_error = 0;   // largest Distance::relative over inputs and parameters (backward: the
                            // forward call's too)
  double output_error = 0;  // over outputs
  double explained_error = 0;  // computation: the output_error that inputs and rounding explain
  double own_noise = 0;        // OwnNoise of the row; 0: no repetitions are recorded
  double digits = 0;           // significant ones by them, of the side that has fewer
  double amplification = 0;    // output_error over max(input_error, noise of the dtype)
  Confidence confidence = Confidence::kMedium;
  std::string reason;            // the rule that made this call an origin, with its figures
  std::string entry_name;        // "Functional.linear.2.forward"
  std::string bench_entry_name;  // its partner, by name or by the order of calls; empty: none
  std::string row_name;          // "Functional.linear.2.forward.input.1"
  std::string
      layer;  // "blocks.0.mlp.fc1 (Linear)"; empty when neither name nor construct.json tells
  std::string parent_module;  // from construct.json; empty if unknown
  std::string code_line;      // the innermost frame in the user's code; empty if unknown
  std::string note;           // what else is known: "random call", "data from another rank", ...
  std::optional<ArgumentDifference>
      argument;  // input: what is not a tensor, a constant of the code
  bool from_other_rank =
      false;                    // the output of a communication call: look at the other ranks first
  bool is_saved_value = false;  // of a debug.json: a value without a call
  std::vector<std::string> stack;         // frames as recorded; empty if unknown
  std::optional<SideOpinion> wrong_side;  // of a computation whose tensors were captured
};

// What the walk made of a result row.
enum class RowStanding : uint8_t {
  kNotCompared,
  kIdentical,
  kAgrees,  // apart by noise, or a gradient that is nothing but rounding
  kDrifts,  // further apart, but no more than errors before it explain
  kDiffers,
};

// "not compared", "identical", "agrees", "drifts", "differs".
std::string_view RowStandingName(RowStanding standing);

// What it made of a call of the NPU side.
struct CallStanding {
  RowStanding standing = RowStanding::kNotCompared;  // the worst of its rows
  double input_error = 0;                            // as of DivergencePoint
  double output_error = 0;
};

struct DivergenceReport {
  std::vector<RowStanding> rows;    // by result row
  std::vector<CallStanding> calls;  // by entry of the NPU side
  std::array<std::optional<DivergencePoint>, kOriginKindCount>
      first_of_kind;                            // indexed by OriginKind
  std::optional<DivergencePoint> first_origin;  // the earliest of them: what to look at first
  // The first call whose outputs left the noise only because errors inside the noise had piled up;
  // not an origin. It matters when there is no origin.
  std::optional<DivergencePoint> first_drift;
  std::vector<DivergencePoint>
      amplifiers;  // the ten strongest, strongest first; calls, not the modules around them
  uint64_t compared_entry_count = 0;
  uint64_t identical_entry_count = 0;  // of the compared: every row equal
  uint64_t agreeing_entry_count = 0;   // equal or apart by noise
  uint64_t diverging_entry_count = 0;
  // Checksums: the first call whose inputs and parameters are bit-equal and whose outputs are not,
  // when they are apart by no more than noise.
  std::optional<DivergencePoint> first_unequal_bits;
};

struct DivergenceInput {
  const Options& options;
  const Side& npu;
  const Side& bench;
  const PairResult& result;
  const dump::StackFile* stack = nullptr;
  const dump::ConstructFile* construct = nullptr;
  std::optional<int64_t> step;
  const StepRecord* previous =
      nullptr;  // of the step before this one, same rank; null: not compared
};

struct DivergenceOutput {
  DivergenceReport report;
  StepRecord record;  // for the next step
};

// Entries are taken in execution order: the NPU dump's order, with each parameters_grad entry,
// which a dump places beside the module's forward, moved behind the module's backward. Where the
// sides did not make the same calls, calls are paired by their order instead of their numbers,
// unless a mapping or fuzzy matching was asked for. Linear in rows.
DivergenceOutput FindDivergence(const DivergenceInput& input);

}  // namespace msprobe::analysis::compare
