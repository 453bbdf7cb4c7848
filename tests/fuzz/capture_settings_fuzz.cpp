// config.json of a capture: what is read can be written, read again and means the same; the filters
// that are made of it see names.
#include <cstdint>
#include <string>

#include "src/capture/filters.h"
#include "src/capture/settings.h"
#include "tests/fuzz/input_folder.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace msprobe::capture;
  const std::string_view text = msprobe::fuzz::TextOf(data, size);
  if (text.empty()) {
    return 0;  // no overrides
  }
  if (const auto twice = LoadFreeBenchmarkSettings({}, text); twice.ok()) {
    static_cast<void>(FreeBenchmarkJson(*twice));
  }
  for (const Framework framework : {Framework::kPyTorch, Framework::kMindSpore}) {
    const msprobe::Result<Settings> settings = LoadSettings({}, text, framework);
    if (!settings.ok()) {
      continue;
    }
    const std::string json = SettingsJson(*settings);
    const msprobe::Result<Settings> again = LoadSettings({}, json, framework);
    if (!again.ok() || SettingsJson(*again) != json) {
      __builtin_trap();
    }
    msprobe::Result<Filters> filters = Filters::Create(*settings);
    if (filters.ok()) {
      for (const std::string_view name :
           {"Functional.linear.0.forward", "Module.fc.Linear.backward.0"}) {
        static_cast<void>(filters->Enter(name));
        static_cast<void>(filters->Leave(name));
        static_cast<void>(filters->SavesTensors(name));
      }
      filters->NextStep();
    }
  }
  return 0;
}
