#include "tools/python/native/monitor.h"

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "msprobe/monitor.h"

#include "tools/python/native/state.h"
#include "tools/python/native/tensor.h"

namespace msprobe::python {
namespace {

struct Monitor {
  PyObject head;
  msprobe_monitor* engine;  // null after close()
  // tensor of an accelerator -> what takes the ticket of its row, or a copy on the host
  PyObject* on_device;
};

Monitor* Self(PyObject* object) { return reinterpret_cast<Monitor*>(object); }

// The engine, or null with a Python error.
msprobe_monitor* Engine(PyObject* object) {
  msprobe_monitor* engine = Self(object)->engine;
  if (engine == nullptr) PyErr_SetString(PyExc_RuntimeError, "this monitor is closed");
  return engine;
}

PyObject* NoneOr(int code) {
  if (code != MSPROBE_OK) return Fail(code);
  Py_RETURN_NONE;
}

PyObject* TextOrNone(const char* text) {
  if (text == nullptr) Py_RETURN_NONE;
  return PyUnicode_DecodeUTF8(text, static_cast<Py_ssize_t>(std::string_view(text).size()),
                              "replace");
}

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
  Self(object)->engine = engine;
  Self(object)->on_device = nullptr;
  return object;
}

PyObject* Close(PyObject* self, PyObject* /*unused*/) {
  if (msprobe_monitor* engine = std::exchange(Self(self)->engine, nullptr); engine != nullptr) {
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
  Py_XDECREF(Self(object)->on_device);
  auto* release = reinterpret_cast<freefunc>(PyType_GetSlot(type, Py_tp_free));
  release(object);
  Py_DECREF(reinterpret_cast<PyObject*>(type));
}

PyObject* AfterFork(PyObject* self, PyObject* /*unused*/) {
  if (Self(self)->engine != nullptr) msprobe_monitor_after_fork(Self(self)->engine);
  Py_RETURN_NONE;
}

PyObject* Settings(PyObject* self, PyObject* /*unused*/) {
  const msprobe_monitor* engine = Engine(self);
  return engine == nullptr ? nullptr : TextOrNone(msprobe_monitor_settings(engine));
}

// set_ops(list as JSON text)
PyObject* SetOps(PyObject* self, PyObject* args) {
  const char* json = nullptr;
  Py_ssize_t length = 0;
  msprobe_monitor* engine = Engine(self);
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
  msprobe_monitor* engine = Engine(self);
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
  const msprobe_monitor* engine = Engine(self);
  return engine == nullptr ? nullptr : TextOrNone(msprobe_monitor_output_folder(engine));
}

// ---- names and steps ----

using NameFunction = int (*)(msprobe_monitor*, int32_t, msprobe_text, const char**) noexcept;

// (stage, full name) -> the name it is reported under, or None
PyObject* Name(PyObject* self, PyObject* args, NameFunction find) {
  int stage = 0;
  const char* name = nullptr;
  Py_ssize_t length = 0;
  msprobe_monitor* engine = Engine(self);
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
  msprobe_monitor* engine = Engine(self);
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
  msprobe_monitor* engine = Engine(self);
  if (engine == nullptr) return nullptr;
  msprobe_monitor_forget_names(engine);
  Py_RETURN_NONE;
}

// begin(step) -> state
PyObject* Begin(PyObject* self, PyObject* args) {
  long long step = 0;
  int32_t state = 0;
  msprobe_monitor* engine = Engine(self);
  if (engine == nullptr || PyArg_ParseTuple(args, "L", &step) == 0) return nullptr;
  const int code = WithoutLock([&] { return msprobe_monitor_begin(engine, step, &state); });
  return code == MSPROBE_OK ? PyLong_FromLong(state) : Fail(code);
}

// end_step() -> state of the next step
PyObject* EndStep(PyObject* self, PyObject* /*unused*/) {
  int32_t state = 0;
  msprobe_monitor* engine = Engine(self);
  if (engine == nullptr) return nullptr;
  const int code = WithoutLock([&] { return msprobe_monitor_end_step(engine, &state); });
  return code == MSPROBE_OK ? PyLong_FromLong(state) : Fail(code);
}

PyObject* CurrentStep(PyObject* self, PyObject* /*unused*/) {
  const msprobe_monitor* engine = Engine(self);
  return engine == nullptr ? nullptr
                           : PyLong_FromLongLong(msprobe_monitor_current_step(engine));
}

PyObject* Flush(PyObject* self, PyObject* /*unused*/) {
  msprobe_monitor* engine = Engine(self);
  if (engine == nullptr) return nullptr;
  return NoneOr(WithoutLock([engine] { return msprobe_monitor_flush(engine); }));
}

// ---- values ----

// slot(table, name, task)
PyObject* Slot(PyObject* self, PyObject* args) {
  int table = 0;
  const char* name = nullptr;
  const char* task = nullptr;
  Py_ssize_t name_length = 0;
  Py_ssize_t task_length = 0;
  msprobe_monitor* engine = Engine(self);
  if (engine == nullptr || PyArg_ParseTuple(args, "is#s#", &table, &name, &name_length, &task,
                                            &task_length) == 0) {
    return nullptr;
  }
  const uint32_t slot = msprobe_monitor_slot(engine, table, Argument(name, name_length),
                                             Argument(task, task_length));
  return slot == 0 ? Fail(MSPROBE_ERROR_INTERNAL) : PyLong_FromUnsignedLong(slot);
}

struct Place {
  uint32_t slot = 0;
  int32_t index = MSPROBE_MONITOR_NO_INDEX;
  int32_t micro_step = MSPROBE_MONITOR_NO_MICRO_STEP;
};

bool IsTensor(PyObject* value) {
  const Kind kind = KindOf(value);
  return kind == Kind::kTensor || kind == Kind::kOtherTensor;
}

// Only once: what the Python side copies to the host lies there.
enum class Devices { kAsked, kRefused };

// One value; false with a Python error.
bool Measure(Monitor* self, const Place& place, PyObject* value, Devices devices = Devices::kAsked);

bool MeasureOnDevice(Monitor* self, const Place& place, PyObject* tensor,
                     const msprobe_tensor& described) {
  const Ref answer = self->on_device == nullptr ? Ref() : Call(self->on_device, tensor);
  if (!answer) return false;
  if (IsTensor(answer.get())) return Measure(self, place, answer.get(), Devices::kRefused);
  const uint64_t ticket = msprobe_monitor_measure_deferred(self->engine, place.slot, place.index,
                                                           place.micro_step, &described);
  const Ref number(PyLong_FromUnsignedLongLong(ticket));
  return number && Call(answer.get(), number.get());
}

bool Measure(Monitor* self, const Place& place, PyObject* value, Devices devices) {
  int code = MSPROBE_OK;
  bool described = true;
  bool measured = true;
  const auto measure = [&](const msprobe_tensor* tensor) {
    return msprobe_monitor_measure(self->engine, place.slot, place.index, place.micro_step,
                                   tensor);
  };
  if (!IsTensor(value)) {
    code = measure(nullptr);
  } else {
    described = UseTensor(value, [&](const msprobe_tensor& tensor, bool on_device) {
      if (on_device && devices == Devices::kAsked) {
        measured = MeasureOnDevice(self, place, value, tensor);
      } else {
        code = measure(&tensor);
      }
    });
  }
  if (code != MSPROBE_OK) Fail(code);
  return described && measured && code == MSPROBE_OK;
}

// All values of one slot; an index stands behind the name where there are several. What fails
// leaves the others alone: the first error is raised.
bool MeasureAll(Monitor* self, uint32_t slot, int32_t micro_step,
                const std::vector<PyObject*>& values) {
  const InsideGuard guard(ThisThread());
  PyObject* error[3] = {};
  for (size_t i = 0; i < values.size(); ++i) {
    Place place;
    place.slot = slot;
    place.micro_step = micro_step;
    if (values.size() > 1) place.index = static_cast<int32_t>(i);
    if (Measure(self, place, values[i])) continue;
    if (error[0] == nullptr) {
      PyErr_Fetch(&error[0], &error[1], &error[2]);
    } else {
      PyErr_Clear();
    }
  }
  if (error[0] == nullptr) return true;
  PyErr_Restore(error[0], error[1], error[2]);
  return false;
}

// The values of a list or tuple, or the one value; borrowed.
std::vector<PyObject*> Elements(PyObject* value) {
  std::vector<PyObject*> elements;
  if (PyTuple_Check(value)) {
    for (Py_ssize_t i = 0; i < PyTuple_Size(value); ++i) {
      elements.push_back(PyTuple_GetItem(value, i));
    }
  } else if (PyList_Check(value)) {
    for (Py_ssize_t i = 0; i < PyList_Size(value); ++i) {
      elements.push_back(PyList_GetItem(value, i));
    }
  } else {
    elements.push_back(value);
  }
  return elements;
}

// forward(slot of inputs, slot of outputs, micro step, args, kwargs or None, result): the tensors
// among the arguments, then the result: a tensor or the elements of a list or tuple.
PyObject* Forward(PyObject* self, PyObject* args) {
  unsigned int slots[2] = {};
  int micro_step = 0;
  PyObject* inputs = nullptr;
  PyObject* named = nullptr;
  PyObject* result = nullptr;
  if (Engine(self) == nullptr ||
      PyArg_ParseTuple(args, "IIiOOO", &slots[0], &slots[1], &micro_step, &inputs, &named,
                       &result) == 0) {
    return nullptr;
  }
  std::vector<PyObject*> values;
  for (PyObject* value : Elements(inputs)) {
    if (IsTensor(value)) values.push_back(value);
  }
  if (PyDict_Check(named)) {
    Py_ssize_t position = 0;
    PyObject* key = nullptr;
    PyObject* value = nullptr;
    while (PyDict_Next(named, &position, &key, &value) != 0) {
      if (IsTensor(value)) values.push_back(value);
    }
  }
  const bool inputs_measured = MeasureAll(Self(self), slots[0], micro_step, values);
  if (!inputs_measured) return nullptr;
  const bool is_list = PyTuple_Check(result) || PyList_Check(result);
  if (is_list || IsTensor(result)) {
    if (!MeasureAll(Self(self), slots[1], micro_step, Elements(result))) return nullptr;
  }
  Py_RETURN_NONE;
}

// values(slot, micro step, value or list of values): None and what is no tensor become rows of NaN.
PyObject* Values(PyObject* self, PyObject* args) {
  unsigned int slot = 0;
  int micro_step = 0;
  PyObject* value = nullptr;
  if (Engine(self) == nullptr ||
      PyArg_ParseTuple(args, "IiO", &slot, &micro_step, &value) == 0) {
    return nullptr;
  }
  if (!MeasureAll(Self(self), slot, micro_step, Elements(value))) return nullptr;
  Py_RETURN_NONE;
}

// table(slots, tensors): one row for each pair of two lists; a tensor that is None has no row.
PyObject* Table(PyObject* self, PyObject* args) {
  PyObject* slots = nullptr;
  PyObject* tensors = nullptr;
  if (Engine(self) == nullptr || PyArg_ParseTuple(args, "O!O!", &PyList_Type, &slots, &PyList_Type,
                                                  &tensors) == 0) {
    return nullptr;
  }
  const InsideGuard guard(ThisThread());
  bool all_measured = true;
  // Another thread may shorten a list while bytes are read: its size is asked each time.
  for (Py_ssize_t i = 0; i < PyList_Size(slots) && i < PyList_Size(tensors); ++i) {
    const Ref tensor = Ref::Borrow(PyList_GetItem(tensors, i));
    Place place;
    place.slot = static_cast<uint32_t>(PyLong_AsUnsignedLong(PyList_GetItem(slots, i)));
    if (PyErr_Occurred() != nullptr) return nullptr;
    if (tensor.get() == Py_None || Measure(Self(self), place, tensor.get())) continue;
    all_measured = false;
    if (i + 1 < PyList_Size(slots)) PyErr_Clear();
  }
  if (!all_measured) {
    if (PyErr_Occurred() == nullptr) {
      PyErr_SetString(PyExc_RuntimeError, "some tensors of a table could not be measured");
    }
    return nullptr;
  }
  Py_RETURN_NONE;
}

// accumulate(slot, tensor)
PyObject* Accumulate(PyObject* self, PyObject* args) {
  unsigned int slot = 0;
  PyObject* value = nullptr;
  msprobe_monitor* engine = Engine(self);
  if (engine == nullptr || PyArg_ParseTuple(args, "IO", &slot, &value) == 0) return nullptr;
  const InsideGuard guard(ThisThread());
  int code = MSPROBE_OK;
  const bool described = UseTensor(value, [&](const msprobe_tensor& tensor, bool /*on_device*/) {
    code = msprobe_monitor_accumulate(engine, slot, MSPROBE_MONITOR_NO_INDEX, &tensor);
  });
  return described ? NoneOr(code) : nullptr;
}

// number(slot, value)
PyObject* Number(PyObject* self, PyObject* args) {
  unsigned int slot = 0;
  double value = 0;
  msprobe_monitor* engine = Engine(self);
  if (engine == nullptr || PyArg_ParseTuple(args, "Id", &slot, &value) == 0) return nullptr;
  return NoneOr(msprobe_monitor_put_number(engine, slot, MSPROBE_MONITOR_NO_INDEX,
                                           MSPROBE_MONITOR_NO_MICRO_STEP, value));
}

// sign_agreement(slot, gradient, moment): both on the host
PyObject* SignAgreement(PyObject* self, PyObject* args) {
  unsigned int slot = 0;
  PyObject* gradient = nullptr;
  PyObject* moment = nullptr;
  msprobe_monitor* engine = Engine(self);
  if (engine == nullptr || PyArg_ParseTuple(args, "IOO", &slot, &gradient, &moment) == 0) {
    return nullptr;
  }
  const InsideGuard guard(ThisThread());
  int code = MSPROBE_OK;
  bool both = true;
  const bool first = UseTensor(gradient, [&](const msprobe_tensor& left, bool /*on_device*/) {
    // Python is needed once more: the lock may have been given away for the first one.
    const PyGILState_STATE lock = PyGILState_Ensure();
    both = UseTensor(moment, [&](const msprobe_tensor& right, bool /*on_device*/) {
      code = msprobe_monitor_put_sign_agreement(engine, slot, &left, &right);
    });
    PyGILState_Release(lock);
  });
  return first && both ? NoneOr(code) : nullptr;
}

// False with a Python error.
bool ReadNumbers(PyObject* list, std::vector<double>* out) {
  for (Py_ssize_t i = 0; i < PyList_Size(list); ++i) {
    out->push_back(PyFloat_AsDouble(PyList_GetItem(list, i)));
  }
  return PyErr_Occurred() == nullptr;
}

// features(slot, micro step, list of numbers): one per column of the slot's table
PyObject* Features(PyObject* self, PyObject* args) {
  unsigned int slot = 0;
  int micro_step = 0;
  PyObject* list = nullptr;
  std::vector<double> numbers;
  msprobe_monitor* engine = Engine(self);
  if (engine == nullptr ||
      PyArg_ParseTuple(args, "IiO!", &slot, &micro_step, &PyList_Type, &list) == 0 ||
      !ReadNumbers(list, &numbers)) {
    return nullptr;
  }
  return NoneOr(
      msprobe_monitor_put_features(engine, slot, micro_step, numbers.data(), numbers.size()));
}

// fill(ticket, list of numbers)
PyObject* Fill(PyObject* self, PyObject* args) {
  unsigned long long ticket = 0;
  PyObject* list = nullptr;
  std::vector<double> numbers;
  msprobe_monitor* engine = Engine(self);
  if (engine == nullptr || PyArg_ParseTuple(args, "KO!", &ticket, &PyList_Type, &list) == 0 ||
      !ReadNumbers(list, &numbers)) {
    return nullptr;
  }
  return NoneOr(msprobe_monitor_fill(engine, ticket, numbers.data(), numbers.size()));
}

// rows(table) -> JSON text
PyObject* Rows(PyObject* self, PyObject* args) {
  int table = 0;
  const char* json = nullptr;
  msprobe_monitor* engine = Engine(self);
  if (engine == nullptr || PyArg_ParseTuple(args, "i", &table) == 0) return nullptr;
  const int code = msprobe_monitor_rows(engine, table, &json);
  return code == MSPROBE_OK ? TextOrNone(json) : Fail(code);
}

// write_file(name, text)
PyObject* WriteFile(PyObject* self, PyObject* args) {
  const char* name = nullptr;
  PyObject* text = nullptr;
  Py_ssize_t length = 0;
  msprobe_monitor* engine = Engine(self);
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
  Py_XDECREF(std::exchange(Self(self)->on_device, callable));
  Py_RETURN_NONE;
}

PyMethodDef methods[] = {
    {"close", Close, METH_NOARGS, nullptr},
    {"after_fork", AfterFork, METH_NOARGS, nullptr},
    {"settings", Settings, METH_NOARGS, nullptr},
    {"set_ops", SetOps, METH_VARARGS, nullptr},
    {"set_place", SetPlace, METH_VARARGS, nullptr},
    {"output_folder", OutputFolder, METH_NOARGS, nullptr},
    {"name_parameter", NameParameter, METH_VARARGS, nullptr},
    {"name_module", NameModule, METH_VARARGS, nullptr},
    {"name_feature_module", NameFeatureModule, METH_VARARGS, nullptr},
    {"forget_names", ForgetNames, METH_NOARGS, nullptr},
    {"begin", Begin, METH_VARARGS, nullptr},
    {"end_step", EndStep, METH_NOARGS, nullptr},
    {"current_step", CurrentStep, METH_NOARGS, nullptr},
    {"flush", Flush, METH_NOARGS, nullptr},
    {"slot", Slot, METH_VARARGS, nullptr},
    {"forward", Forward, METH_VARARGS, nullptr},
    {"values", Values, METH_VARARGS, nullptr},
    {"table", Table, METH_VARARGS, nullptr},
    {"accumulate", Accumulate, METH_VARARGS, nullptr},
    {"number", Number, METH_VARARGS, nullptr},
    {"features", Features, METH_VARARGS, nullptr},
    {"sign_agreement", SignAgreement, METH_VARARGS, nullptr},
    {"fill", Fill, METH_VARARGS, nullptr},
    {"rows", Rows, METH_VARARGS, nullptr},
    {"write_file", WriteFile, METH_VARARGS, nullptr},
    {"on_device", OnDevice, METH_VARARGS, nullptr},
    {nullptr, nullptr, 0, nullptr},
};

PyType_Slot slots[] = {
    {Py_tp_new, reinterpret_cast<void*>(New)},
    {Py_tp_dealloc, reinterpret_cast<void*>(Deallocate)},
    {Py_tp_methods, methods},
    {0, nullptr},
};
PyType_Spec spec = {"msprobe._native.Monitor", sizeof(Monitor), 0, Py_TPFLAGS_DEFAULT, slots};

}  // namespace

PyObject* MakeMonitorType() { return PyType_FromSpec(&spec); }

}  // namespace msprobe::python
