// Options of a comparison: of one pair of profiles, and of a run over the pairs of many ranks.
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <map>
#include <optional>
#include <string>
#include <vector>

namespace msprobe::analysis::perf {

// How two sequences of operators are aligned.
enum class Alignment : uint8_t {
  kLegacy,  // as the Python tool does it, to the pair
  kLongest  // a longest common subsequence
};

// For one pair of profiles.
struct PairOptions {
  std::filesystem::path comparison;  // -d: the profile to judge
  std::filesystem::path base;        // -bp
  bool overall = true;               // --enable_profiling_compare
  bool operators = true;
  bool memory = true;
  bool communication = true;
  bool api = true;
  bool kernels = true;
  bool details = true;                                // off: --disable_details
  bool modules = true;                                // off: --disable_module
  std::optional<int64_t> max_kernels;                 // --max_kernel_num, above 3
  std::map<std::string, std::string> operator_names;  // --op_name_map, for both sides
  bool use_input_shape = false;
  std::string gpu_flow_category;
  std::optional<std::string> base_step;
  std::optional<std::string> comparison_step;
  bool use_kernel_type = false;
  // Beyond the Python tool.
  Alignment alignment = Alignment::kLegacy;
  bool match_collectives_by_kind = true;  // in the answer; the sheet keeps the profilers' names
  bool exact_time = false;                // GPU: intervals in ns instead of whole microseconds
  bool whole_texts = false;               // details longer than a cell of a workbook holds
  std::optional<int64_t> base_rank;
  std::optional<int64_t> comparison_rank;
  bool strict = false;
  // Patterns of operator names (* and ?) whose device time is summed up by name.
  std::vector<std::string> watched_operators;
};

enum class GateMetric : uint8_t {
  kEndToEnd,
  kComputing,
  kCommunication,
  kFree,
  kMemory,
  kOperator
};

// A condition under which a comparison fails in CI: "e2e>5%" (perf.h).
struct Gate {
  std::string text;  // as typed
  GateMetric metric = GateMetric::kEndToEnd;
  std::string pattern;     // kOperator
  double threshold = 0;    // growth that is still fine
  bool is_percent = true;  // otherwise ms, of memory GB
};

struct ResultFormats {
  bool xlsx = true;
  bool csv = false;
  bool json = false;
};

// For a whole run.
struct Options {
  PairOptions pair;  // paths may be folders of many ranks
  std::filesystem::path output = ".";
  ResultFormats formats;
  std::vector<Gate> gates;
  size_t threads = 0;
  bool quiet = false;
};

}  // namespace msprobe::analysis::perf
