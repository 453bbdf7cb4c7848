// A configuration that a training printed into its log.
#include <cstdint>
#include <cstdlib>

#include "src/analysis/config_check/printed_config.h"
#include "tests/fuzz/input_folder.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace msprobe::analysis::config_check;
  const msprobe::Result<PrintedConfig> config =
      FindPrintedConfig(msprobe::fuzz::TextOf(data, size), "train.log");
  if (config.ok() && config->line == 0) {
    std::abort();
  }
  return 0;
}
