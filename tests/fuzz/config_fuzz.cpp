// Any bytes as a JSON config, as a YAML config and as a TOML config.
#include <cstdint>
#include <string_view>

#include "src/json/config.h"
#include "src/json/config_toml.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const std::string_view text(reinterpret_cast<const char*>(data), size);
  static_cast<void>(msprobe::json::ParseJsonConfig(text, "fuzz.json").ok());
  static_cast<void>(msprobe::json::ParseYamlConfig(text, "fuzz.yaml").ok());
  static_cast<void>(msprobe::json::ParseTomlConfig(text, "fuzz.toml").ok());
  return 0;
}
