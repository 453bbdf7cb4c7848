#include "tools/python/native/calls.h"

#include <string>

#include "tools/python/native/backward.h"
#include "tools/python/native/describe.h"
#include "tools/python/native/graph_walk.h"
#include "tools/python/native/guard.h"
#include "tools/python/native/recorder.h"
#include "tools/python/native/slots.h"
#include "tools/python/native/stack_walk.h"
#include "tools/python/native/state.h"
#include "tools/python/native/tensor.h"

namespace msprobe::python {
namespace {

bool Ready() {
  if (Global().capture != nullptr) return true;
  PyErr_SetString(PyExc_RuntimeError, "no capture is open");
  return false;
}

std::string_view View(const char* data, Py_ssize_t length) {
  return {data, static_cast<size_t>(length)};
}

// module_enter(name, args, kwargs): the forward of a module begins; it is the parent of what
// follows. Its inputs are described now: the call may overwrite them.
PyObject* ModuleEnter(PyObject* /*module*/, PyObject* args) {
  const char* data = nullptr;
  Py_ssize_t length = 0;
  PyObject* inputs = nullptr;
  PyObject* kwargs = nullptr;
  if (PyArg_ParseTuple(args, "s#O!O", &data, &length, &PyTuple_Type, &inputs, &kwargs) == 0 ||
      !Ready()) {
    return nullptr;
  }
  const HookTime time;
  const std::string_view name = View(data, length);
  ThreadState& thread = ThisThread();
  OpenModuleCall(thread.forward, std::string(name));
  const uint32_t wanted = msprobe_capture_enter(Global().capture, Text(name));
  if ((wanted & MSPROBE_WANT_INPUT) != 0) {
    const InsideGuard guard(thread);
    msprobe_entry* piece = msprobe_entry_begin(Global().capture, Text(name));
    DescribeInputs(piece, name, inputs, kwargs);
    thread.forward.back().inputs = OpenPiece(piece);
  }
  Py_RETURN_NONE;
}

// module_backward_enter(name): gradients reach what a module gave.
PyObject* ModuleBackwardEnter(PyObject* /*module*/, PyObject* args) {
  const char* name = nullptr;
  Py_ssize_t length = 0;
  if (PyArg_ParseTuple(args, "s#", &name, &length) == 0 || !Ready()) return nullptr;
  OpenModuleCall(ThisThread().backward, std::string(View(name, length)));
  msprobe_capture_enter(Global().capture, Text(View(name, length)));
  Py_RETURN_NONE;
}

// module_abandon(name): the forward of a module ended in an exception.
PyObject* ModuleAbandon(PyObject* /*module*/, PyObject* args) {
  const char* name = nullptr;
  Py_ssize_t length = 0;
  if (PyArg_ParseTuple(args, "s#", &name, &length) == 0 || !Ready()) return nullptr;
  CloseModuleCall(ThisThread().forward, View(name, length));
  msprobe_capture_leave(Global().capture, Text(View(name, length)));
  Py_RETURN_NONE;
}

// The inputs of an open call, which no longer has them.
OpenPiece TakeInputs(std::vector<OpenCall>& stack, std::string_view name) {
  for (size_t i = stack.size(); i > 0; --i) {
    if (stack[i - 1].name == name) return std::move(stack[i - 1].inputs);
  }
  return {};
}

void PutParameters(msprobe_entry* entry, std::string_view name, PyObject* parameters) {
  msprobe_put_member(entry, Text("parameters"), Text("parameters"));
  Describe(entry, name, parameters);
}

// module_forward(name, output, parameters, args, kwargs): records a finished forward. Its inputs are
// described here only where a scope began inside the call: nobody asked for them before.
PyObject* ModuleForward(PyObject* /*module*/, PyObject* args) {
  const char* data = nullptr;
  Py_ssize_t length = 0;
  PyObject* output = nullptr;
  PyObject* parameters = nullptr;
  PyObject* given = nullptr;
  PyObject* kwargs = nullptr;
  if (PyArg_ParseTuple(args, "s#OO!O!O", &data, &length, &output, &PyDict_Type, &parameters,
                       &PyTuple_Type, &given, &kwargs) == 0 ||
      !Ready()) {
    return nullptr;
  }
  const HookTime time;
  State& state = Global();
  const std::string_view name = View(data, length);
  ThreadState& thread = ThisThread();
  const InsideGuard guard(thread);
  const uint32_t wanted = msprobe_capture_leave(state.capture, Text(name));
  ++state.step_records;
  if ((wanted & (MSPROBE_WANT_INPUT | MSPROBE_WANT_OUTPUT)) != 0) {
    OpenPiece inputs = TakeInputs(thread.forward, name);
    msprobe_entry* entry = (wanted & MSPROBE_WANT_INPUT) != 0 ? inputs.take() : nullptr;
    if (entry == nullptr) {
      entry = msprobe_entry_begin(state.capture, Text(name));
      if ((wanted & MSPROBE_WANT_INPUT) != 0) DescribeInputs(entry, name, given, kwargs);
    }
    if ((wanted & MSPROBE_WANT_OUTPUT) != 0) DescribeOutput(entry, name, output);
    PutParameters(entry, name, parameters);
    if (!state.mindspore) {
      msprobe_put_member(entry, Text("is_recompute"), Text(""));
      msprobe_put_bool(entry, thread.recompute > 0 ? 1 : 0);
    }
    // First the stack: what is said of the call may name it.
    if ((wanted & MSPROBE_WANT_STACK) != 0) RecordStack(name);
    msprobe_entry_commit(entry);
  } else if ((wanted & MSPROBE_WANT_STACK) != 0) {
    RecordStack(name);
  }
  CloseModuleCall(thread.forward, name);
  Py_RETURN_NONE;
}

// module_backward(name, input, output): records a finished backward.
PyObject* ModuleBackward(PyObject* /*module*/, PyObject* args) {
  const char* data = nullptr;
  Py_ssize_t length = 0;
  PyObject* input = nullptr;
  PyObject* output = nullptr;
  if (PyArg_ParseTuple(args, "s#OO", &data, &length, &input, &output) == 0 || !Ready()) {
    return nullptr;
  }
  ThreadState& thread = ThisThread();
  const InsideGuard guard(thread);
  RecordGradients(std::string(View(data, length)), input, output);
  CloseModuleCall(thread.backward, View(data, length));
  Py_RETURN_NONE;
}

// api_backward(name, input, output): records gradients of an API outside its own hook.
PyObject* ApiBackward(PyObject* /*module*/, PyObject* args) {
  const char* data = nullptr;
  Py_ssize_t length = 0;
  PyObject* input = nullptr;
  PyObject* output = nullptr;
  if (PyArg_ParseTuple(args, "s#OO", &data, &length, &input, &output) == 0 || !Ready()) {
    return nullptr;
  }
  const std::string name(View(data, length));
  ThreadState& thread = ThisThread();
  const InsideGuard guard(thread);
  WriteConstruct(thread, name, /*backward=*/true);
  msprobe_capture_enter(Global().capture, Text(name));
  RecordGradients(name, input, output);
  Py_RETURN_NONE;
}

// gradients_expected(module, names): the places of the gradients that will come; whether they are
// wanted at all. names: a list, or None: then it is only asked.
PyObject* GradientsExpected(PyObject* /*module*/, PyObject* args) {
  const char* data = nullptr;
  Py_ssize_t length = 0;
  PyObject* names = nullptr;
  if (PyArg_ParseTuple(args, "s#O", &data, &length, &names) == 0 || !Ready()) return nullptr;
  if (names != Py_None && !PyList_Check(names)) {
    PyErr_SetString(PyExc_TypeError, "the names are a list, or None");
    return nullptr;
  }
  const State& state = Global();
  const std::string name = std::string(View(data, length)) + ".parameters_grad";
  if (msprobe_capture_wants_parameters_grad(state.capture, Text(View(data, length))) == 0) {
    Py_RETURN_FALSE;
  }
  if (names == Py_None || state.one_piece) Py_RETURN_TRUE;  // nothing that is null overflows
  msprobe_entry* entry = msprobe_entry_begin(state.capture, Text(name));
  for (Py_ssize_t i = 0; i < PyList_Size(names); ++i) {
    const std::string parameter = Spelled(PyList_GetItem(names, i));
    msprobe_put_member(entry, Text(parameter), Text(parameter));
    msprobe_open_array(entry, MSPROBE_NOT_IN_FILE_NAME);
    msprobe_put_null(entry);
    msprobe_close(entry);
  }
  msprobe_entry_commit(entry);
  Py_RETURN_TRUE;
}

// parameter_gradient(module, parameter, gradient)
PyObject* ParameterGradient(PyObject* /*module*/, PyObject* args) {
  const char* data = nullptr;
  Py_ssize_t length = 0;
  PyObject* parameter = nullptr;
  PyObject* gradient = nullptr;
  if (PyArg_ParseTuple(args, "s#OO", &data, &length, &parameter, &gradient) == 0 || !Ready()) {
    return nullptr;
  }
  const State& state = Global();
  if (msprobe_capture_wants_parameters_grad(state.capture, Text(View(data, length))) == 0) {
    Py_RETURN_NONE;
  }
  const InsideGuard guard(ThisThread());
  const std::string name = std::string(View(data, length)) + ".parameters_grad";
  const std::string member = Spelled(parameter);
  msprobe_entry* entry = msprobe_entry_begin(state.capture, Text(name));
  msprobe_put_member(entry, Text(member), Text(member));
  msprobe_open_array(entry, MSPROBE_NOT_IN_FILE_NAME);
  Describe(entry, name, gradient);
  msprobe_close(entry);
  msprobe_entry_commit(entry);
  Py_RETURN_NONE;
}

// save(name, value): a whole entry of level debug.
PyObject* Save(PyObject* /*module*/, PyObject* args) {
  const char* data = nullptr;
  Py_ssize_t length = 0;
  PyObject* value = nullptr;
  if (PyArg_ParseTuple(args, "s#O", &data, &length, &value) == 0 || !Ready()) return nullptr;
  const InsideGuard guard(ThisThread());
  msprobe_entry* entry = msprobe_entry_begin(Global().capture, Text(View(data, length)));
  Describe(entry, View(data, length), value);
  msprobe_entry_commit(entry);
  Py_RETURN_NONE;
}

// save_pending(name, value, on_tensor): the same shape, with places for gradients.
PyObject* SavePending(PyObject* /*module*/, PyObject* args) {
  const char* data = nullptr;
  Py_ssize_t length = 0;
  PyObject* value = nullptr;
  PyObject* on_tensor = nullptr;
  if (PyArg_ParseTuple(args, "s#OO", &data, &length, &value, &on_tensor) == 0 || !Ready()) {
    return nullptr;
  }
  const InsideGuard guard(ThisThread());
  msprobe_entry* entry = msprobe_entry_begin(Global().capture, Text(View(data, length)));
  DescribePending(entry, value, on_tensor);
  msprobe_entry_commit(entry);
  Py_RETURN_NONE;
}

// fill_pending(ticket, name, value)
PyObject* FillPending(PyObject* /*module*/, PyObject* args) {
  unsigned long long ticket = 0;
  const char* data = nullptr;
  Py_ssize_t length = 0;
  PyObject* value = nullptr;
  if (PyArg_ParseTuple(args, "Ks#O", &ticket, &data, &length, &value) == 0 || !Ready()) {
    return nullptr;
  }
  const InsideGuard guard(ThisThread());
  msprobe_entry* entry = msprobe_entry_begin_pending(Global().capture, ticket);
  Describe(entry, View(data, length), value);
  msprobe_entry_commit(entry);
  Py_RETURN_NONE;
}

// fill_statistics(ticket, max, min, mean, norm)
PyObject* FillStatistics(PyObject* /*module*/, PyObject* args) {
  unsigned long long ticket = 0;
  double statistics[4] = {};
  if (PyArg_ParseTuple(args, "Kdddd", &ticket, &statistics[0], &statistics[1], &statistics[2],
                       &statistics[3]) == 0 ||
      !Ready()) {
    return nullptr;
  }
  msprobe_fill_statistics(Global().capture, ticket, statistics);
  Py_RETURN_NONE;
}

// later_output(name, args, kwargs): the arguments of a collective that has been waited for.
PyObject* LaterOutput(PyObject* /*module*/, PyObject* args) {
  const char* data = nullptr;
  Py_ssize_t length = 0;
  PyObject* inputs = nullptr;
  PyObject* kwargs = nullptr;
  if (PyArg_ParseTuple(args, "s#O!O", &data, &length, &PyTuple_Type, &inputs, &kwargs) == 0 ||
      !Ready()) {
    return nullptr;
  }
  RecordLaterOutput(std::string(View(data, length)), inputs, kwargs);
  Py_RETURN_NONE;
}

// open_parent(name), close_parent(name): a pseudo node such as "optimizer" around API calls.
PyObject* OpenParent(PyObject* /*module*/, PyObject* args) {
  const char* name = nullptr;
  if (PyArg_ParseTuple(args, "s", &name) == 0 || !Ready()) return nullptr;
  OpenCall call;
  call.name = name;
  call.written = true;
  if (Global().constructs) {
    msprobe_capture_construct(Global().capture, Text(call.name), nullptr);
  }
  ThisThread().forward.push_back(std::move(call));
  Py_RETURN_NONE;
}

PyObject* CloseParent(PyObject* /*module*/, PyObject* args) {
  const char* name = nullptr;
  if (PyArg_ParseTuple(args, "s", &name) == 0 || !Ready()) return nullptr;
  CloseModuleCall(ThisThread().forward, name);
  Py_RETURN_NONE;
}

// is_recomputing(): whether forwards of this thread are re-runs.
PyObject* IsRecomputing(PyObject* /*module*/, PyObject* /*unused*/) {
  return PyBool_FromLong(ThisThread().recompute > 0 ? 1 : 0);
}

// recompute(+1 or -1): forwards of this thread are re-runs from here on.
PyObject* Recompute(PyObject* /*module*/, PyObject* args) {
  int change = 0;
  if (PyArg_ParseTuple(args, "i", &change) == 0) return nullptr;
  ThisThread().recompute += change;
  Py_RETURN_NONE;
}

// inside(True) -> what it was, to be given back: whether APIs of this thread run unrecorded, and
// modes of the training that were put aside.
PyObject* Inside(PyObject* /*module*/, PyObject* args) {
  PyObject* wanted = nullptr;
  if (PyArg_ParseTuple(args, "O", &wanted) == 0) return nullptr;
  ThreadState& thread = ThisThread();
  Ref before = Ref::Borrow(thread.inside ? Py_True : Py_False);
  if (PyTuple_Check(wanted)) {  // (what it was, modes)
    thread.inside = PyTuple_GetItem(wanted, 0) == Py_True;
    ModesAside::PutBack(PyTuple_GetItem(wanted, 1));
    return before.release();
  }
  thread.inside = wanted == Py_True;
  if (!thread.inside) return before.release();
  ModesAside modes;
  const Ref token = modes.Release();
  return token ? PyTuple_Pack(2, before.get(), token.get()) : before.release();
}

// host_statistics(tensor, keeps_half) -> (max, min, mean, norm), or None without values on the host
PyObject* GetHostStatistics(PyObject* /*module*/, PyObject* args) {
  PyObject* tensor = nullptr;
  int keeps_half = 0;
  if (PyArg_ParseTuple(args, "Op", &tensor, &keeps_half) == 0) return nullptr;
  const InsideGuard inside(ThisThread());
  return HostStatistics(tensor, keeps_half != 0);
}

// reduce_on_device(tensor, device, index, stream, address of a row, address of scratch memory) -> bool
PyObject* QueueReduction(PyObject* /*module*/, PyObject* args) {
  PyObject* tensor = nullptr;
  int device = 0;
  int index = 0;
  unsigned long long stream = 0;
  unsigned long long row = 0;
  unsigned long long scratch = 0;
  if (PyArg_ParseTuple(args, "OiiKKK", &tensor, &device, &index, &stream, &row, &scratch) == 0) {
    return nullptr;
  }
  const auto pointer = [](unsigned long long address) {
    return reinterpret_cast<void*>(static_cast<uintptr_t>(address));
  };
  return PyBool_FromLong(static_cast<long>(ReduceOnDevice(
      tensor, device, index, pointer(stream), pointer(row), pointer(scratch))));
}

PyMethodDef methods[] = {
    {"module_enter", GuardedRecord<ModuleEnter>, METH_VARARGS, nullptr},
    {"module_backward_enter", GuardedRecord<ModuleBackwardEnter>, METH_VARARGS, nullptr},
    {"exchange", GuardedRecord<Exchange>, METH_VARARGS, nullptr},
    {"graph_walk", GuardedRecord<GraphWalk>, METH_VARARGS, nullptr},
    {"module_abandon", GuardedRecord<ModuleAbandon>, METH_VARARGS, nullptr},
    {"module_forward", GuardedRecord<ModuleForward>, METH_VARARGS, nullptr},
    {"module_backward", GuardedRecord<ModuleBackward>, METH_VARARGS, nullptr},
    {"api_backward", GuardedRecord<ApiBackward>, METH_VARARGS, nullptr},
    {"gradients_expected", GuardedRecord<GradientsExpected>, METH_VARARGS, nullptr},
    {"parameter_gradient", GuardedRecord<ParameterGradient>, METH_VARARGS, nullptr},
    {"save", GuardedRecord<Save>, METH_VARARGS, nullptr},
    {"save_pending", GuardedRecord<SavePending>, METH_VARARGS, nullptr},
    {"fill_pending", GuardedRecord<FillPending>, METH_VARARGS, nullptr},
    {"fill_statistics", GuardedRecord<FillStatistics>, METH_VARARGS, nullptr},
    {"reduce_on_device", GuardedRecord<QueueReduction>, METH_VARARGS, nullptr},
    {"later_output", GuardedRecord<LaterOutput>, METH_VARARGS, nullptr},
    {"open_parent", GuardedRecord<OpenParent>, METH_VARARGS, nullptr},
    {"close_parent", GuardedRecord<CloseParent>, METH_VARARGS, nullptr},
    {"recompute", GuardedRecord<Recompute>, METH_VARARGS, nullptr},
    {"is_recomputing", GuardedRecord<IsRecomputing>, METH_NOARGS, nullptr},
    {"inside", GuardedRecord<Inside>, METH_VARARGS, nullptr},
    {"host_statistics", GuardedRecord<GetHostStatistics>, METH_VARARGS, nullptr},
    {nullptr, nullptr, 0, nullptr},
};

}  // namespace

PyMethodDef* CallMethods() { return methods; }

}  // namespace msprobe::python
