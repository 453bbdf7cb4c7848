// What a reproduction came to.
#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "src/analysis/recheck/recompute.h"
#include "src/analysis/repro/minimise.h"

namespace msprobe::analysis::repro {

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

}  // namespace msprobe::analysis::repro
