#include "tools/python/native/calls.h"

#include <string>

#include "tools/python/native/arguments.h"
#include "tools/python/native/backward.h"
#include "tools/python/native/call_gradients.h"
#include "tools/python/native/describe.h"
#include "tools/python/native/recorder.h"
#include "tools/python/native/slots.h"
#include "tools/python/native/stack_walk.h"
#include "tools/python/native/state.h"
#include "tools/python/native/tensor.h"

namespace msprobe::python {
namespace {

// module_enter(name, args, kwargs): the forward of a module begins; it is the parent of what
// follows. Its inputs are described now: the call may overwrite them.
PyObject* ModuleEnter(msprobe_capture* capture, std::string_view name, Tuple inputs, PyObject* kwargs) {
  const HookTime time;
  ThreadState& thread = ThisThread();
  OpenModuleCall(thread.forward, std::string(name));
  const uint32_t wanted = msprobe_capture_enter(capture, Text(name));
  if ((wanted & MSPROBE_WANT_INPUT) != 0) {
    const InsideGuard guard(thread);
    msprobe_entry* piece = msprobe_entry_begin(capture, Text(name));
    DescribeInputs(piece, name, inputs, kwargs);
    thread.forward.back().inputs = OpenPiece(piece);
  }
  Py_RETURN_NONE;
}

// module_backward_enter(name): gradients reach what a module gave.
PyObject* ModuleBackwardEnter(msprobe_capture* capture, std::string_view name) {
  OpenModuleCall(ThisThread().backward, std::string(name));
  msprobe_capture_enter(capture, Text(name));
  Py_RETURN_NONE;
}

// module_abandon(name): the forward of a module ended in an exception.
PyObject* ModuleAbandon(msprobe_capture* capture, std::string_view name) {
  CloseModuleCall(ThisThread().forward, name);
  msprobe_capture_leave(capture, Text(name));
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
// described here only where a scope began inside the call: nothing asked for them before.
PyObject* ModuleForward(msprobe_capture* capture, std::string_view name, PyObject* output, Dict parameters, Tuple given, PyObject* kwargs) {
  const HookTime time;
  State& state = Global();
  ThreadState& thread = ThisThread();
  const InsideGuard guard(thread);
  const uint32_t wanted = msprobe_capture_leave(capture, Text(name));
  ++state.step_records;
  if ((wanted & (MSPROBE_WANT_INPUT | MSPROBE_WANT_OUTPUT)) != 0) {
    OpenPiece inputs = TakeInputs(thread.forward, name);
    msprobe_entry* entry = (wanted & MSPROBE_WANT_INPUT) != 0 ? inputs.take() : nullptr;
    if (entry == nullptr) {
      entry = msprobe_entry_begin(capture, Text(name));
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
PyObject* ModuleBackward(msprobe_capture* /*open*/, std::string_view name, PyObject* input, PyObject* output) {
  ThreadState& thread = ThisThread();
  const InsideGuard guard(thread);
  RecordGradients(std::string(name), input, output);
  CloseModuleCall(thread.backward, name);
  Py_RETURN_NONE;
}

// api_backward(name, input, output): records gradients of an API outside its own hook.
PyObject* ApiBackward(msprobe_capture* capture, std::string_view name, PyObject* input, PyObject* output) {
  ThreadState& thread = ThisThread();
  const InsideGuard guard(thread);
  WriteConstruct(thread, name, /*backward=*/true);
  msprobe_capture_enter(capture, Text(name));
  RecordGradients(std::string(name), input, output);
  Py_RETURN_NONE;
}

// gradients_expected(module, names): the places of the gradients that will come; whether they are
// wanted at all. names: a list, or None: then it is only asked.
PyObject* GradientsExpected(msprobe_capture* capture, std::string_view module, PyObject* names) {
  if (names != Py_None && !PyList_Check(names)) {
    PyErr_SetString(PyExc_TypeError, "the names are a list, or None");
    return nullptr;
  }
  const std::string name = std::string(module) + ".parameters_grad";
  if (msprobe_capture_wants_parameters_grad(capture, Text(module)) == 0) Py_RETURN_FALSE;
  if (names == Py_None || Global().one_piece) Py_RETURN_TRUE;  // a null value cannot overflow
  msprobe_entry* entry = msprobe_entry_begin(capture, Text(name));
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

// The gradient of a parameter as one member of an entry.
PyObject* PutGradient(msprobe_capture* capture, std::string_view module, std::string_view end, PyObject* parameter, PyObject* gradient) {
  if (msprobe_capture_wants_parameters_grad(capture, Text(module)) == 0) Py_RETURN_NONE;
  const InsideGuard guard(ThisThread());
  const std::string name = std::string(module) + std::string(end);
  const std::string member = Spelled(parameter);
  msprobe_entry* entry = msprobe_entry_begin(capture, Text(name));
  msprobe_put_member(entry, Text(member), Text(member));
  msprobe_open_array(entry, MSPROBE_NOT_IN_FILE_NAME);
  Describe(entry, name, gradient);
  msprobe_close(entry);
  msprobe_entry_commit(entry);
  Py_RETURN_NONE;
}

// parameter_gradient(module, parameter, gradient)
PyObject* ParameterGradient(msprobe_capture* capture, std::string_view module, PyObject* parameter, PyObject* gradient) {
  return PutGradient(capture, module, ".parameters_grad", parameter, gradient);
}

// reduced_gradient(module, parameter, gradient): as the optimizer is given it.
PyObject* ReducedGradient(msprobe_capture* capture, std::string_view module, PyObject* parameter, PyObject* gradient) {
  return PutGradient(capture, module, ".parameters_grad.reduced", parameter, gradient);
}

// save(name, value): a whole entry of level debug.
PyObject* Save(msprobe_capture* capture, std::string_view name, PyObject* value) {
  const InsideGuard guard(ThisThread());
  msprobe_entry* entry = msprobe_entry_begin(capture, Text(name));
  Describe(entry, name, value);
  msprobe_entry_commit(entry);
  Py_RETURN_NONE;
}

// save_pending(name, value, on_tensor): the same shape, with places for gradients.
PyObject* SavePending(msprobe_capture* capture, std::string_view name, PyObject* value, PyObject* on_tensor) {
  const InsideGuard guard(ThisThread());
  msprobe_entry* entry = msprobe_entry_begin(capture, Text(name));
  DescribePending(entry, value, on_tensor);
  msprobe_entry_commit(entry);
  Py_RETURN_NONE;
}

// fill_pending(ticket, name, value)
PyObject* FillPending(msprobe_capture* capture, unsigned long long ticket, std::string_view name, PyObject* value) {
  const InsideGuard guard(ThisThread());
  msprobe_entry* entry = msprobe_entry_begin_pending(capture, ticket);
  Describe(entry, name, value);
  msprobe_entry_commit(entry);
  Py_RETURN_NONE;
}

// fill_statistics(ticket, max, min, mean, norm)
PyObject* FillStatistics(msprobe_capture* capture, unsigned long long ticket, double max, double min, double mean, double norm) {
  const double statistics[] = {max, min, mean, norm};
  msprobe_fill_statistics(capture, ticket, statistics);
  Py_RETURN_NONE;
}

// later_output(name, args, kwargs): the arguments of a collective that has been waited for.
PyObject* LaterOutput(msprobe_capture* /*open*/, std::string_view name, Tuple inputs, PyObject* kwargs) {
  RecordLaterOutput(std::string(name), inputs, kwargs);
  Py_RETURN_NONE;
}

// open_parent(name), close_parent(name): a pseudo node such as "optimizer" around API calls.
PyObject* OpenParent(msprobe_capture* capture, std::string_view name) {
  OpenCall call;
  call.name = name;
  call.written = true;
  if (Global().constructs) {
    msprobe_capture_construct(capture, Text(call.name), nullptr);
  }
  ThisThread().forward.push_back(std::move(call));
  Py_RETURN_NONE;
}

PyObject* CloseParent(msprobe_capture* /*open*/, std::string_view name) {
  CloseModuleCall(ThisThread().forward, name);
  Py_RETURN_NONE;
}

// is_recomputing(): whether forwards of this thread are re-runs.
PyObject* IsRecomputing() {
  return PyBool_FromLong(ThisThread().recompute > 0 ? 1 : 0);
}

// recompute(+1 or -1): forwards of this thread are re-runs from here on.
PyObject* Recompute(int change) {
  ThisThread().recompute += change;
  Py_RETURN_NONE;
}

// inside(True) -> what it was, to be given back: whether APIs of this thread run unrecorded, and
// modes of the training that were put aside.
PyObject* Inside(PyObject* wanted) {
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
PyObject* GetHostStatistics(PyObject* tensor, bool keeps_half) {
  const InsideGuard inside(ThisThread());
  return HostStatistics(tensor, keeps_half);
}

// reduce_on_device(tensor, device, index, stream, address of a row, address of scratch memory) -> bool
PyObject* QueueReduction(PyObject* tensor, int device, int index, unsigned long long stream, unsigned long long row, unsigned long long scratch) {
  const auto pointer = [](unsigned long long address) {
    return reinterpret_cast<void*>(static_cast<uintptr_t>(address));
  };
  return PyBool_FromLong(static_cast<long>(ReduceOnDevice(
      tensor, device, index, pointer(stream), pointer(row), pointer(scratch))));
}

PyMethodDef methods[] = {
    Recorded<"module_enter", ModuleEnter>(),
    Recorded<"module_backward_enter", ModuleBackwardEnter>(),
    Recorded<"exchange", Exchange>(),
    Recorded<"settle_gradients", SettleGradients>(),
    Recorded<"let_go_of_gradients", LetGoOfGradients>(),
    Recorded<"attach_unchanged", AttachUnchanged>(),
    Recorded<"collect_tensors", CollectTensors>(),
    Recorded<"module_abandon", ModuleAbandon>(),
    Recorded<"module_forward", ModuleForward>(),
    Recorded<"module_backward", ModuleBackward>(),
    Recorded<"api_backward", ApiBackward>(),
    Recorded<"gradients_expected", GradientsExpected>(),
    Recorded<"parameter_gradient", ParameterGradient>(),
    Recorded<"reduced_gradient", ReducedGradient>(),
    Recorded<"save", Save>(),
    Recorded<"save_pending", SavePending>(),
    Recorded<"fill_pending", FillPending>(),
    Recorded<"fill_statistics", FillStatistics>(),
    Recorded<"reduce_on_device", QueueReduction>(),
    Recorded<"later_output", LaterOutput>(),
    Recorded<"open_parent", OpenParent>(),
    Recorded<"close_parent", CloseParent>(),
    Recorded<"recompute", Recompute>(),
    Recorded<"is_recomputing", IsRecomputing>(),
    Recorded<"inside", Inside>(),
    Recorded<"host_statistics", GetHostStatistics>(),
    {nullptr, nullptr, 0, nullptr},
};

}  // namespace

PyMethodDef* CallMethods() { return methods; }

}  // namespace msprobe::python
