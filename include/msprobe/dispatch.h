/* What `online_dispatch` asks of every operator of a training: does the device's result agree with
 * that of the CPU? Lives in libmsprobe_capture.so and keeps the promises, texts and errors of
 * msprobe/capture.h. No capture is needed; all functions may be called by any thread.
 *
 * Tensors are those of the host (msprobe_tensor of msprobe/capture.h), of any strides.
 */
#ifndef MSPROBE_DISPATCH_H_
#define MSPROBE_DISPATCH_H_

/* NOLINTBEGIN(modernize-*,readability-identifier-naming): this is C. */

#include "msprobe/capture.h"

#ifdef __cplusplus
extern "C" {
#endif

enum {
  MSPROBE_AGREEMENT_MEASURED = 0,          /* floating: by the errors */
  MSPROBE_AGREEMENT_EXACT = 1,             /* no floating dtype, or no elements: equal or not */
  MSPROBE_AGREEMENT_SHAPES = 2,            /* other numbers of elements */
  MSPROBE_AGREEMENT_CPU_NOT_FINITE = 3,    /* or beyond the device's dtype: passes */
  MSPROBE_AGREEMENT_DEVICE_NOT_FINITE = 4, /* fails */
  MSPROBE_AGREEMENT_ZEROS = 5              /* dropout: by the number of zeros */
};

/* d = device - cpu, b = cpu. */
typedef struct msprobe_operator_agreement {
  int32_t passed;
  int32_t reason;             /* MSPROBE_AGREEMENT_... */
  double error_balance;       /* mean of (d where |b| < 1, else d / (|b| + 2^-23)), signed */
  double max_absolute_error;  /* of elements with |b| >= 1, 0 without one */
  double max_relative_error;  /* |d| / (|b| + 2^-23) of the same */
  int64_t max_absolute_index; /* row-major; -1 without an element with |b| >= 1 */
  int64_t max_relative_index;
  double
      error_balance_limit; /* by the dtype of `device`: float16 2^-10, bfloat16 2^-7, else 2^-14 */
  double error_limit;      /* float16 2^-11, bfloat16 2^-8, else 2^-14 */
} msprobe_operator_agreement;

/* `cpu`: of any dtype, in higher precision. `counts_zeros`: of dropout only the number of zeros
 * must agree, within a tenth of at least 100 elements. */
MSPROBE_API int msprobe_compare_operator(const msprobe_tensor* device, const msprobe_tensor* cpu,
                                         int counts_zeros,
                                         msprobe_operator_agreement* result) MSPROBE_NOEXCEPT;

/* Whether an operator of this name may be recomputed without the framework: 1 ("mm", "softmax") or
 * 0. */
MSPROBE_API int msprobe_can_recompute(msprobe_text name) MSPROBE_NOEXCEPT;

/* The results of one call by the formulas of `msprobe recheck`, from its inputs, in float64.
 * `call`: one JSON object {"input_args": [...], "input_kwargs": {...}, "output": [...]} in the form
 * of dump.json; "data_name" of a tensor is its place in `tensors`, "0" for the first one. Inputs
 * are as they were before the call; arguments stand as in torch.nn.functional and torch. `goldens`:
 * a plain tensor per output, of its shape, that the result is written to; float64, float32, bool,
 * uint8 or a signed integer. `threads`: for large tensors, from 1 on. *recomputed: 1; 0 where the
 * operator, its arguments or one of its results are not known for certain, and nothing can be said
 * (goldens may be written in part). */
MSPROBE_API int msprobe_recompute_operator(msprobe_text name, msprobe_text call,
                                           const msprobe_tensor* tensors, size_t tensor_count,
                                           const msprobe_tensor* goldens, size_t golden_count,
                                           uint32_t threads, int* recomputed) MSPROBE_NOEXCEPT;

/* A tensor as a .npy file, which appears when complete; bfloat16 and smaller as float32. */
MSPROBE_API int msprobe_write_npy(msprobe_text path, const msprobe_tensor* tensor) MSPROBE_NOEXCEPT;

#ifdef __cplusplus
}
#endif

/* NOLINTEND(modernize-*,readability-identifier-naming) */

#endif /* MSPROBE_DISPATCH_H_ */
