// manifest.json and records.log of another run's dump, as a capture looks at them, and the recovery
// of such a log.
#include <cstdint>
#include <filesystem>
#include <string>

#include "src/capture/step_folder.h"
#include "src/dump/record_log.h"
#include "tests/fuzz/input_folder.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  static const msprobe::fuzz::InputFolder folder;
  std::string_view input = msprobe::fuzz::TextOf(data, size);
  const bool is_log = msprobe::fuzz::TakeChoice(input, 2) == 1;
  const std::string name(is_log ? msprobe::dump::kRecordLogName : "manifest.json");
  const std::filesystem::path path = folder.Write(name, input);
  static_cast<void>(msprobe::capture::RunOfDump(folder.path()).ok());
  if (is_log) {
    static_cast<void>(msprobe::dump::IsBeingWritten(path));
    static_cast<void>(msprobe::dump::RunOfLog(path));
  }
  folder.Remove(name);
  return 0;
}
