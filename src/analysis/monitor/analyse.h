// Alerts of all ranks in the order in which they must have come about: the first are nearest to the
// cause.
#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <string_view>
#include <vector>

#include "msprobe/status.h"

#include "src/analysis/monitor/anomalies.h"

namespace msprobe::monitor {

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

struct AnalyseResult {
  std::vector<Anomaly> top;  // by step, micro step, stage of the step, pipeline place, call
  size_t alerts = 0;         // of the steps asked for
  size_t ranks = 0;
  std::filesystem::path file;  // anomaly_analyse.json
  std::vector<std::string> warnings;
};
Result<AnalyseResult> AnalyseAnomalies(const AnalyseOptions& options);

// The first `count` of `anomalies` in order; equals keep their order.
void SortAnomalies(std::vector<Anomaly>& anomalies, size_t count, AnomalyOrder order);

// "[1,3]", "1,3" or "[]".
Result<std::vector<int64_t>> ParseStepList(std::string_view text);

}  // namespace msprobe::monitor
