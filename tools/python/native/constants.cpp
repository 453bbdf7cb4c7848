#include "tools/python/native/constants.h"

#include "msprobe/monitor.h"

#include "tools/python/native/state.h"

namespace msprobe::python {
namespace {

struct Constant {
  const char* name;
  long value;
};

constexpr long Number(Kind kind) { return static_cast<long>(kind); }

constexpr Constant kConstants[] = {
    {"KIND_NULL", Number(Kind::kNull)},
    {"KIND_TENSOR", Number(Kind::kTensor)},
    {"KIND_NUMBER", Number(Kind::kNumber)},
    {"KIND_SEQUENCE", Number(Kind::kSequence)},
    {"KIND_NAMED_TUPLE", Number(Kind::kNamedTuple)},
    {"KIND_DATACLASS", Number(Kind::kDataclass)},
    {"KIND_MAPPING", Number(Kind::kMapping)},
    {"KIND_SLICE", Number(Kind::kSlice)},
    {"KIND_ELLIPSIS", Number(Kind::kEllipsis)},
    {"KIND_SIZE", Number(Kind::kSize)},
    {"KIND_DTYPE", Number(Kind::kDtype)},
    {"KIND_DEVICE", Number(Kind::kDevice)},
    {"KIND_MEMORY_FORMAT", Number(Kind::kMemoryFormat)},
    {"KIND_ARRAY", Number(Kind::kArray)},
    {"KIND_ARRAY_SCALAR", Number(Kind::kArrayScalar)},
    {"KIND_SPECIAL", Number(Kind::kSpecial)},
    {"KIND_OTHER_TENSOR", Number(Kind::kOtherTensor)},
    {"DTYPE_UNKNOWN", MSPROBE_DTYPE_UNKNOWN},
    {"DEVICE_HOST", MSPROBE_DEVICE_HOST},
    {"DEVICE_ACL", MSPROBE_DEVICE_ACL},
    {"DEVICE_CUDA", MSPROBE_DEVICE_CUDA},
    {"STATISTICS_SCRATCH_BYTES", MSPROBE_STATISTICS_SCRATCH_BYTES},
    {"START_OFF", MSPROBE_START_OFF},
    {"START_ON", MSPROBE_START_ON},
    {"START_FINISHED", MSPROBE_START_FINISHED},
    {"LOG_DEBUG", 0},
    {"LOG_INFO", 1},
    {"LOG_WARNING", 2},
    {"REMARK_ALTERED_MODULE", MSPROBE_REMARK_ALTERED_MODULE},
    {"REMARK_OWN_GRADIENT", MSPROBE_REMARK_OWN_GRADIENT},
    {"LOG_ERROR", 3},
    {"MONITOR_OFF", MSPROBE_MONITOR_OFF},
    {"MONITOR_ON", MSPROBE_MONITOR_ON},
    {"MONITOR_FINISHED", MSPROBE_MONITOR_FINISHED},
    {"MONITOR_CHANGED", MSPROBE_MONITOR_CHANGED},
    {"NO_MICRO_STEP", MSPROBE_MONITOR_NO_MICRO_STEP},
    {"TABLE_ACTV", MSPROBE_MONITOR_ACTV},
    {"TABLE_ACTV_GRAD", MSPROBE_MONITOR_ACTV_GRAD},
    {"TABLE_GRAD_UNREDUCED", MSPROBE_MONITOR_GRAD_UNREDUCED},
    {"TABLE_GRAD_REDUCED", MSPROBE_MONITOR_GRAD_REDUCED},
    {"TABLE_EXP_AVG", MSPROBE_MONITOR_EXP_AVG},
    {"TABLE_EXP_AVG_SQ", MSPROBE_MONITOR_EXP_AVG_SQ},
    {"TABLE_PARAM_ORIGIN", MSPROBE_MONITOR_PARAM_ORIGIN},
    {"TABLE_PARAM_UPDATED", MSPROBE_MONITOR_PARAM_UPDATED},
    {"TABLE_UPDATE_RATIO", MSPROBE_MONITOR_UPDATE_RATIO},
    {"TABLE_ATTENTION_HOOK", MSPROBE_MONITOR_ATTENTION_HOOK},
    {"TABLE_LINEAR_HOOK", MSPROBE_MONITOR_LINEAR_HOOK},
    {"TABLE_MOE_ROUTER_WEIGHT_HOOK", MSPROBE_MONITOR_MOE_ROUTER_WEIGHT_HOOK},
    {"TABLE_MOE_ROUTER_LOGIT_HOOK", MSPROBE_MONITOR_MOE_ROUTER_LOGIT_HOOK},
    {"TABLE_OTHER", MSPROBE_MONITOR_OTHER},
};

// Dtypes by the name that frameworks share, without their prefix.
constexpr Constant kDtypes[] = {
    {"float64", MSPROBE_FLOAT64},
    {"float32", MSPROBE_FLOAT32},
    {"float16", MSPROBE_FLOAT16},
    {"bfloat16", MSPROBE_BFLOAT16},
    {"float8_e4m3fn", MSPROBE_FLOAT8_E4M3FN},
    {"float8_e5m2", MSPROBE_FLOAT8_E5M2},
    {"float8_e4m3fnuz", MSPROBE_FLOAT8_E4M3FNUZ},
    {"float8_e5m2fnuz", MSPROBE_FLOAT8_E5M2FNUZ},
    {"int64", MSPROBE_INT64},
    {"int32", MSPROBE_INT32},
    {"int16", MSPROBE_INT16},
    {"int8", MSPROBE_INT8},
    {"uint64", MSPROBE_UINT64},
    {"uint32", MSPROBE_UINT32},
    {"uint16", MSPROBE_UINT16},
    {"uint8", MSPROBE_UINT8},
    {"bool", MSPROBE_BOOL},
    {"complex64", MSPROBE_COMPLEX64},
    {"complex128", MSPROBE_COMPLEX128},
};

}  // namespace

bool AddConstants(PyObject* module) {
  for (const Constant& constant : kConstants) {
    if (PyModule_AddIntConstant(module, constant.name, constant.value) != 0) return false;
  }
  Ref codes(PyDict_New());
  for (const Constant& dtype : kDtypes) {
    const Ref code(PyLong_FromLong(dtype.value));
    if (!codes || !code || PyDict_SetItemString(codes.get(), dtype.name, code.get()) != 0) {
      return false;
    }
  }
  if (PyModule_AddObject(module, "DTYPE_CODES", codes.get()) != 0) return false;
  codes.release();  // the module's now
  return true;
}

}  // namespace msprobe::python
