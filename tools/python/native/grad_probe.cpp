#include "tools/python/native/grad_probe.h"

#include "msprobe/grad_probe.h"

#include "tools/python/native/guard.h"
#include "tools/python/native/state.h"
#include "tools/python/native/tensor.h"

namespace msprobe::python {
namespace {

constexpr const char* kCapsule = "msprobe.grad_probe";

msprobe_grad_probe* ProbeOf(PyObject* capsule) {
  return static_cast<msprobe_grad_probe*>(PyCapsule_GetPointer(capsule, kCapsule));
}

PyObject* NothingOr(int code) {
  if (code != MSPROBE_OK) return Fail(code);
  Py_RETURN_NONE;
}

struct Texts {
  msprobe_text path = {};
  msprobe_text overrides = {};
};

bool ReadTexts(PyObject* args, Texts* out) {
  const char* texts[2] = {};
  Py_ssize_t lengths[2] = {};
  if (PyArg_ParseTuple(args, "s#s#", &texts[0], &lengths[0], &texts[1], &lengths[1]) == 0) {
    return false;
  }
  *out = {Argument(texts[0], lengths[0]), Argument(texts[1], lengths[1])};
  return true;
}

// is_grad_probe(config_path, overrides)
PyObject* IsGradProbe(PyObject* /*module*/, PyObject* args) {
  Texts texts;
  if (!ReadTexts(args, &texts)) return nullptr;
  return PyBool_FromLong(msprobe_is_grad_probe(texts.path, texts.overrides));
}

void CloseCapsule(PyObject* capsule) {
  msprobe_grad_probe* probe = ProbeOf(capsule);
  WithoutLock([probe] {
    msprobe_grad_probe_close(probe);
    return MSPROBE_OK;
  });
}

// grad_probe_open(config_path, overrides) -> a probe, closed with its last reference
PyObject* Open(PyObject* /*module*/, PyObject* args) {
  Texts texts;
  msprobe_grad_probe* probe = nullptr;
  if (!ReadTexts(args, &texts)) return nullptr;
  if (const int code = msprobe_grad_probe_open(texts.path, texts.overrides, &probe);
      code != MSPROBE_OK) {
    return Fail(code);
  }
  PyObject* capsule = PyCapsule_New(probe, kCapsule, CloseCapsule);
  if (capsule == nullptr) msprobe_grad_probe_close(probe);
  return capsule;
}

// grad_probe_parameters(probe) -> the names that are asked for; none: all
PyObject* Parameters(PyObject* /*module*/, PyObject* capsule) {
  const msprobe_grad_probe* probe = ProbeOf(capsule);
  Ref list(probe == nullptr ? nullptr : PyList_New(0));
  if (!list) return nullptr;
  for (size_t i = 0;; ++i) {
    const char* name = msprobe_grad_probe_parameter(probe, i);
    if (name == nullptr) return list.release();
    const Ref text(PyUnicode_FromString(name));
    if (!text || PyList_Append(list.get(), text.get()) != 0) return nullptr;
  }
}

// grad_probe_begin(probe, rank, step) -> START_...
PyObject* Begin(PyObject* /*module*/, PyObject* args) {
  PyObject* capsule = nullptr;
  long long rank = 0;
  long long step = 0;
  if (PyArg_ParseTuple(args, "OLL", &capsule, &rank, &step) == 0) return nullptr;
  msprobe_grad_probe* probe = ProbeOf(capsule);
  if (probe == nullptr) return nullptr;
  int outcome = MSPROBE_START_OFF;
  const int code = msprobe_grad_probe_begin_step(probe, rank, step, &outcome);
  return code == MSPROBE_OK ? PyLong_FromLong(outcome) : Fail(code);
}

// grad_probe_put(probe, name, gradient on the host)
PyObject* Put(PyObject* /*module*/, PyObject* args) {
  PyObject* capsule = nullptr;
  const char* name = nullptr;
  Py_ssize_t length = 0;
  PyObject* gradient = nullptr;
  if (PyArg_ParseTuple(args, "Os#O", &capsule, &name, &length, &gradient) == 0) return nullptr;
  msprobe_grad_probe* probe = ProbeOf(capsule);
  if (probe == nullptr) return nullptr;
  const InsideGuard inside(ThisThread());
  const ModesAside modes;
  int code = MSPROBE_ERROR_USAGE;
  if (!UseTensor(gradient, [&](const msprobe_tensor& described, bool /*on_device*/) {
        code = msprobe_grad_probe_put(probe, Argument(name, length), &described);
      })) {
    return nullptr;
  }
  return NothingOr(code);
}

// grad_probe_end(probe): the step is over.
PyObject* End(PyObject* /*module*/, PyObject* capsule) {
  msprobe_grad_probe* probe = ProbeOf(capsule);
  return probe == nullptr ? nullptr : NothingOr(msprobe_grad_probe_end_step(probe));
}

// grad_probe_flush(probe): all files are there.
PyObject* Flush(PyObject* /*module*/, PyObject* capsule) {
  msprobe_grad_probe* probe = ProbeOf(capsule);
  return probe == nullptr
             ? nullptr
             : NothingOr(WithoutLock([probe] { return msprobe_grad_probe_flush(probe); }));
}

PyObject* AfterFork(PyObject* /*module*/, PyObject* capsule) {
  msprobe_grad_probe* probe = ProbeOf(capsule);
  if (probe == nullptr) return nullptr;
  msprobe_grad_probe_after_fork(probe);
  Py_RETURN_NONE;
}

PyMethodDef methods[] = {
    {"is_grad_probe", Guarded<IsGradProbe>, METH_VARARGS, nullptr},
    {"grad_probe_open", Guarded<Open>, METH_VARARGS, nullptr},
    {"grad_probe_parameters", Guarded<Parameters>, METH_O, nullptr},
    {"grad_probe_begin", Guarded<Begin>, METH_VARARGS, nullptr},
    {"grad_probe_put", Guarded<Put>, METH_VARARGS, nullptr},
    {"grad_probe_end", Guarded<End>, METH_O, nullptr},
    {"grad_probe_flush", Guarded<Flush>, METH_O, nullptr},
    {"grad_probe_after_fork", Guarded<AfterFork>, METH_O, nullptr},
    {nullptr, nullptr, 0, nullptr},
};

}  // namespace

PyMethodDef* GradProbeMethods() { return methods; }

}  // namespace msprobe::python
