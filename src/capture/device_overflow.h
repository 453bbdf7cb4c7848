// Overflow on devices that replace what is beyond the range of a type by its largest number:
// tensors do not show it there, the hardware keeps a status instead.
#pragma once

#include "msprobe/status.h"

#include "src/capture/device_copies.h"

namespace msprobe::capture {

// Whether something overflowed since the last question, in work that was queued on the stream of
// `source` before; waits for it. False where tensors show it: on devices that make infinities, and
// where there is no such status.
Result<bool> TakeDeviceOverflow(device::Registry& devices, const DeviceCopies::Source& source);

}  // namespace msprobe::capture
