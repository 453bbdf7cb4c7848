#include "tools/python/native/dispatch.h"

#include <span>
#include <utility>

#include "msprobe/dispatch.h"

#include "tools/python/native/arguments.h"
#include "tools/python/native/state.h"
#include "tools/python/native/tensor.h"

namespace msprobe::python {
namespace {

// compare_operator(device, cpu, counts zeros) -> (passed, reason, error balance, max absolute error,
// its index or None, max relative error, its index or None, limit of the balance, limit of errors)
PyObject* CompareOperator(PyObject* device, PyObject* cpu, bool counts_zeros) {
  const InsideGuard inside(ThisThread());
  const ModesAside modes;
  msprobe_operator_agreement result = {};
  int code = MSPROBE_ERROR_USAGE;
  if (!UseTensors(device, cpu, [&](const msprobe_tensor& left, const msprobe_tensor& right) {
        code = msprobe_compare_operator(&left, &right, counts_zeros ? 1 : 0, &result);
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

// can_recompute(name) -> whether the operator may be computed without the framework
PyObject* CanRecompute(std::string_view name) {
  return PyBool_FromLong(msprobe_can_recompute(Text(name)));
}

// recompute_operator(name, call, tensors, goldens, threads) -> whether the goldens were written
PyObject* RecomputeOperator(std::string_view name, std::string_view call, List tensors, List goldens, unsigned int threads) {
  const InsideGuard inside(ThisThread());
  const ModesAside modes;
  const Ref all(PyList_GetSlice(tensors, 0, PyList_Size(tensors)));
  const Py_ssize_t given = PyList_Size(tensors);
  if (!all || PyList_SetSlice(all.get(), given, given, goldens) != 0) return nullptr;
  int recomputed = 0;
  int code = MSPROBE_ERROR_USAGE;
  if (!UseAllTensors(all.get(), [&](std::span<const msprobe_tensor> described) {
        const auto inputs = described.first(static_cast<size_t>(given));
        const auto results = described.subspan(static_cast<size_t>(given));
        code = msprobe_recompute_operator(Text(name), Text(call),
                                          inputs.data(), inputs.size(), results.data(),
                                          results.size(), threads, &recomputed);
      })) {
    return nullptr;
  }
  if (code != MSPROBE_OK) return Fail(code);
  return PyBool_FromLong(recomputed);
}

// write_npy(path, tensor)
PyObject* WriteNpy(std::string_view path, PyObject* tensor) {
  const InsideGuard inside(ThisThread());
  const ModesAside modes;
  int code = MSPROBE_ERROR_USAGE;
  if (!UseTensor(tensor, [&](const msprobe_tensor& described, bool /*on_device*/) {
        code = msprobe_write_npy(Text(path), &described);
      })) {
    return nullptr;
  }
  if (code != MSPROBE_OK) return Fail(code);
  Py_RETURN_NONE;
}

PyMethodDef methods[] = {
    Method<"compare_operator", CompareOperator>(),
    Method<"can_recompute", CanRecompute>(),
    Method<"recompute_operator", RecomputeOperator>(),
    Method<"write_npy", WriteNpy>(),
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
