#include "tools/python/native/describe.h"

#include <string>

#include "tools/python/native/state.h"
#include "tools/python/native/tensor.h"

namespace msprobe::python {
namespace {

constexpr int kMaxDepth = 50;

struct Names {
  PyObject* fields = Interned("_fields");
  PyObject* dataclass_fields = Interned("__dataclass_fields__");
  PyObject* start = Interned("start");
  PyObject* stop = Interned("stop");
  PyObject* step = Interned("step");
  PyObject* type = Interned("type");
  PyObject* index = Interned("index");
  PyObject* type_name = Interned("__name__");
  PyObject* item = Interned("item");
  PyObject* items = Interned("items");
  PyObject* requires_grad = Interned("requires_grad");
};
const Names& Known() {
  static const Names* names = new Names;
  return *names;
}

// How the value under a key of this name is taken, whatever it is.
enum class Under { kOther, kDtype, kDevice };

Under UnderKey(PyObject* key) {
  if (!PyUnicode_Check(key)) return Under::kOther;
  if (PyUnicode_CompareWithASCIIString(key, "dtype") == 0) return Under::kDtype;
  if (PyUnicode_CompareWithASCIIString(key, "device") == 0) return Under::kDevice;
  return Under::kOther;
}

void PutInt(msprobe_entry* entry, PyObject* value) {
  int overflow = 0;
  const long long number = PyLong_AsLongLongAndOverflow(value, &overflow);
  if (overflow != 0) {
    // int(), so that subclasses with a spelling of their own (enums) give digits too.
    const Ref plain(PyNumber_Long(value));
    const std::string digits = plain ? Spelled(plain.get()) : std::string();
    PyErr_Clear();
    if (digits.empty()) {
      msprobe_put_null(entry);
    } else {
      msprobe_put_digits(entry, Text(digits));
    }
    return;
  }
  msprobe_put_int(entry, number);
}

std::string TypeName(PyObject* value) {
  const Ref name = Attribute(reinterpret_cast<PyObject*>(Py_TYPE(value)), Known().type_name);
  if (!name) {
    PyErr_Clear();
    return {};
  }
  return ToText(name.get());
}

// The bare value of an int, float, str, bool or None; false when it is none of them.
bool PutPlain(msprobe_entry* entry, PyObject* value) {
  if (value == Py_None) {
    msprobe_put_null(entry);
  } else if (PyBool_Check(value)) {
    msprobe_put_bool(entry, value == Py_True);
  } else if (PyLong_Check(value)) {
    PutInt(entry, value);
  } else if (PyFloat_Check(value)) {
    msprobe_put_float(entry, PyFloat_AsDouble(value));
  } else if (PyUnicode_Check(value)) {
    const std::string text = ToText(value);
    msprobe_put_text(entry, Text(text));
  } else {
    return false;
  }
  return true;
}

void PutTyped(msprobe_entry* entry, std::string_view type, std::string_view text) {
  msprobe_open_typed(entry, Text(type));
  msprobe_put_text(entry, Text(text));
  msprobe_close(entry);
}

void PutDtype(msprobe_entry* entry, PyObject* value) {
  const std::string text = Spelled(value);
  PutTyped(entry, Global().mindspore ? "mindspore.dtype" : "torch.dtype", text);
}

void PutSlice(msprobe_entry* entry, PyObject* value) {
  const Names& names = Known();
  msprobe_open_typed(entry, Text("slice"));
  msprobe_open_array(entry, MSPROBE_NOT_IN_FILE_NAME);
  for (PyObject* part_name : {names.start, names.stop, names.step}) {
    const Ref part = Attribute(value, part_name);
    const Ref number(part && part.get() != Py_None ? PyNumber_Long(part.get()) : nullptr);
    PyErr_Clear();
    if (number) {
      PutInt(entry, number.get());
    } else {
      msprobe_put_null(entry);
    }
  }
  msprobe_close(entry);
  msprobe_close(entry);
}

void PutSize(msprobe_entry* entry, PyObject* value) {
  msprobe_open_typed(entry, Text("torch.Size"));
  msprobe_open_array(entry, MSPROBE_NOT_IN_FILE_NAME);
  const Py_ssize_t count = PyTuple_Size(value);
  for (Py_ssize_t i = 0; i < count; ++i) {
    if (!PutPlain(entry, PyTuple_GetItem(value, i))) msprobe_put_null(entry);
  }
  msprobe_close(entry);
  msprobe_close(entry);
}

void PutDevice(msprobe_entry* entry, PyObject* value) {
  const Ref type = Attribute(value, Known().type);
  const Ref index = Attribute(value, Known().index);
  PyErr_Clear();
  const std::string text = (type ? ToText(type.get()) : std::string()) + ":" +
                           (index ? Spelled(index.get()) : std::string("None"));
  PutTyped(entry, "torch.device", text);
}

void PutMemoryFormat(msprobe_entry* entry, PyObject* value) {
  std::string text = Spelled(value);
  if (const size_t dot = text.rfind('.'); dot != std::string::npos) text.erase(0, dot + 1);
  msprobe_open_object(entry, MSPROBE_NOT_IN_FILE_NAME);
  msprobe_put_key(entry, Text("type"));
  msprobe_put_text(entry, Text("torch.memory_format"));
  msprobe_put_key(entry, Text("format"));
  msprobe_put_text(entry, Text(text));
  msprobe_close(entry);
}

void PutArrayScalar(msprobe_entry* entry, PyObject* value) {
  const Ref plain = CallMethod(value, Known().item);
  PyErr_Clear();
  const std::string type = TypeName(value);
  msprobe_open_typed(entry, Text(type));
  if (!plain || !PutPlain(entry, plain.get())) {
    const std::string text = Spelled(value);  // complex numbers have no place in JSON
    msprobe_put_text(entry, Text(text));
  }
  msprobe_close(entry);
}

// Calls visit(key, item) for every item of a list, tuple, mapping, named tuple or dataclass; key is
// null for positions. Stops at a Python error.
template <typename Visit>
void ForEach(PyObject* value, Kind kind, const Visit& visit) {
  const Names& names = Known();
  if (kind == Kind::kSequence) {
    // Lists may change under us: the length is asked for each time.
    const bool is_list = PyList_Check(value);
    for (Py_ssize_t i = 0; i < (is_list ? PyList_Size(value) : PyTuple_Size(value)); ++i) {
      const Ref item = Ref::Borrow(is_list ? PyList_GetItem(value, i) : PyTuple_GetItem(value, i));
      visit(nullptr, item.get());
    }
    return;
  }
  if (kind == Kind::kNamedTuple) {
    const Ref fields = Attribute(value, names.fields);
    const Py_ssize_t count = fields && PyTuple_Check(fields.get()) ? PyTuple_Size(fields.get()) : 0;
    for (Py_ssize_t i = 0; i < count && i < PyTuple_Size(value); ++i) {
      visit(PyTuple_GetItem(fields.get(), i), PyTuple_GetItem(value, i));
    }
    return;
  }
  if (kind == Kind::kDataclass) {
    const Ref fields = Attribute(value, names.dataclass_fields);
    const Ref keys(fields ? PyMapping_Keys(fields.get()) : nullptr);
    const Py_ssize_t count = keys && PyList_Check(keys.get()) ? PyList_Size(keys.get()) : 0;
    for (Py_ssize_t i = 0; i < count; ++i) {
      PyObject* key = PyList_GetItem(keys.get(), i);
      const Ref item = Attribute(value, key);
      if (!item) PyErr_Clear();
      visit(key, item ? item.get() : Py_None);
    }
    return;
  }
  const Ref items(PyMapping_Items(value));  // a list of pairs: safe against changes
  const Py_ssize_t count = items && PyList_Check(items.get()) ? PyList_Size(items.get()) : 0;
  for (Py_ssize_t i = 0; i < count; ++i) {
    PyObject* pair = PyList_GetItem(items.get(), i);
    if (!PyTuple_Check(pair) || PyTuple_Size(pair) != 2) continue;
    visit(PyTuple_GetItem(pair, 0), PyTuple_GetItem(pair, 1));
  }
}

std::string KeyText(PyObject* key) { return PyUnicode_Check(key) ? ToText(key) : Spelled(key); }

void PutAny(msprobe_entry* entry, std::string_view name, PyObject* value, Under under, int depth);

void PutContainer(msprobe_entry* entry, std::string_view name, PyObject* value, Kind kind,
                  int depth) {
  if (depth >= kMaxDepth) {
    msprobe_capture_report_error(Global().capture, Text(name),
                                 Text("arguments are nested deeper than 50 levels"));
    msprobe_put_null(entry);
    return;
  }
  if (kind == Kind::kSequence) {
    msprobe_open_array(entry, MSPROBE_IN_FILE_NAME);
  } else {
    msprobe_open_object(entry, MSPROBE_IN_FILE_NAME);
  }
  ForEach(value, kind, [&](PyObject* key, PyObject* item) {
    Under under = Under::kOther;
    if (key != nullptr) {
      const std::string text = KeyText(key);
      msprobe_put_key(entry, Text(text));
      under = UnderKey(key);
    }
    PutAny(entry, name, item, under, depth + 1);
  });
  if (PyErr_Occurred() != nullptr) ReportPythonError(name);
  msprobe_close(entry);
}

// What the Python side made of a special object: plain values, and tensors among them.
void PutPlainTree(msprobe_entry* entry, std::string_view name, PyObject* value, int depth) {
  if (PutPlain(entry, value)) return;
  const Kind kind = KindOf(value);
  if (depth < kMaxDepth && (kind == Kind::kSequence || kind == Kind::kMapping)) {
    if (kind == Kind::kSequence) {
      msprobe_open_array(entry, MSPROBE_NOT_IN_FILE_NAME);
    } else {
      msprobe_open_object(entry, MSPROBE_IN_FILE_NAME);
    }
    ForEach(value, kind, [&](PyObject* key, PyObject* item) {
      if (key != nullptr) {
        const std::string text = KeyText(key);
        msprobe_put_key(entry, Text(text));
      }
      PutPlainTree(entry, name, item, depth + 1);
    });
    msprobe_close(entry);
    return;
  }
  PutAny(entry, name, value, Under::kOther, depth + 1);
}

void PutAny(msprobe_entry* entry, std::string_view name, PyObject* value, Under under, int depth) {
  if (value == Py_None && under == Under::kOther) {
    msprobe_put_null(entry);
    return;
  }
  const Kind kind = KindOf(value);
  if (under == Under::kDtype &&
      (kind == Kind::kDtype || kind == Kind::kNull || kind == Kind::kNumber || value == Py_None)) {
    PutDtype(entry, value);
    return;
  }
  if (under == Under::kDevice && !Global().mindspore &&
      (kind == Kind::kNumber || value == Py_None)) {
    msprobe_open_typed(entry, Text("torch.device"));
    if (!PutPlain(entry, value)) msprobe_put_null(entry);
    msprobe_close(entry);
    return;
  }
  switch (kind) {
    case Kind::kTensor:
      PutTensor(entry, name, value);
      return;
    case Kind::kNumber: {
      const std::string type = TypeName(value);
      msprobe_open_typed(entry, Text(type));
      if (!PutPlain(entry, value)) msprobe_put_null(entry);
      msprobe_close(entry);
      return;
    }
    case Kind::kSequence:
    case Kind::kNamedTuple:
    case Kind::kDataclass:
    case Kind::kMapping:
      PutContainer(entry, name, value, kind, depth);
      return;
    case Kind::kSlice:
      PutSlice(entry, value);
      return;
    case Kind::kEllipsis:
      PutTyped(entry, "ellipsis", "...");
      return;
    case Kind::kSize:
      PutSize(entry, value);
      return;
    case Kind::kDtype:
      PutDtype(entry, value);
      return;
    case Kind::kDevice:
      PutDevice(entry, value);
      return;
    case Kind::kMemoryFormat:
      PutMemoryFormat(entry, value);
      return;
    case Kind::kArray:
      PutArray(entry, name, value);
      return;
    case Kind::kArrayScalar:
      PutArrayScalar(entry, value);
      return;
    case Kind::kOtherTensor:
      PutOtherTensor(entry, name, value);
      return;
    case Kind::kSpecial: {
      const Ref plain = Global().plain ? Call(Global().plain.get(), value) : Ref();
      if (!plain) {
        ReportPythonError(name);
        msprobe_put_null(entry);
        return;
      }
      PutPlainTree(entry, name, plain.get(), depth);
      return;
    }
    case Kind::kNull:
      break;
  }
  msprobe_put_null(entry);
}

void PutPending(msprobe_entry* entry, PyObject* value, PyObject* on_tensor, int depth) {
  const Kind kind = KindOf(value);
  if (kind == Kind::kTensor || kind == Kind::kOtherTensor) {
    // Other frameworks do not say which tensors will get a gradient.
    const Ref answer =
        kind == Kind::kTensor ? Attribute(value, Known().requires_grad) : Ref::Borrow(Py_True);
    PyErr_Clear();
    const bool wanted = answer.get() == Py_True;
    if (!wanted) msprobe_put_null(entry);
    const uint64_t ticket = wanted ? msprobe_put_pending(entry) : uint64_t{0};
    if (ticket == 0) return;
    const Ref number(PyLong_FromUnsignedLongLong(ticket));
    const Ref done(number ? PyObject_CallFunctionObjArgs(on_tensor, value, number.get(), nullptr)
                          : nullptr);
    PyErr_Clear();
    return;
  }
  const bool container = kind == Kind::kSequence || kind == Kind::kMapping ||
                         kind == Kind::kNamedTuple || kind == Kind::kDataclass;
  if (!container || depth >= kMaxDepth) {
    msprobe_put_null(entry);
    return;
  }
  if (kind == Kind::kSequence) {
    msprobe_open_array(entry, MSPROBE_IN_FILE_NAME);
  } else {
    msprobe_open_object(entry, MSPROBE_IN_FILE_NAME);
  }
  ForEach(value, kind, [&](PyObject* key, PyObject* item) {
    if (key != nullptr) {
      const std::string text = KeyText(key);
      msprobe_put_key(entry, Text(text));
    }
    PutPending(entry, item, on_tensor, depth + 1);
  });
  PyErr_Clear();
  msprobe_close(entry);
}

}  // namespace

void Describe(msprobe_entry* entry, std::string_view name, PyObject* value) {
  PutAny(entry, name, value, Under::kOther, 0);
}

void DescribeList(msprobe_entry* entry, std::string_view name, PyObject* values) {
  PutContainer(entry, name, values, Kind::kSequence, 0);
}

void DescribeInputs(msprobe_entry* entry, std::string_view name, PyObject* args, PyObject* kwargs) {
  msprobe_put_member(entry, Text("input_args"), Text("input"));
  PutContainer(entry, name, args, Kind::kSequence, 0);
  msprobe_put_member(entry, Text("input_kwargs"), Text("kwargs"));
  if (kwargs != nullptr && kwargs != Py_None) {
    PutContainer(entry, name, kwargs, Kind::kMapping, 0);
  } else {
    msprobe_open_object(entry, MSPROBE_IN_FILE_NAME);
    msprobe_close(entry);
  }
}

void DescribeOutput(msprobe_entry* entry, std::string_view name, PyObject* result) {
  msprobe_put_member(entry, Text("output"), Text("output"));
  const Kind kind = KindOf(result);
  if (kind == Kind::kNamedTuple || kind == Kind::kSize) {
    PutAny(entry, name, result, Under::kOther, 0);
  } else if (kind == Kind::kSequence && PyTuple_Check(result)) {
    PutContainer(entry, name, result, kind, 0);
  } else {
    msprobe_open_array(entry, MSPROBE_IN_FILE_NAME);
    PutAny(entry, name, result, Under::kOther, 1);
    msprobe_close(entry);
  }
}

void DescribePending(msprobe_entry* entry, PyObject* value, PyObject* on_tensor) {
  PutPending(entry, value, on_tensor, 0);
}

PyObject* FirstTensor(PyObject* result) {
  for (int depth = 0; depth < kMaxDepth && result != nullptr; ++depth) {
    const Kind kind = KindOf(result);
    if (kind == Kind::kTensor) return result;
    if (kind == Kind::kMapping && PyDict_Check(result)) {
      Py_ssize_t position = 0;
      PyObject* value = nullptr;
      PyObject* found = nullptr;
      while (PyDict_Next(result, &position, nullptr, &value) != 0) {
        if (KindOf(value) == Kind::kTensor) {
          found = value;
          break;
        }
      }
      return found;
    }
    if (PyTuple_Check(result) && PyTuple_Size(result) > 0) {
      result = PyTuple_GetItem(result, 0);
    } else if (PyList_Check(result) && PyList_Size(result) > 0) {
      result = PyList_GetItem(result, 0);
    } else {
      return nullptr;
    }
  }
  return nullptr;
}

}  // namespace msprobe::python
