#include "tools/python/native/python_api.h"

namespace msprobe::python {

PyObject* Interned(const char* text) { return PyUnicode_InternFromString(text); }

std::string ToText(PyObject* text) {
  Ref bytes(PyUnicode_AsEncodedString(text, "utf-8", "backslashreplace"));
  char* data = nullptr;
  Py_ssize_t length = 0;
  if (!bytes || PyBytes_AsStringAndSize(bytes.get(), &data, &length) != 0) {
    PyErr_Clear();
    return {};
  }
  return {data, static_cast<size_t>(length)};
}

std::string Spelled(PyObject* object) {
  Ref text(PyObject_Str(object));
  if (!text) {
    PyErr_Clear();
    return {};
  }
  return ToText(text.get());
}

PyObject* Fail(int code) {
  const std::string text = msprobe_last_error();
  PyErr_SetString(code == MSPROBE_ERROR_USAGE ? PyExc_ValueError : PyExc_RuntimeError,
                  text.c_str());
  return nullptr;
}

}  // namespace msprobe::python
