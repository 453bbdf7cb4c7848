// What every reader of profiles promises.
#pragma once

#include <cstdlib>

#include "src/profile/profile.h"
#include "tests/fuzz/input_folder.h"

namespace msprobe::profile {

inline Needs AllNeeds() {
  Needs needs;
  needs.operators = needs.kernels = needs.flows = needs.python_calls = needs.memory = true;
  needs.communication = needs.overlap = needs.kernel_details = needs.operator_statistics = true;
  needs.bandwidth = true;
  return needs;
}

inline void TouchProfile(const Result<Profile>& result) {
  if (!result.ok()) {
    return;
  }
  for (const Operator& operation : result->operators) {
    if (operation.start < 0 || operation.end < operation.start ||
        operation.name >= result->texts.size()) {
      std::abort();
    }
  }
  for (const Kernel& kernel : result->kernels) {
    if (kernel.start < 0 || kernel.end < kernel.start) {
      std::abort();
    }
  }
  for (const CommunicationGroup& group : result->groups) {
    for (const auto& [name, tasks] : group.planes) {
      for (const uint32_t task : tasks) {
        if (task >= result->communication_tasks.size()) {
          std::abort();
        }
      }
    }
  }
}

}  // namespace msprobe::profile
