#include "tools/python/native/perturb.h"

#include <span>
#include <string>
#include <utility>
#include <vector>

#include "msprobe/perturb.h"

#include "tools/python/native/arguments.h"
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
PyObject* Perturb(PyObject* tensor, PyObject* out, int mode, unsigned int ulps) {
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
PyObject* CompareRatios(PyObject* original, PyObject* perturbed, double threshold, unsigned int flags) {
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
                       static_cast<unsigned long long>(result.new_nonfinite_count),
                       static_cast<unsigned long long>(result.lost_nonfinite_count),
                       result.sign_changes != 0 ? Py_True : Py_False,
                       result.consistent != 0 ? Py_True : Py_False);
}

// measure_distance(actual, reference) -> (relative error, largest error, different, not finite on one
// side alone)
PyObject* MeasureDistance(PyObject* actual, PyObject* reference) {
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
PyObject* MeasureNoiseFloor(List results, unsigned long long seed) {
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
PyObject* HasGradients(std::string_view name) {
  return PyBool_FromLong(
      Global().gradients.contains(std::string(name)) ? 1 : 0);
}

// record_noise_floor(name, repeats, [(path, digits, relative noise)]): beside what is recorded of a
// call: "path" is where an output stands, as in the names of rows ("0", "1.values").
PyObject* RecordNoiseFloor(std::string_view name, int repeats, List outputs) {
  msprobe_capture* capture = Global().capture;
  if (capture == nullptr) Py_RETURN_NONE;
  msprobe_entry* entry = msprobe_entry_begin(capture, Text(name));
  msprobe_put_member(entry, Text("noise_floor"), Text(""));
  msprobe_open_object(entry, MSPROBE_NOT_IN_FILE_NAME);
  msprobe_put_key(entry, Text("repeats"));
  msprobe_put_int(entry, repeats);
  msprobe_put_key(entry, Text("output"));
  msprobe_open_object(entry, MSPROBE_NOT_IN_FILE_NAME);
  for (Py_ssize_t i = 0; i < PyList_Size(outputs); ++i) {
    std::string_view path;
    double digits = 0;
    double noise = 0;
    if (!ReadTuple<"an output">(PyList_GetItem(outputs, i), &path, &digits, &noise)) {
      msprobe_entry_discard(entry);
      return nullptr;
    }
    msprobe_put_key(entry, Text(path));
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
PyObject* ReadTensor(std::string_view path, PyObject* out) {
  const InsideGuard inside(ThisThread());
  const ModesAside modes;
  int code = MSPROBE_ERROR_USAGE;
  if (!UseTensor(out, [&](const msprobe_tensor& place, bool /*on_device*/) {
        code = msprobe_read_tensor(Text(path), &place);
      })) {
    return nullptr;
  }
  if (code != MSPROBE_OK) return RaiseLast();
  Py_RETURN_NONE;
}

// compare_with_cpu(actual, golden, flags) -> (consistent, born)
PyObject* CompareWithCpu(PyObject* actual, PyObject* golden, unsigned int flags) {
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
                       static_cast<unsigned long long>(result.new_nonfinite_count));
}

// gives_raw_memory(name) -> whether the result of a function, "empty", is memory as it was found
PyObject* GivesRawMemory(std::string_view name) {
  return PyBool_FromLong(msprobe_gives_raw_memory(Text(name)));
}

// preheat_samples(number, calls, preheat_step, max_sample, step) -> bool
PyObject* PreheatSamples(long long number, long long calls, long long preheat_step, long long max_sample, long long step) {
  return PyBool_FromLong(msprobe_preheat_samples(number, calls, preheat_step, max_sample, step));
}

// preheat_adapt(threshold, adapts, consistent, inconsistent, least) -> (threshold, adapts)
PyObject* PreheatAdapt(double threshold, bool adapts_before, Numbers consistent, Numbers inconsistent, double least) {
  int adapts = adapts_before ? 1 : 0;
  if (msprobe_preheat_adapt(&threshold, &adapts, consistent.data(), consistent.size(),
                            inconsistent.data(), inconsistent.size(), least) != MSPROBE_OK) {
    return RaiseLast();
  }
  return Py_BuildValue("(dO)", threshold, adapts != 0 ? Py_True : Py_False);
}

// free_benchmark_settings(config_path, overrides, framework) -> settings as JSON text
PyObject* FreeBenchmarkSettings(std::string_view path, std::string_view overrides, std::string_view framework) {
  const char* json = nullptr;
  const int code = msprobe_free_benchmark_settings(
      Text(path), Text(overrides),
      Text(framework), &json);
  return code == MSPROBE_OK ? PyUnicode_FromString(json) : Fail(code);
}

// configured_task(config_path) -> the task that a configuration names, "" where it names none
PyObject* ConfiguredTask(std::string_view path) {
  const char* task = nullptr;
  const int code = msprobe_configured_task(Text(path), &task);
  return code == MSPROBE_OK ? PyUnicode_FromString(task) : Fail(code);
}

// twice(who) or twice(None): who(original, name, in_place, args, kwargs) makes the calls of APIs from
// now on, in place of the capture. `name`: "Functional.linear.3".
PyObject* Twice(PyObject* who) {
  Global().twice = who == Py_None ? Ref() : Ref::Borrow(who);
  Py_RETURN_NONE;
}

// restart_counts(): calls are numbered from 0 again.
PyObject* RestartCounts() {
  for (auto& [name, counter] : Global().counters) counter = Counter();
  Py_RETURN_NONE;
}

// repeated(nanoseconds): so long it took to make calls once more.
PyObject* Repeated(unsigned long long nanoseconds) {
  msprobe_capture_repeated(Global().capture, nanoseconds);
  Py_RETURN_NONE;
}

PyMethodDef methods[] = {
    Method<"free_benchmark_settings", FreeBenchmarkSettings>(),
    Method<"configured_task", ConfiguredTask>(),
    Method<"perturb", Perturb>(),
    Method<"compare_ratios", CompareRatios>(),
    Method<"measure_distance", MeasureDistance>(),
    Method<"measure_noise_floor", MeasureNoiseFloor>(),
    Method<"has_gradients", HasGradients>(),
    Recorded<"record_noise_floor", RecordNoiseFloor>(),
    Method<"repeated", Repeated>(),
    Method<"read_tensor", ReadTensor>(),
    Method<"compare_with_cpu", CompareWithCpu>(),
    Method<"gives_raw_memory", GivesRawMemory>(),
    Method<"preheat_samples", PreheatSamples>(),
    Method<"preheat_adapt", PreheatAdapt>(),
    Method<"twice", Twice>(),
    Method<"restart_counts", RestartCounts>(),
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
