// A trace through the whole comparison, with itself: what is made of times that a file gives.
#include <cstdint>

#include "src/analysis/perf/pair_comparison.h"
#include "src/base/threads.h"
#include "tests/fuzz/input_folder.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  namespace perf = msprobe::analysis::perf;
  static const msprobe::fuzz::InputFolder folder;
  static msprobe::base::ThreadPool pool(1);
  perf::PairOptions options;
  options.base = folder.Write("trace.json", msprobe::fuzz::TextOf(data, size));
  options.comparison = options.base;
  options.exact_time = size % 2 == 0;
  options.alignment = size % 3 == 0 ? perf::Alignment::kLongest : perf::Alignment::kLegacy;
  static_cast<void>(perf::ComparePair(options, pool).ok());
  return 0;
}
