// The experiments of docs/hardware.md on this machine's Ascend devices: what only hardware can
// confirm, tried with the runtime itself and, where python3 has torch_npu, with a small network.
#pragma once

#include <vector>

#include "src/commands/doctor_bundle.h"
#include "src/commands/doctor_checks.h"

namespace msprobe::commands {

struct AscendExamination {
  bool tried = false;                 // whether any device took part
  std::vector<Check> checks;          // in the order of docs/hardware.md
  std::vector<BundleMember> members;  // what the commands said, for a report
};

// Takes a second per device, and a minute with torch_npu. Writes into a folder of its own for
// temporary files and removes it.
AscendExamination ExamineAscend();

}  // namespace msprobe::commands
