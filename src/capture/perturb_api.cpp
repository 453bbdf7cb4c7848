// The C interface of msprobe/perturb.h over the component perturb.
#include <span>
#include <string>
#include <vector>

#include "msprobe/perturb.h"
#include "msprobe/tensor_file.h"

#include "src/capture/c_api_edge.h"
#include "src/capture/free_benchmark_settings.h"
#include "src/capture/monitor_tensor.h"
#include "src/perturb/agreement.h"
#include "src/perturb/noise_floor.h"
#include "src/perturb/perturbation.h"
#include "src/perturb/ratio.h"
#include "src/tensor/tensor_buffer.h"

using msprobe::OkStatus;
using msprobe::Status;
using msprobe::TensorView;
using msprobe::UsageError;
using msprobe::capture::Guarded;
using msprobe::capture::HostView;
namespace perturb = msprobe::perturb;

extern "C" {

int msprobe_free_benchmark_settings(msprobe_text config_path, msprobe_text overrides_json,
                                    msprobe_text framework, const char** json) noexcept {
  thread_local std::string text;
  return Guarded([&]() -> Status {
    if (json == nullptr) {
      return UsageError("msprobe_free_benchmark_settings needs a place for the result");
    }
    MSP_ASSIGN_OR_RETURN(const msprobe::capture::Framework known,
                         msprobe::capture::FrameworkOf(msprobe::capture::View(framework)));
    MSP_ASSIGN_OR_RETURN(const msprobe::capture::FreeBenchmarkSettings settings,
                         msprobe::capture::LoadFreeBenchmarkSettings(
                             std::string(msprobe::capture::View(config_path)),
                             msprobe::capture::View(overrides_json), known));
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
    MSP_ASSIGN_OR_RETURN(
        text, msprobe::capture::ConfiguredTask(std::string(msprobe::capture::View(config_path))));
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
    result->born_count = found.born_count;
    result->gone_count = found.gone_count;
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
    result->born_count = found.born_count;
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
    const std::string name(msprobe::capture::View(path));
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

}  // extern "C"
