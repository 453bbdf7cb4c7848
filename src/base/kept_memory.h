// Memory that is given back and taken again, over and over.
#pragma once

namespace msprobe::base {

// Lets this process keep what it frees, up to 256 MiB at the end of each heap of the C library,
// instead of giving it back to the system, which has to clear it before it gives it again. For
// commands that work on one large thing after the other; holds until the process ends. Does nothing
// where the C library cannot.
void KeepFreedMemory();

}  // namespace msprobe::base
