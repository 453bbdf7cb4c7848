/* The capture engine behind a C interface: what hooks call while a model runs. Any language can
 * bind it; libmsprobe_capture.so needs nothing but the C library.
 *
 * Promise: nothing here throws, exits, prints to stdout or blocks on the network. Functions that
 * can fail return MSPROBE_OK or a code; the text stands in msprobe_last_error() of the same thread.
 * A failed call loses the record it was about and nothing else: training goes on.
 *
 * Threads: every function may be called from any thread; one msprobe_entry belongs to one thread at
 * a time. All texts are UTF-8 with a length, not ended by NUL, and are copied before the call
 * returns, as are shapes, strides and the bytes of host tensors.
 */
#ifndef MSPROBE_CAPTURE_H_
#define MSPROBE_CAPTURE_H_

/* NOLINTBEGIN(modernize-*,readability-identifier-naming): this is C. */

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#define MSPROBE_NOEXCEPT noexcept
#else
#define MSPROBE_NOEXCEPT
#endif

#if defined(__GNUC__)
#define MSPROBE_API __attribute__((visibility("default")))
#else
#define MSPROBE_API
#endif

/* Grows when a signature or a struct below changes; a shim refuses a library of another number. */
#define MSPROBE_CAPTURE_ABI 2
MSPROBE_API int32_t msprobe_capture_abi(void) MSPROBE_NOEXCEPT;
MSPROBE_API const char* msprobe_capture_version(void) MSPROBE_NOEXCEPT;

/* ---- errors ---- */

enum {
  MSPROBE_OK = 0,
  MSPROBE_ERROR_USAGE = 1,   /* a wrong configuration or call order */
  MSPROBE_ERROR_IO = 2,      /* a file could not be written or read */
  MSPROBE_ERROR_DEVICE = 3,  /* an accelerator refused */
  MSPROBE_ERROR_INTERNAL = 4 /* a defect here, or no memory */
};

/* Ended by NUL; "" when the last call of this thread succeeded. Valid until its next call. */
MSPROBE_API const char* msprobe_last_error(void) MSPROBE_NOEXCEPT;

typedef struct msprobe_text {
  const char* data; /* may be NULL when length is 0 */
  size_t length;
} msprobe_text;

/* ---- a capture: one configuration, one process ---- */

typedef struct msprobe_capture msprobe_capture;

/* Reads the configuration and checks it; creates no file. `config_path` empty: all defaults.
 * `overrides_json` empty, or one JSON object of top-level keys that win over the file:
 * {"task": ..., "dump_path": ..., "level": ..., "step": [...], "rank": [...]}. `framework`:
 * "pytorch", "mindspore" or "mindtorch". The error text names file, key path, value, what is
 * allowed and, for an unknown key, the nearest known one. */
MSPROBE_API int msprobe_capture_open(msprobe_text config_path, msprobe_text overrides_json,
                                     msprobe_text framework,
                                     msprobe_capture** out) MSPROBE_NOEXCEPT;

/* Finishes the step in progress as msprobe_capture_step does, waits for all files, frees. */
MSPROBE_API void msprobe_capture_close(msprobe_capture* capture) MSPROBE_NOEXCEPT;

/* The effective configuration, every key with its value or default, as one JSON object; the section
 * of the task is merged into the top level. Ended by NUL, lives as long as the capture. */
MSPROBE_API const char* msprobe_capture_settings(const msprobe_capture* capture) MSPROBE_NOEXCEPT;

enum {
  MSPROBE_START_OFF = 0,     /* this step or rank is not selected: hooks may be removed */
  MSPROBE_START_ON = 1,      /* record */
  MSPROBE_START_FINISHED = 2 /* past the last selected step, or the overflow limit is reached */
};

/* Begins or continues recording the current step. `rank` < 0: not known (folder "rank"); it is
 * looked at again by every call, and a step that began under another rank is moved to the new
 * folder. An earlier dump found in the folder of a step is replaced as a whole, never mixed with.
 */
MSPROBE_API int msprobe_capture_start(msprobe_capture* capture, int64_t rank,
                                      int* outcome) MSPROBE_NOEXCEPT;

typedef struct msprobe_request {
  msprobe_text id;
  int64_t rows; /* of the flattened batch, 1 or more */
} msprobe_request;
/* The batch of the forward that the next start records: its requests in the order of their rows.
 * Where the configuration names a request_id, tensors of as many rows as the batch has are cut to
 * the rows of that request, and a step without it is not recorded (MSPROBE_START_OFF). Goes into
 * the manifest. `count` 0: not known, which records everything. */
MSPROBE_API int msprobe_capture_set_batch(msprobe_capture* capture, const msprobe_request* requests,
                                          size_t count) MSPROBE_NOEXCEPT;

/* The calling thread works for the capture until the end is announced, in this library or in its
 * own code: all of it counts for max_overhead_ms. May be nested. Without these, only the time
 * inside of this library counts. */
MSPROBE_API void msprobe_hook_begin(msprobe_capture* capture) MSPROBE_NOEXCEPT;
MSPROBE_API void msprobe_hook_end(msprobe_capture* capture) MSPROBE_NOEXCEPT;

/* Recording pauses; the JSON files of the step are written. Where the configuration sets
 * max_overhead_ms or max_bytes_per_s, no call of this library waits for the disk, but for
 * msprobe_capture_close: files are written in the background once the step is over, and start
 * answers MSPROBE_START_OFF for a step that cannot be begun in time. */
MSPROBE_API int msprobe_capture_stop(msprobe_capture* capture) MSPROBE_NOEXCEPT;
/* Writes the JSON files and the manifest of the step, waits for its tensor files, counts the step
 * up. */
MSPROBE_API int msprobe_capture_step(msprobe_capture* capture) MSPROBE_NOEXCEPT;
/* The next start records step `step`. */
MSPROBE_API int msprobe_capture_set_init_step(msprobe_capture* capture,
                                              int64_t step) MSPROBE_NOEXCEPT;
/* The step that start records, or records now. */
MSPROBE_API int64_t msprobe_capture_current_step(const msprobe_capture* capture) MSPROBE_NOEXCEPT;

/* After fork() in the child: forgets files, threads and pending work of the parent; records nothing
 * until the next start. */
MSPROBE_API void msprobe_capture_after_fork(msprobe_capture* capture) MSPROBE_NOEXCEPT;

/* Counts since the capture was opened, for the summary at the end of a run. */
typedef struct msprobe_capture_totals {
  uint64_t steps;
  uint64_t entries;       /* committed */
  uint64_t tensors;       /* described, saved or not */
  uint64_t tensor_files;  /* names in dump_tensor_data, links included */
  uint64_t tensor_bytes;  /* what the files hold, had every name a file of its own */
  uint64_t written_bytes; /* what was really written */
  uint64_t deduplicated_files;
  uint64_t lost_files;         /* could not be written */
  uint64_t errors;             /* records in dump_error_info.log */
  uint64_t engine_nanoseconds; /* spent inside this library on calling threads */
  uint64_t dropped_records;    /* calls left out by max_overhead_ms or max_bytes_per_s */
  uint64_t dropped_files;      /* tensor files, by the same */
  uint64_t dropped_steps;      /* whole steps, by the same */
} msprobe_capture_totals;
MSPROBE_API void msprobe_capture_get_totals(const msprobe_capture* capture,
                                            msprobe_capture_totals* out) MSPROBE_NOEXCEPT;

/* ---- what to record ---- */

/* Bits of an answer of enter and leave. */
enum {
  MSPROBE_WANT_INPUT = 1,  /* record input_args, input_kwargs, parameters / input */
  MSPROBE_WANT_OUTPUT = 2, /* record output */
  MSPROBE_WANT_STACK = 4   /* give the call stack of this (forward) name */
};

/* Filters (list, scope, data_mode) are windows in time: tell every call that begins and ends, in
 * the order in which it happens. `name` is the full name, such as "Functional.linear.0.forward" or
 * "Module.fc.Linear.backward.0". The answer of enter holds for what is recorded before the call
 * (API inputs), that of leave for what is recorded after it (API outputs, both halves of modules,
 * both halves of API backward). */
MSPROBE_API uint32_t msprobe_capture_enter(msprobe_capture* capture,
                                           msprobe_text name) MSPROBE_NOEXCEPT;
MSPROBE_API uint32_t msprobe_capture_leave(msprobe_capture* capture,
                                           msprobe_text name) MSPROBE_NOEXCEPT;
/* Whether parameters_grad of the module with this base name ("Module.fc.Linear") is recorded. */
MSPROBE_API int msprobe_capture_wants_parameters_grad(msprobe_capture* capture,
                                                      msprobe_text module) MSPROBE_NOEXCEPT;

/* ---- structure and stacks ---- */

/* One line of construct.json. `parent`: NULL for null. A later call for the same name wins. */
MSPROBE_API int msprobe_capture_construct(msprobe_capture* capture, msprobe_text name,
                                          const msprobe_text* parent) MSPROBE_NOEXCEPT;

typedef struct msprobe_frame {
  msprobe_text file; /* as the code object spells it */
  msprobe_text function;
  int32_t line; /* counted from 1 */
} msprobe_frame;
/* Registers a stack, innermost frame first. Equal stacks get equal ids. Source lines are read when
 * stack.json is written; frames without source are left out there. */
MSPROBE_API int msprobe_capture_stack(msprobe_capture* capture, const msprobe_frame* frames,
                                      size_t count, uint32_t* id) MSPROBE_NOEXCEPT;
MSPROBE_API int msprobe_capture_set_stack(msprobe_capture* capture, msprobe_text name,
                                          uint32_t id) MSPROBE_NOEXCEPT;

/* ---- entries: the values of one call ---- */

typedef struct msprobe_entry msprobe_entry;

/* A new piece of the entry `name`, invisible until commit. Pieces of one entry merge: members keep
 * the place of their first commit and the value of their last. Several pieces may be open at a
 * time. Never NULL; where nothing is recorded, the calls below do nothing. */
MSPROBE_API msprobe_entry* msprobe_entry_begin(msprobe_capture* capture,
                                               msprobe_text name) MSPROBE_NOEXCEPT;
/* Appends the piece to the log, or drops it (overflow_check, nothing overflowed). Frees it. After
 * an error in it (wrong nesting, no memory, unreadable tensor) the code and a line in
 * dump_error_info.log tell; what could be described is recorded. */
MSPROBE_API int msprobe_entry_commit(msprobe_entry* entry) MSPROBE_NOEXCEPT;
MSPROBE_API void msprobe_entry_discard(msprobe_entry* entry) MSPROBE_NOEXCEPT;

/* Begins a member: one value must follow. `file_segment` names it in tensor file names
 * ("input_args" is "input" there); empty: nothing is added. An entry whose value is not an object
 * of members (level debug) puts one value without a member instead. */
MSPROBE_API void msprobe_put_member(msprobe_entry* entry, msprobe_text key,
                                    msprobe_text file_segment) MSPROBE_NOEXCEPT;

MSPROBE_API void msprobe_put_null(msprobe_entry* entry) MSPROBE_NOEXCEPT;
MSPROBE_API void msprobe_put_bool(msprobe_entry* entry, int value) MSPROBE_NOEXCEPT;
MSPROBE_API void msprobe_put_int(msprobe_entry* entry, int64_t value) MSPROBE_NOEXCEPT;
MSPROBE_API void msprobe_put_float(msprobe_entry* entry, double value) MSPROBE_NOEXCEPT;
MSPROBE_API void msprobe_put_text(msprobe_entry* entry, msprobe_text value) MSPROBE_NOEXCEPT;
/* A number spelled elsewhere: an integer beyond 64 bits. Decimal digits with an optional minus. */
MSPROBE_API void msprobe_put_digits(msprobe_entry* entry, msprobe_text digits) MSPROBE_NOEXCEPT;
/* {"type": type, "value": ...}: the value must follow, then close. */
MSPROBE_API void msprobe_open_typed(msprobe_entry* entry, msprobe_text type) MSPROBE_NOEXCEPT;

enum {
  MSPROBE_IN_FILE_NAME = 0, /* indices and keys become part of tensor file names: arguments */
  MSPROBE_NOT_IN_FILE_NAME = 1
};
MSPROBE_API void msprobe_open_array(msprobe_entry* entry, int naming) MSPROBE_NOEXCEPT;
MSPROBE_API void msprobe_open_object(msprobe_entry* entry, int naming) MSPROBE_NOEXCEPT;
MSPROBE_API void msprobe_put_key(msprobe_entry* entry, msprobe_text key) MSPROBE_NOEXCEPT;
MSPROBE_API void msprobe_close(msprobe_entry* entry) MSPROBE_NOEXCEPT;

/* ---- tensors ---- */

enum { /* the order of msprobe::DType */
       MSPROBE_FLOAT64 = 0,
       MSPROBE_FLOAT32,
       MSPROBE_FLOAT16,
       MSPROBE_BFLOAT16,
       MSPROBE_FLOAT8_E4M3FN,
       MSPROBE_FLOAT8_E5M2,
       MSPROBE_FLOAT8_E4M3FNUZ,
       MSPROBE_FLOAT8_E5M2FNUZ,
       MSPROBE_INT64,
       MSPROBE_INT32,
       MSPROBE_INT16,
       MSPROBE_INT8,
       MSPROBE_UINT64,
       MSPROBE_UINT32,
       MSPROBE_UINT16,
       MSPROBE_UINT8,
       MSPROBE_BOOL,
       MSPROBE_COMPLEX64,
       MSPROBE_COMPLEX128,
       MSPROBE_DTYPE_UNKNOWN = 255 /* described without values: quantised, packed, ... */
};

/* Bytes of one element of the dtype; 0: it is unknown. */
MSPROBE_API size_t msprobe_dtype_bytes(int32_t dtype_code) MSPROBE_NOEXCEPT;

enum { MSPROBE_DEVICE_HOST = 0, MSPROBE_DEVICE_ACL = 1, MSPROBE_DEVICE_CUDA = 2 };

enum {
  MSPROBE_TENSOR_CONJUGATED = 1, /* lazy complex conjugate */
  MSPROBE_TENSOR_NEGATED = 2,    /* lazy negation */
  MSPROBE_TENSOR_NUMPY = 4       /* an array: no requires_grad, and null statistics when empty */
};

typedef struct msprobe_tensor {
  msprobe_text type;  /* "torch.Tensor", "mindspore.Tensor", "numpy.ndarray" */
  msprobe_text dtype; /* as the framework spells it, "torch.float32" */
  const int64_t* shape;
  const int64_t* strides; /* in elements, >= 0; NULL: row-major */
  const void* data; /* first element; NULL: no values (meta, sparse, empty): null statistics */
  void* stream;     /* of the device: what produced the data was queued here */
  int32_t dimensions;
  int32_t dtype_code;    /* MSPROBE_FLOAT64, ... */
  int32_t requires_grad; /* 1, 0, or -1: the key is not written */
  uint32_t flags;
  int32_t device; /* MSPROBE_DEVICE_HOST, ... */
  int32_t device_index;
} msprobe_tensor;

/* Statistics, checksum and file as the configuration says, from one pass over the bytes, before the
 * call returns (host) or after a copy queued behind `stream` (device). What the caller queues on
 * that stream next comes after the copy: the memory may be changed there, or given back. */
MSPROBE_API void msprobe_put_tensor(msprobe_entry* entry,
                                    const msprobe_tensor* tensor) MSPROBE_NOEXCEPT;

/* The same by a caller that knows when bytes are written. `identity` stands for the bytes of the
 * tensor as they are, from one msprobe_capture_start to the next: after a write that the caller
 * knows of it gives another number. Where the same number came before, of the same address, dtype
 * and size, the values may be those of then, without a look at all of the bytes: a sample of them,
 * a cache line of every 16 KiB, shows most writes that the caller does not know of. 0: as
 * msprobe_put_tensor. */
MSPROBE_API void msprobe_put_tensor_known(msprobe_entry* entry, const msprobe_tensor* tensor,
                                          uint64_t identity) MSPROBE_NOEXCEPT;

enum {
  MSPROBE_ROUND_TO_FLOAT32 = 0,
  MSPROBE_ROUND_TO_OWN_HALF = 1 /* results for float16 and bfloat16 are rounded to these */
};
/* max, min, mean and norm of a host tensor of at least one element, without any capture. Numbers of
 * float32: elements of other types are cast to it first; complex ones count by their magnitude. */
MSPROBE_API int msprobe_tensor_statistics(const msprobe_tensor* tensor, int rounding,
                                          double* statistics) MSPROBE_NOEXCEPT;

/* The same of a tensor of an accelerator, with sums in float64, by a kernel that is queued on
 * tensor->stream: nothing waits for it. row: device memory for four float64. scratch:
 * MSPROBE_STATISTICS_SCRATCH_BYTES of device memory, zero before their first use and then for this
 * stream alone. MSPROBE_ERROR_DEVICE: there is no kernel for it, reduce it otherwise. */
enum { MSPROBE_STATISTICS_SCRATCH_BYTES = 65536 };
MSPROBE_API int msprobe_reduce_on_device(const msprobe_tensor* tensor, void* row,
                                         void* scratch) MSPROBE_NOEXCEPT;

/* msprobe_put_tensor for a tensor whose four statistics come later (reduced on its device, read
 * back once per flush). Returns a ticket for msprobe_fill_statistics; 0: nothing to fill. */
MSPROBE_API uint64_t msprobe_put_tensor_deferred(msprobe_entry* entry,
                                                 const msprobe_tensor* tensor) MSPROBE_NOEXCEPT;
/* max, min, mean, norm. Unfilled tickets become null. */
MSPROBE_API int msprobe_fill_statistics(msprobe_capture* capture, uint64_t ticket,
                                        const double* statistics) MSPROBE_NOEXCEPT;

/* A value that comes later, null until then (gradients of level debug). Returns a ticket; 0:
 * nothing to fill. */
MSPROBE_API uint64_t msprobe_put_pending(msprobe_entry* entry) MSPROBE_NOEXCEPT;
/* An entry whose one value takes the place of the ticket; file names continue from there. */
MSPROBE_API msprobe_entry* msprobe_entry_begin_pending(msprobe_capture* capture,
                                                       uint64_t ticket) MSPROBE_NOEXCEPT;

/* Waits until copies from devices are done and their memory may be reused. */
MSPROBE_API int msprobe_device_wait(msprobe_capture* capture) MSPROBE_NOEXCEPT;

/* ---- kernel-level dump (level L2) ---- */

/* Switches the runtime's own dump on with a configuration written into the folder of the step, and
 * off again. MSPROBE_ERROR_DEVICE with a reason where no runtime can do it. */
MSPROBE_API int msprobe_kernel_dump_begin(msprobe_capture* capture) MSPROBE_NOEXCEPT;
MSPROBE_API int msprobe_kernel_dump_end(msprobe_capture* capture) MSPROBE_NOEXCEPT;

/* ---- messages ---- */

/* Appends to dump_error_info.log of the step: something about `name` could not be captured. The
 * first one of a process is also a warning on stderr. */
MSPROBE_API void msprobe_capture_report_error(msprobe_capture* capture, msprobe_text name,
                                              msprobe_text text) MSPROBE_NOEXCEPT;

/* What a recheck of the step has to know and its calls do not tell, in the step's manifest. `text`
 * is of altered modules: why. Empty: the remark is taken back. */
#define MSPROBE_REMARK_ALTERED_MODULE 0 /* "Module.fc.Linear" computes more than its class does */
#define MSPROBE_REMARK_OWN_GRADIENT 1   /* "Module.fc.Linear.weight": that of its last call alone */
MSPROBE_API void msprobe_capture_remark(msprobe_capture* capture, int kind, msprobe_text name,
                                        msprobe_text text) MSPROBE_NOEXCEPT;

/* A record could not even be handed over (no memory in the hook): the step is not complete, its
 * manifest counts it under lost_records. What calls of this interface lose they count themselves.
 */
MSPROBE_API void msprobe_capture_lost_record(msprobe_capture* capture) MSPROBE_NOEXCEPT;

/* Which part of the model this rank holds, one JSON object: layout.json of every rank folder that
 * is finished from now on. Empty: none. Given again where it has changed. */
MSPROBE_API int msprobe_capture_set_layout(msprobe_capture* capture,
                                           msprobe_text json) MSPROBE_NOEXCEPT;

/* Time that went into making recorded calls once more, for their noise floors. The manifest of the
 * step has the sum. */
MSPROBE_API void msprobe_capture_repeated(msprobe_capture* capture,
                                          uint64_t nanoseconds) MSPROBE_NOEXCEPT;

/* One line on stderr in the style of all messages; level 0 debug ... 3 error (MSPROBE_LOG_LEVEL).
 */
MSPROBE_API void msprobe_log(int level, msprobe_text text) MSPROBE_NOEXCEPT;

#ifdef __cplusplus
}
#endif

/* NOLINTEND(modernize-*,readability-identifier-naming) */

#endif /* MSPROBE_CAPTURE_H_ */
