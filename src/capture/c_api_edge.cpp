#include "src/capture/c_api_edge.h"

#include <array>
#include <exception>
#include <initializer_list>
#include <string>
#include <string_view>

#include <fmt/format.h>

namespace msprobe::capture {
namespace {

static_assert(MSPROBE_FLOAT64 == static_cast<int>(DType::kFloat64));
static_assert(MSPROBE_DEVICE_CUDA == static_cast<int>(device::Kind::kCuda));
static_assert(MSPROBE_COMPLEX128 == static_cast<int>(DType::kComplex128));

// A place of fixed size: one that needs memory, or a destructor per thread, could not tell that
// memory is short.
thread_local std::array<char, 4096> last_error = {};

void SetLastError(std::initializer_list<std::string_view> parts) noexcept {
  size_t size = 0;
  for (const std::string_view part : parts) {
    size += part.copy(last_error.data() + size, last_error.size() - 1 - size);
  }
  last_error[size] = '\0';
}

int CodeOf(StatusCode code) {
  switch (code) {
    case StatusCode::kOk:
      return MSPROBE_OK;
    case StatusCode::kUsage:
    case StatusCode::kNotFound:
    case StatusCode::kBadFormat:
    case StatusCode::kUnsupported:
    case StatusCode::kMismatch:
      return MSPROBE_ERROR_USAGE;
    case StatusCode::kIo:
      return MSPROBE_ERROR_IO;
    case StatusCode::kDevice:
      return MSPROBE_ERROR_DEVICE;
    case StatusCode::kInternal:
      break;
  }
  return MSPROBE_ERROR_INTERNAL;
}

}  // namespace

const char* LastErrorText() noexcept { return last_error.data(); }

int Conclude(const Status& status) noexcept {
  try {
    const std::string message = status.message();
    SetLastError({message, status.hint().empty() ? "" : "\nhint: ", status.hint()});
  } catch (...) {
    SetLastError({"out of memory"});
  }
  return CodeOf(status.code());
}

int ConcludeException() noexcept {
  constexpr std::string_view kText = "out of memory, or a defect in msprobe";
  try {
    throw;
  } catch (const std::exception& error) {
    SetLastError({kText, ": ", error.what()});
  } catch (...) {
    SetLastError({kText});
  }
  return MSPROBE_ERROR_INTERNAL;
}

Status Describe(const msprobe_tensor& tensor, TensorDescription& result) {
  constexpr int32_t kMostDimensions = 64;
  result.type = View(tensor.type);
  result.dtype_text = View(tensor.dtype);
  if (tensor.dimensions < 0 || tensor.dimensions > kMostDimensions ||
      (tensor.dimensions > 0 && tensor.shape == nullptr)) {
    return UsageError(fmt::format("a tensor of {} dimensions", tensor.dimensions));
  }
  result.dtype.reset();
  if (tensor.dtype_code >= 0 && tensor.dtype_code < kDTypeCount) {
    result.dtype = static_cast<DType>(tensor.dtype_code);
  }
  result.shape.clear();
  result.strides.clear();
  if (tensor.dimensions > 0) {
    result.shape.assign(tensor.shape, tensor.shape + tensor.dimensions);
    if (tensor.strides != nullptr) {
      result.strides.assign(tensor.strides, tensor.strides + tensor.dimensions);
    }
  }
  result.requires_grad.reset();
  if (tensor.requires_grad >= 0) {
    result.requires_grad = tensor.requires_grad != 0;
  }
  if (tensor.device < MSPROBE_DEVICE_HOST || tensor.device > MSPROBE_DEVICE_CUDA) {
    return UsageError(fmt::format("no kind of device has the number {}", tensor.device));
  }
  result.device = static_cast<device::Kind>(tensor.device);
  result.device_index = tensor.device_index;
  result.stream = tensor.stream;
  result.data = tensor.data;
  result.conjugated = (tensor.flags & MSPROBE_TENSOR_CONJUGATED) != 0;
  result.negated = (tensor.flags & MSPROBE_TENSOR_NEGATED) != 0;
  result.is_numpy = (tensor.flags & MSPROBE_TENSOR_NUMPY) != 0;
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
