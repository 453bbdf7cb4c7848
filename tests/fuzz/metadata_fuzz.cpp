// What tells versions: METADATA of Python packages, version files of drivers.
#include <array>
#include <cstdint>
#include <cstdlib>
#include <string>

#include "src/analysis/config_check/packages.h"
#include "tests/fuzz/input_folder.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace msprobe::analysis::config_check::internal;
  const std::string_view text = msprobe::fuzz::TextOf(data, size);
  const Package package = ParseMetadata(text);
  if (NormalName(NormalName(package.name)) != NormalName(package.name)) {
    std::abort();
  }
  for (const std::string_view key : {"Version", "runtime_running_version"}) {
    if (ParseVersion(text, key).size() > size) {
      std::abort();
    }
  }
  return 0;
}
