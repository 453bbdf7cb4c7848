// A libcuda.so.1 over the fake machine. FAKE_CUDA_FAIL injects failures (see fake::Enter).
#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>
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

// As the kernel that statistics.cu describes, for int32 and float32, which are enough to see what
// it was asked for. The machine's memory is written when the stream gets there.
struct KernelLayout {
  uint64_t sizes[6];
  int64_t strides[6];
  int dims;
  int in_vectors;
};

void RunStatistics(int type, const void* data, KernelLayout layout, uint64_t elements,
                   const void* row) {
  double high = -std::numeric_limits<double>::infinity();
  double low = -high;
  double sum = 0;
  double squares = 0;
  const uint64_t in_vector = layout.in_vectors != 0 ? 4 : 1;
  for (uint64_t i = 0; i < elements; ++i) {
    uint64_t rest = i / in_vector;
    auto offset = static_cast<int64_t>(i % in_vector);
    for (int dim = layout.dims - 1; dim >= 0; --dim) {
      offset += static_cast<int64_t>(rest % layout.sizes[dim]) * layout.strides[dim];
      rest /= layout.sizes[dim];
    }
    const std::byte* at = fake::Inside(static_cast<const char*>(data) + offset * 4, 4);
    float number = 0;
    int32_t integer = 0;
    std::memcpy(&number, at, 4);
    std::memcpy(&integer, at, 4);
    const double value = type == 0 ? static_cast<double>(number) : static_cast<double>(integer);
    high = std::max(high, value);
    low = std::min(low, value);
    sum += value;
    squares += value * value;
  }
  const double numbers[] = {high, low, sum / static_cast<double>(elements), std::sqrt(squares)};
  std::memcpy(fake::Inside(row, sizeof numbers), numbers, sizeof numbers);
}

FAKE_EXPORT int cuModuleLoadData(void** module, const void* image) {
  BEGIN();
  const std::string_view text(static_cast<const char*>(image));
  const bool is_whole = text.find(".version") != std::string_view::npos &&
                        text.find(".visible .entry msprobe_statistics(") != std::string_view::npos;
  *module = const_cast<void*>(image);
  return Checked(is_whole);
}

FAKE_EXPORT int cuModuleGetFunction(void** function, void* module, const char* name) {
  BEGIN();
  *function = module;
  return Checked(std::string_view(name) == "msprobe_statistics");
}

FAKE_EXPORT int cuLaunchKernel(void*, unsigned blocks, unsigned, unsigned, unsigned threads,
                               unsigned, unsigned, unsigned, void* stream, void** arguments,
                               void**) {
  BEGIN();
  const auto argument = [arguments](size_t i, auto value) {
    std::memcpy(&value, arguments[i], sizeof value);
    return value;
  };
  const int type = argument(0, int{});
  const auto data = argument(1, static_cast<void*>(nullptr));
  const auto layout = argument(2, KernelLayout());
  const auto elements = argument(3, uint64_t{});
  const auto row = argument(4, static_cast<void*>(nullptr));
  const auto parts = argument(5, static_cast<void*>(nullptr));
  const auto done = argument(6, static_cast<void*>(nullptr));
  if (threads != 256 || blocks == 0 || blocks > 1024 || (type != 0 && type != 9) ||
      fake::Inside(parts, blocks * size_t{40}) == nullptr || fake::Inside(done, 4) == nullptr) {
    return kInvalidValue;
  }
  fake::Run(static_cast<fake::Stream*>(stream),
            [=] { RunStatistics(type, data, layout, elements, row); });
  return 0;
}

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
