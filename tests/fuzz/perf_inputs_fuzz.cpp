// Texts of perf_compare: gates, maps of names, results of ranks that another process left.
#include <cstdint>

#include "src/analysis/perf/name_map.h"
#include "src/analysis/perf/perf.h"
#include "tests/fuzz/input_folder.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  namespace perf = msprobe::analysis::perf;
  const std::string_view text = msprobe::fuzz::TextOf(data, size);
  static_cast<void>(perf::ParseGate(text).ok());
  static_cast<void>(perf::ParseNameMap(text).ok());
  static_cast<void>(perf::ParseRanks(text).ok());
  return 0;
}
