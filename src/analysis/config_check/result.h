// What config_check came to: of two packs, of what was collected, of settings in logs.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "src/analysis/config_check/pack.h"
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

// Of one check of two packs.
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

enum class Verdict : uint8_t {
  kSame,             // every check passed and there is nothing to warn of
  kSameInPart,       // every check passed, but some that there should be had nothing to compare
  kSameButNan,       // only NaN on both sides fails a check
  kWarnings,         // every check passed
  kDifferent,        // a check failed
  kNothingCompared,  // the packs have no part in common, or nothing within their parts
};

struct CompareRun {
  std::filesystem::path output_folder;  // absolute
  std::vector<std::filesystem::path> files;
  std::vector<CheckResult> checks;  // in sheet order; their findings moved to `findings`
  std::vector<Finding> findings;    // most important first
  std::vector<std::string> gaps;    // what one side has and the other lacks
  size_t compared_checks = 0;
  std::vector<std::string> missing;   // checks that had nothing to compare, with the reason
  bool sides_are_scripts = false;     // no packs: collected from a file each
  bool gate_needs_missing = false;    // one of those was asked for: no gate may pass without it
  std::vector<std::string> warnings;  // of sides that were collected for it
  double seconds = 0;
};

Verdict VerdictOf(const CompareRun& run);
bool HasErrors(const CompareRun& run);
// No check at all, or one of data or weights of which no name is on both sides: nothing that a gate
// may pass.
bool ComparedNothing(const CompareRun& run);
bool HasWarnings(const CompareRun& run);  // also gaps

// What became of one of `inputs`.
struct CollectedInput {
  std::filesystem::path path;
  size_t parameters = 0;
  std::string problem;  // empty: read
};

struct CollectSummary {
  std::filesystem::path output;  // absolute
  size_t variables = 0;          // of the environment
  size_t script_variables = 0;   // that launch scripts set
  size_t masked = 0;             // of them: with a secret replaced
  std::string interpreter;       // empty: none was found
  size_t packages = 0;
  std::vector<std::string> versions;  // "CANN 8.0.RC1", "NVIDIA driver 535.1": beside the packages
  std::vector<CollectedInput> inputs;
  size_t parameters = 0;         // after merging all inputs; 0: the pack has no hyperparameters
  size_t masked_parameters = 0;  // values in them, and in those of the running program
  std::vector<std::string> warnings;

  // False when an input that was named could not be read: the pack is written without it, and the
  // command should say so with its exit code.
  bool complete = true;
};

// Values as Python's repr spells them; "NA" where a side does not have the setting.
struct LogSetting {
  std::string name;  // keys joined by '/'
  std::array<std::string, 2> values;
  std::array<bool, 2> present = {false, false};
  bool equal = false;  // as Python compares: 5 == 5.0, True == 1
};

struct LogSettingsRun {
  bool verified = false;               // against requirements; otherwise two logs were compared
  std::array<std::string, 2> sources;  // "npu.log line 5", "built-in requirements"
  std::vector<LogSetting> settings;    // in order of name
  size_t masked = 0;                   // values of both sides
  std::vector<std::string> warnings;
  std::vector<std::filesystem::path> files;

  size_t different() const;
  // Settings that both sides have.
  size_t common() const;
};

}  // namespace msprobe::analysis::config_check
