#include "src/base/kept_memory.h"

#include <cstdlib>

#ifdef __GLIBC__
#include <malloc.h>
#endif

namespace msprobe::base {

void KeepFreedMemory() {
#ifdef __GLIBC__
  constexpr int kMostOfAHeap = 32 << 20;  // what the C library takes at most
  constexpr int kKept = 256 << 20;
  ::mallopt(M_MMAP_THRESHOLD, kMostOfAHeap);
  ::mallopt(M_TRIM_THRESHOLD, kKept);
#endif
}

}  // namespace msprobe::base
