#include "tools/python/native/monitor.h"

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "msprobe/monitor.h"

#include "tools/python/native/guard.h"
#include "tools/python/native/monitor_object.h"
#include "tools/python/native/monitor_values.h"
#include "tools/python/native/state.h"

namespace msprobe::python {
namespace {

// ---- life ----

// Monitor(config_path, overrides, framework)
PyObject* New(PyTypeObject* type, PyObject* args, PyObject* /*kwargs*/) {
  const char* path = nullptr;
  const char* overrides = nullptr;
  const char* framework = nullptr;
  Py_ssize_t path_length = 0;
  Py_ssize_t overrides_length = 0;
  Py_ssize_t framework_length = 0;
  if (PyArg_ParseTuple(args, "s#s#s#", &path, &path_length, &overrides, &overrides_length,
                       &framework, &framework_length) == 0) {
    return nullptr;
  }
  msprobe_monitor* engine = nullptr;
  const int code =
      msprobe_monitor_open(Argument(path, path_length), Argument(overrides, overrides_length),
                           Argument(framework, framework_length), &engine);
  if (code != MSPROBE_OK) return Fail(code);
  auto* allocate = reinterpret_cast<allocfunc>(PyType_GetSlot(type, Py_tp_alloc));
  PyObject* object = allocate(type, 0);
  if (object == nullptr) {
    msprobe_monitor_close(engine);
    return nullptr;
  }
  AsMonitor(object)->engine = engine;
  AsMonitor(object)->on_device = nullptr;
  return object;
}

PyObject* Close(PyObject* self, PyObject* /*unused*/) {
  if (msprobe_monitor* engine = std::exchange(AsMonitor(self)->engine, nullptr); engine != nullptr) {
    WithoutLock([engine] {
      msprobe_monitor_close(engine);
      return MSPROBE_OK;
    });
  }
  Py_RETURN_NONE;
}

void Deallocate(PyObject* object) {
  PyTypeObject* type = Py_TYPE(object);
  Py_XDECREF(Close(object, nullptr));
  Py_XDECREF(AsMonitor(object)->on_device);
  auto* release = reinterpret_cast<freefunc>(PyType_GetSlot(type, Py_tp_free));
  release(object);
  Py_DECREF(reinterpret_cast<PyObject*>(type));
}

PyObject* AfterFork(PyObject* self, PyObject* /*unused*/) {
  if (AsMonitor(self)->engine != nullptr) msprobe_monitor_after_fork(AsMonitor(self)->engine);
  Py_RETURN_NONE;
}

PyObject* Settings(PyObject* self, PyObject* /*unused*/) {
  const msprobe_monitor* engine = EngineOf(self);
  return engine == nullptr ? nullptr : TextOrNone(msprobe_monitor_settings(engine));
}

// set_ops(list as JSON text)
PyObject* SetOps(PyObject* self, PyObject* args) {
  const char* json = nullptr;
  Py_ssize_t length = 0;
  msprobe_monitor* engine = EngineOf(self);
  if (engine == nullptr || PyArg_ParseTuple(args, "s#", &json, &length) == 0) return nullptr;
  return NoneOr(msprobe_monitor_set_ops(engine, Argument(json, length)));
}

bool ReadRanks(PyObject* list, std::vector<int32_t>* out) {
  if (list == Py_None) return true;
  if (!PyList_Check(list)) {
    PyErr_SetString(PyExc_TypeError, "ranks come as a list");
    return false;
  }
  for (Py_ssize_t i = 0; i < PyList_Size(list); ++i) {
    const long rank = PyLong_AsLong(PyList_GetItem(list, i));
    if (rank == -1 && PyErr_Occurred() != nullptr) return false;
    out->push_back(static_cast<int32_t>(rank));
  }
  return true;
}

// set_place(distributed, rank, world size, pipeline stage, mates, tensor ranks, data ranks); the
// lists may be None.
PyObject* SetPlace(PyObject* self, PyObject* args) {
  msprobe_monitor_place place = {};
  int distributed = 0;
  int numbers[3] = {};
  PyObject* lists[3] = {};
  msprobe_monitor* engine = EngineOf(self);
  if (engine == nullptr ||
      PyArg_ParseTuple(args, "piiiOOO", &distributed, &numbers[0], &numbers[1], &numbers[2],
                       &lists[0], &lists[1], &lists[2]) == 0) {
    return nullptr;
  }
  std::vector<int32_t> ranks[3];
  for (size_t i = 0; i < 3; ++i) {
    if (!ReadRanks(lists[i], &ranks[i])) return nullptr;
  }
  place.distributed = distributed;
  place.rank = numbers[0];
  place.world_size = numbers[1];
  place.pipeline_stage = numbers[2];
  place.group_mates = ranks[0].data();
  place.group_mate_count = ranks[0].size();
  place.tensor_ranks = lists[1] == Py_None ? nullptr : ranks[1].data();
  place.tensor_rank_count = ranks[1].size();
  place.data_ranks = lists[2] == Py_None ? nullptr : ranks[2].data();
  place.data_rank_count = ranks[2].size();
  return NoneOr(WithoutLock([&] { return msprobe_monitor_set_place(engine, &place); }));
}

PyObject* OutputFolder(PyObject* self, PyObject* /*unused*/) {
  const msprobe_monitor* engine = EngineOf(self);
  return engine == nullptr ? nullptr : TextOrNone(msprobe_monitor_output_folder(engine));
}

// selects_stack(text) -> bool
PyObject* SelectsStack(PyObject* self, PyObject* args) {
  const char* stack = nullptr;
  Py_ssize_t length = 0;
  msprobe_monitor* engine = EngineOf(self);
  if (engine == nullptr || PyArg_ParseTuple(args, "s#", &stack, &length) == 0) return nullptr;
  return PyBool_FromLong(msprobe_monitor_selects_stack(engine, Argument(stack, length)));
}

// ---- names and steps ----

using NameFunction = int (*)(msprobe_monitor*, int32_t, msprobe_text, const char**) noexcept;

// (stage, full name) -> the name it is reported under, or None
PyObject* Name(PyObject* self, PyObject* args, NameFunction find) {
  int stage = 0;
  const char* name = nullptr;
  Py_ssize_t length = 0;
  msprobe_monitor* engine = EngineOf(self);
  if (engine == nullptr || PyArg_ParseTuple(args, "is#", &stage, &name, &length) == 0) {
    return nullptr;
  }
  const char* reported = nullptr;
  if (find(engine, stage, Argument(name, length), &reported) == 0) Py_RETURN_NONE;
  return TextOrNone(reported);
}
PyObject* NameParameter(PyObject* self, PyObject* args) {
  return Name(self, args, msprobe_monitor_name_parameter);
}
PyObject* NameModule(PyObject* self, PyObject* args) {
  return Name(self, args, msprobe_monitor_name_module);
}

// name_feature_module(table, stage, full name) -> the name it is reported under, or None
PyObject* NameFeatureModule(PyObject* self, PyObject* args) {
  int table = 0;
  int stage = 0;
  const char* name = nullptr;
  Py_ssize_t length = 0;
  msprobe_monitor* engine = EngineOf(self);
  if (engine == nullptr || PyArg_ParseTuple(args, "iis#", &table, &stage, &name, &length) == 0) {
    return nullptr;
  }
  const char* reported = nullptr;
  if (msprobe_monitor_name_feature_module(engine, table, stage, Argument(name, length),
                                          &reported) == 0) {
    Py_RETURN_NONE;
  }
  return TextOrNone(reported);
}
PyObject* ForgetNames(PyObject* self, PyObject* /*unused*/) {
  msprobe_monitor* engine = EngineOf(self);
  if (engine == nullptr) return nullptr;
  msprobe_monitor_forget_names(engine);
  Py_RETURN_NONE;
}

// begin(step) -> state
PyObject* Begin(PyObject* self, PyObject* args) {
  long long step = 0;
  int32_t state = 0;
  msprobe_monitor* engine = EngineOf(self);
  if (engine == nullptr || PyArg_ParseTuple(args, "L", &step) == 0) return nullptr;
  const int code = WithoutLock([&] { return msprobe_monitor_begin(engine, step, &state); });
  return code == MSPROBE_OK ? PyLong_FromLong(state) : Fail(code);
}

// end_step() -> state of the next step
PyObject* EndStep(PyObject* self, PyObject* /*unused*/) {
  int32_t state = 0;
  msprobe_monitor* engine = EngineOf(self);
  if (engine == nullptr) return nullptr;
  const int code = WithoutLock([&] { return msprobe_monitor_end_step(engine, &state); });
  return code == MSPROBE_OK ? PyLong_FromLong(state) : Fail(code);
}

PyObject* CurrentStep(PyObject* self, PyObject* /*unused*/) {
  const msprobe_monitor* engine = EngineOf(self);
  return engine == nullptr ? nullptr
                           : PyLong_FromLongLong(msprobe_monitor_current_step(engine));
}

PyObject* Flush(PyObject* self, PyObject* /*unused*/) {
  msprobe_monitor* engine = EngineOf(self);
  if (engine == nullptr) return nullptr;
  return NoneOr(WithoutLock([engine] { return msprobe_monitor_flush(engine); }));
}

// ---- what is not of a tensor ----

// write_file(name, text)
PyObject* WriteFile(PyObject* self, PyObject* args) {
  const char* name = nullptr;
  PyObject* text = nullptr;
  Py_ssize_t length = 0;
  msprobe_monitor* engine = EngineOf(self);
  if (engine == nullptr || PyArg_ParseTuple(args, "s#U", &name, &length, &text) == 0) {
    return nullptr;
  }
  const std::string content = ToText(text);
  return NoneOr(WithoutLock([&] {
    return msprobe_monitor_write_file(engine, Argument(name, length), Text(content));
  }));
}

// on_device(callable)
PyObject* OnDevice(PyObject* self, PyObject* args) {
  PyObject* callable = nullptr;
  if (PyArg_ParseTuple(args, "O", &callable) == 0) return nullptr;
  Py_INCREF(callable);
  Py_XDECREF(std::exchange(AsMonitor(self)->on_device, callable));
  Py_RETURN_NONE;
}

// All methods, ended as Python wants it.
std::vector<PyMethodDef> Methods() {
  std::vector<PyMethodDef> methods = {
      {"close", Guarded<Close>, METH_NOARGS, nullptr},
      {"after_fork", Guarded<AfterFork>, METH_NOARGS, nullptr},
      {"settings", Guarded<Settings>, METH_NOARGS, nullptr},
      {"set_ops", Guarded<SetOps>, METH_VARARGS, nullptr},
      {"set_place", Guarded<SetPlace>, METH_VARARGS, nullptr},
      {"output_folder", Guarded<OutputFolder>, METH_NOARGS, nullptr},
      {"selects_stack", Guarded<SelectsStack>, METH_VARARGS, nullptr},
      {"name_parameter", Guarded<NameParameter>, METH_VARARGS, nullptr},
      {"name_module", Guarded<NameModule>, METH_VARARGS, nullptr},
      {"name_feature_module", Guarded<NameFeatureModule>, METH_VARARGS, nullptr},
      {"forget_names", Guarded<ForgetNames>, METH_NOARGS, nullptr},
      {"begin", Guarded<Begin>, METH_VARARGS, nullptr},
      {"end_step", Guarded<EndStep>, METH_NOARGS, nullptr},
      {"current_step", Guarded<CurrentStep>, METH_NOARGS, nullptr},
      {"flush", Guarded<Flush>, METH_NOARGS, nullptr},
      {"write_file", Guarded<WriteFile>, METH_VARARGS, nullptr},
      {"on_device", Guarded<OnDevice>, METH_VARARGS, nullptr},
  };
  const std::vector<PyMethodDef>& values = MonitorValueMethods();
  methods.insert(methods.end(), values.begin(), values.end());
  methods.push_back({nullptr, nullptr, 0, nullptr});
  return methods;
}

}  // namespace

PyObject* MakeMonitorType() {
  static std::vector<PyMethodDef> methods = Methods();  // Python keeps pointers to them
  PyType_Slot slots[] = {
      {Py_tp_new, reinterpret_cast<void*>(New)},
      {Py_tp_dealloc, reinterpret_cast<void*>(Deallocate)},
      {Py_tp_methods, methods.data()},
      {0, nullptr},
  };
  PyType_Spec spec = {"msprobe._native.Monitor", sizeof(MonitorObject), 0, Py_TPFLAGS_DEFAULT, slots};
  return PyType_FromSpec(&spec);
}

}  // namespace msprobe::python
