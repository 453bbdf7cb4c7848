// Asks a runtime, by small experiments, whether it does what the capture relies on: page-locked
// memory, copies in the order of streams, overflow status, its own dump of kernels. What no test
// without hardware can answer; docs/hardware.md says what each experiment stands for.
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

#include "src/device/device.h"

namespace msprobe::device {

enum class Outcome : uint8_t {
  kAsExpected,
  kDiffers,   // it ran, and the runtime does something else than we rely on
  kFailed,    // a call failed
  kNotTried,  // the runtime has no such feature, or an experiment that it needs did not succeed
};

struct Finding {
  std::string subject;  // as docs/hardware.md calls it: "copies wait for their producer"
  int32_t device = 0;
  Outcome outcome = Outcome::kAsExpected;
  std::string seen;  // in words, with figures
};

struct ExaminationOptions {
  size_t copy_bytes = size_t{64} << 20U;
  int rounds = 16;                       // of each experiment about order
  std::filesystem::path scratch_folder;  // exists; gets the configuration and files of a dump
};

// One list per device, in the order of docs/hardware.md. Leaves the runtime as it was: the
// saturation mode is read and not set, the overflow status is reset. Uses at most two copies of
// `copy_bytes` on host and device.
std::vector<Finding> Examine(Runtime& runtime, int32_t device, const ExaminationOptions& options);

}  // namespace msprobe::device
