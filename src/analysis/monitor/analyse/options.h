// Which alerts of a run to put in order, and where the order goes.
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <vector>

namespace msprobe::analysis::monitor {

enum class AnomalyOrder : uint8_t {
  kPython,  // as the Python tool: parameters, communication and mg_direction before everything
  kCausal,  // where they come about in a step: behind forward, gradients and moments
};

struct AnalyseOptions {
  std::filesystem::path data;    // the folder anomaly_detected
  std::filesystem::path output;  // empty: = data; made when it is not there
  size_t top = 8;
  std::vector<int64_t> steps;  // empty: all
  AnomalyOrder order = AnomalyOrder::kPython;
};

}  // namespace msprobe::analysis::monitor
