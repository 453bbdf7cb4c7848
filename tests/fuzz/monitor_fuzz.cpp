// Any bytes as the monitor's configuration, and as names of modules and folders.
#include <cstdint>
#include <string>
#include <string_view>

#include "src/monitor/output_folder.h"
#include "src/monitor/schedule.h"
#include "src/monitor/settings.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace msprobe::monitor;
  const std::string_view text(reinterpret_cast<const char*>(data), size);
  static_cast<void>(ParseOutputFolderName(text));
  static_cast<void>(StampOrder(text));
  if (text.empty()) {
    return 0;  // no overrides
  }
  const msprobe::Result<Settings> settings = LoadSettings({}, text);
  if (!settings.ok()) {
    return 0;
  }
  // What was read must be readable, and mean the same.
  const std::string json = SettingsJson(*settings);
  const msprobe::Result<Settings> again = LoadSettings({}, json);
  if (!again.ok() || SettingsJson(*again) != json) {
    __builtin_trap();
  }
  WatchedNames names(*settings);
  const std::string_view name = text.substr(0, 64);
  static_cast<void>(names.OfParameter(0, name));
  static_cast<void>(names.OfModule(0, name));
  static_cast<void>(names.OfFeatureModule(FeatureHook::kAttention, 0, name));
  return 0;
}
