// A libcuda.so.1 over the fake machine. FAKE_CUDA_FAIL injects failures (see fake::Enter).
#include <cstring>
#include <string_view>
#include <vector>

#include "tests/unit/device/fake_machine.h"

#define FAKE_EXPORT extern "C" __attribute__((visibility("default")))

namespace fake = msprobe::fake;

namespace {

constexpr int kInvalidValue = 1;
constexpr int kNotInitialised = 3;
constexpr int kNoDevice = 100;
constexpr int kInvalidDevice = 101;
constexpr int kInvalidContext = 201;
constexpr int kNotReady = 600;
constexpr int kLaunchFailed = 719;

uint64_t initialised_for = 0;            // the machine, see fake::ResetCount
thread_local std::vector<int> contexts;  // devices, innermost last

int Begin(const char* function, bool context = true) {
  if (const int injected = fake::Enter("FAKE_CUDA_FAIL", function); injected != 0) {
    return injected;
  }
  if (initialised_for != fake::ResetCount()) {
    return kNotInitialised;
  }
  if (context && contexts.empty()) {
    return kInvalidContext;
  }
  return context && fake::Lost() ? kLaunchFailed : 0;
}

#define BEGIN(...)                                                                \
  do {                                                                            \
    if (const int code = Begin(__func__ __VA_OPT__(, ) __VA_ARGS__); code != 0) { \
      return code;                                                                \
    }                                                                             \
  } while (false)

int Checked(bool good) { return good ? 0 : kInvalidValue; }

}  // namespace

FAKE_EXPORT int cuInit(unsigned) {
  if (const int injected = fake::Enter("FAKE_CUDA_FAIL", __func__); injected != 0) {
    return injected;
  }
  initialised_for = fake::ResetCount();
  return fake::DeviceCount() > 0 ? 0 : kNoDevice;
}

FAKE_EXPORT int cuDriverGetVersion(int* version) {
  *version = 12040;
  return 0;
}

FAKE_EXPORT int cuDeviceGetCount(int* count) {
  BEGIN(false);
  *count = fake::DeviceCount();
  return 0;
}

FAKE_EXPORT int cuDeviceGet(int* device, int ordinal) {
  BEGIN(false);
  if (ordinal < 0 || ordinal >= fake::DeviceCount()) {
    return kInvalidDevice;
  }
  *device = ordinal;
  return 0;
}

FAKE_EXPORT int cuDeviceGetName(char* name, int bytes, int) {
  BEGIN(false);
  std::strncpy(name, "Fake GPU", static_cast<size_t>(bytes));
  return 0;
}

FAKE_EXPORT int cuDevicePrimaryCtxRetain(void** context, int device) {
  BEGIN(false);
  *context = reinterpret_cast<void*>(static_cast<intptr_t>(device) + 1);
  return 0;
}

FAKE_EXPORT int cuDevicePrimaryCtxRelease_v2(int) {
  BEGIN(false);
  return 0;
}

FAKE_EXPORT int cuCtxPushCurrent_v2(void* context) {
  BEGIN(false);
  contexts.push_back(static_cast<int>(reinterpret_cast<intptr_t>(context)) - 1);
  return 0;
}

FAKE_EXPORT int cuCtxPopCurrent_v2(void** context) {
  BEGIN(false);
  if (contexts.empty()) {
    return kInvalidContext;
  }
  *context = reinterpret_cast<void*>(static_cast<intptr_t>(contexts.back()) + 1);
  contexts.pop_back();
  return 0;
}

FAKE_EXPORT int cuCtxSynchronize() {
  BEGIN();
  fake::SynchronizeAll();
  return 0;
}

FAKE_EXPORT int cuMemGetInfo_v2(size_t* free_bytes, size_t* total_bytes) {
  BEGIN();
  *free_bytes = size_t{20} << 30U;
  *total_bytes = size_t{24} << 30U;
  return 0;
}

FAKE_EXPORT int cuMemHostAlloc(void** memory, size_t bytes, unsigned) {
  BEGIN();
  *memory = fake::HostAllocate(bytes);
  return 0;
}

FAKE_EXPORT int cuMemFreeHost(void* memory) {
  BEGIN();
  return Checked(fake::HostFree(memory));
}

FAKE_EXPORT int cuMemcpyDtoHAsync_v2(void* target, unsigned long long source, size_t bytes,
                                     void* stream) {
  BEGIN();
  return Checked(fake::QueueCopyToHost(target, reinterpret_cast<const void*>(source), bytes,
                                       static_cast<fake::Stream*>(stream)));
}

FAKE_EXPORT int cuStreamCreate(void** stream, unsigned flags) {
  BEGIN();
  constexpr unsigned kNonBlocking = 1;
  if (flags != kNonBlocking) {
    return kInvalidValue;
  }
  *stream = fake::NewStream();
  return 0;
}

FAKE_EXPORT int cuStreamDestroy_v2(void* stream) {
  BEGIN();
  return Checked(fake::DestroyStream(static_cast<fake::Stream*>(stream)));
}

FAKE_EXPORT int cuStreamSynchronize(void* stream) {
  BEGIN();
  fake::Synchronize(static_cast<fake::Stream*>(stream));
  return 0;
}

FAKE_EXPORT int cuStreamWaitEvent(void* stream, void* event, unsigned) {
  BEGIN();
  fake::MakeStreamWait(static_cast<fake::Stream*>(stream), static_cast<fake::Event*>(event));
  return 0;
}

FAKE_EXPORT int cuStreamIsCapturing(void*, int* status) {
  BEGIN();
  *status = fake::Capturing() ? 1 : 0;
  return 0;
}

FAKE_EXPORT int cuEventCreate(void** event, unsigned) {
  BEGIN();
  *event = fake::NewEvent();
  return 0;
}

FAKE_EXPORT int cuEventDestroy_v2(void* event) {
  BEGIN();
  return Checked(fake::DestroyEvent(static_cast<fake::Event*>(event)));
}

FAKE_EXPORT int cuEventRecord(void* event, void* stream) {
  BEGIN();
  fake::Record(static_cast<fake::Event*>(event), static_cast<fake::Stream*>(stream));
  return 0;
}

FAKE_EXPORT int cuEventQuery(void* event) {
  BEGIN();
  return fake::Reached(static_cast<fake::Event*>(event)) ? 0 : kNotReady;
}

FAKE_EXPORT int cuEventSynchronize(void* event) {
  BEGIN();
  fake::Synchronize(static_cast<fake::Event*>(event));
  return 0;
}

FAKE_EXPORT int cuGetErrorName(int code, const char** name) {
  *name = code == kNoDevice       ? "CUDA_ERROR_NO_DEVICE"
          : code == kLaunchFailed ? "CUDA_ERROR_LAUNCH_FAILED"
                                  : "CUDA_ERROR_UNKNOWN";
  return 0;
}

FAKE_EXPORT int cuGetErrorString(int code, const char** text) {
  *text = code == kNoDevice ? "no CUDA-capable device is detected" : "something failed";
  return 0;
}
