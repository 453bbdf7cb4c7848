// Python.h in the limited API of 3.8 (one build serves every later Python), and owned references.
#pragma once

#define PY_SSIZE_T_CLEAN
#ifndef Py_LIMITED_API
#define Py_LIMITED_API 0x03080000
#endif
#include <string>
#include <string_view>
#include <utility>

#include <Python.h>

#include "msprobe/capture.h"

namespace msprobe::python {

// Owns one reference; empty after a failed call.
class Ref {
 public:
  Ref() = default;
  explicit Ref(PyObject* owned) : object_(owned) {}
  static Ref Borrow(PyObject* borrowed) {
    Py_XINCREF(borrowed);
    return Ref(borrowed);
  }
  Ref(Ref&& other) noexcept : object_(std::exchange(other.object_, nullptr)) {}
  Ref& operator=(Ref&& other) noexcept {
    std::swap(object_, other.object_);
    return *this;
  }
  Ref(const Ref&) = delete;
  Ref& operator=(const Ref&) = delete;
  ~Ref() { Py_XDECREF(object_); }

  PyObject* get() const { return object_; }
  PyObject* release() { return std::exchange(object_, nullptr); }
  explicit operator bool() const { return object_ != nullptr; }

 private:
  PyObject* object_ = nullptr;
};

// A string kept for good, for attribute look-ups without a new object each time.
PyObject* Interned(const char* text);

inline Ref Attribute(PyObject* object, PyObject* name) {
  return Ref(PyObject_GetAttr(object, name));
}
inline Ref CallMethod(PyObject* object, PyObject* name) {
  return Ref(PyObject_CallMethodObjArgs(object, name, nullptr));
}
inline Ref Call(PyObject* callable, PyObject* argument) {
  return Ref(PyObject_CallFunctionObjArgs(callable, argument, nullptr));
}

// UTF-8; what cannot be encoded (lone surrogates) is spelled as an escape. Never leaves an error.
std::string ToText(PyObject* text);
// str() of any object, in the same way; "" when that fails.
std::string Spelled(PyObject* object);

inline msprobe_text Text(std::string_view text) { return {text.data(), text.size()}; }
// Raises what the last call of the library said: ValueError for a wrong use, else RuntimeError.
PyObject* Fail(int code);

// Other Python threads run during the call.
template <typename Function>
int WithoutLock(const Function& function) {
  PyThreadState* saved = PyEval_SaveThread();
  const int code = function();
  PyEval_RestoreThread(saved);
  return code;
}

// Sets the Python error aside for a while: what runs in between neither sees nor changes it.
class ErrorAside {
 public:
  ErrorAside() { PyErr_Fetch(&type_, &value_, &traceback_); }
  ~ErrorAside() { PyErr_Restore(type_, value_, traceback_); }
  ErrorAside(const ErrorAside&) = delete;
  ErrorAside& operator=(const ErrorAside&) = delete;

 private:
  PyObject* type_ = nullptr;
  PyObject* value_ = nullptr;
  PyObject* traceback_ = nullptr;
};

}  // namespace msprobe::python
