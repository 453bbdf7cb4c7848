// One check of two packs: the rows of its sheet, and what they mean.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "msprobe/status.h"

#include "src/analysis/config_check/pack.h"
#include "src/analysis/config_check/rules.h"
#include "src/report/table.h"

namespace msprobe::analysis::config_check {

enum class Severity : uint8_t {
  kError,    // the runs are not the same experiment
  kWarning,  // they may not be
  kNote,     // good to know
};

// One thing to tell, with its remedy. The order in a list is the order of importance.
struct Finding {
  Severity severity = Severity::kError;
  std::optional<Part> part;           // none: the packs as a whole
  std::string what;                   // one sentence
  std::vector<std::string> examples;  // "lr: 0.1 / 0.2"
  std::string why;                    // empty: nothing to add
  std::string fix;
  bool consequence = false;  // of something else: told behind the other errors
};

struct CheckOptions {
  std::string framework;              // "pytorch", "mindspore" or empty
  bool normalize_env = false;         // values that mean the same are no difference
  bool normalize_pip = false;         // package names in any spelling, whole versions
  bool ignore_collector_env = false;  // leave out what the Python tool sets while collecting
  bool compat = false;                // only the rows of the Python tool
};

// Bench and cmp of one comparison.
struct PackPair {
  const Pack& bench;
  const Pack& cmp;
};

struct CheckResult {
  Part part = Part::kEnv;
  report::Table table;    // named as its sheet
  bool passed = true;     // the sheet's verdict: no row is an error
  bool compared = true;   // something of one side was held against something of the other
  size_t errors = 0;      // rows
  size_t nan_errors = 0;  // of these, rows that agree but for NaN on both sides
  size_t warnings = 0;    // rows that do not fail the check
  std::vector<Finding> findings;
};

// "env", ..., or "packs".
std::string_view PartName(const Finding& finding);

// How many examples a finding names.
inline constexpr size_t kMaxExamples = 4;
void AddExample(Finding& finding, std::string text);
// A value for an example: short and printable.
std::string Shown(std::string_view value);

// Each needs its part in both packs; not ok only when a member cannot be read.
Result<CheckResult> CheckEnv(const PackPair& packs, const CheckOptions& options);
Result<CheckResult> CheckPip(const PackPair& packs, const CheckOptions& options);
Result<CheckResult> CheckDataset(const PackPair& packs);
Result<CheckResult> CheckWeights(const PackPair& packs);
Result<CheckResult> CheckHyperparameters(const PackPair& packs);
Result<CheckResult> CheckRandom(const PackPair& packs);

}  // namespace msprobe::analysis::config_check
