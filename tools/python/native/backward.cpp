#include "tools/python/native/backward.h"

#include "tools/python/native/describe.h"
#include "tools/python/native/guard.h"
#include "tools/python/native/state.h"

namespace msprobe::python {
namespace {

struct Hook {
  PyObject head;
  std::string* name;
  uint64_t generation;
};
PyTypeObject* hook_type = nullptr;

Hook* Self(PyObject* object) { return reinterpret_cast<Hook*>(object); }

void Record(PyObject* object, PyObject* args) {
  const State& state = Global();
  const Hook* hook = Self(object);
  if (hook->name != nullptr && state.step_open && hook->generation == state.generation &&
      PyTuple_Size(args) == 2) {
    ThreadState& thread = ThisThread();
    const InsideGuard guard(thread);
    WriteConstruct(thread, *hook->name, /*backward=*/true);
    msprobe_capture_enter(state.capture, Text(*hook->name));
    RecordGradients(*hook->name, PyTuple_GetItem(args, 1), PyTuple_GetItem(args, 0));
  }
}

// Runs in the training's backward pass: what cannot be recorded is lost, and nothing is raised.
PyObject* CallHook(PyObject* object, PyObject* args, PyObject* /*kwargs*/) noexcept {
  try {
    Record(object, args);
  } catch (...) {
    PyErr_Clear();
    CountLostRecord();
  }
  Py_RETURN_NONE;
}

void Deallocate(PyObject* object) {
  PyTypeObject* type = Py_TYPE(object);
  delete Self(object)->name;
  auto* release = reinterpret_cast<freefunc>(PyType_GetSlot(type, Py_tp_free));
  release(object);
  Py_DECREF(reinterpret_cast<PyObject*>(type));
}

PyType_Slot slots[] = {
    {Py_tp_dealloc, reinterpret_cast<void*>(Deallocate)},
    {Py_tp_call, reinterpret_cast<void*>(CallHook)},
    {0, nullptr},
};
PyType_Spec spec = {"msprobe._native.BackwardHook", sizeof(Hook), 0, Py_TPFLAGS_DEFAULT, slots};

void PutGradients(msprobe_entry* entry, const char* member, const std::string& name,
                  PyObject* gradients) {
  msprobe_put_member(entry, Text(member), Text(member));
  if (PyTuple_Check(gradients) || PyList_Check(gradients)) {
    DescribeList(entry, name, gradients);
  } else {
    Describe(entry, name, gradients);
  }
}

}  // namespace

bool MakeBackwardHookType() {
  hook_type = reinterpret_cast<PyTypeObject*>(PyType_FromSpec(&spec));
  return hook_type != nullptr;
}

PyObject* MakeBackwardHook(std::string name) {
  auto* allocate = reinterpret_cast<allocfunc>(PyType_GetSlot(hook_type, Py_tp_alloc));
  Ref made(allocate(hook_type, 0));  // of zeros
  if (!made) return nullptr;
  Self(made.get())->name = new std::string(std::move(name));
  Self(made.get())->generation = Global().generation;
  return made.release();
}

void RecordGradients(const std::string& name, PyObject* input, PyObject* output) {
  const HookTime time;
  State& state = Global();
  ++state.step_records;
  const uint32_t wanted = msprobe_capture_leave(state.capture, Text(name));
  if ((wanted & (MSPROBE_WANT_INPUT | MSPROBE_WANT_OUTPUT)) == 0) return;
  msprobe_entry* entry = msprobe_entry_begin(state.capture, Text(name));
  if ((wanted & MSPROBE_WANT_INPUT) != 0) PutGradients(entry, "input", name, input);
  if ((wanted & MSPROBE_WANT_OUTPUT) != 0) {
    PutGradients(entry, "output", name, output);
    if (state.repeats) state.gradients.insert(name);
  }
  msprobe_entry_commit(entry);
}

}  // namespace msprobe::python
