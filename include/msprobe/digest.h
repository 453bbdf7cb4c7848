/* A digest of the weights that this process holds (docs/design/digest.md): sums over the elements
 * of each unfused parameter, wherever its pieces lie. Lives in libmsprobe_capture.so and keeps the
 * promises, texts and errors of msprobe/capture.h. One digest belongs to one thread at a time.
 */
#ifndef MSPROBE_DIGEST_H_
#define MSPROBE_DIGEST_H_

/* NOLINTBEGIN(modernize-*,readability-identifier-naming): this is C. */

#include "msprobe/capture.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef struct msprobe_digest msprobe_digest;

/* `settings_json`: {"parameters": [{"name", "shape", "dtype"}, ...], "rank", "world_size",
 * "source", "dtype" (the declared cast), "attention_heads", "query_groups", "vocabulary", "gated",
 * "threads"}; all but the first may be missing or null. Names and shapes are those of the whole
 * model, of all parameters that this rank has a part of. */
MSPROBE_API int msprobe_digest_open(msprobe_text settings_json,
                                    msprobe_digest** out) MSPROBE_NOEXCEPT;
MSPROBE_API void msprobe_digest_close(msprobe_digest* digest) MSPROBE_NOEXCEPT;

/* Adds a rectangle of the parameter of this place in the list: `tensor`, of the host and of any
 * strides, lies in it from `offset` on, which has `dimensions` numbers as its shape has. Its bytes
 * are read before the call returns. */
MSPROBE_API int msprobe_digest_add(msprobe_digest* digest, size_t parameter, const int64_t* offset,
                                   size_t dimensions,
                                   const msprobe_tensor* tensor) MSPROBE_NOEXCEPT;

/* The file of docs/formats/digest_json.md. Nothing can be added from now on. Ended by NUL; lives as
 * long as the digest. */
MSPROBE_API int msprobe_digest_text(msprobe_digest* digest, const char** text,
                                    size_t* length) MSPROBE_NOEXCEPT;

#ifdef __cplusplus
}
#endif

/* NOLINTEND(modernize-*,readability-identifier-naming) */

#endif /* MSPROBE_DIGEST_H_ */
