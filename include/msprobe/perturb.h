/* Is an operator stable? Changes its input a little and compares two of its results: what
 * `free_benchmark` asks at every call. Lives in libmsprobe_capture.so and keeps the promises, texts
 * and errors of msprobe/capture.h. No capture is needed; all functions may be called by any thread.
 *
 * Tensors are those of the host (msprobe_tensor of msprobe/capture.h), of any strides.
 */
#ifndef MSPROBE_PERTURB_H_
#define MSPROBE_PERTURB_H_

/* NOLINTBEGIN(modernize-*,readability-identifier-naming): this is C. */

#include "msprobe/capture.h"

#ifdef __cplusplus
extern "C" {
#endif

/* The configuration of free_benchmark, every default filled in and every rule checked, as one JSON
 * object. `config_path` empty: defaults; `overrides_json` empty, or one object of top-level keys
 * that win over the file; `framework`: "pytorch", "mindspore" or "mindtorch". *json is valid until
 * the next such call of this thread. */
MSPROBE_API int msprobe_free_benchmark_settings(msprobe_text config_path,
                                                msprobe_text overrides_json, msprobe_text framework,
                                                const char** json) MSPROBE_NOEXCEPT;

/* The task that a configuration names, "" where it names none. Valid as the text above. */
MSPROBE_API int msprobe_configured_task(msprobe_text config_path,
                                        const char** task) MSPROBE_NOEXCEPT;

/* How a tensor is changed. p: bfloat16 1e-4, float16 1e-6, float32 1e-8, float64 1e-16. */
enum {
  MSPROBE_ADD_NOISE = 0,          /* where(|x| > sqrt(p), x + p, x) */
  MSPROBE_BIT_NOISE = 1,          /* the lowest bit of the mantissa of normal numbers flipped */
  MSPROBE_CHANGE_VALUE = 2,       /* the first and the last element (or row) swapped */
  MSPROBE_NO_CHANGE = 3,          /* the same values */
  MSPROBE_IMPROVE_PRECISION = 4,  /* float16 and bfloat16 as float32 */
  MSPROBE_ULP_NOISE = 5,          /* `ulps` units in the last place away from zero */
  MSPROBE_RANDOM_NOISE = 6,       /* one unit up, down or none, at random; `ulps` is the seed */
  MSPROBE_STOCHASTIC_ROUNDING = 7 /* the same with one half for none: src/perturb/perturbation.h */
};

/* Writes the changed tensor, row-major, to `out` of `out_bytes` bytes: the size of `input`, or
 * twice that for halves whose precision is improved. *changed: 1, or 0 where there was nothing to
 * change and `out` holds the values as they are. `ulps`: from 1 on. */
MSPROBE_API int msprobe_perturb(const msprobe_tensor* input, int mode, uint32_t ulps, void* out,
                                size_t out_bytes, int* changed) MSPROBE_NOEXCEPT;

typedef struct msprobe_ratio {
  double ratio;      /* max(max r, 1 / min r), r = |original| / |perturbed| over a lower bound */
  double mean_ratio; /* of max(r, 1 / r), where the results are not consistent; else 1 */
  uint64_t exceeding_count;      /* elements apart by more than the threshold, likewise; else 0 */
  uint64_t worst_index;          /* row-major */
  uint64_t new_nonfinite_count;  /* NaN or infinite in the changed result alone */
  uint64_t lost_nonfinite_count; /* in the original one alone */
  int sign_changes;              /* 1: large values of opposite sign; the ratio says little then */
  int consistent;                /* 1: 1/threshold <= ratio <= threshold and no sign changes */
} msprobe_ratio;

enum {
  MSPROBE_PERTURB_BACKWARD = 1, /* gradients: values below 1e-3 count as 1e-3 */
  MSPROBE_PERTURB_COMPAT = 2,   /* as the Python tool where the default is better */
  MSPROBE_PERTURB_QUOTIENTS = 4 /* ratios as for MindSpore: quotients of values beyond the bound,
                                 * with their signs; 8 where one is negative */
};

/* `threshold`: from 1 on; 0: by the dtype of `original`, float16 1.002, bfloat16 1.004,
 * else 1.0002. Both tensors have the same number of elements. */
MSPROBE_API int msprobe_compare_ratios(const msprobe_tensor* original,
                                       const msprobe_tensor* perturbed, double threshold,
                                       uint32_t flags, msprobe_ratio* result) MSPROBE_NOEXCEPT;

typedef struct msprobe_cpu_agreement {
  int consistent;
  int computed; /* 0: the CPU's result has NaN or infinities; the numbers below are 0 */
  double absolute_error;
  double relative_error;
  double error_balance;
  uint64_t new_nonfinite_count; /* NaN or infinite on the device alone */
} msprobe_cpu_agreement;

/* Flags: MSPROBE_PERTURB_COMPAT. Nothing is written into either tensor. */
MSPROBE_API int msprobe_compare_with_cpu(const msprobe_tensor* actual, const msprobe_tensor* golden,
                                         uint32_t flags,
                                         msprobe_cpu_agreement* result) MSPROBE_NOEXCEPT;

typedef struct msprobe_distance {
  double relative_error; /* |actual - reference| / |reference|, norms of all elements; infinite
                          * where the reference is zero and the actual tensor is not */
  double largest_error;  /* max |a - r| */
  uint64_t different_count;
  uint64_t nonfinite_count; /* NaN or infinite on one side alone: left out of the numbers above */
} msprobe_distance;

/* Two tensors of the same number of elements, in double precision. */
MSPROBE_API int msprobe_measure_distance(const msprobe_tensor* actual,
                                         const msprobe_tensor* reference,
                                         msprobe_distance* result) MSPROBE_NOEXCEPT;

typedef struct msprobe_noise_floor {
  double digits;   /* significant decimal digits, at least these with probability 0.95 */
  double relative; /* half the width of the interval that holds one result with probability 0.95,
                    * over the mean; norms of all elements; infinite where the mean alone is zero */
  uint64_t nonfinite_count; /* NaN or infinite in some of the results alone: digits is 0 then */
} msprobe_noise_floor;

/* Of `count` (2 or more) results of one call with inputs rounded at random; each result
 * is rounded at random as well, in a copy. One floating dtype and number of elements for all. The
 * formula stands in src/perturb/noise_floor.h. */
MSPROBE_API int msprobe_measure_noise_floor(const msprobe_tensor* results, size_t count,
                                            uint64_t seed,
                                            msprobe_noise_floor* result) MSPROBE_NOEXCEPT;

/* The one tensor of a file (.pt, .npy, ...) into `out`, a plain tensor of the same dtype and number
 * of elements. Nothing in the file is executed. */
MSPROBE_API int msprobe_read_tensor(msprobe_text path, const msprobe_tensor* out) MSPROBE_NOEXCEPT;

/* 1 where the output of a function, "empty" or "new_empty", is memory as it was found: nothing to
 * compare. The table is that of the commands, src/dump/call_facts.cpp. */
MSPROBE_API int msprobe_gives_raw_memory(msprobe_text api) MSPROBE_NOEXCEPT;

/* Preheating: 1 where call `number` (from 1 on) of a function that is called `calls` times per step
 * is sampled in this step; see `preheat_step` and `max_sample` of the configuration. */
MSPROBE_API int msprobe_preheat_samples(int64_t number, int64_t calls, int64_t preheat_step,
                                        int64_t max_sample, int64_t step) MSPROBE_NOEXCEPT;
/* The threshold (2.05 at first) after the samples of a step: ratios of calls that agree with the
 * CPU, and of those that do not. *adapts becomes 0 when it is settled. `least`: it does not go
 * below. */
MSPROBE_API int msprobe_preheat_adapt(double* threshold, int* adapts, const double* consistent,
                                      size_t consistent_count, const double* inconsistent,
                                      size_t inconsistent_count, double least) MSPROBE_NOEXCEPT;

#ifdef __cplusplus
}
#endif

/* NOLINTEND(modernize-*,readability-identifier-naming) */

#endif /* MSPROBE_PERTURB_H_ */
