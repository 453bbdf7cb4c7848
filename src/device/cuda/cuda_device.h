// CUDA devices through the driver API of libcuda.so.1. Works in the primary context of a device,
// the one that frameworks use.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <map>
#include <mutex>
#include <string_view>
#include <type_traits>

#include "src/device/device.h"
#include "src/device/streamed_runtime.h"

namespace msprobe::device {

// The part of the CUDA driver API that we call, in declarations of our own, and its functions as
// found in the libcuda.so.1 of this machine. Every process that uses CUDA has this library,
// whichever runtime it was built with, and its interface is stable.

using CudaAddress = unsigned long long;  // CUdeviceptr

inline constexpr int kCudaSuccess = 0;
inline constexpr int kCudaNotReady = 600;
inline constexpr unsigned kCudaHostPortable = 1;        // CU_MEMHOSTALLOC_PORTABLE
inline constexpr unsigned kCudaStreamNonBlocking = 1;   // CU_STREAM_NON_BLOCKING
inline constexpr unsigned kCudaEventDisableTiming = 2;  // CU_EVENT_DISABLE_TIMING
inline constexpr int kCudaCaptureNone = 0;              // CUstreamCaptureStatus

enum class CudaFeature : uint8_t {
  kCore,
  kCopies,
  kMessages,
  kMemoryInfo,
  kGraphCapture,
  kKernels
};

// X(feature, name, signature). Contexts, streams and events are void*; devices are int.
#define MSPROBE_CUDA_FUNCTIONS(X)                                                                  \
  X(kCore, cuInit, int(unsigned flags))                                                            \
  X(kCore, cuDriverGetVersion, int(int* version))                                                  \
  X(kCore, cuDeviceGetCount, int(int* count))                                                      \
  X(kCore, cuDeviceGet, int(int* device, int ordinal))                                             \
  X(kCore, cuDeviceGetName, int(char* name, int bytes, int device))                                \
  X(kCore, cuDevicePrimaryCtxRetain, int(void** context, int device))                              \
  X(kCore, cuDevicePrimaryCtxRelease_v2, int(int device))                                          \
  X(kCore, cuCtxPushCurrent_v2, int(void* context))                                                \
  X(kCore, cuCtxPopCurrent_v2, int(void** context))                                                \
  X(kCore, cuCtxSynchronize, int())                                                                \
  X(kCopies, cuMemHostAlloc, int(void** memory, size_t bytes, unsigned flags))                     \
  X(kCopies, cuMemFreeHost, int(void* memory))                                                     \
  X(kCopies, cuMemcpyDtoHAsync_v2,                                                                 \
    int(void* target, CudaAddress source, size_t bytes, void* stream))                             \
  X(kCopies, cuStreamCreate, int(void** stream, unsigned flags))                                   \
  X(kCopies, cuStreamDestroy_v2, int(void* stream))                                                \
  X(kCopies, cuStreamSynchronize, int(void* stream))                                               \
  X(kCopies, cuStreamWaitEvent, int(void* stream, void* event, unsigned flags))                    \
  X(kCopies, cuEventCreate, int(void** event, unsigned flags))                                     \
  X(kCopies, cuEventDestroy_v2, int(void* event))                                                  \
  X(kCopies, cuEventRecord, int(void* event, void* stream))                                        \
  X(kCopies, cuEventQuery, int(void* event))                                                       \
  X(kCopies, cuEventSynchronize, int(void* event))                                                 \
  X(kMessages, cuGetErrorName, int(int code, const char** name))                                   \
  X(kMessages, cuGetErrorString, int(int code, const char** text))                                 \
  X(kMemoryInfo, cuMemGetInfo_v2, int(size_t * free_bytes, size_t * total_bytes))                  \
  X(kGraphCapture, cuStreamIsCapturing, int(void* stream, int* status))                            \
  X(kKernels, cuModuleLoadData, int(void** module, const void* image))                             \
  X(kKernels, cuModuleGetFunction, int(void** function, void* module, const char* name))           \
  X(kKernels, cuLaunchKernel,                                                                      \
    int(void* function, unsigned grid_x, unsigned grid_y, unsigned grid_z, unsigned block_x,       \
        unsigned block_y, unsigned block_z, unsigned shared_bytes, void* stream, void** arguments, \
        void** extra))

struct CudaApi {
  CudaApi();
  void Load(Library opened);

  Status Require(CudaFeature feature) const {
    return features.Require(library, static_cast<size_t>(feature));
  }

  // Ok for 0; else kDevice with function, number, its name and what it means.
  Status Check(int code, std::string_view function) const;

#define MSPROBE_CUDA_DECLARE(feature, name, ...) std::add_pointer_t<__VA_ARGS__> name = nullptr;
  MSPROBE_CUDA_FUNCTIONS(MSPROBE_CUDA_DECLARE)
#undef MSPROBE_CUDA_DECLARE

  Library library;
  FeatureTable features;
};

// Check(code, name) with the name of the called function.
#define MSPROBE_CUDA_CALL(api, function, ...) (api).Check((api).function(__VA_ARGS__), #function)

// Statistics of tensors by a kernel of our own (statistics.cu), loaded into a context when it is
// first needed.

class CudaStatistics {
 public:
  // The context of request.device is the current one of this thread. kUnsupported: no kernel for
  // this dtype or layout, or the driver cannot load it (older than CUDA 11.7).
  Status Queue(const CudaApi& api, const StatisticsRequest& request);

 private:
  struct Kernel {
    Status status;
    void* function = nullptr;
  };
  const Kernel& KernelOf(const CudaApi& api, int32_t device);

  std::mutex mutex_;
  std::map<int32_t, Kernel> kernels_;  // by device; of its primary context, which outlives us
};

class CudaRuntime final : public StreamedRuntime {
 public:
  explicit CudaRuntime(Loading loading) : loading_(loading) {}
  ~CudaRuntime() override;

  Kind kind() const override { return Kind::kCuda; }
  Status Ready() override;
  Inventory Describe() override;
  Result<bool> Overflowed(int32_t device, Stream stream) override;
  Status ResetOverflow(int32_t device, Stream stream) override;
  Result<OverflowMode> GetOverflowMode(int32_t device) override;
  Status SetOverflowMode(int32_t device, OverflowMode mode) override;
  Result<KernelDump*> GetKernelDump() override;
  Status QueueStatistics(const StatisticsRequest& request) override;

 private:
  Result<Scope> EnterDevice(int32_t device) override;
  void LeaveDevice(void* restore) override;
  Result<void*> AllocatePinned(size_t bytes) override;
  void FreePinned(void* memory) override;
  Result<Stream> CreateStream() override;
  void DestroyStream(Stream stream) override;
  Status SynchronizeStream(Stream stream) override;
  Status SynchronizeCurrentDevice() override;
  Result<bool> IsCapturing(Stream stream) override;
  Result<Event> CreateEvent() override;
  void DestroyEvent(Event event) override;
  Status RecordEvent(Event event, Stream stream) override;
  Status MakeStreamWait(Stream stream, Event event) override;
  Result<bool> EventReached(Event event) override;
  Status SynchronizeEvent(Event event) override;
  Status QueueCopyToHost(const CopyRequest& request, Stream stream) override;

  struct PrimaryContext {
    int device = 0;
    void* context = nullptr;
  };

  Status Open();  // ready_mutex_ is held
  Result<PrimaryContext> RetainContext(int32_t index);
  DeviceInfo DescribeDevice(int32_t index);

  const Loading loading_;
  std::mutex ready_mutex_;
  std::atomic<bool> ready_ = false;
  int device_count_ = 0;
  CudaApi api_;
  CudaStatistics statistics_;
  std::mutex contexts_mutex_;
  std::map<int32_t, PrimaryContext> contexts_;  // by index
};

}  // namespace msprobe::device
