// msprobe run_ut, acc_check and their forms with several workers: every recorded operator is run on
// a device and on the CPU, and judged.
#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

#include "msprobe/status.h"

#include "src/analysis/accuracy/check/options.h"
#include "src/analysis/accuracy/common/outcome.h"

namespace msprobe::analysis::accuracy {

struct CheckedOperator {
  std::string name;
  Outcome forward = Outcome::kPass;
  Outcome backward = Outcome::kPass;
  bool has_backward = false;
  std::string message;  // the first one that is not empty, one line
  double max_abs = 0;   // largest absolute error of all outputs that have one
  bool only_equal_non_finite = false;

  // The worse one; skipped only where nothing was judged.
  Outcome outcome() const;
  // Whether it fails by the Python tool's rule alone: its only errors are inf and NaN that are the
  // same on both sides, as a causal mask has.
  bool fails_only_the_rule() const { return only_equal_non_finite && outcome() == Outcome::kError; }
  // The outcome for the answer; the tables keep the Python tool's word.
  Outcome verdict() const;
};

// One of several dumps that could not be checked.
struct FailedDump {
  std::filesystem::path dump;  // dump.json
  std::string reason;
};

struct Check {
  // Results of one dump among several.
  struct OfDump {
    std::string name;  // "step 0 rank 1"
    OutcomeCounts operators;
  };
  std::vector<OfDump> dumps;               // empty: there is one
  size_t checked_dumps = 0;                // of several
  std::vector<FailedDump> failed_dumps;    // the others of them
  std::vector<CheckedOperator> operators;  // of this run, in file order
  OutcomeCounts forward;
  OutcomeCounts backward;
  uint64_t finished_before = 0;  // of a resumed run
  uint64_t left_out = 0;         // like an earlier call
  uint64_t restarts = 0;         // of workers
  std::string framework;         // "PyTorch 2.13.0"
  std::string device;            // "npu:0"
  std::string limits;
  bool truncated = false;  // the dump ends early
  size_t worst = 10;       // operators to name
  std::vector<std::string> warnings;
  std::vector<std::filesystem::path> files;
  double seconds = 0;
};

// msprobe run_overflow_check: whether the CPU overflows where the device does.
struct OverflowCheck {
  struct Call {
    std::string name;
    bool skipped = false;
    bool abnormal = false;
    std::string message;  // why it was skipped; what was found
  };
  size_t checked_dumps = 0;              // of several
  std::vector<FailedDump> failed_dumps;  // the others of them
  std::vector<Call> calls;
  std::string device;
  bool truncated = false;  // the dump ends early
  std::vector<std::string> warnings;
};

// Rows appear in the result files in file order while the run goes on, whatever the number of
// workers; they do not depend on it. Of several dumps each has files of its own; those that cannot
// be checked are named in the answer, which is an error where none could be.
Result<Check> Run(const CheckOptions& options);

// Whether every name of the white and black list is one of an operator.
Status CheckLists(const CheckOptions& options);

// Forward only, in the recorded dtypes on both sides; writes no file.
Result<OverflowCheck> RunOverflowCheck(const CheckOptions& options);

}  // namespace msprobe::analysis::accuracy
