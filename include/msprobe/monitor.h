/* The training monitor behind a C interface: statistics of a few hundred tensors per step, written
 * as CSV, TensorBoard events or a SQLite store by a thread of its own. Lives in
 * libmsprobe_capture.so and keeps the promises, texts, threads and errors of msprobe/capture.h.
 *
 * What happens in one step: hooks call measure while the model runs; end_step hands all rows of the
 * step to the writer thread and tells what the next step needs. A row exists only for what was
 * measured in that step.
 */
#ifndef MSPROBE_MONITOR_H_
#define MSPROBE_MONITOR_H_

/* NOLINTBEGIN(modernize-*,readability-identifier-naming): this is C. */

#include "msprobe/capture.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef struct msprobe_monitor msprobe_monitor;

/* ---- life ---- */

/* Reads the configuration and checks it; creates nothing. `overrides_json`: empty, or an object of
 * top-level keys that win over the file. `framework`: "pytorch" or "mindspore". */
MSPROBE_API int msprobe_monitor_open(msprobe_text config_path, msprobe_text overrides_json,
                                     msprobe_text framework,
                                     msprobe_monitor** out) MSPROBE_NOEXCEPT;
/* Writes what is complete, waits for the writer thread, frees. Rows of an unfinished step go. */
MSPROBE_API void msprobe_monitor_close(msprobe_monitor* monitor) MSPROBE_NOEXCEPT;
/* After fork() in the child: forgets files and threads of the parent; measures nothing more. */
MSPROBE_API void msprobe_monitor_after_fork(msprobe_monitor* monitor) MSPROBE_NOEXCEPT;
/* The effective configuration, every key with its value or default, as one JSON object, ended by
 * NUL; valid until the configuration changes (end_step). */
MSPROBE_API const char* msprobe_monitor_settings(const msprobe_monitor* monitor) MSPROBE_NOEXCEPT;
/* "ops" from now on: a JSON list, checked as the key of the configuration. */
MSPROBE_API int msprobe_monitor_set_ops(msprobe_monitor* monitor,
                                        msprobe_text json_list) MSPROBE_NOEXCEPT;

/* Where this process stands among all; all ranks are global. Written into monitor.json beside the
 * tables, so that shards can be reduced later. */
typedef struct msprobe_monitor_place {
  int32_t distributed; /* 0: a process alone: rank 0, world 1 */
  int32_t rank;
  int32_t world_size;
  int32_t pipeline_stage;
  const int32_t* group_mates; /* ranks of the pipeline group, this one included */
  size_t group_mate_count;
  const int32_t* tensor_ranks; /* of the tensor-parallel group; NULL: not given */
  size_t tensor_rank_count;
  const int32_t* data_ranks; /* of the data-parallel group; NULL: not given */
  size_t data_rank_count;
} msprobe_monitor_place;
/* Before the first begin, and again when more is known. Creates the output folder
 * (MONITOR_OUTPUT_DIR/<stamp>-rank<R>-<id>, or the one that append_output names) when the format
 * needs one. */
MSPROBE_API int msprobe_monitor_set_place(msprobe_monitor* monitor,
                                          const msprobe_monitor_place* place) MSPROBE_NOEXCEPT;
/* 1: a call with this text of its call stack is measured, since an expression of cc_codeline is
 * found in it, or since there is none; 0: it is not. */
MSPROBE_API int msprobe_monitor_selects_stack(msprobe_monitor* monitor,
                                              msprobe_text stack) MSPROBE_NOEXCEPT;
/* The folder of this rank's tables; "" when nothing is written. */
MSPROBE_API const char* msprobe_monitor_output_folder(const msprobe_monitor* monitor)
    MSPROBE_NOEXCEPT;

/* ---- names ---- */

/* Whether the settings want the parameter / module with this full name of model chunk `stage`, and
 * the name it is reported under: "<stage>:<reported>", ended by NUL, valid until the next call of
 * this thread. Returns 1 with the name, 0 when it is not wanted. Parameters must be asked for in
 * registration order: a squashed name that is taken makes the next one keep its full name. */
MSPROBE_API int msprobe_monitor_name_parameter(msprobe_monitor* monitor, int32_t stage,
                                               msprobe_text full_name,
                                               const char** reported) MSPROBE_NOEXCEPT;
MSPROBE_API int msprobe_monitor_name_module(msprobe_monitor* monitor, int32_t stage,
                                            msprobe_text full_name,
                                            const char** reported) MSPROBE_NOEXCEPT;
/* The same for a module whose features of single layers are recorded in `table`, one of
 * MSPROBE_MONITOR_ATTENTION_HOOK to MSPROBE_MONITOR_MOE_ROUTER_LOGIT_HOOK. Where the settings name
 * no module, each one that is asked for is wanted. */
MSPROBE_API int msprobe_monitor_name_feature_module(msprobe_monitor* monitor, int32_t table,
                                                    int32_t stage, msprobe_text full_name,
                                                    const char** reported) MSPROBE_NOEXCEPT;
/* Forgets the names taken so far: before a model is walked again. */
MSPROBE_API void msprobe_monitor_forget_names(msprobe_monitor* monitor) MSPROBE_NOEXCEPT;

/* ---- steps ---- */

enum {
  MSPROBE_MONITOR_OFF = 0,      /* this step is not selected: no hook is needed */
  MSPROBE_MONITOR_ON = 1,       /* measure */
  MSPROBE_MONITOR_FINISHED = 2, /* collect_times is reached: hooks may go for good */
  MSPROBE_MONITOR_CHANGED = 4   /* a bit beside the others: the configuration was applied anew */
};
/* The number of the coming step (start_iteration). Returns one of the states above. */
MSPROBE_API int msprobe_monitor_begin(msprobe_monitor* monitor, int64_t step,
                                      int32_t* state) MSPROBE_NOEXCEPT;
/* The optimizer has stepped: rows go to the writer, alerts are judged there, the step counts up,
 * and with DYNAMIC_MONITOR=true the configuration file is looked at. `state`: of the next step. */
MSPROBE_API int msprobe_monitor_end_step(msprobe_monitor* monitor, int32_t* state) MSPROBE_NOEXCEPT;
MSPROBE_API int64_t msprobe_monitor_current_step(const msprobe_monitor* monitor) MSPROBE_NOEXCEPT;
/* Blocks until everything handed over so far is in the files (tests, the end of a run). */
MSPROBE_API int msprobe_monitor_flush(msprobe_monitor* monitor) MSPROBE_NOEXCEPT;

/* ---- values ---- */

enum { /* the tables, in the order in which they are written at the end of a step */
       MSPROBE_MONITOR_ACTV = 0,
       MSPROBE_MONITOR_ACTV_GRAD,
       MSPROBE_MONITOR_GRAD_UNREDUCED,
       MSPROBE_MONITOR_GRAD_REDUCED,
       MSPROBE_MONITOR_EXP_AVG,
       MSPROBE_MONITOR_EXP_AVG_SQ,
       MSPROBE_MONITOR_PARAM_ORIGIN,
       MSPROBE_MONITOR_PARAM_UPDATED,
       MSPROBE_MONITOR_UPDATE_RATIO, /* one number per parameter: |update| / |parameter| */
       /* features of single layers, see msprobe_monitor_put_features */
       MSPROBE_MONITOR_ATTENTION_HOOK,
       MSPROBE_MONITOR_LINEAR_HOOK,
       MSPROBE_MONITOR_MOE_ROUTER_WEIGHT_HOOK,
       MSPROBE_MONITOR_MOE_ROUTER_LOGIT_HOOK,
       MSPROBE_MONITOR_OTHER /* mg_direction, communication, scalars of the user */
};

/* A place for values, made once per hook: `name` is "<stage>:<name>" without index and micro step,
 * `task` the last part of the tag ("actv", "pre_grad", "post_0", ...). Slots of equal table, name
 * and task are one. 0 is never a slot. */
MSPROBE_API uint32_t msprobe_monitor_slot(msprobe_monitor* monitor, int32_t table,
                                          msprobe_text name, msprobe_text task) MSPROBE_NOEXCEPT;

enum { MSPROBE_MONITOR_NO_INDEX = -1, MSPROBE_MONITOR_NO_MICRO_STEP = -1 };
/* The statistics of the settings of one tensor, from one pass over its bytes, before the call
 * returns. `index`: written as "_<index>" behind the name, or NO_INDEX. `micro_step`: counted from
 * 0, or NO_MICRO_STEP. `tensor` NULL: not a tensor (None): a row of NaN. The newest values of
 * (slot, index, micro step) of a step win and keep the place of the first. Tensors of a device are
 * copied behind their stream first; use msprobe_monitor_measure_deferred to avoid the copy. */
MSPROBE_API int msprobe_monitor_measure(msprobe_monitor* monitor, uint32_t slot, int32_t index,
                                        int32_t micro_step,
                                        const msprobe_tensor* tensor) MSPROBE_NOEXCEPT;
/* The same, where several calls within a step add up (communication): min, max, sqrt of the sum of
 * squared norms, sum of nans, means weighted by elements, and a count of calls. Rows of tasks
 * "pre_<i>" and "post_<i>" in the table OTHER are named "<name>.<task>". */
MSPROBE_API int msprobe_monitor_accumulate(msprobe_monitor* monitor, uint32_t slot, int32_t index,
                                           const msprobe_tensor* tensor) MSPROBE_NOEXCEPT;
/* A number known already. */
MSPROBE_API int msprobe_monitor_put_number(msprobe_monitor* monitor, uint32_t slot, int32_t index,
                                           int32_t micro_step, double value) MSPROBE_NOEXCEPT;
/* The features of a layer, computed by the caller, into the row of a slot of one of the four tables
 * of features; one number per column:
 *   attention_hook          entropy, softmax_max (means over the rows of the softmax)
 *   linear_hook             sr (Frobenius norm / kernel_norm), kernel_norm (largest singular value)
 *   moe_router_weight_hook  router_weight_similarity (mean cosine between two experts' weights)
 *   moe_router_logit_hook   per_token_expert_entropy
 * `micro_step`: NO_MICRO_STEP for linear_hook and moe_router_weight_hook. */
MSPROBE_API int msprobe_monitor_put_features(msprobe_monitor* monitor, uint32_t slot,
                                             int32_t micro_step, const double* numbers,
                                             size_t count) MSPROBE_NOEXCEPT;
/* Sign agreement of a gradient and its first moment (spec: ((sum sign(g) sign(m)) / n + 1) / 2),
 * put as a number. Both host tensors; different shapes: 0. */
MSPROBE_API int msprobe_monitor_put_sign_agreement(msprobe_monitor* monitor, uint32_t slot,
                                                   const msprobe_tensor* gradient,
                                                   const msprobe_tensor* moment) MSPROBE_NOEXCEPT;

/* A row whose numbers are reduced on the device and come later, but before end_step. Only
 * dtype and shape of `tensor` are looked at. Returns a ticket; 0: nothing to fill. */
MSPROBE_API uint64_t
msprobe_monitor_measure_deferred(msprobe_monitor* monitor, uint32_t slot, int32_t index,
                                 int32_t micro_step, const msprobe_tensor* tensor) MSPROBE_NOEXCEPT;
/* One number per op of settings.ops in their order, shape and dtype left out. NaN where there is
 * none. */
MSPROBE_API int msprobe_monitor_fill(msprobe_monitor* monitor, uint64_t ticket,
                                     const double* numbers, size_t count) MSPROBE_NOEXCEPT;

/* The rows measured in this step so far, as JSON: [{"tag": ..., "norm": ..., ...}, ...] of one
 * table, for generate_xy_metrics and format "api". Ended by NUL; valid until the next call of this
 * thread. */
MSPROBE_API int msprobe_monitor_rows(msprobe_monitor* monitor, int32_t table,
                                     const char** json) MSPROBE_NOEXCEPT;

/* A text file of the output folder (stack_info.csv, module_struct.json), written whole under its
 * final name. `name` may start with "../" for files beside the folders of the ranks. */
MSPROBE_API int msprobe_monitor_write_file(msprobe_monitor* monitor, msprobe_text name,
                                           msprobe_text content) MSPROBE_NOEXCEPT;

#ifdef __cplusplus
}
#endif

/* NOLINTEND(modernize-*,readability-identifier-naming) */

#endif /* MSPROBE_MONITOR_H_ */
