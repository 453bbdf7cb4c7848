// The part of the CUDA driver API that we call, in declarations of our own, and its functions as
// found in the libcuda.so.1 of this machine. Every process that uses CUDA has this library,
// whichever runtime it was built with, and its interface is stable.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string_view>
#include <type_traits>

#include "src/device/library.h"

namespace msprobe::device {

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

}  // namespace msprobe::device
