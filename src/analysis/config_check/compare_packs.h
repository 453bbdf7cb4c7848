// The comparing half of `config_check`: two packs in, the checks that both sides allow, and what
// they add up to. Reads everything it needs before the result folder is touched.
#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include "msprobe/status.h"

#include "src/analysis/config_check/check.h"

namespace msprobe::analysis::config_check {

struct CompareOptions {
  std::filesystem::path bench_pack;
  std::filesystem::path cmp_pack;
  std::filesystem::path output_folder = "./config_check_result";
  bool write_xlsx = true;
  bool write_json = false;
  CheckOptions check;
};

enum class Verdict : uint8_t {
  kSame,             // every check passed and there is nothing to warn of
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
  double seconds = 0;
};

// Writes bench/, cmp/ and the results into the output folder. What stands there already is left
// alone; only bench/, cmp/ and results of an earlier run are replaced, and only with --force.
Result<CompareRun> ComparePacks(const CompareOptions& options);

Verdict VerdictOf(const CompareRun& run);
bool HasErrors(const CompareRun& run);
// No check at all, or one of data or weights of which no name is on both sides: nothing that a gate
// may pass.
bool ComparedNothing(const CompareRun& run);
bool HasWarnings(const CompareRun& run);  // also gaps

}  // namespace msprobe::analysis::config_check
