#include "tools/python/native/grad_probe.h"

#include "msprobe/grad_probe.h"

#include "tools/python/native/arguments.h"
#include "tools/python/native/state.h"
#include "tools/python/native/tensor.h"

namespace msprobe::python {
namespace {

constexpr const char* kCapsule = "msprobe.grad_probe";

msprobe_grad_probe* ProbeOf(PyObject* capsule) {
  return static_cast<msprobe_grad_probe*>(PyCapsule_GetPointer(capsule, kCapsule));
}

int ReadProbe(PyObject* capsule, void* out) {
  msprobe_grad_probe* probe = ProbeOf(capsule);
  *static_cast<msprobe_grad_probe**>(out) = probe;
  return probe == nullptr ? 0 : 1;
}

}  // namespace

template <>
struct Unit<msprobe_grad_probe*> : ConvertedUnit<msprobe_grad_probe*, ReadProbe> {};

namespace {

PyObject* NothingOr(int code) {
  if (code != MSPROBE_OK) return Fail(code);
  Py_RETURN_NONE;
}

// is_grad_probe(config_path, overrides)
PyObject* IsGradProbe(std::string_view config_path, std::string_view overrides) {
  return PyBool_FromLong(msprobe_is_grad_probe(Text(config_path), Text(overrides)));
}

void CloseCapsule(PyObject* capsule) {
  msprobe_grad_probe* probe = ProbeOf(capsule);
  WithoutLock([probe] {
    msprobe_grad_probe_close(probe);
    return MSPROBE_OK;
  });
}

// grad_probe_open(config_path, overrides) -> a probe, closed with its last reference
PyObject* Open(std::string_view config_path, std::string_view overrides) {
  msprobe_grad_probe* probe = nullptr;
  if (const int code = msprobe_grad_probe_open(Text(config_path), Text(overrides), &probe);
      code != MSPROBE_OK) {
    return Fail(code);
  }
  PyObject* capsule = PyCapsule_New(probe, kCapsule, CloseCapsule);
  if (capsule == nullptr) msprobe_grad_probe_close(probe);
  return capsule;
}

// grad_probe_parameters(probe) -> the names that are asked for; none: all
PyObject* Parameters(msprobe_grad_probe* probe) {
  Ref list(PyList_New(0));
  if (!list) return nullptr;
  for (size_t i = 0;; ++i) {
    const char* name = msprobe_grad_probe_parameter(probe, i);
    if (name == nullptr) return list.release();
    const Ref text(PyUnicode_FromString(name));
    if (!text || PyList_Append(list.get(), text.get()) != 0) return nullptr;
  }
}

// grad_probe_begin(probe, rank, step) -> START_...
PyObject* Begin(msprobe_grad_probe* probe, long long rank, long long step) {
  int outcome = MSPROBE_START_OFF;
  const int code = msprobe_grad_probe_begin_step(probe, rank, step, &outcome);
  return code == MSPROBE_OK ? PyLong_FromLong(outcome) : Fail(code);
}

// grad_probe_put(probe, name, gradient on the host)
PyObject* Put(msprobe_grad_probe* probe, std::string_view name, PyObject* gradient) {
  const InsideGuard inside(ThisThread());
  const ModesAside modes;
  int code = MSPROBE_ERROR_USAGE;
  if (!UseTensor(gradient, [&](const msprobe_tensor& described, bool /*on_device*/) {
        code = msprobe_grad_probe_put(probe, Text(name), &described);
      })) {
    return nullptr;
  }
  return NothingOr(code);
}

// grad_probe_end(probe): the step is over.
PyObject* End(msprobe_grad_probe* probe) {
  return NothingOr(msprobe_grad_probe_end_step(probe));
}

// grad_probe_flush(probe): all files are there.
PyObject* Flush(msprobe_grad_probe* probe) {
  return NothingOr(WithoutLock([probe] { return msprobe_grad_probe_flush(probe); }));
}

PyObject* AfterFork(msprobe_grad_probe* probe) {
  msprobe_grad_probe_after_fork(probe);
  Py_RETURN_NONE;
}

PyMethodDef methods[] = {
    Method<"is_grad_probe", IsGradProbe>(),
    Method<"grad_probe_open", Open>(),
    Method<"grad_probe_parameters", Parameters>(),
    Method<"grad_probe_begin", Begin>(),
    Method<"grad_probe_put", Put>(),
    Method<"grad_probe_end", End>(),
    Method<"grad_probe_flush", Flush>(),
    Method<"grad_probe_after_fork", AfterFork>(),
    {nullptr, nullptr, 0, nullptr},
};

}  // namespace

PyMethodDef* GradProbeMethods() { return methods; }

}  // namespace msprobe::python
