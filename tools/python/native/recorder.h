// What is recorded of one call of a function: its entry, its stack, the hook for its gradients.
#pragma once

#include <cstdint>
#include <string>

#include "tools/python/native/python_api.h"
#include "tools/python/native/state.h"

namespace msprobe::python {

// How the output of a call is had.
enum Asynchronous : int {
  kPlain = 0,         // it is the result
  kCollective = 1,    // it is the arguments, written when the call is over
  kAlwaysHandle = 2,  // it is the arguments, once the handle that is returned has been waited for
  kWithHandle = 3,    // it is the result, which may hold a handle
};

// A function whose calls are recorded. Nothing here is owned.
struct RecordedFunction {
  PyObject* original;
  const std::string* base;  // "Functional.linear."
  int asynchronous;
  int async_position;  // of async_op among the positional arguments, or -1
  bool in_place;       // writes into its arguments
};

// Calls the original and records call `number` of it. The steps before and after the original never
// raise; an error of the original passes through: null.
PyObject* RecordCall(const RecordedFunction& function, int64_t number, ThreadState& thread,
                     PyObject* args, PyObject* kwargs) noexcept;

// Records the output of a collective, once its handle has been waited for.
void RecordLaterOutput(const std::string& name, PyObject* args, PyObject* kwargs);

}  // namespace msprobe::python
