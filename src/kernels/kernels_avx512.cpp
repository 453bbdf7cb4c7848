// AVX-512 (F, BW, DQ, VL). The instruction set is turned on inside the included code only, so that
// no inline function of a library header is compiled for it and then chosen by the linker for
// everybody.
#define HWY_BASELINE_TARGETS HWY_AVX3
#define HWY_COMPILE_ONLY_STATIC
#define HWY_DISABLE_PCLMUL_AES
#define MSPROBE_KERNEL_TABLE kAvx512Table
#define MSPROBE_KERNEL_NAME "avx512"
#include "src/kernels/simd-inl.h"
