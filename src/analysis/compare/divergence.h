// Finds the first calls, in execution order, at which two runs diverge, classified by cause. How:
// docs/design/divergence.md.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "src/analysis/compare/call_alignment.h"
#include "src/analysis/compare/options.h"
#include "src/analysis/compare/pair_result.h"
#include "src/analysis/compare/relation.h"
#include "src/analysis/compare/side.h"
#include "src/analysis/compare/step_record.h"
#include "src/dump/stack_file.h"

namespace msprobe::analysis::compare {

enum class OriginKind : uint8_t {
  kParameter,    // a weight, bias or running statistic that was not the same before the call
  kInput,        // data or random state that enters from outside: an input that no earlier recorded
                 // output explains, a random call, data from another rank
  kComputation,  // outputs are further apart than inputs, parameters and rounding explain
  kOptimizer,    // a parameter whose value and gradient agreed in the step before
  kDType,        // one side computes this call in another dtype than the other
  kUnmatchedCall,  // only one side made the call
  kReplica,        // ranks of one side that must hold the same value do not
};
inline constexpr size_t kOriginKindCount = 7;
// "parameter", "input", "computation", "optimizer", "dtype", "unmatched call", "replica".
std::string_view OriginKindName(OriginKind kind);

// The side that computed a call wrong, given its own inputs.
enum class WrongSide : uint8_t { kNpu, kBench, kBoth, kNeither, kUnknown };
// "npu", "bench", "both", "neither", "unknown".
std::string_view WrongSideName(WrongSide side);

// The result of recomputing a call on both sides.
struct SideOpinion {
  WrongSide side = WrongSide::kUnknown;
  std::string reason;  // "the test side, off by ...; the reference is ...", without a full stop
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
  size_t place = 0;         // in execution order, of the call at which it was found
  uint32_t row = 0;         // index into PairResult::rows: the first row that differs
  double input_error = 0;   // largest Distance::relative over inputs and parameters (backward: the
                            // forward call's too)
  double output_error = 0;  // over outputs
  double explained_error = 0;  // computation: the output_error that inputs and rounding explain
  double noise_floor = 0;      // MeasuredNoise of the row; 0: no repetitions are recorded
  double digits = 0;           // significant digits by them, of the side that has fewer
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
  std::optional<Relation> relation;       // of the NPU row's value to the bench row's
  std::vector<int64_t> ranks;  // of the NPU side that are concerned; empty: all that hold the row
};

// Ranks of one side that must hold the same value and do not. Whoever knows the layout of the
// ranks finds it; FindDivergence makes an origin of the kind kReplica of it, at the call of the
// row.
struct ReplicaDifference {
  bool of_bench = false;
  uint32_t row = 0;            // index into that side's rows
  std::vector<int64_t> ranks;  // those that differ from most of the group, rising; of two both
  std::vector<int64_t> group;  // all that must hold the same value, rising
  double error = 0;            // the largest relative error between two of them
};

// Classification of a result row, from best to worst.
enum class RowStatus : uint8_t {
  kNotCompared,
  kIdentical,
  kAgrees,  // apart by noise, or a gradient that is nothing but rounding
  kDrifts,  // further apart, but no more than errors before it explain
  kDiffers,
};

// "not compared", "identical", "agrees", "drifts", "differs".
std::string_view RowStatusName(RowStatus status);

// Worst classification over the rows of an NPU call.
struct CallStatus {
  RowStatus status = RowStatus::kNotCompared;
  double input_error = 0;  // as of DivergencePoint
  double output_error = 0;
};

struct DivergenceReport {
  std::vector<RowStatus> rows;    // by result row
  std::vector<CallStatus> calls;  // by entry of the NPU side
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
  const MatchRules& match;
  const NoiseRules& noise;
  const Side& npu;
  const Side& bench;
  const PairResult& result;
  const CallOrder& order;
  const dump::StackFile* stack = nullptr;
  const dump::ConstructFile* construct = nullptr;
  std::optional<int64_t> step;
  const StepRecord* previous =
      nullptr;  // of the step before this one, same rank; null: not compared
  std::span<const ReplicaDifference> replicas = {};
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
