// The alerts nearest to the cause.
#pragma once

#include <cstddef>
#include <filesystem>
#include <string>
#include <vector>

#include "src/monitor/anomaly.h"

namespace msprobe::analysis::monitor {

struct AnalyseResult {
  std::vector<msprobe::monitor::Anomaly>
      top;            // by step, micro step, stage of the step, pipeline place, call
  size_t alerts = 0;  // of the steps asked for
  size_t ranks = 0;
  std::filesystem::path file;  // anomaly_analyse.json
  std::vector<std::string> warnings;
};

}  // namespace msprobe::analysis::monitor
