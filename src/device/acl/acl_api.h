// The part of CANN's AscendCL that we call, in declarations of our own, and its functions as found
// in the libascendcl.so of this machine. All functions but two return 0 for success.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <type_traits>
#include <vector>

#include "src/device/library.h"

namespace msprobe::device {

// A piece of a file that the runtime hands to the callback. Natural alignment; the bytes begin
// inside the padding at the end of the struct.
struct AclDumpChunk {
  char file_name[4096];  // ended by NUL: the file the runtime would have written
  uint32_t buffer_bytes;
  uint32_t is_last_chunk;
  int64_t offset;  // -1: behind what came before
  int32_t flag;
  uint8_t buffer[1];  // really buffer_bytes
};
static_assert(offsetof(AclDumpChunk, buffer) == 4116 && sizeof(AclDumpChunk) == 4120);

using AclDumpCallback = int32_t (*)(const AclDumpChunk* chunk, int32_t length);

inline constexpr int kAclSuccess = 0;
inline constexpr int kAclRepeatInitialize = 100002;
inline constexpr int kAclDumpAlreadyRun = 100044;
inline constexpr int kAclCopyDeviceToHost = 2;  // aclrtMemcpyKind
inline constexpr int kAclMallocNormalOnly = 2;  // aclrtMemMallocPolicy
inline constexpr int kAclHbmMemory = 1;         // aclrtMemAttr
inline constexpr int kAclEventComplete = 1;     // aclrtEventRecordedStatus
inline constexpr int kAclDeviceAbnormal = 1;    // aclrtDeviceStatus
inline constexpr int kAclCaptureNone = 0;       // aclmdlRICaptureStatus
inline constexpr size_t kAclOverflowStatusBytes = 64;

enum class AclFeature : uint8_t {
  kCore,  // without these there are no devices
  kCopies,
  kMessages,
  kVersion,
  kNames,
  kMemoryInfo,
  kDeviceStatus,
  kGraphCapture,
  kOverflow,
  kOverflowMode,
  kScratch,
  kKernelDump,
  kDumpCallback,
  kDumpUnregister,
};

// X(feature, name, signature). Streams, events and contexts are void*.
#define MSPROBE_ACL_FUNCTIONS(X)                                                               \
  X(kCore, aclInit, int(const char* config_path))                                              \
  X(kCore, aclFinalize, int())                                                                 \
  X(kCore, aclrtGetDeviceCount, int(uint32_t * count))                                         \
  X(kCore, aclrtSetDevice, int(int32_t device))                                                \
  X(kCore, aclrtGetDevice, int(int32_t * device))                                              \
  X(kCore, aclrtGetCurrentContext, int(void** context))                                        \
  X(kCore, aclrtSetCurrentContext, int(void* context))                                         \
  X(kCore, aclrtSynchronizeDevice, int())                                                      \
  X(kCopies, aclrtMallocHost, int(void** memory, size_t bytes))                                \
  X(kCopies, aclrtFreeHost, int(void* memory))                                                 \
  X(kCopies, aclrtMemcpyAsync,                                                                 \
    int(void* target, size_t target_bytes, const void* source, size_t bytes, int kind,         \
        void* stream))                                                                         \
  X(kCopies, aclrtCreateStream, int(void** stream))                                            \
  X(kCopies, aclrtDestroyStream, int(void* stream))                                            \
  X(kCopies, aclrtSynchronizeStream, int(void* stream))                                        \
  X(kCopies, aclrtCreateEvent, int(void** event))                                              \
  X(kCopies, aclrtDestroyEvent, int(void* event))                                              \
  X(kCopies, aclrtRecordEvent, int(void* event, void* stream))                                 \
  X(kCopies, aclrtStreamWaitEvent, int(void* stream, void* event))                             \
  X(kCopies, aclrtQueryEventStatus, int(void* event, int* status))                             \
  X(kCopies, aclrtSynchronizeEvent, int(void* event))                                          \
  X(kMessages, aclGetRecentErrMsg, const char*())                                              \
  X(kVersion, aclrtGetVersion, int(int32_t * major, int32_t * minor, int32_t * patch))         \
  X(kNames, aclrtGetSocName, const char*())                                                    \
  X(kMemoryInfo, aclrtGetMemInfo, int(int attribute, size_t* free_bytes, size_t* total_bytes)) \
  X(kDeviceStatus, aclrtQueryDeviceStatus, int(int32_t device, int* status))                   \
  X(kGraphCapture, aclmdlRICaptureGetInfo, int(void* stream, int* status, void** graph))       \
  X(kOverflow, aclrtMalloc, int(void** memory, size_t bytes, int policy))                      \
  X(kOverflow, aclrtFree, int(void* memory))                                                   \
  X(kOverflow, aclrtGetOverflowStatus, int(void* output, size_t bytes, void* stream))          \
  X(kOverflow, aclrtResetOverflowStatus, int(void* stream))                                    \
  X(kOverflowMode, aclrtGetDeviceSatMode, int(int* mode))                                      \
  X(kOverflowMode, aclrtSetDeviceSatMode, int(int mode))                                       \
  X(kScratch, aclrtMemsetAsync,                                                                \
    int(void* memory, size_t memory_bytes, int32_t value, size_t bytes, void* stream))         \
  X(kKernelDump, aclmdlInitDump, int())                                                        \
  X(kKernelDump, aclmdlSetDump, int(const char* config_path))                                  \
  X(kKernelDump, aclmdlFinalizeDump, int())

struct AclApi {
  AclApi();

  // Every function of `opened`, and the dump callback's from wherever it lives.
  void Load(Library opened);

  Status Require(AclFeature feature) const {
    return features.Require(library, static_cast<size_t>(feature));
  }

  // Ok for 0; else kDevice with function, number, its name and what the runtime says about it. To
  // be called at once and on the thread of the failed call, whose message the runtime keeps.
  Status Check(int code, std::string_view function) const;

#define MSPROBE_ACL_DECLARE(feature, name, ...) std::add_pointer_t<__VA_ARGS__> name = nullptr;
  MSPROBE_ACL_FUNCTIONS(MSPROBE_ACL_DECLARE)
#undef MSPROBE_ACL_DECLARE
  std::add_pointer_t<int(AclDumpCallback callback, int32_t flag)> acldumpRegCallback = nullptr;
  std::add_pointer_t<void()> acldumpUnregCallback = nullptr;

  Library library;
  FeatureTable features;
};

// Check(code, name) with the name of the called function.
#define MSPROBE_ACL_CALL(api, function, ...) (api).Check((api).function(__VA_ARGS__), #function)

}  // namespace msprobe::device
