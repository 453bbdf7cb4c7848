// An Ascend profiler's SQLite database.
#include <cstdint>

#include "src/profile/ascend_database/reader.h"
#include "tests/fuzz/touch_profile.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  namespace profile = msprobe::profile;
  static const msprobe::fuzz::InputFolder folder;
  const std::filesystem::path path =
      folder.Write("ascend_pytorch_profiler_0.db", msprobe::fuzz::TextOf(data, size));
  profile::TouchProfile(profile::ReadAscendDatabase(path, profile::AllNeeds()));
  return 0;
}
