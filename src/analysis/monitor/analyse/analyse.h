// The answer of `monitor analyse`.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <string>
#include <string_view>
#include <vector>

#include "msprobe/status.h"

#include "src/analysis/monitor/laws/laws.h"
#include "src/monitor/alert_judge.h"
#include "src/report/document.h"

namespace msprobe::analysis::monitor {

// The alerts of a run that are put in order, and where the result goes.

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

// The alerts nearest to the cause.

struct AnalyseResult {
  std::vector<msprobe::monitor::Anomaly>
      top;            // by step, micro step, stage of the step, pipeline place, call
  size_t alerts = 0;  // of the steps asked for
  size_t ranks = 0;
  std::filesystem::path file;  // anomaly_analyse.json; empty: there are only laws
  LawsOfRun laws;              // of the steps asked for
  size_t top_laws = 0;         // how many of them are shown
  std::vector<std::string> warnings;
  bool is_incomplete = false;  // a process that shared the work did not deliver
  // False in a process that handed its share to another one; nothing else here is of use then.
  bool reports = true;
};

// Alerts of all ranks in the order in which they must have come about: the first are nearest to the
// cause.

Result<AnalyseResult> RunAnalyse(const AnalyseOptions& options);

// The first `count` of `anomalies` in order; equals keep their order.
void SortAnomalies(std::vector<msprobe::monitor::Anomaly>& anomalies, size_t count,
                   AnomalyOrder order);

// "[1,3]", "1,3" or "[]".
Result<std::vector<int64_t>> ParseStepList(std::string_view text);

inline constexpr std::array<report::GateLevel, 2> kAnalyseLevels = {
    {{"alert", "an alert of any rank, in the steps asked for"},
     {"law", "a broken law of any rank, in these steps", false}}};

// Without alerts, but with files that could not be read as such, nothing is known: no gate passes.
report::Document MakeDocument(const AnalyseResult& result);

}  // namespace msprobe::analysis::monitor
