#include "tools/python/native/monitor_values.h"

#include <cstdint>

#include "msprobe/monitor.h"

#include "tools/python/native/arguments.h"
#include "tools/python/native/monitor_object.h"
#include "tools/python/native/state.h"
#include "tools/python/native/tensor.h"

namespace msprobe::python {
namespace {

// slot(table, name, task)
PyObject* Slot(msprobe_monitor* engine, int table, std::string_view name, std::string_view task) {
  const uint32_t slot = msprobe_monitor_slot(engine, table, Text(name),
                                             Text(task));
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
PyObject* Forward(OpenMonitor self, unsigned int input_slot, unsigned int output_slot, int micro_step, PyObject* inputs,
                  PyObject* named, PyObject* result) {
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
  const bool inputs_measured = MeasureAll(self.object, input_slot, micro_step, values);
  if (!inputs_measured) return nullptr;
  const bool is_list = PyTuple_Check(result) || PyList_Check(result);
  if (is_list || IsTensor(result)) {
    if (!MeasureAll(self.object, output_slot, micro_step, Elements(result))) return nullptr;
  }
  Py_RETURN_NONE;
}

// values(slot, micro step, value or list of values): None and what is not a tensor become rows of NaN.
PyObject* Values(OpenMonitor self, unsigned int slot, int micro_step, PyObject* value) {
  if (!MeasureAll(self.object, slot, micro_step, Elements(value))) return nullptr;
  Py_RETURN_NONE;
}

// table(slots, tensors): one row for each pair of two lists; a tensor that is None has no row.
PyObject* Table(OpenMonitor self, List slots, List tensors) {
  const InsideGuard guard(ThisThread());
  bool all_measured = true;
  // Another thread may shorten a list while bytes are read: its size is asked each time.
  for (Py_ssize_t i = 0; i < PyList_Size(slots) && i < PyList_Size(tensors); ++i) {
    const Ref tensor = Ref::Borrow(PyList_GetItem(tensors, i));
    ValueSpot spot;
    spot.slot = static_cast<uint32_t>(PyLong_AsUnsignedLong(PyList_GetItem(slots, i)));
    if (PyErr_Occurred() != nullptr) return nullptr;
    if (tensor.get() == Py_None || Measure(self.object, spot, tensor.get())) continue;
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
PyObject* Accumulate(msprobe_monitor* engine, unsigned int slot, PyObject* value) {
  const InsideGuard guard(ThisThread());
  int code = MSPROBE_OK;
  const bool described = UseTensor(value, [&](const msprobe_tensor& tensor, bool /*on_device*/) {
    code = msprobe_monitor_accumulate(engine, slot, MSPROBE_MONITOR_NO_INDEX, &tensor);
  });
  return described ? NoneOr(code) : nullptr;
}

// number(slot, value)
PyObject* Number(msprobe_monitor* engine, unsigned int slot, double value) {
  return NoneOr(msprobe_monitor_put_number(engine, slot, MSPROBE_MONITOR_NO_INDEX,
                                           MSPROBE_MONITOR_NO_MICRO_STEP, value));
}

// sign_agreement(slot, gradient, moment): both on the host
PyObject* SignAgreement(msprobe_monitor* engine, unsigned int slot, PyObject* gradient, PyObject* moment) {
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

// features(slot, micro step, list of numbers): one per column of the slot's table
PyObject* Features(msprobe_monitor* engine, unsigned int slot, int micro_step, Numbers numbers) {
  return NoneOr(msprobe_monitor_put_features(engine, slot, micro_step, numbers.data(), numbers.size()));
}

// fill(ticket, list of numbers)
PyObject* Fill(msprobe_monitor* engine, unsigned long long ticket, Numbers numbers) {
  return NoneOr(msprobe_monitor_fill(engine, ticket, numbers.data(), numbers.size()));
}

// rows(table) -> JSON text
PyObject* Rows(msprobe_monitor* engine, int table) {
  const char* json = nullptr;
  const int code = msprobe_monitor_rows(engine, table, &json);
  return code == MSPROBE_OK ? TextOrNone(json) : Fail(code);
}

}  // namespace

const std::vector<PyMethodDef>& MonitorValueMethods() {
  static const std::vector<PyMethodDef> kMethods = {
      Method<"slot", Slot>(),
      Method<"forward", Forward>(),
      Method<"values", Values>(),
      Method<"table", Table>(),
      Method<"accumulate", Accumulate>(),
      Method<"number", Number>(),
      Method<"features", Features>(),
      Method<"sign_agreement", SignAgreement>(),
      Method<"fill", Fill>(),
      Method<"rows", Rows>(),
  };
  return kMethods;
}

}  // namespace msprobe::python
