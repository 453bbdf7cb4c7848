#include "tools/python/native/session.h"

#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "tools/python/native/guard.h"
#include "tools/python/native/stack_walk.h"
#include "tools/python/native/state.h"

namespace msprobe::python {
namespace {

bool Ready() {
  if (Global().capture != nullptr) return true;
  PyErr_SetString(PyExc_RuntimeError, "no capture is open");
  return false;
}

// A capture of the arguments (config_path, overrides, framework); false with a Python error.
bool OpenCapture(PyObject* args, msprobe_capture** capture) {
  const char* path = nullptr;
  const char* overrides = nullptr;
  const char* framework = nullptr;
  Py_ssize_t path_length = 0;
  Py_ssize_t overrides_length = 0;
  Py_ssize_t framework_length = 0;
  if (PyArg_ParseTuple(args, "s#s#s#", &path, &path_length, &overrides, &overrides_length,
                       &framework, &framework_length) == 0) {
    return false;
  }
  const int code =
      msprobe_capture_open(Argument(path, path_length), Argument(overrides, overrides_length),
                           Argument(framework, framework_length), capture);
  if (code != MSPROBE_OK) {
    Fail(code);
    return false;
  }
  Global().mindspore = std::string_view(framework) != "pytorch";
  return true;
}

// open(config_path, overrides, framework) -> settings as JSON text
PyObject* Open(PyObject* /*module*/, PyObject* args) {
  State& state = Global();
  if (state.capture != nullptr) {
    PyErr_SetString(PyExc_RuntimeError, "a capture is open already");
    return nullptr;
  }
  msprobe_capture* capture = nullptr;
  if (!OpenCapture(args, &capture)) return nullptr;
  state.capture = capture;
  return PyUnicode_FromString(msprobe_capture_settings(capture));
}

// settings_of(config_path, overrides, framework) -> settings as JSON text, of a capture that is not used
PyObject* SettingsOf(PyObject* /*module*/, PyObject* args) {
  msprobe_capture* capture = nullptr;
  if (!OpenCapture(args, &capture)) return nullptr;
  PyObject* text = PyUnicode_FromString(msprobe_capture_settings(capture));
  msprobe_capture_close(capture);
  return text;
}

void NextStep() {
  State& state = Global();
  ++state.generation;
  state.any_module_called = false;
  state.step_records = 0;
  for (auto& [unused, counter] : state.counters) counter.next = 0;
  state.gradients.clear();
  ForgetStacks();
}

// reopen(config_path, overrides, framework) -> settings as JSON text: another capture in place of the
// present one, which stays where that fails, and else waits for close_retired.
PyObject* Reopen(PyObject* /*module*/, PyObject* args) {
  State& state = Global();
  if (!Ready()) return nullptr;
  msprobe_capture* capture = nullptr;
  if (!OpenCapture(args, &capture)) return nullptr;
  msprobe_capture_set_init_step(capture, msprobe_capture_current_step(state.capture));
  state.retired.push_back(std::exchange(state.capture, capture));
  state.recording = state.step_open = state.apis = state.constructs = false;
  NextStep();
  return PyUnicode_FromString(msprobe_capture_settings(capture));
}

// close_retired(): waits for the files of captures that others took the place of.
PyObject* CloseRetired(PyObject* /*module*/, PyObject* /*unused*/) {
  State& state = Global();
  while (!state.retired.empty()) {
    msprobe_capture* capture = state.retired.back();
    state.retired.pop_back();
    WithoutLock([capture] {
      msprobe_capture_close(capture);
      return MSPROBE_OK;
    });
  }
  Py_RETURN_NONE;
}

PyObject* Close(PyObject* module, PyObject* unused) {
  Py_XDECREF(CloseRetired(module, unused));
  State& state = Global();
  state.recording = state.step_open = state.apis = state.constructs = false;
  if (msprobe_capture* capture = std::exchange(state.capture, nullptr); capture != nullptr) {
    WithoutLock([capture] {
      msprobe_capture_close(capture);
      return MSPROBE_OK;
    });
  }
  NextStep();
  Py_RETURN_NONE;
}

// start(rank) -> outcome
PyObject* Start(PyObject* /*module*/, PyObject* args) {
  long long rank = -1;
  int outcome = MSPROBE_START_OFF;
  if (PyArg_ParseTuple(args, "L", &rank) == 0 || !Ready()) return nullptr;
  ForgetStacks();
  const int code =
      WithoutLock([&] { return msprobe_capture_start(Global().capture, rank, &outcome); });
  return code == MSPROBE_OK ? PyLong_FromLong(outcome) : Fail(code);
}

// set_batch([(id, rows), ...]): the requests in the batch that the next start records.
PyObject* SetBatch(PyObject* /*module*/, PyObject* args) {
  PyObject* list = nullptr;
  if (PyArg_ParseTuple(args, "O!", &PyList_Type, &list) == 0 || !Ready()) return nullptr;
  std::vector<std::string> ids;
  std::vector<int64_t> rows;
  for (Py_ssize_t i = 0; i < PyList_Size(list); ++i) {
    const char* id = nullptr;
    Py_ssize_t length = 0;
    long long count = 0;
    if (PyArg_ParseTuple(PyList_GetItem(list, i), "s#L", &id, &length, &count) == 0) return nullptr;
    ids.emplace_back(id, static_cast<size_t>(length));
    rows.push_back(count);
  }
  std::vector<msprobe_request> requests;
  for (size_t i = 0; i < ids.size(); ++i) requests.push_back({Text(ids[i]), rows[i]});
  const int code = msprobe_capture_set_batch(Global().capture, requests.data(), requests.size());
  if (code != MSPROBE_OK) return Fail(code);
  Py_RETURN_NONE;
}

PyObject* Stop(PyObject* /*module*/, PyObject* /*unused*/) {
  if (!Ready()) return nullptr;
  const int code = WithoutLock([] { return msprobe_capture_stop(Global().capture); });
  if (code != MSPROBE_OK) return Fail(code);
  Py_RETURN_NONE;
}

PyObject* Step(PyObject* /*module*/, PyObject* /*unused*/) {
  if (!Ready()) return nullptr;
  const int code = WithoutLock([] { return msprobe_capture_step(Global().capture); });
  NextStep();
  if (code != MSPROBE_OK) return Fail(code);
  Py_RETURN_NONE;
}

PyObject* SetInitStep(PyObject* /*module*/, PyObject* args) {
  long long step = 0;
  if (PyArg_ParseTuple(args, "L", &step) == 0 || !Ready()) return nullptr;
  const int code = msprobe_capture_set_init_step(Global().capture, step);
  if (code != MSPROBE_OK) return Fail(code);
  Py_RETURN_NONE;
}

PyObject* CurrentStep(PyObject* /*module*/, PyObject* /*unused*/) {
  return Ready() ? PyLong_FromLongLong(msprobe_capture_current_step(Global().capture)) : nullptr;
}

// after_fork(): in the child
PyObject* AfterFork(PyObject* /*module*/, PyObject* /*unused*/) {
  State& state = Global();
  if (state.capture != nullptr) msprobe_capture_after_fork(state.capture);
  state.recording = state.step_open = state.apis = state.constructs = false;
  NextStep();
  Py_RETURN_NONE;
}

// totals() -> dict
PyObject* Totals(PyObject* /*module*/, PyObject* /*unused*/) {
  if (!Ready()) return nullptr;
  msprobe_capture_totals totals = {};
  msprobe_capture_get_totals(Global().capture, &totals);
  const auto number = [](uint64_t value) { return static_cast<unsigned long long>(value); };
  return Py_BuildValue("{sKsKsKsKsKsKsKsKsKsKsKsKsK}", "steps", number(totals.steps), "entries",
                       number(totals.entries), "tensors", number(totals.tensors), "tensor_files",
                       number(totals.tensor_files), "tensor_bytes", number(totals.tensor_bytes),
                       "written_bytes", number(totals.written_bytes), "deduplicated_files",
                       number(totals.deduplicated_files), "lost_files", number(totals.lost_files),
                       "errors", number(totals.errors), "engine_nanoseconds",
                       number(totals.engine_nanoseconds), "dropped_records",
                       number(totals.dropped_records), "dropped_files",
                       number(totals.dropped_files), "dropped_steps",
                       number(totals.dropped_steps));
}

// configure(name, callable or object): what the hooks need from the Python side.
PyObject* Configure(PyObject* /*module*/, PyObject* args) {
  const char* name = nullptr;
  PyObject* value = nullptr;
  if (PyArg_ParseTuple(args, "sO", &name, &value) == 0) return nullptr;
  State& state = Global();
  const std::pair<const char*, Ref*> places[] = {
      {"classify", &state.classify},
      {"plain", &state.plain},
      {"grad_enabled", &state.grad_enabled},
      {"strided", &state.strided},
      {"device_tensor", &state.device_tensor},
      {"other_tensor", &state.other_tensor},
      {"input_gradients", &state.input_gradients},
      {"unchanged", &state.unchanged},
      {"is_traced", &state.is_traced},
      {"modes_enabled", &state.modes_enabled},
      {"modes_below", &state.modes_below},
      {"modes_aside", &state.modes_aside},
      {"modes_back", &state.modes_back},
      {"owed", &state.owed},
      {"later_output", &state.later_output},
      {"repeats", &state.repeats},
      {"method_type", &state.method_type},
  };
  for (const auto& [known, place] : places) {
    if (std::string_view(known) != name) continue;
    *place = value == Py_None ? Ref() : Ref::Borrow(value);
    Py_RETURN_NONE;
  }
  PyErr_Format(PyExc_ValueError, "nothing here is called %s", name);
  return nullptr;
}

// dtype(object, text, code)
PyObject* Dtype(PyObject* /*module*/, PyObject* args) {
  PyObject* dtype = nullptr;
  const char* text = nullptr;
  int code = MSPROBE_DTYPE_UNKNOWN;
  if (PyArg_ParseTuple(args, "Osi", &dtype, &text, &code) == 0) return nullptr;
  Py_INCREF(dtype);
  Global().dtypes.insert_or_assign(dtype, DtypeEntry{text, code});
  Py_RETURN_NONE;
}

// hide_folder(path as bytes): frames of files below are not part of stacks.
PyObject* HideFolder(PyObject* /*module*/, PyObject* args) {
  const char* path = nullptr;
  Py_ssize_t length = 0;
  if (PyArg_ParseTuple(args, "s#", &path, &length) == 0) return nullptr;
  Global().own_folders.emplace_back(path, static_cast<size_t>(length));
  Py_RETURN_NONE;
}

// switch(recording, step_open, apis, constructs, one_piece, gradients_of_inputs, has_budget)
PyObject* Switch(PyObject* /*module*/, PyObject* args) {
  int flags[7] = {};
  if (PyArg_ParseTuple(args, "ppppppp", &flags[0], &flags[1], &flags[2], &flags[3], &flags[4],
                       &flags[5], &flags[6]) == 0) {
    return nullptr;
  }
  State& state = Global();
  state.recording = flags[0] != 0 && state.capture != nullptr;
  state.step_open = flags[1] != 0 && state.capture != nullptr;
  state.apis = flags[2] != 0;
  state.constructs = flags[3] != 0;
  state.one_piece = flags[4] != 0;
  state.gradients_of_inputs = flags[5] != 0;
  state.has_budget = flags[6] != 0;
  Py_RETURN_NONE;
}

PyObject* ReportError(PyObject* /*module*/, PyObject* args) {
  const char* name = nullptr;
  const char* text = nullptr;
  Py_ssize_t name_length = 0;
  Py_ssize_t text_length = 0;
  if (PyArg_ParseTuple(args, "s#s#", &name, &name_length, &text, &text_length) == 0) return nullptr;
  if (Global().capture != nullptr) {
    msprobe_capture_report_error(Global().capture, Argument(name, name_length),
                                 Argument(text, text_length));
  }
  Py_RETURN_NONE;
}

// remark(kind, name, text)
PyObject* Remark(PyObject* /*module*/, PyObject* args) {
  int kind = 0;
  const char* name = nullptr;
  const char* text = nullptr;
  Py_ssize_t name_length = 0;
  Py_ssize_t text_length = 0;
  if (PyArg_ParseTuple(args, "is#s#", &kind, &name, &name_length, &text, &text_length) == 0) {
    return nullptr;
  }
  if (Global().capture != nullptr) {
    msprobe_capture_remark(Global().capture, kind, Argument(name, name_length),
                           Argument(text, text_length));
  }
  Py_RETURN_NONE;
}

// log(level, text)
PyObject* Log(PyObject* /*module*/, PyObject* args) {
  int level = 1;
  const char* text = nullptr;
  Py_ssize_t length = 0;
  if (PyArg_ParseTuple(args, "is#", &level, &text, &length) == 0) return nullptr;
  msprobe_log(level, Argument(text, length));
  Py_RETURN_NONE;
}

PyObject* DeviceWait(PyObject* /*module*/, PyObject* /*unused*/) {
  if (!Ready()) return nullptr;
  const int code = WithoutLock([] { return msprobe_device_wait(Global().capture); });
  if (code != MSPROBE_OK) return Fail(code);
  Py_RETURN_NONE;
}

PyObject* KernelDumpBegin(PyObject* /*module*/, PyObject* /*unused*/) {
  if (!Ready()) return nullptr;
  const int code = msprobe_kernel_dump_begin(Global().capture);
  if (code != MSPROBE_OK) return Fail(code);
  Py_RETURN_NONE;
}

PyObject* KernelDumpEnd(PyObject* /*module*/, PyObject* /*unused*/) {
  if (!Ready()) return nullptr;
  const int code = msprobe_kernel_dump_end(Global().capture);
  if (code != MSPROBE_OK) return Fail(code);
  Py_RETURN_NONE;
}

PyObject* Version(PyObject* /*module*/, PyObject* /*unused*/) {
  return PyUnicode_FromString(msprobe_capture_version());
}

PyMethodDef methods[] = {
    {"open", Guarded<Open>, METH_VARARGS, nullptr},
    {"close", Guarded<Close>, METH_NOARGS, nullptr},
    {"settings_of", Guarded<SettingsOf>, METH_VARARGS, nullptr},
    {"reopen", Guarded<Reopen>, METH_VARARGS, nullptr},
    {"close_retired", Guarded<CloseRetired>, METH_NOARGS, nullptr},
    {"set_batch", Guarded<SetBatch>, METH_VARARGS, nullptr},
    {"start", Guarded<Start>, METH_VARARGS, nullptr},
    {"stop", Guarded<Stop>, METH_NOARGS, nullptr},
    {"step", Guarded<Step>, METH_NOARGS, nullptr},
    {"set_init_step", Guarded<SetInitStep>, METH_VARARGS, nullptr},
    {"current_step", Guarded<CurrentStep>, METH_NOARGS, nullptr},
    {"after_fork", Guarded<AfterFork>, METH_NOARGS, nullptr},
    {"totals", Guarded<Totals>, METH_NOARGS, nullptr},
    {"configure", Guarded<Configure>, METH_VARARGS, nullptr},
    {"dtype", Guarded<Dtype>, METH_VARARGS, nullptr},
    {"hide_folder", Guarded<HideFolder>, METH_VARARGS, nullptr},
    {"switch", Guarded<Switch>, METH_VARARGS, nullptr},
    {"report_error", Guarded<ReportError>, METH_VARARGS, nullptr},
    {"remark", Guarded<Remark>, METH_VARARGS, nullptr},
    {"log", Guarded<Log>, METH_VARARGS, nullptr},
    {"device_wait", Guarded<DeviceWait>, METH_NOARGS, nullptr},
    {"kernel_dump_begin", Guarded<KernelDumpBegin>, METH_NOARGS, nullptr},
    {"kernel_dump_end", Guarded<KernelDumpEnd>, METH_NOARGS, nullptr},
    {"version", Guarded<Version>, METH_NOARGS, nullptr},
    {nullptr, nullptr, 0, nullptr},
};

}  // namespace

PyMethodDef* SessionMethods() { return methods; }

}  // namespace msprobe::python
