// The edge to Python: no C++ exception passes it. Where memory runs out in the middle of a record,
// the record is lost and counted, and the training goes on.
#pragma once

#include <exception>
#include <new>

#include "tools/python/native/state.h"

namespace msprobe::python {

// To be called where an exception is handled: the step that records now is not complete.
inline void CountLostRecord() noexcept {
  if (Global().capture != nullptr) msprobe_capture_lost_record(Global().capture);
}

// Raises the exception that is being handled as one of Python.
inline PyObject* RaiseCaught() noexcept {
  try {
    throw;
  } catch (const std::bad_alloc&) {
    return PyErr_NoMemory();
  } catch (const std::exception& error) {
    PyErr_SetString(PyExc_RuntimeError, error.what());
  } catch (...) {
    PyErr_SetString(PyExc_RuntimeError, "a defect in msprobe");
  }
  return nullptr;
}

// A function for Python's tables.
template <PyCFunction function>
PyObject* Guarded(PyObject* self, PyObject* args) noexcept {
  try {
    return function(self, args);
  } catch (...) {
    return RaiseCaught();
  }
}

// The same for one that records something.
template <PyCFunction function>
PyObject* GuardedRecord(PyObject* self, PyObject* args) noexcept {
  try {
    return function(self, args);
  } catch (...) {
    CountLostRecord();
    return RaiseCaught();
  }
}

}  // namespace msprobe::python
