// Where two runs part: the first calls, in execution order, whose inputs agree but whose outputs do
// not, told apart by kind.
#pragma once

#include <array>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "src/analysis/compare/agreement.h"
#include "src/analysis/compare/options.h"
#include "src/analysis/compare/result.h"
#include "src/analysis/compare/side.h"
#include "src/dump/stack_file.h"

namespace msprobe::analysis {

enum class OriginKind : uint8_t {
  kParameter,    // a weight, bias or running statistic that was not the same before the call
  kInput,        // data or random state that enters from outside: an input that no earlier recorded
                 // output explains, a random call, data from another rank
  kComputation,  // inputs and parameters agree, outputs do not
};
inline constexpr size_t kOriginKindCount = 3;
std::string_view OriginKindName(OriginKind kind);  // "parameter", "input", "computation"

// Texts are copies: a point outlives the sides it was found in.
struct DivergencePoint {
  OriginKind kind = OriginKind::kComputation;
  uint32_t entry = 0;        // index into npu.entries
  uint32_t row = 0;          // index into CompareResult::rows: the first row that differs
  double input_error = 0;    // largest Distance::relative over inputs and parameters (backward: the
                             // forward call's too)
  double output_error = 0;   // over outputs
  double amplification = 0;  // output_error over max(input_error, noise of the dtype)
  std::string entry_name;    // "Functional.linear.2.forward"
  std::string row_name;      // "Functional.linear.2.forward.input.1"
  std::string
      layer;  // "blocks.0.mlp.fc1 (Linear)"; empty when neither name nor construct.json tells
  std::string parent_module;  // from construct.json; empty if unknown
  std::string code_line;      // the innermost frame in the user's code; empty if unknown
  std::string note;           // what else is known: "random call", "data from another rank", ...
  bool from_other_rank =
      false;                    // the output of a communication call: look at the other ranks first
  bool is_saved_value = false;  // of a debug.json: a value without a call
  std::vector<std::string> stack;  // frames as recorded; empty if unknown
};

struct DivergenceReport {
  std::array<std::optional<DivergencePoint>, kOriginKindCount>
      first_of_kind;                            // indexed by OriginKind
  std::optional<DivergencePoint> first_origin;  // the earliest of the three: what to look at first
  // The first call whose outputs left the noise only because errors inside the noise had piled up;
  // not an origin. It matters when there is no origin.
  std::optional<DivergencePoint> first_drift;
  std::vector<DivergencePoint>
      amplifiers;  // the ten strongest, strongest first; calls, not the modules around them
  uint64_t compared_entry_count = 0;
  uint64_t identical_entry_count = 0;  // of the compared: every row equal
  uint64_t agreeing_entry_count = 0;   // equal or apart by noise
  uint64_t diverging_entry_count = 0;
};

// stack and construct may be null. Entries are taken in execution order: the NPU dump's order, with
// each parameters_grad entry, which a dump places beside the module's forward, moved behind the
// module's backward. Linear in rows.
DivergenceReport FindDivergence(const CompareOptions& options, const Side& npu, const Side& bench,
                                const CompareResult& result, const dump::StackFile* stack,
                                const dump::ConstructFile* construct);

}  // namespace msprobe::analysis
