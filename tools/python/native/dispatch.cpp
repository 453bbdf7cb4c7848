#include "tools/python/native/dispatch.h"

#include <utility>

#include "msprobe/dispatch.h"

#include "tools/python/native/guard.h"
#include "tools/python/native/state.h"
#include "tools/python/native/tensor.h"

namespace msprobe::python {
namespace {

// compare_operator(device, cpu, counts zeros) -> (passed, reason, error balance, max absolute error,
// its index or None, max relative error, its index or None, limit of the balance, limit of errors)
PyObject* CompareOperator(PyObject* /*module*/, PyObject* args) {
  PyObject* device = nullptr;
  PyObject* cpu = nullptr;
  int counts_zeros = 0;
  if (PyArg_ParseTuple(args, "OOp", &device, &cpu, &counts_zeros) == 0) return nullptr;
  const InsideGuard inside(ThisThread());
  const ModesAside modes;
  msprobe_operator_agreement result = {};
  int code = MSPROBE_ERROR_USAGE;
  if (!UseTensors(device, cpu, [&](const msprobe_tensor& left, const msprobe_tensor& right) {
        code = msprobe_compare_operator(&left, &right, counts_zeros, &result);
      })) {
    return nullptr;
  }
  if (code != MSPROBE_OK) return Fail(code);
  const auto index = [](int64_t at) {
    return at < 0 ? Ref::Borrow(Py_None) : Ref(PyLong_FromLongLong(at));
  };
  const Ref absolute = index(result.max_absolute_index);
  const Ref relative = index(result.max_relative_index);
  if (!absolute || !relative) return nullptr;
  return Py_BuildValue("(OiddOdOdd)", result.passed != 0 ? Py_True : Py_False,
                       static_cast<int>(result.reason), result.error_balance,
                       result.max_absolute_error, absolute.get(), result.max_relative_error,
                       relative.get(), result.error_balance_limit, result.error_limit);
}

// write_npy(path, tensor)
PyObject* WriteNpy(PyObject* /*module*/, PyObject* args) {
  const char* path = nullptr;
  Py_ssize_t length = 0;
  PyObject* tensor = nullptr;
  if (PyArg_ParseTuple(args, "s#O", &path, &length, &tensor) == 0) return nullptr;
  const InsideGuard inside(ThisThread());
  const ModesAside modes;
  int code = MSPROBE_ERROR_USAGE;
  if (!UseTensor(tensor, [&](const msprobe_tensor& described, bool /*on_device*/) {
        code = msprobe_write_npy(Argument(path, length), &described);
      })) {
    return nullptr;
  }
  if (code != MSPROBE_OK) return Fail(code);
  Py_RETURN_NONE;
}

PyMethodDef methods[] = {
    {"compare_operator", Guarded<CompareOperator>, METH_VARARGS, nullptr},
    {"write_npy", Guarded<WriteNpy>, METH_VARARGS, nullptr},
    {nullptr, nullptr, 0, nullptr},
};

}  // namespace

PyMethodDef* DispatchMethods() { return methods; }

bool AddDispatchConstants(PyObject* module) {
  const std::pair<const char*, long> constants[] = {
      {"AGREEMENT_SHAPES", MSPROBE_AGREEMENT_SHAPES},
      {"AGREEMENT_CPU_NOT_FINITE", MSPROBE_AGREEMENT_CPU_NOT_FINITE},
      {"AGREEMENT_DEVICE_NOT_FINITE", MSPROBE_AGREEMENT_DEVICE_NOT_FINITE},
      {"AGREEMENT_ZEROS", MSPROBE_AGREEMENT_ZEROS}};
  for (const auto& [name, value] : constants) {
    if (PyModule_AddIntConstant(module, name, value) != 0) return false;
  }
  return true;
}

}  // namespace msprobe::python
