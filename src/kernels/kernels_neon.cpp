// NEON, which every aarch64 processor has: no instruction set needs to be turned on, and Highway is
// restricted to it (it would add the cryptographic extension otherwise, which not every processor
// has).
#define TOOLCHAIN_MISS_SYS_AUXV_H
#define HWY_BASELINE_TARGETS HWY_NEON
#define HWY_COMPILE_ONLY_STATIC
#define MSPROBE_KERNEL_TABLE kNeonTable
#define MSPROBE_KERNEL_NAME "neon"
#include "src/kernels/simd-inl.h"
