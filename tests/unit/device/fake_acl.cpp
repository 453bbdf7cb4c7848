// A libascendcl.so over the fake machine. FAKE_ACL_FAIL injects failures (see fake::Enter),
// FAKE_ACL_SOC names the chip. Built with FAKE_OLD_CANN it lacks what CANN has had for a few years
// only.
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <iterator>
#include <string>

#include "tests/unit/device/fake_machine.h"

#define FAKE_EXPORT extern "C" __attribute__((visibility("default")))

namespace fake = msprobe::fake;

namespace {

constexpr int kInvalid = 100000;
constexpr int kUninitialised = 100001;
constexpr int kRepeatInitialise = 100002;
constexpr int kInvalidDumpConfig = 100009;
constexpr int kDumpNotRun = 100045;
constexpr int kNoContext = 107002;
constexpr int kLost = 507018;

// Of which machine (see fake::ResetCount) the runtime, and its dump, are initialised.
uint64_t initialised_for = 0;
uint64_t dump_initialised_for = 0;
thread_local std::string message;
thread_local std::string given_message;

int Fail(int code, const char* function, const char* text) {
  message = std::string("E") + std::to_string(code) + ": " + function + "\n\t" + text;
  return code;
}

// What every call begins with; `context`: it needs a device on this thread.
int Begin(const char* function, bool context = true) {
  if (const int injected = fake::Enter("FAKE_ACL_FAIL", function); injected != 0) {
    return Fail(injected, function, "injected");
  }
  if (initialised_for != fake::ResetCount()) {
    return Fail(kUninitialised, function, "aclInit was not called");
  }
  if (context && fake::current_device < 0) {
    return Fail(kNoContext, function, "no context");
  }
  if (context && fake::Lost()) {
    return Fail(kLost, function, "device lost");
  }
  return 0;
}

#define BEGIN(...)                                                                \
  do {                                                                            \
    if (const int code = Begin(__func__ __VA_OPT__(, ) __VA_ARGS__); code != 0) { \
      return code;                                                                \
    }                                                                             \
  } while (false)

int Checked(bool good, const char* function) {
  return good ? 0 : Fail(kInvalid, function, "invalid parameter");
}

}  // namespace

FAKE_EXPORT int aclInit(const char*) {
  if (const int injected = fake::Enter("FAKE_ACL_FAIL", __func__); injected != 0) {
    return Fail(injected, __func__, "injected");
  }
  if (initialised_for == fake::ResetCount()) {
    return kRepeatInitialise;
  }
  initialised_for = fake::ResetCount();
  return 0;
}

FAKE_EXPORT int aclFinalize() {
  BEGIN(false);
  initialised_for = 0;
  dump_initialised_for = 0;
  return 0;
}

FAKE_EXPORT const char* aclGetRecentErrMsg() {
  given_message.swap(message);
  message.clear();
  return given_message.empty() ? nullptr : given_message.c_str();
}

FAKE_EXPORT int aclrtGetDeviceCount(uint32_t* count) {
  BEGIN(false);
  *count = static_cast<uint32_t>(fake::DeviceCount());
  return 0;
}

FAKE_EXPORT int aclrtSetDevice(int32_t device) {
  BEGIN(false);
  if (device < 0 || device >= fake::DeviceCount()) {
    return Fail(107001, __func__, "no such device");
  }
  fake::current_device = device;
  return 0;
}

FAKE_EXPORT int aclrtGetDevice(int32_t* device) {
  BEGIN();
  *device = fake::current_device;
  return 0;
}

// A context is its device's number, counted from 1.
FAKE_EXPORT int aclrtGetCurrentContext(void** context) {
  BEGIN();
  *context = reinterpret_cast<void*>(static_cast<intptr_t>(fake::current_device) + 1);
  return 0;
}

FAKE_EXPORT int aclrtSetCurrentContext(void* context) {
  BEGIN(false);
  fake::current_device = static_cast<int>(reinterpret_cast<intptr_t>(context)) - 1;
  return 0;
}

FAKE_EXPORT int aclrtSynchronizeDevice() {
  BEGIN();
  fake::SynchronizeAll();
  return 0;
}

FAKE_EXPORT int aclrtMallocHost(void** memory, size_t bytes) {
  BEGIN();
  *memory = fake::HostAllocate(bytes);
  return 0;
}

FAKE_EXPORT int aclrtFreeHost(void* memory) {
  BEGIN();
  return Checked(fake::HostFree(memory), __func__);
}

FAKE_EXPORT int aclrtMalloc(void** memory, size_t bytes, int) {
  BEGIN();
  *memory = fake::DeviceAllocate(bytes);
  return 0;
}

FAKE_EXPORT int aclrtFree(void* memory) {
  BEGIN();
  return Checked(fake::DeviceFree(memory), __func__);
}

FAKE_EXPORT int aclrtMemcpyAsync(void* target, size_t target_bytes, const void* source,
                                 size_t bytes, int kind, void* stream) {
  BEGIN();
  constexpr int kDeviceToHost = 2;
  return Checked(
      kind == kDeviceToHost && bytes <= target_bytes &&
          fake::QueueCopyToHost(target, source, bytes, static_cast<fake::Stream*>(stream)),
      __func__);
}

FAKE_EXPORT int aclrtCreateStream(void** stream) {
  BEGIN();
  *stream = fake::NewStream();
  return 0;
}

FAKE_EXPORT int aclrtDestroyStream(void* stream) {
  BEGIN();
  return Checked(fake::DestroyStream(static_cast<fake::Stream*>(stream)), __func__);
}

FAKE_EXPORT int aclrtSynchronizeStream(void* stream) {
  BEGIN();
  fake::Synchronize(static_cast<fake::Stream*>(stream));
  return 0;
}

FAKE_EXPORT int aclrtCreateEvent(void** event) {
  BEGIN();
  *event = fake::NewEvent();
  return 0;
}

FAKE_EXPORT int aclrtDestroyEvent(void* event) {
  BEGIN();
  return Checked(fake::DestroyEvent(static_cast<fake::Event*>(event)), __func__);
}

FAKE_EXPORT int aclrtRecordEvent(void* event, void* stream) {
  BEGIN();
  fake::Record(static_cast<fake::Event*>(event), static_cast<fake::Stream*>(stream));
  return 0;
}

FAKE_EXPORT int aclrtStreamWaitEvent(void* stream, void* event) {
  BEGIN();
  fake::MakeStreamWait(static_cast<fake::Stream*>(stream), static_cast<fake::Event*>(event));
  return 0;
}

FAKE_EXPORT int aclrtQueryEventStatus(void* event, int* status) {
  BEGIN();
  *status = fake::Reached(static_cast<fake::Event*>(event)) ? 1 : 0;
  return 0;
}

FAKE_EXPORT int aclrtSynchronizeEvent(void* event) {
  BEGIN();
  fake::Synchronize(static_cast<fake::Event*>(event));
  return 0;
}

FAKE_EXPORT const char* aclrtGetSocName() {
  const char* chosen = std::getenv("FAKE_ACL_SOC");
  return chosen == nullptr ? "Ascend910B3" : chosen;
}

FAKE_EXPORT int aclmdlInitDump() {
  BEGIN();
  if (dump_initialised_for == fake::ResetCount()) {
    return Fail(kRepeatInitialise, __func__, "the dump is initialised");
  }
  dump_initialised_for = fake::ResetCount();
  return 0;
}

FAKE_EXPORT int aclmdlSetDump(const char* config_path) {
  BEGIN();
  if (dump_initialised_for != fake::ResetCount()) {
    return Fail(kDumpNotRun, __func__, "the dump is not initialised");
  }
  std::ifstream file(config_path);
  const std::string text{std::istreambuf_iterator<char>(file), {}};
  const bool good =
      text.find("\"dump\"") != std::string::npos && text.find("\"dump_path\"") != std::string::npos;
  return good ? 0 : Fail(kInvalidDumpConfig, __func__, "no dump.dump_path");
}

FAKE_EXPORT int aclmdlFinalizeDump() {
  BEGIN();
  if (dump_initialised_for != fake::ResetCount()) {
    return Fail(kDumpNotRun, __func__, "the dump is not initialised");
  }
  dump_initialised_for = 0;
  return 0;
}

#ifndef FAKE_OLD_CANN

FAKE_EXPORT int aclrtGetVersion(int32_t* major, int32_t* minor, int32_t* patch) {
  BEGIN(false);
  *major = 1;
  *minor = 17;
  *patch = 0;
  return 0;
}

FAKE_EXPORT int aclrtGetMemInfo(int attribute, size_t* free_bytes, size_t* total_bytes) {
  BEGIN();
  constexpr int kHbm = 1;
  *total_bytes = size_t{64} << 30U;
  *free_bytes = size_t{60} << 30U;
  return Checked(attribute == kHbm, __func__);
}

FAKE_EXPORT int aclrtQueryDeviceStatus(int32_t, int* status) {
  BEGIN(false);
  *status = fake::Lost() ? 1 : 0;
  return 0;
}

FAKE_EXPORT int aclmdlRICaptureGetInfo(void*, int* status, void**) {
  BEGIN();
  *status = fake::Capturing() ? 1 : 0;
  return 0;
}

// Asynchronous, as the real one.
FAKE_EXPORT int aclrtGetOverflowStatus(void* output, size_t bytes, void* stream) {
  BEGIN();
  std::byte* const inside = fake::Inside(output, bytes);
  if (inside == nullptr || bytes != 64) {
    return Checked(false, __func__);
  }
  fake::Run(static_cast<fake::Stream*>(stream), [inside] {
    std::memset(inside, 0, 64);
    inside[40] = fake::overflow_status() ? std::byte{1} : std::byte{0};
  });
  return 0;
}

FAKE_EXPORT int aclrtResetOverflowStatus(void* stream) {
  BEGIN();
  fake::Run(static_cast<fake::Stream*>(stream), [] { fake::ClearOverflow(); });
  return 0;
}

static int saturation_mode = 1;

FAKE_EXPORT int aclrtGetDeviceSatMode(int* mode) {
  BEGIN();
  *mode = saturation_mode;
  return 0;
}

FAKE_EXPORT int aclrtSetDeviceSatMode(int mode) {
  BEGIN();
  if (mode < 0 || mode > 1) {
    return Checked(false, __func__);
  }
  saturation_mode = mode;
  return 0;
}

FAKE_EXPORT int aclrtMemsetAsync(void* memory, size_t memory_bytes, int32_t value, size_t bytes,
                                 void* stream) {
  BEGIN();
  std::byte* const inside = bytes <= memory_bytes ? fake::Inside(memory, bytes) : nullptr;
  if (inside == nullptr) {
    return Checked(false, __func__);
  }
  fake::Run(static_cast<fake::Stream*>(stream),
            [inside, value, bytes] { std::memset(inside, value, bytes); });
  return 0;
}

FAKE_EXPORT int acldumpRegCallback(fake::ChunkCallback callback, int32_t flag) {
  BEGIN(false);
  if (flag != 0) {
    return Checked(false, __func__);
  }
  fake::SetChunkCallback(callback);
  return 0;
}

FAKE_EXPORT void acldumpUnregCallback() {
  (void)fake::Enter("FAKE_ACL_FAIL", __func__);
  fake::SetChunkCallback(nullptr);
}

#endif  // FAKE_OLD_CANN
