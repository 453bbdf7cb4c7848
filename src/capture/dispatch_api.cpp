// The C interface of msprobe/dispatch.h over the components perturb and io.
#include "msprobe/dispatch.h"
#include "msprobe/tensor_file.h"

#include "src/base/threads.h"
#include "src/capture/c_api_edge.h"
#include "src/capture/monitor_tensor.h"
#include "src/perturb/agreement.h"

using msprobe::OkStatus;
using msprobe::Status;
using msprobe::TensorView;
using msprobe::UsageError;
using msprobe::capture::Guarded;
using msprobe::capture::HostView;
using msprobe::capture::View;
using msprobe::perturb::AgreementReason;

namespace {

static_assert(MSPROBE_AGREEMENT_MEASURED == static_cast<int>(AgreementReason::kMeasured));
static_assert(MSPROBE_AGREEMENT_ZEROS == static_cast<int>(AgreementReason::kZeros));

int64_t IndexOf(const std::optional<uint64_t>& index) {
  return index ? static_cast<int64_t>(*index) : -1;
}

}  // namespace

extern "C" {

int msprobe_compare_operator(const msprobe_tensor* device, const msprobe_tensor* cpu,
                             int counts_zeros, msprobe_operator_agreement* result) noexcept {
  return Guarded([&]() -> Status {
    if (result == nullptr) {
      return UsageError("msprobe_compare_operator needs a place for the result");
    }
    MSP_ASSIGN_OR_RETURN(const TensorView left, HostView(device));
    MSP_ASSIGN_OR_RETURN(const TensorView right, HostView(cpu));
    MSP_ASSIGN_OR_RETURN(const msprobe::perturb::OperatorAgreement found,
                         msprobe::perturb::CompareOperator(left, right, counts_zeros != 0));
    result->passed = found.passed ? 1 : 0;
    result->reason = static_cast<int32_t>(found.reason);
    result->error_balance = found.error_balance;
    result->max_absolute_error = found.max_absolute_error;
    result->max_relative_error = found.max_relative_error;
    result->max_absolute_index = IndexOf(found.max_absolute_index);
    result->max_relative_index = IndexOf(found.max_relative_index);
    result->error_balance_limit = found.error_balance_limit;
    result->error_limit = found.error_limit;
    return OkStatus();
  });
}

int msprobe_write_npy(msprobe_text path, const msprobe_tensor* tensor) noexcept {
  return Guarded([&]() -> Status {
    const msprobe::base::NoFileSizeSignal no_signal;
    MSP_ASSIGN_OR_RETURN(const TensorView view, HostView(tensor));
    return msprobe::WriteNpyFile(View(path), view);
  });
}

}  // extern "C"
