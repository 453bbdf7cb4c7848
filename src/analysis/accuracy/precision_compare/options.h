// What is asked of a comparison of two accuracy checks: one of an NPU, one of a GPU.
#pragma once

#include <cstddef>
#include <filesystem>

#include "src/analysis/accuracy/common/standards.h"

namespace msprobe::analysis::accuracy {

struct PrecisionOptions {
  std::filesystem::path npu_file;  // accuracy_checking_details_*.csv
  std::filesystem::path gpu_file;
  std::filesystem::path output = ".";
  std::filesystem::path standards_file;  // empty: the built-in limits
  StandardVersion version = StandardVersion::k811;
  bool english = false;  // headers, algorithms and messages of the results
  bool strict = false;   // judge and tell what the Python tool leaves out
  size_t worst = 10;     // outputs to name
};

}  // namespace msprobe::analysis::accuracy
