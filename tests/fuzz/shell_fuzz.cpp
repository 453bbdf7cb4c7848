// Any bytes as a launch script: by the rules of the shell, and as the Python tool reads it.
#include <cstdint>
#include <string_view>

#include "src/analysis/config_check/launch_script.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace msprobe::analysis::config_check::internal;
  const std::string_view text(reinterpret_cast<const char*>(data), size);
  static_cast<void>(ReadLaunchScript(text).ok());
  static_cast<void>(ReadLaunchScriptAsPythonTool(text).size());
  return 0;
}
