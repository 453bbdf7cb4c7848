// The C interfaces of msprobe/perturb.h and msprobe/dispatch.h: tensors in, numbers or tensors out.
// Over the components perturb, io and reference, which computes operators again.
#include <algorithm>
#include <charconv>
#include <cmath>
#include <cstdint>
#include <cstring>
#include <limits>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "msprobe/dispatch.h"
#include "msprobe/perturb.h"
#include "msprobe/tensor_file.h"

#include "src/base/threads.h"
#include "src/capture/c_api_edge.h"
#include "src/capture/settings.h"
#include "src/dump/call_facts.h"
#include "src/dump/entry_tree.h"
#include "src/dump/json_source.h"
#include "src/perturb/agreement.h"
#include "src/perturb/noise_floor.h"
#include "src/perturb/perturbation.h"
#include "src/perturb/ratio.h"
#include "src/reference/exact_results.h"
#include "src/tensor/tensor_buffer.h"

namespace perturb = msprobe::perturb;
namespace reference = msprobe::reference;

using msprobe::DType;
using msprobe::OkStatus;
using msprobe::Result;
using msprobe::Status;
using msprobe::StatusCode;
using msprobe::TensorView;
using msprobe::UnsupportedError;
using msprobe::UsageError;
using msprobe::capture::Guarded;
using msprobe::capture::HostView;
using msprobe::capture::View;
using perturb::AgreementReason;

namespace {

// Below this size a thread costs more than it saves.
constexpr uint64_t kElementsPerThread = uint64_t{1} << 16U;

template <typename Element>
Status WriteIntegers(std::span<const double> exact, std::byte* out) {
  // Both limits are numbers of double; the upper one is excluded.
  const double low = static_cast<double>(std::numeric_limits<Element>::min());
  const double high = std::ldexp(1.0, std::numeric_limits<Element>::digits);
  for (size_t i = 0; i < exact.size(); ++i) {
    if (!(exact[i] >= low && exact[i] < high)) {
      return UnsupportedError("a number is beyond the integers of its type");
    }
    const auto element = static_cast<Element>(exact[i]);
    std::memcpy(out + i * sizeof element, &element, sizeof element);
  }
  return {};
}

Status Write(DType dtype, std::span<const double> exact, std::byte* out) {
  switch (dtype) {
    case DType::kFloat64:
      if (!exact.empty()) {
        std::memcpy(out, exact.data(), exact.size_bytes());
      }
      return {};
    case DType::kFloat32:
      for (size_t i = 0; i < exact.size(); ++i) {
        const auto element = static_cast<float>(exact[i]);
        std::memcpy(out + i * sizeof element, &element, sizeof element);
      }
      return {};
    case DType::kBool:
      for (size_t i = 0; i < exact.size(); ++i) {
        out[i] = std::byte{exact[i] != 0 ? uint8_t{1} : uint8_t{0}};
      }
      return {};
    case DType::kInt64:
      return WriteIntegers<int64_t>(exact, out);
    case DType::kInt32:
      return WriteIntegers<int32_t>(exact, out);
    case DType::kInt16:
      return WriteIntegers<int16_t>(exact, out);
    case DType::kInt8:
      return WriteIntegers<int8_t>(exact, out);
    case DType::kUInt8:
      return WriteIntegers<uint8_t>(exact, out);
    default:
      return UnsupportedError("results of this dtype are not written");
  }
}

Status Recompute(std::string_view name, std::string_view call_json,
                 std::span<const msprobe_tensor> tensors, size_t threads,
                 std::span<const msprobe_tensor> goldens) {
  MSP_ASSIGN_OR_RETURN(const msprobe::dump::EntryTree call, msprobe::dump::ParseEntry(call_json));
  uint64_t elements = 0;
  std::vector<TensorView> views;
  for (const msprobe_tensor& tensor : tensors) {
    MSP_ASSIGN_OR_RETURN(views.emplace_back(), HostView(&tensor));
    elements += static_cast<uint64_t>(views.back().element_count());
  }
  const reference::TensorSource source = [&](std::string_view place) -> Result<reference::Value> {
    size_t index = 0;
    const char* const end = place.data() + place.size();
    const auto [stop, error] = std::from_chars(place.data(), end, index);
    if (error != std::errc() || stop != end || index >= views.size()) {
      return UsageError("the call names a tensor that is not among those given");
    }
    return reference::ValueOf(views[index]);
  };
  std::optional<msprobe::base::ThreadPool> pool;
  {
    const msprobe::base::NoSignals no_signals;  // nor do the threads of the pool take any
    pool.emplace(
        std::clamp<uint64_t>(elements / kElementsPerThread, 1, std::max(threads, size_t{1})));
  }
  MSP_ASSIGN_OR_RETURN(const std::vector<reference::Value> exact,
                       reference::ExactResults(name, call, source, *pool));
  if (exact.size() != goldens.size()) {
    return UsageError("the call has another number of outputs than places are given");
  }
  for (size_t i = 0; i < exact.size(); ++i) {
    MSP_ASSIGN_OR_RETURN(const TensorView place, HostView(&goldens[i]));
    if (!place.is_plain() || place.shape != exact[i]->shape) {
      return UsageError("the place of a result is not a plain tensor of its shape");
    }
    // The caller's own memory, which a view is not meant to write to.
    MSP_RETURN_IF_ERROR(Write(
        place.dtype, exact[i]->value,
        const_cast<std::byte*>(place.data)));  // NOLINT(cppcoreguidelines-pro-type-const-cast)
  }
  return {};
}

static_assert(MSPROBE_AGREEMENT_MEASURED == static_cast<int>(AgreementReason::kMeasured));
static_assert(MSPROBE_AGREEMENT_ZEROS == static_cast<int>(AgreementReason::kZeros));

int64_t IndexOf(const std::optional<uint64_t>& index) {
  return index ? static_cast<int64_t>(*index) : -1;
}

}  // namespace

extern "C" {

int msprobe_free_benchmark_settings(msprobe_text config_path, msprobe_text overrides_json,
                                    msprobe_text framework, const char** json) noexcept {
  thread_local std::string text;
  return Guarded([&]() -> Status {
    if (json == nullptr) {
      return UsageError("msprobe_free_benchmark_settings needs a place for the result");
    }
    MSP_ASSIGN_OR_RETURN(const msprobe::capture::Framework known,
                         msprobe::capture::FrameworkOf(View(framework)));
    MSP_ASSIGN_OR_RETURN(const msprobe::capture::FreeBenchmarkSettings settings,
                         msprobe::capture::LoadFreeBenchmarkSettings(std::string(View(config_path)),
                                                                     View(overrides_json), known));
    text = msprobe::capture::FreeBenchmarkJson(settings);
    *json = text.c_str();
    return OkStatus();
  });
}

int msprobe_configured_task(msprobe_text config_path, const char** task) noexcept {
  thread_local std::string text;
  return Guarded([&]() -> Status {
    if (task == nullptr) {
      return UsageError("msprobe_configured_task needs a place for the result");
    }
    MSP_ASSIGN_OR_RETURN(text, msprobe::capture::ConfiguredTask(std::string(View(config_path))));
    *task = text.c_str();
    return OkStatus();
  });
}

int msprobe_perturb(const msprobe_tensor* input, int mode, uint32_t ulps, void* out,
                    size_t out_bytes, int* changed) noexcept {
  return Guarded([&]() -> Status {
    if (mode < MSPROBE_ADD_NOISE || mode > MSPROBE_STOCHASTIC_ROUNDING || changed == nullptr) {
      return UsageError("msprobe_perturb needs a mode, and a place for what it did");
    }
    MSP_ASSIGN_OR_RETURN(const TensorView view, HostView(input));
    MSP_ASSIGN_OR_RETURN(
        const bool was_changed,
        perturb::Perturb(view, static_cast<perturb::Mode>(mode),
                         std::span(static_cast<std::byte*>(out), out_bytes), ulps));
    *changed = was_changed ? 1 : 0;
    return OkStatus();
  });
}

int msprobe_compare_ratios(const msprobe_tensor* original, const msprobe_tensor* perturbed,
                           double threshold, uint32_t flags, msprobe_ratio* result) noexcept {
  return Guarded([&]() -> Status {
    if (result == nullptr || (threshold != 0 && !(threshold >= 1))) {
      return UsageError(
          "msprobe_compare_ratios needs a threshold of 0, or of 1 and more, and a place "
          "for the result");
    }
    MSP_ASSIGN_OR_RETURN(const TensorView left, HostView(original));
    MSP_ASSIGN_OR_RETURN(const TensorView right, HostView(perturbed));
    perturb::RatioRules rules;
    rules.backward = (flags & MSPROBE_PERTURB_BACKWARD) != 0;
    rules.compat = (flags & MSPROBE_PERTURB_COMPAT) != 0;
    rules.quotients = (flags & MSPROBE_PERTURB_QUOTIENTS) != 0;
    rules.threshold = threshold != 0 ? threshold : perturb::DefaultThreshold(left.dtype);
    MSP_ASSIGN_OR_RETURN(const perturb::RatioResult found,
                         perturb::CompareRatios(left, right, rules));
    result->ratio = found.ratio;
    result->mean_ratio = found.mean_ratio;
    result->exceeding_count = found.exceeding_count;
    result->worst_index = found.worst_index;
    result->new_nonfinite_count = found.new_nonfinite_count;
    result->lost_nonfinite_count = found.lost_nonfinite_count;
    result->sign_changes = found.sign_changes ? 1 : 0;
    result->consistent = found.consistent(rules.threshold) ? 1 : 0;
    return OkStatus();
  });
}

int msprobe_compare_with_cpu(const msprobe_tensor* actual, const msprobe_tensor* golden,
                             uint32_t flags, msprobe_cpu_agreement* result) noexcept {
  return Guarded([&]() -> Status {
    if (result == nullptr) {
      return UsageError("msprobe_compare_with_cpu needs a place for the result");
    }
    MSP_ASSIGN_OR_RETURN(const TensorView left, HostView(actual));
    MSP_ASSIGN_OR_RETURN(const TensorView right, HostView(golden));
    MSP_ASSIGN_OR_RETURN(
        const perturb::CpuAgreement found,
        perturb::CompareWithCpu(left, right, (flags & MSPROBE_PERTURB_COMPAT) != 0));
    result->consistent = found.consistent ? 1 : 0;
    result->computed = found.absolute_error.has_value() ? 1 : 0;
    result->absolute_error = found.absolute_error.value_or(0);
    result->relative_error = found.relative_error.value_or(0);
    result->error_balance = found.error_balance.value_or(0);
    result->new_nonfinite_count = found.new_nonfinite_count;
    return OkStatus();
  });
}

int msprobe_measure_distance(const msprobe_tensor* actual, const msprobe_tensor* reference,
                             msprobe_distance* result) noexcept {
  return Guarded([&]() -> Status {
    if (result == nullptr) {
      return UsageError("msprobe_measure_distance needs a place for the result");
    }
    MSP_ASSIGN_OR_RETURN(const TensorView left, HostView(actual));
    MSP_ASSIGN_OR_RETURN(const TensorView right, HostView(reference));
    MSP_ASSIGN_OR_RETURN(const perturb::Distance found, perturb::MeasureDistance(left, right));
    *result = {found.relative_error, found.largest_error, found.different_count,
               found.nonfinite_count};
    return OkStatus();
  });
}

int msprobe_measure_noise_floor(const msprobe_tensor* results, size_t count, uint64_t seed,
                                msprobe_noise_floor* result) noexcept {
  return Guarded([&]() -> Status {
    if (results == nullptr || result == nullptr) {
      return UsageError("msprobe_measure_noise_floor needs results, and a place for the floor");
    }
    std::vector<TensorView> views;
    for (size_t i = 0; i < count; ++i) {
      MSP_ASSIGN_OR_RETURN(views.emplace_back(), HostView(&results[i]));
    }
    MSP_ASSIGN_OR_RETURN(const perturb::NoiseFloor found, perturb::MeasureNoiseFloor(views, seed));
    result->digits = found.digits;
    result->relative = found.relative;
    result->nonfinite_count = found.nonfinite_count;
    return OkStatus();
  });
}

int msprobe_read_tensor(msprobe_text path, const msprobe_tensor* out) noexcept {
  return Guarded([&]() -> Status {
    MSP_ASSIGN_OR_RETURN(const TensorView place, HostView(out));
    const std::string name(View(path));
    MSP_ASSIGN_OR_RETURN(const msprobe::TensorFile file, msprobe::TensorFile::Open(name));
    MSP_ASSIGN_OR_RETURN(const msprobe::NamedTensor* stored, file.Single(), name);
    const TensorView& view = stored->view;
    if (!place.is_plain() || view.data == nullptr || view.dtype != place.dtype ||
        view.element_count() != place.element_count()) {
      return msprobe::MismatchError(name + " does not hold " +
                                    std::string(msprobe::DTypeName(place.dtype)) + " " +
                                    msprobe::ShapeText(place.shape));
    }
    // The caller's own memory, which a view is not meant to write to.
    msprobe::tensor::CopyElements(
        view, 0, view.element_count(),
        const_cast<std::byte*>(place.data));  // NOLINT(cppcoreguidelines-pro-type-const-cast)
    return OkStatus();
  });
}

int msprobe_gives_raw_memory(msprobe_text api) noexcept {
  return msprobe::dump::HasFact(View(api), msprobe::dump::kRawMemory) ? 1 : 0;
}

int msprobe_preheat_samples(int64_t number, int64_t calls, int64_t preheat_step, int64_t max_sample,
                            int64_t step) noexcept {
  return perturb::IsSampled(number, calls, preheat_step, max_sample, step) ? 1 : 0;
}

int msprobe_preheat_adapt(double* threshold, int* adapts, const double* consistent,
                          size_t consistent_count, const double* inconsistent,
                          size_t inconsistent_count, double least) noexcept {
  return Guarded([&]() -> Status {
    if (threshold == nullptr || adapts == nullptr ||
        (consistent == nullptr && consistent_count != 0) ||
        (inconsistent == nullptr && inconsistent_count != 0)) {
      return UsageError("msprobe_preheat_adapt needs a threshold and the samples");
    }
    perturb::PreheatThreshold state{*threshold, *adapts != 0};
    perturb::Adapt(state, std::span(consistent, consistent_count),
                   std::span(inconsistent, inconsistent_count), least);
    *threshold = state.value;
    *adapts = state.adapts ? 1 : 0;
    return OkStatus();
  });
}

int msprobe_can_recompute(msprobe_text name) noexcept {
  int known = 0;
  Guarded([&]() -> Status {
    known = reference::IsKnownFunction(View(name)) ? 1 : 0;
    return OkStatus();
  });
  return known;
}

int msprobe_recompute_operator(msprobe_text name, msprobe_text call, const msprobe_tensor* tensors,
                               size_t tensor_count, const msprobe_tensor* goldens,
                               size_t golden_count, uint32_t threads, int* recomputed) noexcept {
  return Guarded([&]() -> Status {
    if (recomputed == nullptr || (tensors == nullptr && tensor_count != 0) ||
        (goldens == nullptr && golden_count != 0)) {
      return UsageError("msprobe_recompute_operator needs tensors and a place for the answer");
    }
    *recomputed = 0;
    const Status status = Recompute(View(name), View(call), std::span(tensors, tensor_count),
                                    threads, std::span(goldens, golden_count));
    if (!status.ok() && status.code() != StatusCode::kUnsupported) {
      return status;
    }
    *recomputed = status.ok() ? 1 : 0;
    return OkStatus();
  });
}

int msprobe_compare_operator(const msprobe_tensor* device, const msprobe_tensor* cpu,
                             int counts_zeros, msprobe_operator_agreement* result) noexcept {
  return Guarded([&]() -> Status {
    if (result == nullptr) {
      return UsageError("msprobe_compare_operator needs a place for the result");
    }
    MSP_ASSIGN_OR_RETURN(const TensorView left, HostView(device));
    MSP_ASSIGN_OR_RETURN(const TensorView right, HostView(cpu));
    MSP_ASSIGN_OR_RETURN(const perturb::OperatorAgreement found,
                         perturb::CompareOperator(left, right, counts_zeros != 0));
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
