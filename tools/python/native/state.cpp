#include "tools/python/native/state.h"

#include "tools/python/native/guard.h"

namespace msprobe::python {
namespace {

// Types are kept alive while they are known; programs that make types without end start over.
constexpr size_t kMaxKnownTypes = 4096;

void WriteOne(const OpenCall& call) {
  const msprobe_text parent = Text(call.parent);
  msprobe_capture_construct(Global().capture, Text(call.name), call.has_parent ? &parent : nullptr);
}

void WriteOpenCalls(std::vector<OpenCall>& stack) {
  // Written calls lie below unwritten ones.
  size_t first = stack.size();
  while (first > 0 && !stack[first - 1].written) --first;
  for (; first < stack.size(); ++first) {
    WriteOne(stack[first]);
    stack[first].written = true;
  }
}

}  // namespace

State& Global() {
  // Never destroyed: references must not be dropped after the interpreter is gone.
  static State* state = new State;
  return *state;
}

ThreadState& ThisThread() {
  thread_local ThreadState thread;
  const uint64_t generation = Global().generation;
  if (thread.generation != generation) {
    thread.generation = generation;
    thread.forward.clear();
    thread.backward.clear();
  }
  return thread;
}

Kind KindOf(PyObject* value) {
  State& state = Global();
  PyTypeObject* type = Py_TYPE(value);
  if (const auto known = state.kinds.find(type); known != state.kinds.end()) return known->second;
  Kind kind = Kind::kNull;
  if (state.classify) {
    const Ref answer = Call(state.classify.get(), reinterpret_cast<PyObject*>(type));
    const long number = answer ? PyLong_AsLong(answer.get()) : 0;
    if (PyErr_Occurred() != nullptr) {
      PyErr_Clear();
    } else {
      kind = static_cast<Kind>(number);
    }
  }
  if (state.kinds.size() >= kMaxKnownTypes) {
    for (const auto& [known, unused] : state.kinds) Py_DECREF(reinterpret_cast<PyObject*>(known));
    state.kinds.clear();
  }
  Py_INCREF(reinterpret_cast<PyObject*>(type));
  state.kinds.emplace(type, kind);
  return kind;
}

namespace {

void TakePythonError(std::string_view name) {
  if (PyErr_ExceptionMatches(PyExc_MemoryError) != 0) CountLostRecord();
  PyObject* type = nullptr;
  PyObject* value = nullptr;
  PyObject* traceback = nullptr;
  PyErr_Fetch(&type, &value, &traceback);
  if (type == nullptr) return;
  PyErr_NormalizeException(&type, &value, &traceback);
  const Ref owned_type(type);
  const Ref owned_value(value);
  const Ref owned_traceback(traceback);
  std::string text;
  if (const Ref type_name = Ref(PyObject_GetAttrString(type, "__name__")); type_name) {
    text = ToText(type_name.get());
  }
  if (value != nullptr) text += ": " + Spelled(value);
  PyErr_Clear();
  if (Global().capture != nullptr) {
    msprobe_capture_report_error(Global().capture, Text(name), Text(text));
  }
}

}  // namespace

void ReportPythonError(std::string_view name) noexcept {
  if (PyErr_Occurred() == nullptr) return;
  try {
    TakePythonError(name);
  } catch (...) {
    PyErr_Clear();
    CountLostRecord();
  }
}

void WriteConstruct(ThreadState& thread, std::string_view name, bool backward) {
  const State& state = Global();
  if (!state.constructs) return;
  std::vector<OpenCall>& stack = backward ? thread.backward : thread.forward;
  msprobe_text parent = Text("");
  const bool has_parent = !stack.empty() || !(state.any_module_called || state.mindspore);
  if (!stack.empty()) parent = Text(stack.back().name);
  msprobe_capture_construct(state.capture, Text(name), has_parent ? &parent : nullptr);
  WriteOpenCalls(stack);
}

void OpenModuleCall(std::vector<OpenCall>& stack, std::string name) {
  OpenCall call;
  call.name = std::move(name);
  if (!stack.empty()) {
    call.parent = stack.back().name;
    call.has_parent = true;
  }
  stack.push_back(std::move(call));
  Global().any_module_called = true;
}

void CloseModuleCall(std::vector<OpenCall>& stack, std::string_view name) {
  size_t found = stack.size();
  while (found > 0 && stack[found - 1].name != name) --found;
  if (found == 0) return;
  if (Global().constructs) WriteOpenCalls(stack);
  // Calls above it were left by an exception.
  stack.resize(found - 1);
}

ModesAside::ModesAside() noexcept {
  const State& state = Global();
  if (!state.modes_enabled) return;
  const Ref enabled(PyObject_CallObject(state.modes_enabled.get(), nullptr));
  const Ref below(enabled && state.modes_below ? PyObject_CallObject(state.modes_below.get(), nullptr)
                                               : nullptr);
  if (enabled.get() == Py_True || (below && PyObject_IsTrue(below.get()) == 1)) {
    token_ = Ref(PyObject_CallObject(state.modes_aside.get(), nullptr));
  }
  if (PyErr_Occurred() != nullptr) PyErr_Clear();  // they see what we do
}

ModesAside::~ModesAside() {
  if (token_) PutBack(token_.get());
}

void ModesAside::PutBack(PyObject* token) noexcept {
  const ErrorAside aside;
  const Ref done = Call(Global().modes_back.get(), token);
  if (!done) PyErr_Clear();
}

}  // namespace msprobe::python
