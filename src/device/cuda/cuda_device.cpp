#include "src/device/cuda/cuda_device.h"

#include <algorithm>
#include <array>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include <fmt/format.h>

#include "src/base/strings.h"

namespace msprobe::resources {
extern const std::string_view kStatisticsPtx;  // statistics.ptx, see cmake/EmbedResources.cmake
}

namespace msprobe::device {
namespace {

// In the order of CudaFeature.
constexpr std::array<std::string_view, 6> kCudaFeatureNames = {
    "driver",
    "copies from the device",
    "names of errors",
    "memory sizes",
    "check for streams that record a graph",
    "kernels of our own",
};

}  // namespace

CudaApi::CudaApi() : features({kCudaFeatureNames.begin(), kCudaFeatureNames.end()}) {}

void CudaApi::Load(Library opened) {
  library = std::move(opened);
  features = FeatureTable({kCudaFeatureNames.begin(), kCudaFeatureNames.end()});
#define MSPROBE_CUDA_LOAD(feature, name, ...) \
  features.Load(library, static_cast<size_t>(CudaFeature::feature), #name, name);
  MSPROBE_CUDA_FUNCTIONS(MSPROBE_CUDA_LOAD)
#undef MSPROBE_CUDA_LOAD
}

Status CudaApi::Check(int code, std::string_view function) const {
  if (code == kCudaSuccess) {
    return {};
  }
  const char* name = nullptr;
  const char* meaning = nullptr;
  if (Require(CudaFeature::kMessages).ok()) {
    (void)cuGetErrorName(code, &name);
    (void)cuGetErrorString(code, &meaning);
  }
  return DeviceError(fmt::format("{} failed with {} ({}): {}", function, code,
                                 base::Printable(name == nullptr ? "unknown code" : name),
                                 base::Printable(meaning == nullptr ? "no text" : meaning)));
}

namespace {

constexpr uint64_t kThreads = 256;  // as in statistics.cu
constexpr size_t kMostDims = 6;
constexpr uint64_t kMostBlocks = 1024;
constexpr uint64_t kElementsPerThread = 16;
constexpr size_t kPartBytes = 5 * sizeof(double);
constexpr size_t kCounterBytes = 64;
static_assert(kStatisticsScratchBytes >= kCounterBytes + kMostBlocks * kPartBytes);

// The kernel's number of a dtype; nothing for dtypes that it does not know.
std::optional<int> KernelType(DType dtype) {
  constexpr std::array kTypes = {DType::kFloat32,  DType::kFloat64,      DType::kFloat16,
                                 DType::kBFloat16, DType::kFloat8E4M3FN, DType::kFloat8E5M2,
                                 DType::kInt8,     DType::kUInt8,        DType::kInt16,
                                 DType::kInt32,    DType::kInt64};
  const auto* const found = std::find(kTypes.begin(), kTypes.end(), dtype);
  if (found == kTypes.end()) {
    return std::nullopt;
  }
  return static_cast<int>(found - kTypes.begin());
}

// How many there are. The kernel reads wherever a description points: it has to be one of a tensor.
Result<uint64_t> CountElements(const StatisticsRequest& request) {
  const bool has_strides = !request.strides.empty();
  if (has_strides && request.strides.size() != request.shape.size()) {
    return UsageError(fmt::format("a tensor of {} dimensions with {} strides", request.shape.size(),
                                  request.strides.size()));
  }
  int64_t elements = 1;
  int64_t end = 0;
  for (size_t i = 0; i < request.shape.size(); ++i) {
    const int64_t size = request.shape[i];
    const int64_t stride = has_strides && size > 1 ? request.strides[i] : 0;
    int64_t reach = 0;
    if (size <= 0 || stride < 0 || __builtin_mul_overflow(elements, size, &elements) ||
        __builtin_mul_overflow(size, stride, &reach) || __builtin_add_overflow(end, reach, &end)) {
      return UsageError(fmt::format(
          "dimension {} has size {} and stride {}, as in no tensor with elements in memory", i,
          size, stride));
    }
  }
  return static_cast<uint64_t>(elements);
}

// As in statistics.cu. Strides are in elements. in_vectors: the last dim counts vectors of 16
// bytes, all of them aligned.
struct Layout {
  std::array<uint64_t, kMostDims> sizes;
  std::array<int64_t, kMostDims> strides;
  int dims;
  int in_vectors;
};

// The same elements in the order of memory, in as few dims as possible: of statistics the order is
// of no importance. Nothing if too many dims are left.
std::optional<Layout> InOrderOfMemory(const StatisticsRequest& request) {
  struct Dim {
    uint64_t size;
    int64_t stride;
  };
  std::vector<Dim> dims;
  int64_t row_major = 1;
  for (size_t i = request.shape.size(); i-- > 0;) {
    const int64_t stride = request.strides.empty() ? row_major : request.strides[i];
    if (request.shape[i] != 1) {
      dims.push_back({static_cast<uint64_t>(request.shape[i]), stride});
    }
    row_major *= request.shape[i];
  }
  std::stable_sort(dims.begin(), dims.end(),
                   [](const Dim& left, const Dim& right) { return left.stride > right.stride; });
  Layout layout = {};
  for (const Dim& dim : dims) {
    if (layout.dims > 0) {
      const auto outer = static_cast<size_t>(layout.dims - 1);
      if (layout.strides[outer] == dim.stride * static_cast<int64_t>(dim.size)) {
        layout.sizes[outer] *= dim.size;
        layout.strides[outer] = dim.stride;
        continue;
      }
    }
    if (static_cast<size_t>(layout.dims) == kMostDims) {
      return std::nullopt;
    }
    layout.sizes[static_cast<size_t>(layout.dims)] = dim.size;
    layout.strides[static_cast<size_t>(layout.dims)] = dim.stride;
    ++layout.dims;
  }
  if (layout.dims == 0) {
    layout.sizes[0] = 1;
    layout.strides[0] = 1;
    layout.dims = 1;
  }
  return layout;
}

// Rows that can be read in vectors are: so many fewer places to compute.
void ReadInVectors(const void* data, size_t element_bytes, Layout& layout) {
  constexpr size_t kVectorBytes = 16;
  const auto last = static_cast<size_t>(layout.dims - 1);
  const uint64_t in_vector = kVectorBytes / element_bytes;
  bool possible = layout.dims > 1 && layout.strides[last] == 1 &&
                  layout.sizes[last] % in_vector == 0 &&
                  reinterpret_cast<uintptr_t>(data) % kVectorBytes == 0;
  for (size_t dim = 0; dim < last; ++dim) {
    possible = possible && layout.strides[dim] % static_cast<int64_t>(in_vector) == 0;
  }
  if (possible) {
    layout.sizes[last] /= in_vector;
    layout.strides[last] = static_cast<int64_t>(in_vector);
    layout.in_vectors = 1;
  }
}

}  // namespace

const CudaStatistics::Kernel& CudaStatistics::KernelOf(const CudaApi& api, int32_t device) {
  const std::lock_guard lock(mutex_);
  const auto [entry, is_new] = kernels_.try_emplace(device);
  Kernel& kernel = entry->second;
  if (is_new) {
    const std::string text(resources::kStatisticsPtx);
    void* module = nullptr;
    kernel.status = MSPROBE_CUDA_CALL(api, cuModuleLoadData, &module, text.c_str());
    if (kernel.status.ok()) {
      kernel.status = MSPROBE_CUDA_CALL(api, cuModuleGetFunction, &kernel.function, module,
                                        "msprobe_statistics");
    }
    if (!kernel.status.ok()) {
      kernel.status = UnsupportedError(kernel.status.message());
    }
  }
  return kernel;
}

Status CudaStatistics::Queue(const CudaApi& api, const StatisticsRequest& request) {
  MSP_RETURN_IF_ERROR(api.Require(CudaFeature::kKernels));
  std::optional<int> type = KernelType(request.dtype);
  if (!type) {
    return UnsupportedError(
        fmt::format("there is no kernel for tensors of {}", DTypeName(request.dtype)));
  }
  MSP_ASSIGN_OR_RETURN(uint64_t elements, CountElements(request));
  std::optional<Layout> layout = InOrderOfMemory(request);
  if (!layout) {
    return UnsupportedError("the elements of the tensor lie in too many pieces for a kernel");
  }
  ReadInVectors(request.source, DTypeSize(request.dtype), *layout);
  const Kernel& kernel = KernelOf(api, request.device);
  MSP_RETURN_IF_ERROR(kernel.status);
  const uint64_t per_block = kThreads * kElementsPerThread;
  const uint64_t blocks =
      std::clamp<uint64_t>((elements + per_block - 1) / per_block, 1, kMostBlocks);
  CudaAddress data = reinterpret_cast<CudaAddress>(request.source);
  CudaAddress row = reinterpret_cast<CudaAddress>(request.row);
  CudaAddress done = reinterpret_cast<CudaAddress>(request.scratch);
  CudaAddress parts = done + kCounterBytes;
  std::array<void*, 7> arguments = {&*type, &data, &*layout, &elements, &row, &parts, &done};
  return MSPROBE_CUDA_CALL(api, cuLaunchKernel, kernel.function, static_cast<unsigned>(blocks), 1,
                           1, static_cast<unsigned>(kThreads), 1, 1, 0, request.stream,
                           arguments.data(), nullptr);
}

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
