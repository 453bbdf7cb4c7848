// Any bytes as a JSON config and as a YAML config.
#include <cstdint>
#include <string_view>

#include "src/json/config.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const std::string_view text(reinterpret_cast<const char*>(data), size);
  static_cast<void>(msprobe::json::ParseJsonConfig(text, "fuzz.json").ok());
  static_cast<void>(msprobe::json::ParseYamlConfig(text, "fuzz.yaml").ok());
  return 0;
}
