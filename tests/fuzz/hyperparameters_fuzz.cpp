// Any bytes as a file with hyperparameters: YAML, JSON and Python, and complete or as the Python
// tool keeps it, which the length chooses; whatever is written must be readable again.
#include <cstdint>
#include <cstdlib>
#include <string_view>

#include "src/analysis/config_check/hyperparameters.h"
#include "src/json/config.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using msprobe::analysis::config_check::internal::HyperparameterReader;
  const std::string_view text(reinterpret_cast<const char*>(data), size);
  const bool compat = size % 2 != 0;
  HyperparameterReader reader(compat);
  for (const char* name : {"a.yaml", "a.json", "b.yaml", "c.py"}) {
    static_cast<void>(reader.AddText(name, text).ok());
  }
  if (!msprobe::json::ParseJsonData(reader.Json(), "written").ok()) {
    std::abort();
  }
  return 0;
}
