// What is asked of a search for overflows.
#pragma once

#include <cstdint>
#include <filesystem>

namespace msprobe::analysis::overflow {

struct Options {
  std::filesystem::path dumps;  // folder with overflow records and kernel dumps
  // Dump of the API calls above the kernels: a dump.json, a rank, a step or a whole dump. Empty:
  // the one that lies beside the records, if there is one.
  std::filesystem::path calls;
  std::filesystem::path ir;  // text of the MindSpore graph that the kernels belong to; may be empty
  std::filesystem::path output;  // folder of overflow_summary_<time>.txt; empty: none
  int64_t most = 1;              // records that are looked at, from the first one on; 0: all
};

}  // namespace msprobe::analysis::overflow
