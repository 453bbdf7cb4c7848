// Which tensors hold what was read of them before in this step: most of what a call is given is what an earlier call gave back, and
// reading it again would only cost time.
//
// A number stands for the bytes of a tensor as they are. A tensor gets the number of an earlier one if it begins at the same address, has
// the same size and dtype, the earlier one is still alive (so that its memory was not given to anybody else), both are views of one tensor
// (so that they share one counter of writes), and that counter has not moved. Writes of recorded functions count as well: an alias
// that `.data` made has a counter of its own. Other writes that move no counter (custom kernels, arrays of NumPy over the same memory) are
// left to the engine, which compares a sample of the bytes.
#pragma once

#include <cstddef>
#include <cstdint>

#include "tools/python/native/python_api.h"

namespace msprobe::python {

// Reading less costs little more than asking what is asked here.
inline constexpr size_t kLeastSeenBytes = size_t{128} << 10U;

// The number of the bytes of a tensor of the framework, which lie at `data` in row-major order; 0: there is none.
uint64_t IdentityOf(PyObject* tensor, const void* data, size_t bytes, int32_t dtype_code);

// A recorded function wrote to a tensor, or to those of a list or tuple.
void NoteWritten(PyObject* value);

// Nothing is known any more: the step is over, or somebody may have written who is not observed.
void ForgetSeen();

}  // namespace msprobe::python
