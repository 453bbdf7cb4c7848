// Writes a script that reproduces a call of a dump: `msprobe repro`.
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "msprobe/status.h"

#include "src/analysis/recheck/recompute.h"
#include "src/analysis/repro/minimise.h"
#include "src/report/document.h"

namespace msprobe::analysis::repro {

struct Options {
  std::filesystem::path dump;
  std::string call;  // "Functional.gelu.0.forward"; without a direction: the half that is wrong,
                     // forward where none is
  std::optional<int64_t> step;  // nullopt: the first that has the call
  std::optional<int64_t> rank;
  std::filesystem::path output;  // empty: <call>_repro
  bool minimise = false;
  uint64_t attempts = 2000;  // that minimising may make
  size_t threads = 0;
  bool quiet = false;
};

struct Answer {
  std::string call;
  std::filesystem::path folder;
  std::filesystem::path dump_json;   // that the call came from
  recheck::CallVerdict verdict;      // of the call as it was captured
  std::vector<std::string> tensors;  // "input_args.0: float32 [4, 8]", as they were written
  uint64_t elements = 0;             // of all tensors, as they were written
  std::optional<Minimised> minimised;
  std::string no_minimum;  // why it was not minimised although that was asked for
  std::string no_script;   // why there is no run.py
  std::vector<std::string> warnings;
  std::vector<std::filesystem::path> files;
  double seconds = 0;
};

// A whole reproduction: from a dump and the name of a call to a folder that makes the call again.

// Writes README.md, run.py (PyTorch), recheck.sh and dump/ into the folder. kNotFound: no such
// call, with names that are like it. Memory: the tensors of the call, twice while minimising.
Result<Answer> Run(const Options& options);

report::Document MakeDocument(const Answer& answer);

}  // namespace msprobe::analysis::repro
