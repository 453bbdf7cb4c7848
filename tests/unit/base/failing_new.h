// Memory that runs out at a chosen allocation, for tests.
#pragma once

namespace msprobe::test_support {

// So many allocations of this thread with `new` succeed, then one fails; -1: all succeed.
extern constinit thread_local int g_allocations_left;

}  // namespace msprobe::test_support
