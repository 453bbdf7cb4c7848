// Any bytes as a trace, through the readers of both devices. Traces are read from files.
#include <cstdint>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <string>

#include <unistd.h>

#include "src/profile/ascend_text/reader.h"
#include "src/profile/pytorch_trace/reader.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  namespace profile = msprobe::profile;
  static const std::filesystem::path path = std::filesystem::temp_directory_path() /
                                            ("msprobe_fuzz_" + std::to_string(getpid()) + ".json");
  std::ofstream(path, std::ios::binary)
      .write(reinterpret_cast<const char*>(data), static_cast<std::streamsize>(size));
  profile::Needs needs;
  needs.operators = needs.kernels = needs.flows = needs.python_calls = needs.memory = true;
  needs.communication = needs.overlap = true;
  for (const auto read : {profile::ReadPytorchTrace, profile::ReadAscendTrace}) {
    const msprobe::Result<profile::Profile> result = read(path, needs);
    if (!result.ok()) {
      continue;
    }
    for (const profile::Operator& operation : result->operators) {
      if (operation.end < operation.start || operation.name >= result->texts.size()) {
        std::abort();
      }
    }
    for (const profile::CommunicationGroup& group : result->groups) {
      for (const auto& [name, tasks] : group.planes) {
        for (const uint32_t task : tasks) {
          if (task >= result->communication_tasks.size()) {
            std::abort();
          }
        }
      }
    }
  }
  std::filesystem::remove(path);
  return 0;
}
