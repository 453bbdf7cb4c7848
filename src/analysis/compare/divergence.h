// Where two runs part: the first calls, in execution order, whose inputs agree but whose outputs do not, told apart by kind.
#pragma once

#include <array>
#include <optional>
#include <string>
#include <vector>

#include "src/analysis/compare/options.h"
#include "src/analysis/compare/result.h"
#include "src/analysis/compare/side.h"
#include "src/dump/stack_file.h"

namespace msprobe::analysis {

enum class OriginKind : uint8_t {
  kParameter,     // a weight that was not the same before the call
  kInput,         // data or random state that enters from outside: an input that no earlier recorded output explains
  kComputation,   // inputs and parameters agree, outputs do not
};
std::string_view OriginKindName(OriginKind kind);   // "parameter", "input", "computation"

struct DivergencePoint {
  OriginKind kind = OriginKind::kComputation;
  uint32_t entry = 0;             // index into npu.entries
  uint32_t row = 0;               // index into CompareResult::rows: the first row that differs
  double input_error = 0;         // largest Distance::relative over inputs and parameters
  double output_error = 0;        // over outputs
  double amplification = 0;       // output_error over max(input_error, noise of the dtype)
  std::string parent_module;      // from construct.json; empty if unknown
  std::vector<std::string> stack; // frames as recorded; empty if unknown
};

struct DivergenceReport {
  std::array<std::optional<DivergencePoint>, 3> first_of_kind;   // indexed by OriginKind
  std::optional<DivergencePoint> first_origin;                   // the earliest of the three: what to look at first
  std::vector<DivergencePoint> amplifiers;                       // the ten strongest, strongest first
  uint64_t compared_entry_count = 0;
  uint64_t agreeing_entry_count = 0;
  uint64_t diverging_entry_count = 0;
};

// stack and construct may be null. Entries are taken in the NPU dump's order, which is execution order.
DivergenceReport FindDivergence(const CompareOptions& options, const Side& npu, const Side& bench,
                                const CompareResult& result, const dump::StackFile* stack,
                                const dump::ConstructFile* construct);

// True when a row's two sides are equal up to the noise of its dtype (or the tolerances given).
bool RowAgrees(const CompareOptions& options, const Side& npu, const Side& bench, const RowResult& row);

}  // namespace msprobe::analysis
