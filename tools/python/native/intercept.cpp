#include "tools/python/native/intercept.h"

#include <string>

#include "tools/python/native/arguments.h"
#include "tools/python/native/guard.h"
#include "tools/python/native/recorder.h"
#include "tools/python/native/state.h"

namespace msprobe::python {
namespace {

struct Api {
  PyObject head;
  RecordedFunction function;  // holds its original and its base
  Counter* counter;
  bool binds;  // the original is a method when looked up on an instance
  bool is_view_as;
};
PyTypeObject* api_type = nullptr;

Api* Self(PyObject* object) { return reinterpret_cast<Api*>(object); }

// An autograd function that returns its input as it is makes PyTorch itself call x.view_as(x).
bool IsOfAutograd(const Api* api, PyObject* args) {
  return api->is_view_as && PyTuple_Size(args) == 2 &&
         PyTuple_GetItem(args, 0) == PyTuple_GetItem(args, 1);
}

// Nothing is recorded, and nothing asked of its values, while the program is read.
bool IsTraced() {
  const State& state = Global();
  if (!state.is_traced) return false;
  const Ref answer(PyObject_CallObject(state.is_traced.get(), nullptr));
  if (!answer) PyErr_Clear();
  return answer.get() == Py_True;
}

// Somebody else makes the call, and others of his own. What runs inside is not looked at.
PyObject* CallTwice(const Api* api, ThreadState& thread, PyObject* args, PyObject* kwargs) {
  const InsideGuard inside(thread);
  const std::string name = *api->function.base + std::to_string(api->counter->Next(Global().generation));
  const Ref who = Ref::Borrow(Global().twice.get());  // it may be put away meanwhile
  return PyObject_CallFunction(who.get(), "Os#OOO", api->function.original, name.data(),
                               static_cast<Py_ssize_t>(name.size()),
                               api->function.in_place ? Py_True : Py_False, args,
                               kwargs == nullptr ? Py_None : kwargs);
}

PyObject* Bind(PyObject* object, PyObject* instance, PyObject* /*owner*/) {
  const Api* api = Self(object);
  if (instance == nullptr || instance == Py_None || !api->binds) {
    Py_INCREF(object);
    return object;
  }
  return PyObject_CallFunctionObjArgs(Global().method_type.get(), object, instance, nullptr);
}

// Everything the original has (name, text, signature) is asked of the original.
PyObject* GetAttribute(PyObject* object, PyObject* name) {
  if (PyUnicode_CompareWithASCIIString(name, "__wrapped__") == 0) {
    PyObject* original = Self(object)->function.original;
    Py_INCREF(original);
    return original;
  }
  for (const char* own : {"__class__", "__reduce__", "__reduce_ex__", "__deepcopy__", "__copy__"}) {
    if (PyUnicode_CompareWithASCIIString(name, own) == 0) {
      return PyObject_GenericGetAttr(object, name);
    }
  }
  PyObject* value = PyObject_GetAttr(Self(object)->function.original, name);
  if (value != nullptr) return value;
  PyErr_Clear();
  return PyObject_GenericGetAttr(object, name);
}

// A wrapped function and its original count as the same function: code that keeps tables of
// functions, or compares what it imported earlier, goes on working.
PyObject* Compare(PyObject* left, PyObject* right, int operation) {
  if (operation != Py_EQ && operation != Py_NE) Py_RETURN_NOTIMPLEMENTED;
  PyObject* left_original = Py_TYPE(left) == api_type ? Self(left)->function.original : left;
  PyObject* right_original = Py_TYPE(right) == api_type ? Self(right)->function.original : right;
  const int equal = left_original == right_original
                        ? 1
                        : PyObject_RichCompareBool(left_original, right_original, Py_EQ);
  if (equal < 0) return nullptr;
  return PyBool_FromLong((equal == 1) == (operation == Py_EQ) ? 1 : 0);
}

Py_hash_t Hash(PyObject* object) { return PyObject_Hash(Self(object)->function.original); }
PyObject* Represent(PyObject* object) { return PyObject_Repr(Self(object)->function.original); }

PyObject* Copy(PyObject* object, PyObject* /*arguments*/) {
  Py_INCREF(object);
  return object;
}

// Pickled by name where that name leads here now, else as the original: itemgetter(0)((original,))
// gives it back without a word of msprobe.
PyObject* Reduce(PyObject* object, PyObject* /*arguments*/) {
  const Ref home(PyObject_GetAttrString(object, "__module__"));
  Ref name(PyObject_GetAttrString(object, "__name__"));
  PyErr_Clear();
  if (home && name && PyUnicode_Check(home.get())) {
    PyObject* module = PyDict_GetItem(PyImport_GetModuleDict(), home.get());
    const Ref found(module == nullptr ? nullptr : PyObject_GetAttr(module, name.get()));
    PyErr_Clear();
    if (found.get() == object) return name.release();
  }
  const Ref operators(PyImport_ImportModule("operator"));
  const Ref getter(operators ? PyObject_CallMethod(operators.get(), "itemgetter", "i", 0)
                             : nullptr);
  if (!getter) return nullptr;
  return Py_BuildValue("(O((O)))", getter.get(), Self(object)->function.original);
}

PyObject* Make(PyTypeObject* type, PyObject* args) {
  ArgumentReader<"Api", PyObject*, std::string_view, std::string_view, Optional<int, 0>, Optional<int, -1>> arguments;
  if (!arguments.Read(args)) return nullptr;
  const auto [original, prefix, name, asynchronous, async_position] = arguments.Values();
  auto* allocate = reinterpret_cast<allocfunc>(PyType_GetSlot(type, Py_tp_alloc));
  Ref made(allocate(type, 0));  // of zeros
  if (!made) return nullptr;
  Api* api = Self(made.get());
  Py_INCREF(original);
  api->function.original = original;
  api->function.base = new std::string(std::string(prefix).append(".").append(name).append("."));
  api->counter = &Global().counters[*api->function.base];
  api->function.asynchronous = asynchronous;
  api->function.async_position = async_position;
  api->binds =
      PyObject_HasAttrString(reinterpret_cast<PyObject*>(Py_TYPE(original)), "__get__") != 0;
  api->is_view_as = name == "view_as";
  const bool dunder = name.size() > 4 && name.substr(0, 2) == "__";
  api->function.in_place = name == "__setitem__" ||
                           (dunder && name[2] == 'i' && name != "__invert__") ||
                           (!dunder && !name.empty() && name.back() == '_');
  return made.release();
}

PyObject* New(PyTypeObject* type, PyObject* args, PyObject* /*kwargs*/) noexcept {
  try {
    return Make(type, args);
  } catch (...) {
    return RaiseCaught();
  }
}

void Deallocate(PyObject* object) {
  PyTypeObject* type = Py_TYPE(object);
  Py_XDECREF(Self(object)->function.original);
  delete Self(object)->function.base;
  auto* release = reinterpret_cast<freefunc>(PyType_GetSlot(type, Py_tp_free));
  release(object);
  Py_DECREF(reinterpret_cast<PyObject*>(type));
}

PyMethodDef methods[] = {
    {"__copy__", Copy, METH_NOARGS, nullptr},
    {"__deepcopy__", Copy, METH_O, nullptr},
    {"__reduce__", Reduce, METH_NOARGS, nullptr},
    {"__reduce_ex__", Reduce, METH_O, nullptr},
    {nullptr, nullptr, 0, nullptr},
};

// Weak references and a dictionary of its own are what functions have.
PyType_Slot slots[] = {
    {Py_tp_new, reinterpret_cast<void*>(New)},
    {Py_tp_dealloc, reinterpret_cast<void*>(Deallocate)},
    {Py_tp_call, reinterpret_cast<void*>(CallApi)},
    {Py_tp_descr_get, reinterpret_cast<void*>(Bind)},
    {Py_tp_getattro, reinterpret_cast<void*>(GetAttribute)},
    {Py_tp_richcompare, reinterpret_cast<void*>(Compare)},
    {Py_tp_hash, reinterpret_cast<void*>(Hash)},
    {Py_tp_repr, reinterpret_cast<void*>(Represent)},
    {Py_tp_methods, methods},
    {0, nullptr},
};
PyType_Spec spec = {"msprobe._native.Api", sizeof(Api), 0, Py_TPFLAGS_DEFAULT, slots};

}  // namespace

bool ApisAreWanted() {
  const State& state = Global();
  return ((state.recording && state.apis) || state.twice) && !ThisThread().inside;
}

PyObject* CallApi(PyObject* object, PyObject* args, PyObject* kwargs) {
  const Api* api = Self(object);
  const State& state = Global();
  if (state.recording && state.apis) {
    ThreadState& thread = ThisThread();
    if (!thread.inside && !IsOfAutograd(api, args) && !IsTraced())
      return RecordCall(api->function, api->counter->Next(state.generation), thread, args, kwargs);
  }
  if (state.twice) {
    ThreadState& thread = ThisThread();
    if (!thread.inside && !IsOfAutograd(api, args) && !IsTraced()) {
      return CallTwice(api, thread, args, kwargs);
    }
  }
  return PyObject_Call(api->function.original, args, kwargs);
}

PyObject* MakeApiType() {
  PyObject* type = PyType_FromSpec(&spec);
  api_type = reinterpret_cast<PyTypeObject*>(type);
  return type;
}

}  // namespace msprobe::python
