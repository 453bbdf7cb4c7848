#include "tools/python/native/perturb.h"

#include <span>
#include <string>
#include <utility>
#include <vector>

#include "msprobe/perturb.h"

#include "tools/python/native/guard.h"
#include "tools/python/native/python_api.h"
#include "tools/python/native/state.h"
#include "tools/python/native/tensor.h"

namespace msprobe::python {
namespace {

PyObject* RaiseLast() {
  PyErr_SetString(PyExc_RuntimeError, msprobe_last_error());
  return nullptr;
}

// perturb(tensor, out, mode, ulps) -> whether `out`, a plain tensor of the same elements, was changed
PyObject* Perturb(PyObject* /*module*/, PyObject* args) {
  PyObject* tensor = nullptr;
  PyObject* out = nullptr;
  int mode = 0;
  unsigned int ulps = 1;
  if (PyArg_ParseTuple(args, "OOiI", &tensor, &out, &mode, &ulps) == 0) return nullptr;
  const InsideGuard inside(ThisThread());
  const ModesAside modes;
  const Ref address(PyObject_CallMethod(out, "data_ptr", nullptr));
  const Ref count(PyObject_CallMethod(out, "numel", nullptr));
  const Ref width(PyObject_CallMethod(out, "element_size", nullptr));
  if (!address || !count || !width) return nullptr;
  void* memory = PyLong_AsVoidPtr(address.get());
  const size_t bytes = PyLong_AsSize_t(count.get()) * PyLong_AsSize_t(width.get());
  if (PyErr_Occurred() != nullptr) return nullptr;
  int code = MSPROBE_ERROR_USAGE;
  int changed = 0;
  if (!UseTensor(tensor, [&](const msprobe_tensor& described, bool /*on_device*/) {
        code = msprobe_perturb(&described, mode, ulps, memory, bytes, &changed);
      })) {
    return nullptr;
  }
  return code == MSPROBE_OK ? PyBool_FromLong(changed) : RaiseLast();
}

// compare_ratios(original, perturbed, threshold, flags) -> (ratio, mean, exceeding, worst index, born,
// gone, sign changes, consistent)
PyObject* CompareRatios(PyObject* /*module*/, PyObject* args) {
  PyObject* original = nullptr;
  PyObject* perturbed = nullptr;
  double threshold = 0;
  unsigned int flags = 0;
  if (PyArg_ParseTuple(args, "OOdI", &original, &perturbed, &threshold, &flags) == 0) {
    return nullptr;
  }
  const InsideGuard inside(ThisThread());
  const ModesAside modes;
  msprobe_ratio result = {};
  int code = MSPROBE_ERROR_USAGE;
  if (!UseTensors(original, perturbed, [&](const msprobe_tensor& o, const msprobe_tensor& p) {
        code = msprobe_compare_ratios(&o, &p, threshold, flags, &result);
      })) {
    return nullptr;
  }
  if (code != MSPROBE_OK) return RaiseLast();
  return Py_BuildValue("(ddKKKKOO)", result.ratio, result.mean_ratio,
                       static_cast<unsigned long long>(result.exceeding_count),
                       static_cast<unsigned long long>(result.worst_index),
                       static_cast<unsigned long long>(result.born_count),
                       static_cast<unsigned long long>(result.gone_count),
                       result.sign_changes != 0 ? Py_True : Py_False,
                       result.consistent != 0 ? Py_True : Py_False);
}

// measure_distance(actual, reference) -> (relative error, largest error, different, not finite on one
// side alone)
PyObject* MeasureDistance(PyObject* /*module*/, PyObject* args) {
  PyObject* actual = nullptr;
  PyObject* reference = nullptr;
  if (PyArg_ParseTuple(args, "OO", &actual, &reference) == 0) return nullptr;
  const InsideGuard inside(ThisThread());
  const ModesAside modes;
  msprobe_distance result = {};
  int code = MSPROBE_ERROR_USAGE;
  if (!UseTensors(actual, reference, [&](const msprobe_tensor& a, const msprobe_tensor& r) {
        code = msprobe_measure_distance(&a, &r, &result);
      })) {
    return nullptr;
  }
  if (code != MSPROBE_OK) return RaiseLast();
  return Py_BuildValue("(ddKK)", result.relative_error, result.largest_error,
                       static_cast<unsigned long long>(result.different_count),
                       static_cast<unsigned long long>(result.nonfinite_count));
}

// measure_noise_floor(results, seed) -> (digits, relative noise, elements not finite in some alone)
PyObject* MeasureNoiseFloor(PyObject* /*module*/, PyObject* args) {
  PyObject* results = nullptr;
  unsigned long long seed = 0;
  if (PyArg_ParseTuple(args, "O!K", &PyList_Type, &results, &seed) == 0) return nullptr;
  const InsideGuard inside(ThisThread());
  const ModesAside modes;
  msprobe_noise_floor floor = {};
  int code = MSPROBE_ERROR_USAGE;
  if (!UseAllTensors(results, [&](std::span<const msprobe_tensor> described) {
        code = msprobe_measure_noise_floor(described.data(), described.size(), seed, &floor);
      })) {
    return nullptr;
  }
  if (code != MSPROBE_OK) return RaiseLast();
  return Py_BuildValue("(ddK)", floor.digits, floor.relative,
                       static_cast<unsigned long long>(floor.nonfinite_count));
}

// has_gradients(name) -> whether the outputs of a backward are recorded in this step
PyObject* HasGradients(PyObject* /*module*/, PyObject* args) {
  const char* name = nullptr;
  Py_ssize_t length = 0;
  if (PyArg_ParseTuple(args, "s#", &name, &length) == 0) return nullptr;
  return PyBool_FromLong(
      Global().gradients.contains(std::string(name, static_cast<size_t>(length))) ? 1 : 0);
}

// record_noise_floor(name, repeats, [(path, digits, relative noise)]): beside what is recorded of a
// call: "path" is where an output stands, as in the names of rows ("0", "1.values").
PyObject* RecordNoiseFloor(PyObject* /*module*/, PyObject* args) {
  const char* name = nullptr;
  Py_ssize_t length = 0;
  int repeats = 0;
  PyObject* outputs = nullptr;
  if (PyArg_ParseTuple(args, "s#iO!", &name, &length, &repeats, &PyList_Type, &outputs) == 0) {
    return nullptr;
  }
  msprobe_capture* capture = Global().capture;
  if (capture == nullptr) Py_RETURN_NONE;
  msprobe_entry* entry = msprobe_entry_begin(capture, Argument(name, length));
  msprobe_put_member(entry, Text("noise_floor"), Text(""));
  msprobe_open_object(entry, MSPROBE_NOT_IN_FILE_NAME);
  msprobe_put_key(entry, Text("repeats"));
  msprobe_put_int(entry, repeats);
  msprobe_put_key(entry, Text("output"));
  msprobe_open_object(entry, MSPROBE_NOT_IN_FILE_NAME);
  for (Py_ssize_t i = 0; i < PyList_Size(outputs); ++i) {
    const char* path = nullptr;
    Py_ssize_t path_length = 0;
    double digits = 0;
    double noise = 0;
    if (PyArg_ParseTuple(PyList_GetItem(outputs, i), "s#dd", &path, &path_length, &digits, &noise) ==
        0) {
      msprobe_entry_discard(entry);
      return nullptr;
    }
    msprobe_put_key(entry, Argument(path, path_length));
    msprobe_open_object(entry, MSPROBE_NOT_IN_FILE_NAME);
    msprobe_put_key(entry, Text("digits"));
    msprobe_put_float(entry, digits);
    msprobe_put_key(entry, Text("noise"));
    msprobe_put_float(entry, noise);
    msprobe_close(entry);
  }
  msprobe_close(entry);
  msprobe_close(entry);
  msprobe_entry_commit(entry);
  Py_RETURN_NONE;
}

// read_tensor(path, out): the one tensor of a file into a plain tensor of the host
PyObject* ReadTensor(PyObject* /*module*/, PyObject* args) {
  const char* path = nullptr;
  Py_ssize_t length = 0;
  PyObject* out = nullptr;
  if (PyArg_ParseTuple(args, "s#O", &path, &length, &out) == 0) return nullptr;
  const InsideGuard inside(ThisThread());
  const ModesAside modes;
  int code = MSPROBE_ERROR_USAGE;
  if (!UseTensor(out, [&](const msprobe_tensor& place, bool /*on_device*/) {
        code = msprobe_read_tensor(Argument(path, length), &place);
      })) {
    return nullptr;
  }
  if (code != MSPROBE_OK) return RaiseLast();
  Py_RETURN_NONE;
}

// compare_with_cpu(actual, golden, flags) -> (consistent, born)
PyObject* CompareWithCpu(PyObject* /*module*/, PyObject* args) {
  PyObject* actual = nullptr;
  PyObject* golden = nullptr;
  unsigned int flags = 0;
  if (PyArg_ParseTuple(args, "OOI", &actual, &golden, &flags) == 0) return nullptr;
  const InsideGuard inside(ThisThread());
  const ModesAside modes;
  msprobe_cpu_agreement result = {};
  int code = MSPROBE_ERROR_USAGE;
  if (!UseTensors(actual, golden, [&](const msprobe_tensor& a, const msprobe_tensor& g) {
        code = msprobe_compare_with_cpu(&a, &g, flags, &result);
      })) {
    return nullptr;
  }
  if (code != MSPROBE_OK) return RaiseLast();
  return Py_BuildValue("(OK)", result.consistent != 0 ? Py_True : Py_False,
                       static_cast<unsigned long long>(result.born_count));
}

// preheat_samples(number, calls, preheat_step, max_sample, step) -> bool
PyObject* PreheatSamples(PyObject* /*module*/, PyObject* args) {
  long long numbers[5] = {};
  if (PyArg_ParseTuple(args, "LLLLL", &numbers[0], &numbers[1], &numbers[2], &numbers[3],
                       &numbers[4]) == 0) {
    return nullptr;
  }
  return PyBool_FromLong(
      msprobe_preheat_samples(numbers[0], numbers[1], numbers[2], numbers[3], numbers[4]));
}

bool ReadNumbers(PyObject* list, std::vector<double>& numbers) {
  for (Py_ssize_t i = 0; i < PyList_Size(list); ++i) {
    numbers.push_back(PyFloat_AsDouble(PyList_GetItem(list, i)));
  }
  return PyErr_Occurred() == nullptr;
}

// preheat_adapt(threshold, adapts, consistent, inconsistent, least) -> (threshold, adapts)
PyObject* PreheatAdapt(PyObject* /*module*/, PyObject* args) {
  double threshold = 0;
  int adapts = 0;
  PyObject* good = nullptr;
  PyObject* bad = nullptr;
  double least = 0;
  if (PyArg_ParseTuple(args, "dpO!O!d", &threshold, &adapts, &PyList_Type, &good, &PyList_Type,
                       &bad, &least) == 0) {
    return nullptr;
  }
  std::vector<double> consistent;
  std::vector<double> inconsistent;
  if (!ReadNumbers(good, consistent) || !ReadNumbers(bad, inconsistent)) return nullptr;
  if (msprobe_preheat_adapt(&threshold, &adapts, consistent.data(), consistent.size(),
                            inconsistent.data(), inconsistent.size(), least) != MSPROBE_OK) {
    return RaiseLast();
  }
  return Py_BuildValue("(dO)", threshold, adapts != 0 ? Py_True : Py_False);
}

// free_benchmark_settings(config_path, overrides, framework) -> settings as JSON text
PyObject* FreeBenchmarkSettings(PyObject* /*module*/, PyObject* args) {
  const char* path = nullptr;
  const char* overrides = nullptr;
  Py_ssize_t path_length = 0;
  Py_ssize_t overrides_length = 0;
  const char* framework = nullptr;
  Py_ssize_t framework_length = 0;
  if (PyArg_ParseTuple(args, "s#s#s#", &path, &path_length, &overrides, &overrides_length, &framework,
                       &framework_length) == 0) {
    return nullptr;
  }
  const char* json = nullptr;
  const int code = msprobe_free_benchmark_settings(
      Argument(path, path_length), Argument(overrides, overrides_length),
      Argument(framework, framework_length), &json);
  return code == MSPROBE_OK ? PyUnicode_FromString(json) : Fail(code);
}

// configured_task(config_path) -> the task that a configuration names, "" where it names none
PyObject* ConfiguredTask(PyObject* /*module*/, PyObject* args) {
  const char* path = nullptr;
  Py_ssize_t length = 0;
  if (PyArg_ParseTuple(args, "s#", &path, &length) == 0) return nullptr;
  const char* task = nullptr;
  const int code = msprobe_configured_task(Argument(path, length), &task);
  return code == MSPROBE_OK ? PyUnicode_FromString(task) : Fail(code);
}

// twice(who) or twice(None): who(original, name, in_place, args, kwargs) makes the calls of APIs from
// now on, in place of the capture. `name`: "Functional.linear.3".
PyObject* Twice(PyObject* /*module*/, PyObject* args) {
  PyObject* who = nullptr;
  if (PyArg_ParseTuple(args, "O", &who) == 0) return nullptr;
  Global().twice = who == Py_None ? Ref() : Ref::Borrow(who);
  Py_RETURN_NONE;
}

// restart_counts(): calls are numbered from 0 again.
PyObject* RestartCounts(PyObject* /*module*/, PyObject* /*unused*/) {
  for (auto& [name, counter] : Global().counters) counter.next = 0;
  Py_RETURN_NONE;
}

// repeated(nanoseconds): so long it took to make calls once more.
PyObject* Repeated(PyObject* /*module*/, PyObject* args) {
  unsigned long long nanoseconds = 0;
  if (PyArg_ParseTuple(args, "K", &nanoseconds) == 0) return nullptr;
  msprobe_capture_repeated(Global().capture, nanoseconds);
  Py_RETURN_NONE;
}

PyMethodDef methods[] = {
    {"free_benchmark_settings", Guarded<FreeBenchmarkSettings>, METH_VARARGS, nullptr},
    {"configured_task", Guarded<ConfiguredTask>, METH_VARARGS, nullptr},
    {"perturb", Guarded<Perturb>, METH_VARARGS, nullptr},
    {"compare_ratios", Guarded<CompareRatios>, METH_VARARGS, nullptr},
    {"measure_distance", Guarded<MeasureDistance>, METH_VARARGS, nullptr},
    {"measure_noise_floor", Guarded<MeasureNoiseFloor>, METH_VARARGS, nullptr},
    {"has_gradients", Guarded<HasGradients>, METH_VARARGS, nullptr},
    {"record_noise_floor", GuardedRecord<RecordNoiseFloor>, METH_VARARGS, nullptr},
    {"repeated", Guarded<Repeated>, METH_VARARGS, nullptr},
    {"read_tensor", Guarded<ReadTensor>, METH_VARARGS, nullptr},
    {"compare_with_cpu", Guarded<CompareWithCpu>, METH_VARARGS, nullptr},
    {"preheat_samples", Guarded<PreheatSamples>, METH_VARARGS, nullptr},
    {"preheat_adapt", Guarded<PreheatAdapt>, METH_VARARGS, nullptr},
    {"twice", Guarded<Twice>, METH_VARARGS, nullptr},
    {"restart_counts", Guarded<RestartCounts>, METH_NOARGS, nullptr},
    {nullptr, nullptr, 0, nullptr},
};

}  // namespace

PyMethodDef* PerturbMethods() { return methods; }

bool AddPerturbConstants(PyObject* module) {
  const std::pair<const char*, long> constants[] = {
      {"PERTURB_ADD_NOISE", MSPROBE_ADD_NOISE},
      {"PERTURB_BIT_NOISE", MSPROBE_BIT_NOISE},
      {"PERTURB_CHANGE_VALUE", MSPROBE_CHANGE_VALUE},
      {"PERTURB_ULP_NOISE", MSPROBE_ULP_NOISE},
      {"PERTURB_RANDOM_NOISE", MSPROBE_RANDOM_NOISE},
      {"PERTURB_STOCHASTIC_ROUNDING", MSPROBE_STOCHASTIC_ROUNDING},
      {"PERTURB_BACKWARD", MSPROBE_PERTURB_BACKWARD},
      {"PERTURB_COMPAT", MSPROBE_PERTURB_COMPAT},
      {"PERTURB_QUOTIENTS", MSPROBE_PERTURB_QUOTIENTS}};
  for (const auto& [name, value] : constants) {
    if (PyModule_AddIntConstant(module, name, value) != 0) return false;
  }
  return true;
}

}  // namespace msprobe::python
