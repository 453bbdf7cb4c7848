// msprobe._native: the part of the Python shim that runs at every call of a recorded function.
#include "tools/python/native/intercept.h"
#include "tools/python/native/backward.h"
#include "tools/python/native/call_gradients.h"
#include "tools/python/native/calls.h"
#include "tools/python/native/constants.h"
#include "tools/python/native/digest.h"
#include "tools/python/native/dispatch.h"
#include "tools/python/native/grad_probe.h"
#include "tools/python/native/in_place.h"
#include "tools/python/native/monitor.h"
#include "tools/python/native/perturb.h"
#include "tools/python/native/python_api.h"
#include "tools/python/native/session.h"

namespace {

PyModuleDef definition = {PyModuleDef_HEAD_INIT,
                          "msprobe._native",
                          "Records the calls of a running model through the capture library.",
                          -1,
                          nullptr,
                          nullptr,
                          nullptr,
                          nullptr,
                          nullptr};

bool AddType(PyObject* module, const char* name, PyObject* type) {
  if (type == nullptr) return false;
  if (PyModule_AddObject(module, name, type) == 0) return true;
  Py_DECREF(type);
  return false;
}

}  // namespace

PyMODINIT_FUNC PyInit__native() {
  using namespace msprobe::python;
  if (msprobe_capture_abi() != MSPROBE_CAPTURE_ABI) {
    PyErr_Format(PyExc_ImportError,
                 "libmsprobe_capture.so speaks interface %d, this extension %d: they come from "
                 "different builds",
                 static_cast<int>(msprobe_capture_abi()), MSPROBE_CAPTURE_ABI);
    return nullptr;
  }
  Ref module(PyModule_Create(&definition));
  if (!module || PyModule_AddFunctions(module.get(), SessionMethods()) != 0 ||
      PyModule_AddFunctions(module.get(), CallMethods()) != 0 ||
      PyModule_AddFunctions(module.get(), GradProbeMethods()) != 0 ||
      PyModule_AddFunctions(module.get(), DigestMethods()) != 0 ||
      PyModule_AddFunctions(module.get(), DispatchMethods()) != 0 ||
      !AddDispatchConstants(module.get()) ||
      PyModule_AddFunctions(module.get(), PerturbMethods()) != 0 ||
      !AddPerturbConstants(module.get()) ||
      !AddConstants(module.get()) || !AddType(module.get(), "Api", MakeApiType()) ||
      !AddType(module.get(), "InPlace", MakeInPlaceType()) ||
      !AddType(module.get(), "Monitor", MakeMonitorType()) ||
      !AddType(module.get(), "CallGradients", MakeCallGradientsType()) || !MakeBackwardHookType() || !MakeGraphHookType()) {
    return nullptr;
  }
  return module.release();
}
