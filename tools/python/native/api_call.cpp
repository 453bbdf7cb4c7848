#include "tools/python/native/api_call.h"

#include <string>

#include "tools/python/native/backward.h"
#include "tools/python/native/describe.h"
#include "tools/python/native/stack_walk.h"
#include "tools/python/native/state.h"

namespace msprobe::python {
namespace {

enum Asynchronous : int { kPlain = 0, kCollective = 1, kAlwaysHandle = 2, kWithHandle = 3 };

struct Api {
  PyObject head;
  PyObject* original;
  std::string* base;  // "Functional.linear."
  Counter* counter;
  int asynchronous;
  int async_position;
  bool binds;     // the original is a method when looked up on an instance
  bool in_place;  // writes into its arguments
  bool is_view_as;
};
PyTypeObject* api_type = nullptr;

Api* Self(PyObject* object) { return reinterpret_cast<Api*>(object); }

struct Names {
  PyObject* requires_grad = Interned("requires_grad");
  PyObject* grad_fn = Interned("grad_fn");
  PyObject* register_hook = Interned("register_hook");
  PyObject* async_op = Interned("async_op");
  PyObject* get = Interned("__get__");
};
const Names& Known() {
  static const Names* names = new Names;
  return *names;
}

void PutRecompute(msprobe_entry* entry, const ThreadState& thread) {
  if (Global().mindspore) return;
  msprobe_put_member(entry, Text("is_recompute"), Text(""));
  msprobe_put_bool(entry, thread.recompute > 0 ? 1 : 0);
}

bool GradEnabled() {
  const Ref answer(PyObject_CallObject(Global().grad_enabled.get(), nullptr));
  if (!answer) PyErr_Clear();
  return answer.get() == Py_True;
}

// Positional arguments, then the values of keyword arguments: what a collective works on.
Ref ArgumentsAsOutput(PyObject* args, PyObject* kwargs) {
  Ref values(PySequence_List(args));
  if (!values || kwargs == nullptr || !PyDict_Check(kwargs)) return values;
  Py_ssize_t position = 0;
  PyObject* value = nullptr;
  while (PyDict_Next(kwargs, &position, nullptr, &value) != 0) {
    if (PyList_Append(values.get(), value) != 0) return {};
  }
  return values;
}

void PutCollectiveOutput(msprobe_entry* entry, std::string_view name, PyObject* args,
                         PyObject* kwargs) {
  const Ref values = ArgumentsAsOutput(args, kwargs);
  msprobe_put_member(entry, Text("output"), Text("output"));
  if (values) {
    DescribeList(entry, name, values.get());
  } else {
    ReportPythonError(name);
    msprobe_put_null(entry);
  }
}

bool ReturnsHandle(const Api* api, PyObject* args, PyObject* kwargs, PyObject* result) {
  if (api->asynchronous == kPlain || result == Py_None) return false;
  if (api->asynchronous == kAlwaysHandle) return true;
  PyObject* flag = kwargs == nullptr ? nullptr : PyDict_GetItem(kwargs, Known().async_op);
  if (flag == nullptr && api->async_position >= 0 && api->async_position < PyTuple_Size(args)) {
    flag = PyTuple_GetItem(args, api->async_position);
  }
  return flag != nullptr && PyObject_IsTrue(flag) == 1;
}

bool IsArgument(PyObject* tensor, PyObject* args, PyObject* kwargs) {
  for (Py_ssize_t i = 0; i < PyTuple_Size(args); ++i) {
    if (PyTuple_GetItem(args, i) == tensor) return true;
  }
  Py_ssize_t position = 0;
  PyObject* value = nullptr;
  while (kwargs != nullptr && PyDict_Next(kwargs, &position, nullptr, &value) != 0) {
    if (value == tensor) return true;
  }
  return false;
}

// A function that gave back its argument has no node of its own: whether its gradient is recorded
// where the tensor crossed the boundary of a module.
bool HookBoundary(const std::string& base, PyObject* tensor) {
  const State& state = Global();
  if (!state.unchanged) return false;
  const std::string name = base + "backward";
  const Ref text(PyUnicode_FromStringAndSize(name.data(), static_cast<Py_ssize_t>(name.size())));
  const Ref done(text ? PyObject_CallFunctionObjArgs(state.unchanged.get(), tensor, text.get(),
                                                     nullptr)
                      : nullptr);
  return done.get() == Py_True;
}

// The hook on the last autograd node of a result.
void HookBackward(const std::string& base, PyObject* args, PyObject* kwargs, PyObject* result) {
  const Names& names = Known();
  PyObject* tensor = FirstTensor(result);
  if (tensor == nullptr) return;
  const Ref wanted = Attribute(tensor, names.requires_grad);
  if (wanted && wanted.get() == Py_True && GradEnabled()) {
    if (IsArgument(tensor, args, kwargs) && HookBoundary(base, tensor)) return;
    const Ref node = Attribute(tensor, names.grad_fn);
    if (node && node.get() != Py_None) {
      const Ref hook(MakeBackwardHook(base + "backward"));
      const Ref handle(
          hook ? PyObject_CallMethodObjArgs(node.get(), names.register_hook, hook.get(), nullptr)
               : nullptr);
    }
  }
  if (PyErr_Occurred() != nullptr) ReportPythonError(base + "backward");
}

// One recorded call, from the moment its name is known. The steps before and after the original
// never raise; the error of the original passes through.
class Recording {
 public:
  Recording(const Api* api, ThreadState& thread)
      : api_(api),
        thread_(thread),
        guard_(thread),
        base_(*api->base + std::to_string(api->counter->next++) + "."),
        name_(base_ + "forward") {}

  void Before(PyObject* args, PyObject* kwargs) {
    State& state = Global();
    ++state.step_records;
    WriteConstruct(thread_, name_, /*backward=*/false);
    const uint32_t wanted = msprobe_capture_enter(state.capture, Text(name_));
    if ((wanted & MSPROBE_WANT_INPUT) != 0 || state.one_piece) {
      piece_ = msprobe_entry_begin(state.capture, Text(name_));
      if ((wanted & MSPROBE_WANT_INPUT) != 0) DescribeInputs(piece_, name_, args, kwargs);
      if (!state.one_piece) {
        PutRecompute(piece_, thread_);
        CommitPiece();
      }
    }
  }

  void Failed() {
    msprobe_capture_leave(Global().capture, Text(name_));
    if (piece_ != nullptr) CommitPiece();
  }

  void After(PyObject* args, PyObject* kwargs, PyObject* result) {
    State& state = Global();
    const uint32_t wanted = msprobe_capture_leave(state.capture, Text(name_));
    if ((wanted & MSPROBE_WANT_STACK) != 0) RecordStack(name_);
    const bool later = (wanted & MSPROBE_WANT_OUTPUT) != 0 && state.later_output &&
                       ReturnsHandle(api_, args, kwargs, result);
    if ((wanted & MSPROBE_WANT_OUTPUT) != 0 && !later) {
      if (piece_ == nullptr) piece_ = msprobe_entry_begin(state.capture, Text(name_));
      if (api_->asynchronous == kPlain || api_->asynchronous == kWithHandle) {
        DescribeOutput(piece_, name_, result);
      } else {
        PutCollectiveOutput(piece_, name_, args, kwargs);
      }
      PutRecompute(piece_, thread_);
    } else if (piece_ != nullptr) {
      PutRecompute(piece_, thread_);
    }
    if (piece_ != nullptr) CommitPiece();
    if (later) {
      const Ref name(
          PyUnicode_FromStringAndSize(name_.data(), static_cast<Py_ssize_t>(name_.size())));
      const Ref done(PyObject_CallFunctionObjArgs(state.later_output.get(), result, name.get(),
                                                  args, kwargs == nullptr ? Py_None : kwargs,
                                                  nullptr));
      if (!done) ReportPythonError(name_);
    }
  }

  const std::string& base() const { return base_; }

 private:
  void CommitPiece() { msprobe_entry_commit(std::exchange(piece_, nullptr)); }

  const Api* api_;
  ThreadState& thread_;
  InsideGuard guard_;
  std::string base_;
  std::string name_;
  msprobe_entry* piece_ = nullptr;
};

// With gradients of inputs: inputs pass through a node whose gradients are theirs. Gives the new
// (args, kwargs, hook or None); empty where the plain form is used.
Ref PassInputs(const Api* api, const std::string& base, PyObject* args, PyObject* kwargs) {
  const State& state = Global();
  if (!state.gradients_of_inputs || !state.input_gradients || api->in_place ||
      api->asynchronous != kPlain || !GradEnabled()) {
    return {};
  }
  const std::string name = base + "backward";
  const Ref text(PyUnicode_FromStringAndSize(name.data(), static_cast<Py_ssize_t>(name.size())));
  Ref passed(PyObject_CallFunctionObjArgs(state.input_gradients.get(), args,
                                          kwargs == nullptr ? Py_None : kwargs, text.get(),
                                          nullptr));
  if (!passed) {
    ReportPythonError(name);
    return {};
  }
  if (!PyTuple_Check(passed.get()) || PyTuple_Size(passed.get()) != 3) return {};
  return passed;
}

PyObject* RecordCall(const Api* api, ThreadState& thread, PyObject* args, PyObject* kwargs) {
  Recording recording(api, thread);
  recording.Before(args, kwargs);
  const Ref passed = PassInputs(api, recording.base(), args, kwargs);
  PyObject* real_args = passed ? PyTuple_GetItem(passed.get(), 0) : args;
  PyObject* real_kwargs = passed ? PyTuple_GetItem(passed.get(), 1) : kwargs;
  if (real_kwargs == Py_None) real_kwargs = nullptr;
  Ref result(PyObject_Call(api->original, real_args, real_kwargs));
  if (!result) {
    const ErrorAside aside;
    recording.Failed();
    return nullptr;
  }
  recording.After(args, kwargs, result.get());
  if (api->asynchronous == kPlain) {
    if (passed) {
      // The Python side hooks the result too: both ends make one entry.
      const Ref done = Call(PyTuple_GetItem(passed.get(), 2), result.get());
      if (!done) ReportPythonError(recording.base());
    } else {
      HookBackward(recording.base(), args, kwargs, result.get());
    }
  }
  return result.release();
}

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

PyObject* CallApi(PyObject* object, PyObject* args, PyObject* kwargs) {
  const Api* api = Self(object);
  const State& state = Global();
  if (state.recording && state.apis) {
    ThreadState& thread = ThisThread();
    if (!thread.inside && !IsOfAutograd(api, args) && !IsTraced()) return RecordCall(api, thread, args, kwargs);
  }
  return PyObject_Call(api->original, args, kwargs);
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
    PyObject* original = Self(object)->original;
    Py_INCREF(original);
    return original;
  }
  for (const char* own : {"__class__", "__reduce__", "__reduce_ex__", "__deepcopy__", "__copy__"}) {
    if (PyUnicode_CompareWithASCIIString(name, own) == 0) {
      return PyObject_GenericGetAttr(object, name);
    }
  }
  PyObject* value = PyObject_GetAttr(Self(object)->original, name);
  if (value != nullptr) return value;
  PyErr_Clear();
  return PyObject_GenericGetAttr(object, name);
}

// A wrapped function and its original count as the same function: code that keeps tables of
// functions, or compares what it imported earlier, goes on working.
PyObject* Compare(PyObject* left, PyObject* right, int operation) {
  if (operation != Py_EQ && operation != Py_NE) Py_RETURN_NOTIMPLEMENTED;
  PyObject* left_original = Py_TYPE(left) == api_type ? Self(left)->original : left;
  PyObject* right_original = Py_TYPE(right) == api_type ? Self(right)->original : right;
  const int equal = left_original == right_original
                        ? 1
                        : PyObject_RichCompareBool(left_original, right_original, Py_EQ);
  if (equal < 0) return nullptr;
  return PyBool_FromLong((equal == 1) == (operation == Py_EQ) ? 1 : 0);
}

Py_hash_t Hash(PyObject* object) { return PyObject_Hash(Self(object)->original); }
PyObject* Represent(PyObject* object) { return PyObject_Repr(Self(object)->original); }

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
  return Py_BuildValue("(O((O)))", getter.get(), Self(object)->original);
}

PyObject* New(PyTypeObject* type, PyObject* args, PyObject* /*kwargs*/) {
  PyObject* original = nullptr;
  const char* prefix = nullptr;
  const char* name = nullptr;
  int asynchronous = 0;
  int async_position = -1;
  if (PyArg_ParseTuple(args, "Oss|ii", &original, &prefix, &name, &asynchronous, &async_position) ==
      0) {
    return nullptr;
  }
  auto* allocate = reinterpret_cast<allocfunc>(PyType_GetSlot(type, Py_tp_alloc));
  PyObject* object = allocate(type, 0);
  if (object == nullptr) return nullptr;
  Api* api = Self(object);
  Py_INCREF(original);
  api->original = original;
  api->base = new std::string(std::string(prefix) + "." + name + ".");
  api->counter = &Global().counters[*api->base];
  api->asynchronous = asynchronous;
  api->async_position = async_position;
  api->binds = PyObject_HasAttr(reinterpret_cast<PyObject*>(Py_TYPE(original)), Known().get) != 0;
  const std::string_view spelled(name);
  api->is_view_as = spelled == "view_as";
  const bool dunder = spelled.size() > 4 && spelled.substr(0, 2) == "__";
  api->in_place = spelled == "__setitem__" ||
                  (dunder && spelled[2] == 'i' && spelled != "__invert__") ||
                  (!dunder && !spelled.empty() && spelled.back() == '_');
  return object;
}

void Deallocate(PyObject* object) {
  PyTypeObject* type = Py_TYPE(object);
  Py_XDECREF(Self(object)->original);
  delete Self(object)->base;
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

PyObject* MakeApiType() {
  PyObject* type = PyType_FromSpec(&spec);
  api_type = reinterpret_cast<PyTypeObject*>(type);
  return type;
}

void RecordLaterOutput(const std::string& name, PyObject* args, PyObject* kwargs) {
  ThreadState& thread = ThisThread();
  const InsideGuard guard(thread);
  msprobe_entry* entry = msprobe_entry_begin(Global().capture, Text(name));
  PutCollectiveOutput(entry, name, args, kwargs == Py_None ? nullptr : kwargs);
  msprobe_entry_commit(entry);
}

}  // namespace msprobe::python
