#include "tools/python/native/session.h"

#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "tools/python/native/arguments.h"
#include "tools/python/native/seen_tensors.h"
#include "tools/python/native/stack_walk.h"
#include "tools/python/native/state.h"

namespace msprobe::python {
namespace {

// Null with a Python error.
msprobe_capture* OpenCapture(std::string_view config_path, std::string_view overrides, std::string_view framework) {
  msprobe_capture* capture = nullptr;
  const int code = msprobe_capture_open(Text(config_path), Text(overrides), Text(framework), &capture);
  if (code != MSPROBE_OK) {
    Fail(code);
    return nullptr;
  }
  Global().mindspore = framework != "pytorch";
  return capture;
}

// open(config_path, overrides, framework) -> settings as JSON text
PyObject* Open(std::string_view config_path, std::string_view overrides, std::string_view framework) {
  State& state = Global();
  if (state.capture != nullptr) {
    PyErr_SetString(PyExc_RuntimeError, "a capture is open already");
    return nullptr;
  }
  msprobe_capture* capture = OpenCapture(config_path, overrides, framework);
  if (capture == nullptr) return nullptr;
  state.capture = capture;
  return PyUnicode_FromString(msprobe_capture_settings(capture));
}

// settings_of(config_path, overrides, framework) -> settings as JSON text, of a capture that is not used
PyObject* SettingsOf(std::string_view config_path, std::string_view overrides, std::string_view framework) {
  msprobe_capture* capture = OpenCapture(config_path, overrides, framework);
  if (capture == nullptr) return nullptr;
  PyObject* text = PyUnicode_FromString(msprobe_capture_settings(capture));
  msprobe_capture_close(capture);
  return text;
}

void NextStep() {
  State& state = Global();
  ++state.generation;
  state.any_module_called = false;
  state.step_records = 0;
  state.gradients.clear();
  ForgetStacks();
  ForgetSeen();
}

// reopen(config_path, overrides, framework) -> settings as JSON text: another capture in place of the
// present one, which stays where that fails, and else waits for close_retired.
PyObject* Reopen(msprobe_capture* before, std::string_view config_path, std::string_view overrides, std::string_view framework) {
  State& state = Global();
  msprobe_capture* capture = OpenCapture(config_path, overrides, framework);
  if (capture == nullptr) return nullptr;
  msprobe_capture_set_init_step(capture, msprobe_capture_current_step(before));
  state.retired.push_back(std::exchange(state.capture, capture));
  state.recording = state.step_open = state.apis = state.constructs = false;
  NextStep();
  return PyUnicode_FromString(msprobe_capture_settings(capture));
}

// close_retired(): waits for the files of captures that others took the place of.
PyObject* CloseRetired() {
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

PyObject* Close() {
  Py_XDECREF(CloseRetired());
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
PyObject* Start(msprobe_capture* capture, long long rank) {
  int outcome = MSPROBE_START_OFF;
  ForgetStacks();
  ForgetSeen();
  const int code =
      WithoutLock([&] { return msprobe_capture_start(capture, rank, &outcome); });
  return code == MSPROBE_OK ? PyLong_FromLong(outcome) : Fail(code);
}

// set_batch([(id, rows), ...]): the requests in the batch that the next start records.
PyObject* SetBatch(msprobe_capture* capture, List list) {
  std::vector<std::string> ids;
  std::vector<int64_t> rows;
  for (Py_ssize_t i = 0; i < PyList_Size(list); ++i) {
    std::string_view id;
    long long count = 0;
    if (!ReadTuple<"a request">(PyList_GetItem(list, i), &id, &count)) return nullptr;
    ids.emplace_back(id);
    rows.push_back(count);
  }
  std::vector<msprobe_request> requests;
  for (size_t i = 0; i < ids.size(); ++i) requests.push_back({Text(ids[i]), rows[i]});
  const int code = msprobe_capture_set_batch(capture, requests.data(), requests.size());
  if (code != MSPROBE_OK) return Fail(code);
  Py_RETURN_NONE;
}

// set_layout(text): what layout.json says.
PyObject* SetLayout(msprobe_capture* capture, std::string_view text) {
  const int code = msprobe_capture_set_layout(capture, Text(text));
  if (code != MSPROBE_OK) return Fail(code);
  Py_RETURN_NONE;
}

PyObject* Stop(msprobe_capture* capture) {
  ForgetSeen();
  const int code = WithoutLock([capture] { return msprobe_capture_stop(capture); });
  if (code != MSPROBE_OK) return Fail(code);
  Py_RETURN_NONE;
}

PyObject* Step(msprobe_capture* capture) {
  const int code = WithoutLock([capture] { return msprobe_capture_step(capture); });
  NextStep();
  if (code != MSPROBE_OK) return Fail(code);
  Py_RETURN_NONE;
}

PyObject* SetInitStep(msprobe_capture* capture, long long step) {
  const int code = msprobe_capture_set_init_step(capture, step);
  if (code != MSPROBE_OK) return Fail(code);
  Py_RETURN_NONE;
}

PyObject* CurrentStep(msprobe_capture* capture) {
  return PyLong_FromLongLong(msprobe_capture_current_step(capture));
}

// after_fork(): in the child
PyObject* AfterFork() {
  State& state = Global();
  if (state.capture != nullptr) msprobe_capture_after_fork(state.capture);
  state.recording = state.step_open = state.apis = state.constructs = false;
  NextStep();
  Py_RETURN_NONE;
}

// totals() -> dict
PyObject* Totals(msprobe_capture* capture) {
  msprobe_capture_totals totals = {};
  msprobe_capture_get_totals(capture, &totals);
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
PyObject* Configure(std::string_view name, PyObject* value) {
  State& state = Global();
  const std::pair<std::string_view, Ref*> places[] = {
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
    if (known != name) continue;
    *place = value == Py_None ? Ref() : Ref::Borrow(value);
    Py_RETURN_NONE;
  }
  PyErr_Format(PyExc_ValueError, "nothing here is called %s", std::string(name).c_str());
  return nullptr;
}

// dtype(object, text, code)
PyObject* Dtype(PyObject* dtype, std::string_view text, int code) {
  Py_INCREF(dtype);
  Global().dtypes.insert_or_assign(dtype, DtypeEntry{std::string(text), code});
  Py_RETURN_NONE;
}

// exchange_tensors(capsule, classes): what DLPack calls the exchange API of a framework, and the classes of tensors that it is used for.
PyObject* ExchangeTensors(PyObject* capsule, Tuple classes) {
  struct Head {
    uint32_t major;
    uint32_t minor;
  };
  State& state = Global();
  const auto* found = static_cast<const Head*>(PyCapsule_GetPointer(capsule, "dlpack_exchange_api"));
  if (found == nullptr) return nullptr;
  if (found->major != 1) Py_RETURN_FALSE;
  for (Py_ssize_t i = 0; i < PyTuple_Size(classes); ++i) {
    PyObject* type = PyTuple_GetItem(classes, i);
    if (!PyType_Check(type)) {
      PyErr_SetString(PyExc_TypeError, "the classes must be classes");
      return nullptr;
    }
    Py_INCREF(type);
    state.exchanged_types.push_back(reinterpret_cast<PyTypeObject*>(type));
  }
  Py_INCREF(capsule);  // its functions stay
  state.exchange = found;
  Py_RETURN_TRUE;
}

// hide_folder(path as bytes): frames of files below are not part of stacks.
PyObject* HideFolder(std::string_view path) {
  Global().own_folders.emplace_back(path);
  Py_RETURN_NONE;
}

// switch(recording, step_open, apis, constructs, one_piece, gradients_of_inputs, has_budget)
PyObject* Switch(bool recording, bool step_open, bool apis, bool constructs, bool one_piece, bool gradients_of_inputs, bool has_budget) {
  State& state = Global();
  state.recording = recording && state.capture != nullptr;
  state.step_open = step_open && state.capture != nullptr;
  state.apis = apis;
  state.constructs = constructs;
  state.one_piece = one_piece;
  state.gradients_of_inputs = gradients_of_inputs;
  state.has_budget = has_budget;
  Py_RETURN_NONE;
}

PyObject* ReportError(std::string_view name, std::string_view text) {
  if (Global().capture != nullptr) {
    msprobe_capture_report_error(Global().capture, Text(name),
                                 Text(text));
  }
  Py_RETURN_NONE;
}

// remark(kind, name, text)
PyObject* Remark(int kind, std::string_view name, std::string_view text) {
  if (Global().capture != nullptr) {
    msprobe_capture_remark(Global().capture, kind, Text(name),
                           Text(text));
  }
  Py_RETURN_NONE;
}

// log(level, text)
PyObject* Log(int level, std::string_view text) {
  msprobe_log(level, Text(text));
  Py_RETURN_NONE;
}

PyObject* DeviceWait(msprobe_capture* capture) {
  const int code = WithoutLock([capture] { return msprobe_device_wait(capture); });
  if (code != MSPROBE_OK) return Fail(code);
  Py_RETURN_NONE;
}

PyObject* KernelDumpBegin(msprobe_capture* capture) {
  const int code = msprobe_kernel_dump_begin(capture);
  if (code != MSPROBE_OK) return Fail(code);
  Py_RETURN_NONE;
}

PyObject* KernelDumpEnd(msprobe_capture* capture) {
  const int code = msprobe_kernel_dump_end(capture);
  if (code != MSPROBE_OK) return Fail(code);
  Py_RETURN_NONE;
}

PyObject* Version() {
  return PyUnicode_FromString(msprobe_capture_version());
}

PyMethodDef methods[] = {
    Method<"open", Open>(),
    Method<"close", Close>(),
    Method<"settings_of", SettingsOf>(),
    Method<"reopen", Reopen>(),
    Method<"close_retired", CloseRetired>(),
    Method<"set_batch", SetBatch>(),
    Method<"set_layout", SetLayout>(),
    Method<"start", Start>(),
    Method<"stop", Stop>(),
    Method<"step", Step>(),
    Method<"set_init_step", SetInitStep>(),
    Method<"current_step", CurrentStep>(),
    Method<"after_fork", AfterFork>(),
    Method<"totals", Totals>(),
    Method<"configure", Configure>(),
    Method<"dtype", Dtype>(),
    Method<"exchange_tensors", ExchangeTensors>(),
    Method<"hide_folder", HideFolder>(),
    Method<"switch", Switch>(),
    Method<"report_error", ReportError>(),
    Method<"remark", Remark>(),
    Method<"log", Log>(),
    Method<"device_wait", DeviceWait>(),
    Method<"kernel_dump_begin", KernelDumpBegin>(),
    Method<"kernel_dump_end", KernelDumpEnd>(),
    Method<"version", Version>(),
    {nullptr, nullptr, 0, nullptr},
};

}  // namespace

PyMethodDef* SessionMethods() { return methods; }

}  // namespace msprobe::python
