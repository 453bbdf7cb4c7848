#include "tools/python/native/slots.h"

#include "tools/python/native/in_place.h"

namespace msprobe::python {
namespace {

struct Row {
  PyObject* own;  // all borrowed
  PyObject* holder;
  PyObject* name;
  PyObject* replacement;
  PyObject* original;
};

// What the namespace has under the name; empty without an error where it has nothing.
Ref Look(PyObject* own, PyObject* name) {
  if (PyDict_Check(own)) return Ref::Borrow(PyDict_GetItemWithError(own, name));
  Ref found(PyObject_GetItem(own, name));
  if (!found && PyErr_ExceptionMatches(PyExc_KeyError) != 0) PyErr_Clear();
  return found;
}

// There are a thousand of them, twice a step: taken apart without a format string.
bool TakeApart(PyObject* kept, Row* row) {
  if (!PyTuple_Check(kept) || PyTuple_Size(kept) != 5) {
    PyErr_SetString(PyExc_TypeError, "a row is (namespace, holder, name, replacement, original)");
    return false;
  }
  *row = {PyTuple_GetItem(kept, 0), PyTuple_GetItem(kept, 1), PyTuple_GetItem(kept, 2),
          PyTuple_GetItem(kept, 3), PyTuple_GetItem(kept, 4)};
  return true;
}

// Whether the attribute is now what it should be.
bool ExchangeOne(const Row& row, bool put) {
  PyObject* original = row.original == Py_None ? nullptr : row.original;
  const Ref now = Look(row.own, row.name);
  if (IsInPlace(row.replacement)) {
    const bool unchanged = PyErr_Occurred() == nullptr && now.get() == original;
    if (!put) {
      TakeInPlace(row.replacement);
    } else if (unchanged) {
      PutInPlace(row.replacement);
    }
    return unchanged;
  }
  return PyErr_Occurred() == nullptr && now.get() == (put ? original : row.replacement) &&
         PyObject_SetAttr(row.holder, row.name, put ? row.replacement : original) == 0;
}

}  // namespace

PyObject* Exchange(List rows, bool put) {
  Ref left(PyList_New(0));
  for (Py_ssize_t i = 0; left && i < PyList_Size(rows); ++i) {
    const Ref kept = Ref::Borrow(PyList_GetItem(rows, i));
    Row row = {};
    if (!TakeApart(kept.get(), &row)) return nullptr;
    if (ExchangeOne(row, put)) continue;
    PyErr_Clear();
    const Ref index(PyLong_FromSsize_t(i));
    if (!index || PyList_Append(left.get(), index.get()) != 0) return nullptr;
  }
  return left.release();
}

}  // namespace msprobe::python
