#include "src/capture/device_overflow.h"

namespace msprobe::capture {

Result<bool> TakeDeviceOverflow(device::Registry& devices, const DeviceCopies::Source& source) {
  device::Runtime& runtime = devices.Get(source.kind);
  const Result<device::OverflowMode> mode = runtime.GetOverflowMode(source.device);
  if (mode.status().code() == StatusCode::kUnsupported) {
    return false;
  }
  MSP_RETURN_IF_ERROR(mode.status());
  if (*mode != device::OverflowMode::kSaturation) {
    return false;
  }
  MSP_ASSIGN_OR_RETURN(const bool overflowed, runtime.Overflowed(source.device, source.stream));
  if (overflowed) {
    MSP_RETURN_IF_ERROR(runtime.ResetOverflow(source.device, source.stream));
  }
  return overflowed;
}

}  // namespace msprobe::capture
