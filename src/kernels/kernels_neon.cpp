// NEON. The instruction set is turned on inside the included code only, so that no inline function
// of a library header is compiled for it and then chosen by the linker for everybody.
#define HWY_BASELINE_TARGETS HWY_NEON
#define HWY_COMPILE_ONLY_STATIC
#define HWY_DISABLE_PCLMUL_AES
#define MSPROBE_KERNEL_TABLE kNeonTable
#define MSPROBE_KERNEL_NAME "neon"
#include "src/kernels/simd-inl.h"
