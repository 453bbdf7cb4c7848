#include "tools/python/native/monitor_values.h"

#include <cstdint>

#include "msprobe/monitor.h"

#include "tools/python/native/guard.h"
#include "tools/python/native/monitor_object.h"
#include "tools/python/native/state.h"
#include "tools/python/native/tensor.h"

namespace msprobe::python {
namespace {

// slot(table, name, task)
PyObject* Slot(PyObject* self, PyObject* args) {
  int table = 0;
  const char* name = nullptr;
  const char* task = nullptr;
  Py_ssize_t name_length = 0;
  Py_ssize_t task_length = 0;
  msprobe_monitor* engine = EngineOf(self);
  if (engine == nullptr || PyArg_ParseTuple(args, "is#s#", &table, &name, &name_length, &task,
                                            &task_length) == 0) {
    return nullptr;
  }
  const uint32_t slot = msprobe_monitor_slot(engine, table, Argument(name, name_length),
                                             Argument(task, task_length));
  return slot == 0 ? Fail(MSPROBE_ERROR_INTERNAL) : PyLong_FromUnsignedLong(slot);
}

// The value of a slot, as msprobe/monitor.h addresses it.
struct ValueSpot {
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
bool Measure(MonitorObject* self, const ValueSpot& spot, PyObject* value, Devices devices = Devices::kAsked);

bool MeasureOnDevice(MonitorObject* self, const ValueSpot& spot, PyObject* tensor,
                     const msprobe_tensor& described) {
  const Ref answer = self->on_device == nullptr ? Ref() : Call(self->on_device, tensor);
  if (!answer) return false;
  if (answer.get() == Py_None) return true;  // it has no values now
  if (IsTensor(answer.get())) return Measure(self, spot, answer.get(), Devices::kRefused);
  const uint64_t ticket = msprobe_monitor_measure_deferred(self->engine, spot.slot, spot.index,
                                                           spot.micro_step, &described);
  const Ref number(PyLong_FromUnsignedLongLong(ticket));
  return number && Call(answer.get(), number.get());
}

bool Measure(MonitorObject* self, const ValueSpot& spot, PyObject* value, Devices devices) {
  int code = MSPROBE_OK;
  bool described = true;
  bool measured = true;
  const auto measure = [&](const msprobe_tensor* tensor) {
    return msprobe_monitor_measure(self->engine, spot.slot, spot.index, spot.micro_step,
                                   tensor);
  };
  if (!IsTensor(value)) {
    code = measure(nullptr);
  } else {
    described = UseTensor(value, [&](const msprobe_tensor& tensor, bool on_device) {
      if (on_device && devices == Devices::kAsked) {
        measured = MeasureOnDevice(self, spot, value, tensor);
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
bool MeasureAll(MonitorObject* self, uint32_t slot, int32_t micro_step,
                const std::vector<PyObject*>& values) {
  const InsideGuard guard(ThisThread());
  PyObject* error[3] = {};
  for (size_t i = 0; i < values.size(); ++i) {
    ValueSpot spot;
    spot.slot = slot;
    spot.micro_step = micro_step;
    if (values.size() > 1) spot.index = static_cast<int32_t>(i);
    if (Measure(self, spot, values[i])) continue;
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
  if (EngineOf(self) == nullptr ||
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
  const bool inputs_measured = MeasureAll(AsMonitor(self), slots[0], micro_step, values);
  if (!inputs_measured) return nullptr;
  const bool is_list = PyTuple_Check(result) || PyList_Check(result);
  if (is_list || IsTensor(result)) {
    if (!MeasureAll(AsMonitor(self), slots[1], micro_step, Elements(result))) return nullptr;
  }
  Py_RETURN_NONE;
}

// values(slot, micro step, value or list of values): None and what is no tensor become rows of NaN.
PyObject* Values(PyObject* self, PyObject* args) {
  unsigned int slot = 0;
  int micro_step = 0;
  PyObject* value = nullptr;
  if (EngineOf(self) == nullptr ||
      PyArg_ParseTuple(args, "IiO", &slot, &micro_step, &value) == 0) {
    return nullptr;
  }
  if (!MeasureAll(AsMonitor(self), slot, micro_step, Elements(value))) return nullptr;
  Py_RETURN_NONE;
}

// table(slots, tensors): one row for each pair of two lists; a tensor that is None has no row.
PyObject* Table(PyObject* self, PyObject* args) {
  PyObject* slots = nullptr;
  PyObject* tensors = nullptr;
  if (EngineOf(self) == nullptr || PyArg_ParseTuple(args, "O!O!", &PyList_Type, &slots, &PyList_Type,
                                                  &tensors) == 0) {
    return nullptr;
  }
  const InsideGuard guard(ThisThread());
  bool all_measured = true;
  // Another thread may shorten a list while bytes are read: its size is asked each time.
  for (Py_ssize_t i = 0; i < PyList_Size(slots) && i < PyList_Size(tensors); ++i) {
    const Ref tensor = Ref::Borrow(PyList_GetItem(tensors, i));
    ValueSpot spot;
    spot.slot = static_cast<uint32_t>(PyLong_AsUnsignedLong(PyList_GetItem(slots, i)));
    if (PyErr_Occurred() != nullptr) return nullptr;
    if (tensor.get() == Py_None || Measure(AsMonitor(self), spot, tensor.get())) continue;
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
  msprobe_monitor* engine = EngineOf(self);
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
  msprobe_monitor* engine = EngineOf(self);
  if (engine == nullptr || PyArg_ParseTuple(args, "Id", &slot, &value) == 0) return nullptr;
  return NoneOr(msprobe_monitor_put_number(engine, slot, MSPROBE_MONITOR_NO_INDEX,
                                           MSPROBE_MONITOR_NO_MICRO_STEP, value));
}

// sign_agreement(slot, gradient, moment): both on the host
PyObject* SignAgreement(PyObject* self, PyObject* args) {
  unsigned int slot = 0;
  PyObject* gradient = nullptr;
  PyObject* moment = nullptr;
  msprobe_monitor* engine = EngineOf(self);
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
  msprobe_monitor* engine = EngineOf(self);
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
  msprobe_monitor* engine = EngineOf(self);
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
  msprobe_monitor* engine = EngineOf(self);
  if (engine == nullptr || PyArg_ParseTuple(args, "i", &table) == 0) return nullptr;
  const int code = msprobe_monitor_rows(engine, table, &json);
  return code == MSPROBE_OK ? TextOrNone(json) : Fail(code);
}

}  // namespace

const std::vector<PyMethodDef>& MonitorValueMethods() {
  static const std::vector<PyMethodDef> kMethods = {
      {"slot", Guarded<Slot>, METH_VARARGS, nullptr},
      {"forward", Guarded<Forward>, METH_VARARGS, nullptr},
      {"values", Guarded<Values>, METH_VARARGS, nullptr},
      {"table", Guarded<Table>, METH_VARARGS, nullptr},
      {"accumulate", Guarded<Accumulate>, METH_VARARGS, nullptr},
      {"number", Guarded<Number>, METH_VARARGS, nullptr},
      {"features", Guarded<Features>, METH_VARARGS, nullptr},
      {"sign_agreement", Guarded<SignAgreement>, METH_VARARGS, nullptr},
      {"fill", Guarded<Fill>, METH_VARARGS, nullptr},
      {"rows", Guarded<Rows>, METH_VARARGS, nullptr},
  };
  return kMethods;
}

}  // namespace msprobe::python
