// SSE4.2. The instruction set is turned on inside the included code only, so that no inline
// function of a library header is compiled for it and then chosen by the linker for everybody.
#define HWY_BASELINE_TARGETS HWY_SSE4
#define HWY_COMPILE_ONLY_STATIC
#define HWY_DISABLE_PCLMUL_AES
#define MSPROBE_KERNEL_TABLE kSse4Table
#define MSPROBE_KERNEL_NAME "sse4"
#include "src/kernels/simd-inl.h"
