#include "tools/python/native/monitor.h"

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "msprobe/monitor.h"

#include "tools/python/native/arguments.h"
#include "tools/python/native/monitor_object.h"
#include "tools/python/native/monitor_values.h"

namespace msprobe::python {
namespace {

// ---- life ----

// Monitor(config_path, overrides, framework)
PyObject* New(PyTypeObject* type, PyObject* args, PyObject* /*kwargs*/) {
  ArgumentReader<"Monitor", std::string_view, std::string_view, std::string_view> arguments;
  if (!arguments.Read(args)) return nullptr;
  const auto [config_path, overrides, framework] = arguments.Values();
  msprobe_monitor* engine = nullptr;
  const int code = msprobe_monitor_open(Text(config_path), Text(overrides), Text(framework), &engine);
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

PyObject* Close(MonitorObject* self) {
  if (msprobe_monitor* engine = std::exchange(self->engine, nullptr); engine != nullptr) {
    WithoutLock([engine] {
      msprobe_monitor_close(engine);
      return MSPROBE_OK;
    });
  }
  Py_RETURN_NONE;
}

void Deallocate(PyObject* object) {
  PyTypeObject* type = Py_TYPE(object);
  Py_XDECREF(Close(AsMonitor(object)));
  Py_XDECREF(AsMonitor(object)->on_device);
  auto* release = reinterpret_cast<freefunc>(PyType_GetSlot(type, Py_tp_free));
  release(object);
  Py_DECREF(reinterpret_cast<PyObject*>(type));
}

PyObject* AfterFork(MonitorObject* self) {
  if (self->engine != nullptr) msprobe_monitor_after_fork(self->engine);
  Py_RETURN_NONE;
}

PyObject* Settings(msprobe_monitor* engine) {
  return TextOrNone(msprobe_monitor_settings(engine));
}

// set_ops(list as JSON text)
PyObject* SetOps(msprobe_monitor* engine, std::string_view json) {
  return NoneOr(msprobe_monitor_set_ops(engine, Text(json)));
}

// A list of ranks, or None.
using Ranks = std::optional<std::vector<int32_t>>;
int ReadRanks(PyObject* list, void* out) {
  if (list == Py_None) return 1;
  if (!PyList_Check(list)) {
    PyErr_SetString(PyExc_TypeError, "ranks come as a list");
    return 0;
  }
  std::vector<int32_t>& ranks = static_cast<Ranks*>(out)->emplace();
  for (Py_ssize_t i = 0; i < PyList_Size(list); ++i) {
    const long rank = PyLong_AsLong(PyList_GetItem(list, i));
    if (rank == -1 && PyErr_Occurred() != nullptr) return 0;
    ranks.push_back(static_cast<int32_t>(rank));
  }
  return 1;
}

}  // namespace

template <>
struct Unit<Ranks> : ConvertedUnit<Ranks, ReadRanks> {};

namespace {

// set_place(distributed, rank, world size, pipeline stage, mates, tensor ranks, data ranks)
PyObject* SetPlace(msprobe_monitor* engine, bool distributed, int rank, int world_size, int pipeline_stage, Ranks mates, Ranks tensor_ranks,
                   Ranks data_ranks) {
  const auto data = [](const Ranks& ranks) { return ranks ? ranks->data() : nullptr; };
  const auto count = [](const Ranks& ranks) { return ranks ? ranks->size() : 0; };
  msprobe_monitor_place place = {};
  place.distributed = distributed ? 1 : 0;
  place.rank = rank;
  place.world_size = world_size;
  place.pipeline_stage = pipeline_stage;
  place.group_mates = data(mates);
  place.group_mate_count = count(mates);
  place.tensor_ranks = data(tensor_ranks);
  place.tensor_rank_count = count(tensor_ranks);
  place.data_ranks = data(data_ranks);
  place.data_rank_count = count(data_ranks);
  return NoneOr(WithoutLock([&] { return msprobe_monitor_set_place(engine, &place); }));
}

PyObject* OutputFolder(msprobe_monitor* engine) {
  return TextOrNone(msprobe_monitor_output_folder(engine));
}

// selects_stack(text) -> bool
PyObject* SelectsStack(msprobe_monitor* engine, std::string_view stack) {
  return PyBool_FromLong(msprobe_monitor_selects_stack(engine, Text(stack)));
}

// ---- names and steps ----

// (stage, full name) -> the name it is reported under, or None
template <auto find>
PyObject* Name(msprobe_monitor* engine, int stage, std::string_view name) {
  const char* reported = nullptr;
  if (find(engine, stage, Text(name), &reported) == 0) Py_RETURN_NONE;
  return TextOrNone(reported);
}

// name_feature_module(table, stage, full name) -> the name it is reported under, or None
PyObject* NameFeatureModule(msprobe_monitor* engine, int table, int stage, std::string_view name) {
  const char* reported = nullptr;
  if (msprobe_monitor_name_feature_module(engine, table, stage, Text(name),
                                          &reported) == 0) {
    Py_RETURN_NONE;
  }
  return TextOrNone(reported);
}
PyObject* ForgetNames(msprobe_monitor* engine) {
  msprobe_monitor_forget_names(engine);
  Py_RETURN_NONE;
}

// begin(step) -> state
PyObject* Begin(msprobe_monitor* engine, long long step) {
  int32_t state = 0;
  const int code = WithoutLock([&] { return msprobe_monitor_begin(engine, step, &state); });
  return code == MSPROBE_OK ? PyLong_FromLong(state) : Fail(code);
}

// end_step() -> state of the next step
PyObject* EndStep(msprobe_monitor* engine) {
  int32_t state = 0;
  const int code = WithoutLock([&] { return msprobe_monitor_end_step(engine, &state); });
  return code == MSPROBE_OK ? PyLong_FromLong(state) : Fail(code);
}

PyObject* CurrentStep(msprobe_monitor* engine) {
  return PyLong_FromLongLong(msprobe_monitor_current_step(engine));
}

PyObject* Flush(msprobe_monitor* engine) {
  return NoneOr(WithoutLock([engine] { return msprobe_monitor_flush(engine); }));
}

// ---- what is not of a tensor ----

// write_file(name, text)
PyObject* WriteFile(msprobe_monitor* engine, std::string_view name, Str text) {
  const std::string content = ToText(text);
  return NoneOr(WithoutLock([&] {
    return msprobe_monitor_write_file(engine, Text(name), Text(content));
  }));
}

// on_device(callable)
PyObject* OnDevice(MonitorObject* self, PyObject* callable) {
  Py_INCREF(callable);
  Py_XDECREF(std::exchange(self->on_device, callable));
  Py_RETURN_NONE;
}

// All methods, ended as Python wants it.
std::vector<PyMethodDef> Methods() {
  std::vector<PyMethodDef> methods = {
      Method<"close", Close>(),
      Method<"after_fork", AfterFork>(),
      Method<"settings", Settings>(),
      Method<"set_ops", SetOps>(),
      Method<"set_place", SetPlace>(),
      Method<"output_folder", OutputFolder>(),
      Method<"selects_stack", SelectsStack>(),
      Method<"name_parameter", Name<msprobe_monitor_name_parameter>>(),
      Method<"name_module", Name<msprobe_monitor_name_module>>(),
      Method<"name_feature_module", NameFeatureModule>(),
      Method<"forget_names", ForgetNames>(),
      Method<"begin", Begin>(),
      Method<"end_step", EndStep>(),
      Method<"current_step", CurrentStep>(),
      Method<"flush", Flush>(),
      Method<"write_file", WriteFile>(),
      Method<"on_device", OnDevice>(),
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
