// Accelerators as the rest of msprobe sees them: what is there, memory that copies can run into,
// copies queued behind the work that produces their data, and what only some of them can do. No
// header of a vendor is needed to build, and no library of one to run: what is missing takes away
// its own features, by name.
//
// All functions may be called from any thread. After fork() a device must not be touched: in the
// child everything here fails with kDevice and frees nothing.
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "msprobe/dtype.h"
#include "msprobe/status.h"

namespace msprobe::device {

// The numbers are those of MSPROBE_DEVICE_* in msprobe/capture.h.
enum class Kind : uint8_t { kHost = 0, kAcl = 1, kCuda = 2 };
std::string_view KindName(Kind kind);  // "host", "acl", "cuda"

// A vendor's stream (aclrtStream, CUstream). Null is the default stream of the device.
using Stream = void*;

struct DeviceInfo {
  int32_t index = 0;
  std::string name;          // "Ascend910B3"; empty: not known
  uint64_t free_bytes = 0;   // of its memory
  uint64_t total_bytes = 0;  // 0: not known
  std::string trouble;       // why it cannot be used, or why something above is not known
};

// The features of one runtime on this host.
struct Inventory {
  Status status;        // ok, or why there is no device of this kind
  std::string library;  // the file that was opened; empty: none
  std::string version;  // of the runtime; empty: not known
  std::vector<DeviceInfo> devices;
  std::vector<std::string> limitations;  // a sentence per feature that is missing
};

class Runtime;

// Host memory that devices copy into without a detour (page-locked where the runtime can). Must not
// outlive its runtime.
class HostBuffer {
 public:
  HostBuffer() = default;
  HostBuffer(Runtime* runtime, int32_t device, void* memory, size_t capacity)
      : runtime_(runtime),
        device_(device),
        memory_(static_cast<std::byte*>(memory)),
        capacity_(capacity) {}
  HostBuffer(HostBuffer&& other) noexcept { *this = std::move(other); }
  HostBuffer& operator=(HostBuffer&& other) noexcept;
  HostBuffer(const HostBuffer&) = delete;
  HostBuffer& operator=(const HostBuffer&) = delete;
  ~HostBuffer();

  std::byte* data() { return memory_; }
  size_t capacity() const { return capacity_; }
  std::span<std::byte> bytes() { return {memory_, capacity_}; }

 private:
  Runtime* runtime_ = nullptr;
  int32_t device_ = 0;
  std::byte* memory_ = nullptr;
  size_t capacity_ = 0;
};

struct CopyRequest {
  int32_t device = 0;
  const void* source = nullptr;  // device memory
  size_t bytes = 0;
  std::byte* target = nullptr;  // inside a HostBuffer of the same runtime
  // The copy waits for what was queued on this stream before the call.
  Stream producer = nullptr;
  // Work that is queued on `producer` after the call waits for the copy: changes in place and reuse
  // of the memory cannot overtake it. Without, the caller keeps the memory as it is until the copy
  // is done.
  bool hold_producer = true;
};

// Maximum, minimum, mean and norm of a tensor, reduced where it lies.
struct StatisticsRequest {
  int32_t device = 0;
  const void* source = nullptr;  // device memory, the first element
  DType dtype = DType::kFloat32;
  std::span<const int64_t> shape;    // no size is 0
  std::span<const int64_t> strides;  // in elements, >= 0; empty: row-major
  Stream stream = nullptr;           // what produced the tensor was queued here
  double* row = nullptr;             // device memory that gets the four as float64
  // Device memory of kStatisticsScratchBytes, zero before its first use, then for this stream
  // alone.
  void* scratch = nullptr;
};
inline constexpr size_t kStatisticsScratchBytes = size_t{64} << 10U;

// A copy under way. Its target may be read after Wait() returned, or Done() said true, without an
// error; after an error its bytes are unspecified. Destruction waits.
class Copy {
 public:
  virtual ~Copy() = default;
  virtual Result<bool> Done() = 0;
  virtual Status Wait() = 0;
};

// Memory of a device that queued work fills: what an examination of a runtime copies from.
// Destruction waits for the device.
class Scratch {
 public:
  virtual ~Scratch() = default;
  virtual const void* address() const = 0;
  // Queues setting every byte to `value` on a stream, and returns without waiting for it.
  virtual Status Fill(uint8_t value, Stream stream) = 0;
};

// How a device treats results beyond the largest number of their type.
enum class OverflowMode : uint8_t { kSaturation = 0, kInfNan = 1, kUndefined = 2 };

// A file that the runtime handed over in pieces instead of writing it.
struct KernelDumpFile {
  std::string path;              // where the runtime would have written it
  std::vector<std::byte> bytes;  // text without a NUL at its end for ".csv", else a packet
};

struct KernelDumpOptions {
  int32_t device = 0;       // for a calling thread that works on none yet
  std::string config_path;  // JSON for the runtime, see docs/commands/devices.md
  // Gets each complete file, one at a time on a thread of ours. Empty: the runtime writes the files
  // itself.
  std::function<void(KernelDumpFile)> sink;
  // Limit on pieces that wait; the runtime waits when it is reached.
  uint64_t queue_bytes = uint64_t{256} << 20U;
  // Limit on files that are not complete yet; what exceeds it is lost and reported by End().
  uint64_t assembly_bytes = uint64_t{4} << 30U;
};

// The runtime's own dump of kernels. One at a time per process.
class KernelDump {
 public:
  virtual ~KernelDump() = default;
  virtual Status Begin(const KernelDumpOptions& options) = 0;
  // Waits for the device, switches the dump off and returns when the sink has everything. The error
  // also tells of pieces that were lost. Without a Begin: kUsage.
  virtual Status End() = 0;
};

class Runtime {
 public:
  virtual ~Runtime() = default;
  virtual Kind kind() const = 0;

  // Ok when the library is open, initialised and complete enough to copy; otherwise the reason.
  // Repeated calls are cheap, and try again while the library is absent.
  virtual Status Ready() = 0;
  // Never fails: what is wrong stands in it.
  virtual Inventory Describe() = 0;

  // For copies from `device`.
  virtual Result<HostBuffer> AllocateHost(int32_t device, size_t bytes) = 0;
  // Queues a copy on a stream of our own and returns without waiting for it.
  virtual Result<std::unique_ptr<Copy>> CopyToHost(const CopyRequest& request) = 0;
  // Waits for all work of the device.
  virtual Status Synchronize(int32_t device) = 0;

  // Whether a result overflowed since the last reset, as of what was queued on `stream` before;
  // waits for the stream. Has a meaning in OverflowMode::kSaturation only. kUnsupported where there
  // is no such status.
  virtual Result<bool> Overflowed(int32_t device, Stream stream) = 0;
  virtual Status ResetOverflow(int32_t device, Stream stream) = 0;
  virtual Result<OverflowMode> GetOverflowMode(int32_t device) = 0;
  virtual Status SetOverflowMode(int32_t device, OverflowMode mode) = 0;

  // Queues the reduction on the request's stream and returns without waiting for it. Sums are in
  // float64, in an order that depends on the tensor alone; the norm is the root of the sum of
  // squares; NaN anywhere makes all four NaN. kUnsupported where there is no kernel for it.
  virtual Status QueueStatistics(const StatisticsRequest& request);

  // kUnsupported where the runtime cannot fill memory.
  virtual Result<std::unique_ptr<Scratch>> AllocateScratch(int32_t device, size_t bytes);

  // kUnsupported where the runtime has no dump of its own.
  virtual Result<KernelDump*> GetKernelDump() = 0;

 protected:
  friend class HostBuffer;
  virtual void FreeHost(int32_t device, void* memory) = 0;
};

// The owner of the process decides whether a vendor's library may be loaded, and finalised again.
enum class Loading : uint8_t {
  kOnlyIfLoaded,  // the process of a framework: use what it has loaded, leave its state alone
  kMayLoad,       // our own process
};

class Registry {
 public:
  explicit Registry(Loading loading);
  ~Registry();
  Registry(const Registry&) = delete;
  Registry& operator=(const Registry&) = delete;

  Runtime& Get(Kind kind) const { return *runtimes_[static_cast<size_t>(kind)]; }
  std::span<const std::unique_ptr<Runtime>> all() const { return runtimes_; }

  // For capture inside a framework's process (kOnlyIfLoaded); lives until the process ends.
  static Registry& OfThisProcess();

 private:
  std::vector<std::unique_ptr<Runtime>> runtimes_;  // by kind
};

// Asks a runtime, by small experiments, whether it does what the capture relies on: page-locked
// memory, copies in the order of streams, overflow status, its own dump of kernels. What no test
// without hardware can answer; docs/hardware.md says what each experiment stands for.

enum class Outcome : uint8_t {
  kAsExpected,
  kDiffers,   // it ran, and the runtime does something else than we rely on
  kFailed,    // a call failed
  kNotTried,  // the runtime has no such feature, or an experiment that it needs did not succeed
};

struct Finding {
  std::string subject;  // as docs/hardware.md calls it: "copies wait for their producer"
  int32_t device = 0;
  Outcome outcome = Outcome::kAsExpected;
  std::string seen;  // in words, with figures
};

struct ExaminationOptions {
  size_t copy_bytes = size_t{64} << 20U;
  int rounds = 16;                       // of each experiment about order
  std::filesystem::path scratch_folder;  // exists; gets the configuration and files of a dump
};

// One list per device, in the order of docs/hardware.md. Leaves the runtime as it was: the
// saturation mode is read and not set, the overflow status is reset. Uses at most two copies of
// `copy_bytes` on host and device.
std::vector<Finding> Examine(Runtime& runtime, int32_t device, const ExaminationOptions& options);

}  // namespace msprobe::device
