#include "src/device/cuda/cuda_device.h"

#include <array>
#include <string>
#include <utility>

#include <fmt/format.h>

#include "src/base/strings.h"

namespace msprobe::device {
namespace {

Status NotOnCuda(std::string_view what) {
  return UnsupportedError(fmt::format("CUDA devices have no {}", what));
}

}  // namespace

CudaRuntime::~CudaRuntime() {
  if (!ready_ || !InOwnProcess()) {
    return;
  }
  GiveBack();
  for (const auto& [index, primary] : contexts_) {
    (void)api_.cuDevicePrimaryCtxRelease_v2(primary.device);
  }
}

Status CudaRuntime::Ready() {
  if (ready_) {
    return {};
  }
  const std::lock_guard lock(ready_mutex_);
  if (!ready_) {
    MSP_RETURN_IF_ERROR(CheckProcess());
    MSP_RETURN_IF_ERROR(Open());
    ready_ = true;
  }
  return {};
}

Status CudaRuntime::Open() {
  if (!api_.library.is_open()) {
    MSP_ASSIGN_OR_RETURN(Library library,
                         Library::Open({"MSPROBE_CUDA_LIB",
                                        {"libcuda.so.1"},
                                        "CUDA devices",
                                        "it comes with the driver; in a container, mount it"},
                                       loading_));
    api_.Load(std::move(library));
  }
  MSP_RETURN_IF_ERROR(api_.Require(CudaFeature::kCore));
  MSP_RETURN_IF_ERROR(api_.Require(CudaFeature::kCopies));
  ClaimProcess();
  MSP_RETURN_IF_ERROR(MSPROBE_CUDA_CALL(api_, cuInit, 0));
  MSP_RETURN_IF_ERROR(MSPROBE_CUDA_CALL(api_, cuDeviceGetCount, &device_count_));
  if (device_count_ <= 0) {
    return DeviceError("the driver finds no CUDA device")
        .WithHint("nvidia-smi shows the devices the driver knows; CUDA_VISIBLE_DEVICES hides some");
  }
  return {};
}

// Retained once per device and kept: the framework's context lives at least as long as its work.
Result<CudaRuntime::PrimaryContext> CudaRuntime::RetainContext(int32_t index) {
  const std::lock_guard lock(contexts_mutex_);
  const auto found = contexts_.find(index);
  if (found != contexts_.end()) {
    return found->second;
  }
  PrimaryContext primary;
  MSP_RETURN_IF_ERROR(MSPROBE_CUDA_CALL(api_, cuDeviceGet, &primary.device, index), "device ",
                      std::to_string(index));
  MSP_RETURN_IF_ERROR(
      MSPROBE_CUDA_CALL(api_, cuDevicePrimaryCtxRetain, &primary.context, primary.device),
      "device ", std::to_string(index));
  contexts_.emplace(index, primary);
  return primary;
}

Result<StreamedRuntime::Scope> CudaRuntime::EnterDevice(int32_t device) {
  MSP_ASSIGN_OR_RETURN(const PrimaryContext primary, RetainContext(device));
  MSP_RETURN_IF_ERROR(MSPROBE_CUDA_CALL(api_, cuCtxPushCurrent_v2, primary.context));
  return Scope(this, nullptr);
}

void CudaRuntime::LeaveDevice(void* /*restore*/) {
  void* popped = nullptr;
  (void)api_.cuCtxPopCurrent_v2(&popped);
}

DeviceInfo CudaRuntime::DescribeDevice(int32_t index) {
  DeviceInfo info;
  info.index = index;
  int device = 0;
  std::array<char, 256> name = {};
  Status named = MSPROBE_CUDA_CALL(api_, cuDeviceGet, &device, index);
  if (named.ok()) {
    named = MSPROBE_CUDA_CALL(api_, cuDeviceGetName, name.data(), static_cast<int>(name.size()) - 1,
                              device);
  }
  info.name = base::Printable(name.data());
  if (!named.ok()) {
    info.trouble = named.message();
  }
  const Result<Scope> scope = Enter(index);
  if (!scope.ok()) {
    info.trouble = scope.status().message();
  } else if (api_.Require(CudaFeature::kMemoryInfo).ok()) {
    size_t free_bytes = 0;
    size_t total_bytes = 0;
    const Status known = MSPROBE_CUDA_CALL(api_, cuMemGetInfo_v2, &free_bytes, &total_bytes);
    if (!known.ok()) {
      info.trouble = known.message();
    }
    info.free_bytes = free_bytes;
    info.total_bytes = total_bytes;
  }
  return info;
}

Inventory CudaRuntime::Describe() {
  Inventory inventory;
  inventory.status = Ready();
  const std::lock_guard lock(ready_mutex_);
  inventory.library = api_.library.path();
  if (api_.library.is_open()) {
    inventory.limitations = api_.features.Limitations();
  }
  if (!inventory.status.ok()) {
    return inventory;
  }
  int version = 0;
  if (api_.cuDriverGetVersion(&version) == kCudaSuccess) {
    inventory.version = fmt::format("CUDA {}.{}", version / 1000, version % 1000 / 10);
  }
  for (int32_t index = 0; index < device_count_; ++index) {
    inventory.devices.push_back(DescribeDevice(index));
  }
  return inventory;
}

// Usable from the contexts of all devices.
Result<void*> CudaRuntime::AllocatePinned(size_t bytes) {
  void* memory = nullptr;
  MSP_RETURN_IF_ERROR(MSPROBE_CUDA_CALL(api_, cuMemHostAlloc, &memory, bytes, kCudaHostPortable),
                      "no host memory for copies, ", base::FormatBytes(bytes));
  return memory;
}

void CudaRuntime::FreePinned(void* memory) { (void)api_.cuMemFreeHost(memory); }

// Non-blocking: an ordinary stream would wait for, and hold up, everything on the default stream.
Result<Stream> CudaRuntime::CreateStream() {
  Stream stream = nullptr;
  MSP_RETURN_IF_ERROR(MSPROBE_CUDA_CALL(api_, cuStreamCreate, &stream, kCudaStreamNonBlocking));
  return stream;
}

void CudaRuntime::DestroyStream(Stream stream) { (void)api_.cuStreamDestroy_v2(stream); }

Status CudaRuntime::SynchronizeStream(Stream stream) {
  return MSPROBE_CUDA_CALL(api_, cuStreamSynchronize, stream);
}

Status CudaRuntime::SynchronizeCurrentDevice() { return MSPROBE_CUDA_CALL(api_, cuCtxSynchronize); }

Result<bool> CudaRuntime::IsCapturing(Stream stream) {
  if (!api_.Require(CudaFeature::kGraphCapture).ok()) {
    return false;  // a driver that old records no graphs
  }
  int state = kCudaCaptureNone;
  MSP_RETURN_IF_ERROR(MSPROBE_CUDA_CALL(api_, cuStreamIsCapturing, stream, &state));
  return state != kCudaCaptureNone;
}

Result<StreamedRuntime::Event> CudaRuntime::CreateEvent() {
  Event event = nullptr;
  MSP_RETURN_IF_ERROR(MSPROBE_CUDA_CALL(api_, cuEventCreate, &event, kCudaEventDisableTiming));
  return event;
}

void CudaRuntime::DestroyEvent(Event event) { (void)api_.cuEventDestroy_v2(event); }

Status CudaRuntime::RecordEvent(Event event, Stream stream) {
  return MSPROBE_CUDA_CALL(api_, cuEventRecord, event, stream);
}

Status CudaRuntime::MakeStreamWait(Stream stream, Event event) {
  return MSPROBE_CUDA_CALL(api_, cuStreamWaitEvent, stream, event, 0);
}

Result<bool> CudaRuntime::EventReached(Event event) {
  const int code = api_.cuEventQuery(event);
  if (code == kCudaNotReady) {
    return false;
  }
  MSP_RETURN_IF_ERROR(api_.Check(code, "cuEventQuery"));
  return true;
}

Status CudaRuntime::SynchronizeEvent(Event event) {
  return MSPROBE_CUDA_CALL(api_, cuEventSynchronize, event);
}

Status CudaRuntime::QueueCopyToHost(const CopyRequest& request, Stream stream) {
  return MSPROBE_CUDA_CALL(api_, cuMemcpyDtoHAsync_v2, request.target,
                           reinterpret_cast<CudaAddress>(request.source), request.bytes, stream);
}

Status CudaRuntime::QueueStatistics(const StatisticsRequest& request) {
  MSP_ASSIGN_OR_RETURN(const Scope scope, Enter(request.device));
  return statistics_.Queue(api_, request);
}

Result<bool> CudaRuntime::Overflowed(int32_t, Stream) { return NotOnCuda("overflow status"); }
Status CudaRuntime::ResetOverflow(int32_t, Stream) { return NotOnCuda("overflow status"); }
Result<OverflowMode> CudaRuntime::GetOverflowMode(int32_t) { return OverflowMode::kInfNan; }
Status CudaRuntime::SetOverflowMode(int32_t, OverflowMode mode) {
  return mode == OverflowMode::kInfNan ? OkStatus() : NotOnCuda("saturation mode");
}
Result<KernelDump*> CudaRuntime::GetKernelDump() { return NotOnCuda("dump of kernels"); }

}  // namespace msprobe::device
