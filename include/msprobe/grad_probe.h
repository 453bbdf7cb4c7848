/* What the task `grad_probe` writes of the gradients of a training, step by step: statistics, their
 * distribution, and their signs. Lives in libmsprobe_capture.so and keeps the promises, texts and
 * errors of msprobe/capture.h. One probe belongs to one thread at a time.
 *
 * Gradients are tensors of the host (msprobe_tensor of msprobe/capture.h), of any strides.
 */
#ifndef MSPROBE_GRAD_PROBE_H_
#define MSPROBE_GRAD_PROBE_H_

/* NOLINTBEGIN(modernize-*,readability-identifier-naming): this is C. */

#include "msprobe/capture.h"

#ifdef __cplusplus
extern "C" {
#endif

/* 1 where the task of this configuration (as for msprobe_capture_open) is grad_probe. 0 also where
 * it cannot be read: whoever opens it next says why. */
MSPROBE_API int msprobe_is_grad_probe(msprobe_text config_path,
                                      msprobe_text overrides_json) MSPROBE_NOEXCEPT;

typedef struct msprobe_grad_probe msprobe_grad_probe;

/* Reads the configuration and checks it; creates no file. */
MSPROBE_API int msprobe_grad_probe_open(msprobe_text config_path, msprobe_text overrides_json,
                                        msprobe_grad_probe** out) MSPROBE_NOEXCEPT;
/* Waits for all files, frees. */
MSPROBE_API void msprobe_grad_probe_close(msprobe_grad_probe* probe) MSPROBE_NOEXCEPT;
/* After fork() in the child: nothing of the parent is written there. */
MSPROBE_API void msprobe_grad_probe_after_fork(msprobe_grad_probe* probe) MSPROBE_NOEXCEPT;

/* The names of param_list, in their order. NULL behind the last one; ended by NUL; live as long as
 * the probe. */
MSPROBE_API const char* msprobe_grad_probe_parameter(const msprobe_grad_probe* probe,
                                                     size_t index) MSPROBE_NOEXCEPT;

/* MSPROBE_START_ON where the step of this rank (below 0: not known, which is 0 and always selected)
 * is selected: its folders are made. MSPROBE_START_OFF where it is not, MSPROBE_START_FINISHED
 * where no later one is either. */
MSPROBE_API int msprobe_grad_probe_begin_step(msprobe_grad_probe* probe, int64_t rank, int64_t step,
                                              int* outcome) MSPROBE_NOEXCEPT;
/* A gradient of the step in progress: read before the call returns; its signs are written in the
 * background. An error loses this gradient. */
MSPROBE_API int msprobe_grad_probe_put(msprobe_grad_probe* probe, msprobe_text name,
                                       const msprobe_tensor* gradient) MSPROBE_NOEXCEPT;
/* The table of the step is written in the background. An error tells of files that could not be
 * written so far. */
MSPROBE_API int msprobe_grad_probe_end_step(msprobe_grad_probe* probe) MSPROBE_NOEXCEPT;
/* Waits until everything is written. */
MSPROBE_API int msprobe_grad_probe_flush(msprobe_grad_probe* probe) MSPROBE_NOEXCEPT;

#ifdef __cplusplus
}
#endif

/* NOLINTEND(modernize-*,readability-identifier-naming) */

#endif /* MSPROBE_GRAD_PROBE_H_ */
