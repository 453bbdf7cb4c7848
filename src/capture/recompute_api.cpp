// Operators recomputed for online_dispatch: the C interface of msprobe/dispatch.h over the
// component reference.
#include <algorithm>
#include <charconv>
#include <cmath>
#include <cstdint>
#include <cstring>
#include <limits>
#include <optional>
#include <span>
#include <vector>

#include "msprobe/dispatch.h"

#include "src/base/threads.h"
#include "src/capture/c_api_edge.h"
#include "src/capture/monitor_tensor.h"
#include "src/dump/json_source.h"
#include "src/json/value_tree.h"
#include "src/reference/exact_results.h"

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

namespace {

// Of fewer elements a thread costs more than it saves.
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
  MSP_ASSIGN_OR_RETURN(const msprobe::dump::EntryTree call,
                       msprobe::json::ParseValueTree(call_json));
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
      return UsageError("the place of a result is no plain tensor of its shape");
    }
    // The caller's own memory, which a view is not meant to write to.
    MSP_RETURN_IF_ERROR(Write(
        place.dtype, exact[i]->value,
        const_cast<std::byte*>(place.data)));  // NOLINT(cppcoreguidelines-pro-type-const-cast)
  }
  return {};
}

}  // namespace

extern "C" {

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

}  // extern "C"
