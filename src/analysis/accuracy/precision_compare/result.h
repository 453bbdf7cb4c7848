// What a comparison of two accuracy checks came to.
#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

#include "src/analysis/accuracy/common/outcome.h"

namespace msprobe::analysis::accuracy {

struct WorstOutput {
  std::string name;       // "Torch.mul.2.forward.output.0"
  std::string algorithm;  // in English
  std::string reason;     // in English, one line
  double excess = 0;      // how many times beyond its limit; comparable within an algorithm only
};

struct JudgedOperator {
  std::string name;
  Outcome outcome = Outcome::kPass;  // the worse one of both directions
  std::string reason;
};

struct PrecisionComparison {
  OutcomeCounts outputs;
  OutcomeCounts operators;
  std::vector<JudgedOperator> judged;   // in file order
  std::vector<WorstOutput> worst;       // the worst first
  std::vector<std::string> unmatched;   // outputs of the NPU that the GPU's file lacks
  std::vector<std::string> duplicated;  // outputs that stand in a file more than once
  uint64_t gpu_only = 0;                // outputs that only the GPU's file has
  std::string limits;                   // which were used
  std::vector<std::filesystem::path> files;
};

}  // namespace msprobe::analysis::accuracy
