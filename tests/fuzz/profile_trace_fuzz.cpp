// Any bytes as a trace, through the readers of both devices. Traces are read from files.
#include <cstdint>
#include <cstdlib>
#include <filesystem>

#include "src/profile/ascend_text/reader.h"
#include "src/profile/pytorch_trace/reader.h"
#include "tests/fuzz/input_folder.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  namespace profile = msprobe::profile;
  static const msprobe::fuzz::InputFolder folder;
  const std::filesystem::path path = folder.Write("trace.json", msprobe::fuzz::TextOf(data, size));
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
  return 0;
}
