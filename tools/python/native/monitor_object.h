// Inside of msprobe._native.Monitor: the object, and what its methods have in common.
#pragma once

#include <string_view>

#include "msprobe/monitor.h"

#include "tools/python/native/arguments.h"

namespace msprobe::python {

struct MonitorObject {
  PyObject head;
  msprobe_monitor* engine;  // null after close()
  // tensor of an accelerator -> what takes the ticket of its row, or a copy on the host
  PyObject* on_device;
};

inline MonitorObject* AsMonitor(PyObject* object) {
  return reinterpret_cast<MonitorObject*>(object);
}

// The engine, or null with a Python error.
inline msprobe_monitor* EngineOf(PyObject* object) {
  msprobe_monitor* engine = AsMonitor(object)->engine;
  if (engine == nullptr) PyErr_SetString(PyExc_RuntimeError, "this monitor is closed");
  return engine;
}

template <>
struct Receiver<msprobe_monitor*> {
  static msprobe_monitor* From(PyObject* self) { return EngineOf(self); }
};
// Open or closed.
template <>
struct Receiver<MonitorObject*> {
  static MonitorObject* From(PyObject* self) { return AsMonitor(self); }
};
// One whose engine is open.
struct OpenMonitor {
  MonitorObject* object;
  explicit operator bool() const { return object != nullptr; }
};
template <>
struct Receiver<OpenMonitor> {
  static OpenMonitor From(PyObject* self) {
    return {EngineOf(self) == nullptr ? nullptr : AsMonitor(self)};
  }
};

inline PyObject* NoneOr(int code) {
  if (code != MSPROBE_OK) return Fail(code);
  Py_RETURN_NONE;
}

inline PyObject* TextOrNone(const char* text) {
  if (text == nullptr) Py_RETURN_NONE;
  return PyUnicode_DecodeUTF8(text, static_cast<Py_ssize_t>(std::string_view(text).size()),
                              "replace");
}

}  // namespace msprobe::python
