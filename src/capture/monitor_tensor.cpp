#include "src/capture/monitor_tensor.h"

#include <exception>
#include <utility>

#include "src/capture/c_api_edge.h"

namespace msprobe::capture {
namespace {

// Waits for the bytes behind the work that produces them.
Status MeasureOnDevice(const TensorDescription& tensor, TensorView view,
                       const monitor::MeasureRules& rules, LazyDeviceCopies& device_copies,
                       monitor::TensorNumbers& numbers) {
  Status outcome;
  std::exception_ptr thrown;  // on the thread of the copies
  DeviceCopies& copies = device_copies.Get();
  MSP_RETURN_IF_ERROR(copies.Queue(SourceOf(tensor, view.extent_bytes),
                                   [&](const Result<std::span<const std::byte>>& bytes) {
                                     try {
                                       if (!bytes.ok()) {
                                         outcome = bytes.status();
                                         return;
                                       }
                                       view.data = bytes->data();
                                       numbers = monitor::Measure(view, rules);
                                     } catch (...) {
                                       thrown = std::current_exception();
                                     }
                                   }));
  copies.Wait();
  if (thrown != nullptr) {
    std::rethrow_exception(thrown);
  }
  return outcome;
}

}  // namespace

Status MeasureTensor(const msprobe_tensor* tensor, const monitor::MeasureRules& rules,
                     LazyDeviceCopies& device_copies, MeasuredTensor& out) {
  out = {};
  if (tensor == nullptr) {
    return {};
  }
  // Keeps the memory of shape and strides from tensor to tensor.
  thread_local TensorDescription described;
  thread_local TensorView view;
  MSP_RETURN_IF_ERROR(Describe(*tensor, described));
  out.shape = {tensor->shape, described.shape.size()};
  out.dtype_text = View(tensor->dtype);
  out.numbers.kind = monitor::TensorNumbers::Kind::kUnread;
  if (!described.dtype) {
    return {};
  }
  out.numbers.is_known_dtype = true;
  out.numbers.dtype = *described.dtype;
  MSP_RETURN_IF_ERROR(MakeView(described, view));
  if (described.data == nullptr && view.element_count() != 0) {
    return {};
  }
  if (described.device != device::Kind::kHost && view.element_count() != 0) {
    return MeasureOnDevice(described, view, rules, device_copies, out.numbers);
  }
  out.numbers = monitor::Measure(view, rules);
  return {};
}

Result<TensorView> HostView(const msprobe_tensor* tensor) {
  if (tensor == nullptr) {
    return UsageError("no tensor is given");
  }
  TensorDescription described;
  MSP_RETURN_IF_ERROR(Describe(*tensor, described));
  if (!described.dtype || described.device != device::Kind::kHost) {
    return UsageError("the tensor has no values on the host");
  }
  TensorView view;
  MSP_RETURN_IF_ERROR(MakeView(described, view));
  if (view.data == nullptr && view.element_count() != 0) {
    return UsageError("the tensor has no values on the host");
  }
  return view;
}

}  // namespace msprobe::capture
