#include "tools/python/native/recorder.h"

#include <optional>
#include <string>
#include <utility>

#include "tools/python/native/backward.h"
#include "tools/python/native/describe.h"
#include "tools/python/native/guard.h"
#include "tools/python/native/seen_tensors.h"
#include "tools/python/native/stack_walk.h"

namespace msprobe::python {
namespace {

struct Names {
  PyObject* requires_grad = Interned("requires_grad");
  PyObject* grad_fn = Interned("grad_fn");
  PyObject* register_hook = Interned("register_hook");
  PyObject* async_op = Interned("async_op");
  PyObject* out = Interned("out");
  PyObject* next_functions = Interned("next_functions");
  PyObject* name = Interned("__name__");
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

bool ReturnsHandle(const RecordedFunction& function, PyObject* args, PyObject* kwargs,
                   PyObject* result) {
  if (function.asynchronous == kPlain || result == Py_None) return false;
  if (function.asynchronous == kAlwaysHandle) return true;
  PyObject* flag = kwargs == nullptr ? nullptr : PyDict_GetItem(kwargs, Known().async_op);
  if (flag == nullptr && function.async_position >= 0 &&
      function.async_position < PyTuple_Size(args)) {
    flag = PyTuple_GetItem(args, function.async_position);
  }
  return flag != nullptr && PyObject_IsTrue(flag) == 1;
}

// What the call may have written to without a counter that moves for everybody who looks there. Collectives write to their arguments, some
// of them later.
void NoteWrites(const RecordedFunction& function, PyObject* args, PyObject* kwargs) {
  if (function.asynchronous != kPlain) {
    ForgetSeen();
    return;
  }
  if (function.in_place && PyTuple_Size(args) > 0) NoteWritten(PyTuple_GetItem(args, 0));
  if (kwargs != nullptr) NoteWritten(PyDict_GetItem(kwargs, Known().out));
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
  const Ref done(
      text ? PyObject_CallFunctionObjArgs(state.unchanged.get(), tensor, text.get(), nullptr)
           : nullptr);
  return done.get() == Py_True;
}

bool IsNodeOf(PyObject* node, const char* kind) {
  const Ref name = Attribute(reinterpret_cast<PyObject*>(Py_TYPE(node)), Known().name);
  return name && PyUnicode_Check(name.get()) &&
         PyUnicode_CompareWithASCIIString(name.get(), kind) == 0;
}

bool MadeAnArgument(PyObject* node, PyObject* values) {
  for (Py_ssize_t i = 0; i < PySequence_Size(values); ++i) {
    const Ref value(PySequence_GetItem(values, i));
    if (!value) return false;
    if (PyList_Check(value.get()) || PyTuple_Check(value.get())) {
      if (MadeAnArgument(node, value.get())) return true;
    } else if (FirstTensor(value.get()) != nullptr) {
      const Ref made = Attribute(value.get(), Known().grad_fn);
      if (made.get() == node) return true;
    }
  }
  return false;
}

// What a function computes of a subclass of Tensor is made one of that subclass afterwards, by an
// alias whose gradients are not the function's.
Ref NodeBelowAliases(Ref node, PyObject* args, PyObject* kwargs) {
  while (IsNodeOf(node.get(), "AliasBackward0")) {
    const Ref next = Attribute(node.get(), Known().next_functions);
    if (!next || !PyTuple_Check(next.get()) || PyTuple_Size(next.get()) != 1) break;
    PyObject* below = PyTuple_GetItem(PyTuple_GetItem(next.get(), 0), 0);
    if (below == nullptr || below == Py_None || IsNodeOf(below, "AccumulateGrad")) break;
    const Ref values = ArgumentsAsOutput(args, kwargs);
    if (!values || MadeAnArgument(below, values.get())) break;
    node = Ref::Borrow(below);
  }
  return node;
}

// The hook on the last autograd node of a result.
void HookBackward(const std::string& base, PyObject* args, PyObject* kwargs, PyObject* result) {
  const Names& names = Known();
  PyObject* tensor = FirstTensor(result);
  if (tensor == nullptr) return;
  const Ref wanted = Attribute(tensor, names.requires_grad);
  if (wanted && wanted.get() == Py_True && GradEnabled()) {
    if (IsArgument(tensor, args, kwargs) && HookBoundary(base, tensor)) return;
    Ref node = Attribute(tensor, names.grad_fn);
    if (node && node.get() != Py_None) {
      node = NodeBelowAliases(std::move(node), args, kwargs);
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
  Recording(const RecordedFunction& function, int64_t number, ThreadState& thread)
      : function_(function),
        thread_(thread),
        base_(*function.base + std::to_string(number) + "."),
        name_(base_ + "forward") {}
  Recording(const Recording&) = delete;
  Recording& operator=(const Recording&) = delete;
  ~Recording() {
    if (piece_ != nullptr) msprobe_entry_discard(piece_);
  }

  void Before(PyObject* args, PyObject* kwargs) {
    const HookTime time;
    State& state = Global();
    ++state.step_records;
    WriteConstruct(thread_, name_, /*backward=*/false);
    const uint32_t wanted = msprobe_capture_enter(state.capture, Text(name_));
    wanted_ = wanted;
    if ((wanted & MSPROBE_WANT_INPUT) != 0) {
      piece_ = msprobe_entry_begin(state.capture, Text(name_));
      DescribeInputs(piece_, name_, args, kwargs);
      if (!state.one_piece && !state.has_budget) {
        PutRecompute(piece_, thread_);
        CommitPiece();
      }
    }
  }

  void Failed() {
    ForgetSeen();
    msprobe_capture_leave(Global().capture, Text(name_));
    if (piece_ != nullptr) CommitPiece();
  }

  void After(PyObject* args, PyObject* kwargs, PyObject* result) {
    State& state = Global();
    NoteWrites(function_, args, kwargs);
    const uint32_t wanted = msprobe_capture_leave(state.capture, Text(name_));
    wanted_ = wanted;
    if ((wanted & MSPROBE_WANT_STACK) != 0) RecordStack(name_);
    const bool later = (wanted & MSPROBE_WANT_OUTPUT) != 0 && state.later_output &&
                       ReturnsHandle(function_, args, kwargs, result);
    if ((wanted & MSPROBE_WANT_OUTPUT) != 0 && !later) {
      if (piece_ == nullptr) piece_ = msprobe_entry_begin(state.capture, Text(name_));
      if (function_.asynchronous == kPlain || function_.asynchronous == kWithHandle) {
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

  // Before the call: what will repeat it, if it is recorded and calls are to be repeated.
  void PrepareRepeats(PyObject* args, PyObject* kwargs) {
    const State& state = Global();
    if (!state.repeats || (wanted_ & (MSPROBE_WANT_INPUT | MSPROBE_WANT_OUTPUT)) == 0 ||
        function_.asynchronous != kPlain) {
      return;
    }
    const ModesAside modes;
    const std::string name = base_.substr(0, base_.size() - 1);
    repeats_ = Ref(PyObject_CallFunction(state.repeats.get(), "Os#OOO", function_.original,
                                         name.data(), static_cast<Py_ssize_t>(name.size()),
                                         function_.in_place ? Py_True : Py_False, args,
                                         kwargs == nullptr ? Py_None : kwargs));
    if (!repeats_) ReportPythonError(name_);
    if (repeats_.get() == Py_None) repeats_ = Ref();
  }

  // After it, when everything else of it is recorded.
  void Repeat(PyObject* result) {
    if (!repeats_ || (wanted_ & MSPROBE_WANT_OUTPUT) == 0) return;
    const HookTime time;
    const Ref done = Call(repeats_.get(), result);
    if (!done) ReportPythonError(name_);
  }

  const std::string& base() const { return base_; }

 private:
  void CommitPiece() { msprobe_entry_commit(std::exchange(piece_, nullptr)); }

  const RecordedFunction& function_;
  ThreadState& thread_;
  std::string base_;
  std::string name_;
  msprobe_entry* piece_ = nullptr;
  uint32_t wanted_ = 0;  // as answered last
  Ref repeats_;
};

// Runs one side of a recording.
template <typename Body>
void OrLost(Body body) noexcept {
  try {
    body();
  } catch (...) {
    PyErr_Clear();
    CountLostRecord();
  }
}

// Raises what an operation of the training failed with before, where it was reading its result that
// told us: MindSpore runs operations later than they are called.
bool RaiseOwed() {
  PyObject* owed = Global().owed.get();
  if (owed == nullptr || PyList_Size(owed) <= 0) return false;
  const Ref error = Ref::Borrow(PyList_GetItem(owed, 0));
  if (PyList_SetSlice(owed, 0, PyList_Size(owed), nullptr) != 0) PyErr_Clear();
  PyErr_SetObject(reinterpret_cast<PyObject*>(Py_TYPE(error.get())), error.get());
  return true;
}

// With gradients of inputs: inputs pass through a node whose gradients are theirs. Gives the new
// (args, kwargs, hook or None); empty where the plain form is used.
Ref PassInputs(const RecordedFunction& function, const std::string& base, PyObject* args,
               PyObject* kwargs) {
  const State& state = Global();
  if (!state.gradients_of_inputs || !state.input_gradients || function.in_place ||
      function.asynchronous != kPlain || !GradEnabled()) {
    return {};
  }
  const std::string name = base + "backward";
  const Ref text(PyUnicode_FromStringAndSize(name.data(), static_cast<Py_ssize_t>(name.size())));
  const ModesAside modes;
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

}  // namespace

PyObject* RecordCall(const RecordedFunction& function, int64_t number, ThreadState& thread,
                     PyObject* args, PyObject* kwargs) noexcept {
  const InsideGuard inside(thread);
  std::optional<Recording> recording;
  Ref passed;
  // Where memory runs out, what was to be recorded is lost and counted; the call is made all the same.
  OrLost([&] {
    recording.emplace(function, number, thread);
    recording->Before(args, kwargs);
    recording->PrepareRepeats(args, kwargs);
  });
  if (RaiseOwed()) {
    const ErrorAside aside;
    if (recording) OrLost([&] { recording->Failed(); });
    return nullptr;
  }
  if (recording) {
    OrLost([&] { passed = PassInputs(function, recording->base(), args, kwargs); });
  }
  PyObject* real_args = passed ? PyTuple_GetItem(passed.get(), 0) : args;
  PyObject* real_kwargs = passed ? PyTuple_GetItem(passed.get(), 1) : kwargs;
  if (real_kwargs == Py_None) real_kwargs = nullptr;
  Ref result(PyObject_Call(function.original, real_args, real_kwargs));
  if (!recording) return result.release();
  if (!result) {
    const ErrorAside aside;
    OrLost([&] { recording->Failed(); });
    return nullptr;
  }
  {
    const HookTime time;
    OrLost([&] { recording->After(args, kwargs, result.get()); });
    if (function.asynchronous == kPlain && passed) {
      // The Python side hooks the result too: both ends make one entry.
      const Ref done = Call(PyTuple_GetItem(passed.get(), 2), result.get());
      if (!done) ReportPythonError(recording->base());
    } else if (function.asynchronous == kPlain) {
      OrLost([&] { HookBackward(recording->base(), args, kwargs, result.get()); });
    }
  }
  OrLost([&] { recording->Repeat(result.get()); });
  return RaiseOwed() ? nullptr : result.release();
}

void RecordLaterOutput(const std::string& name, PyObject* args, PyObject* kwargs) {
  ThreadState& thread = ThisThread();
  const InsideGuard guard(thread);
  const ModesAside modes;
  ForgetSeen();
  msprobe_entry* entry = msprobe_entry_begin(Global().capture, Text(name));
  PutCollectiveOutput(entry, name, args, kwargs == Py_None ? nullptr : kwargs);
  msprobe_entry_commit(entry);
}

}  // namespace msprobe::python
