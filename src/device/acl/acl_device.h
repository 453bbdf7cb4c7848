// Ascend devices through libascendcl.so.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <string_view>
#include <type_traits>
#include <unordered_map>
#include <vector>

#include <sys/types.h>

#include "msprobe/status.h"

#include "src/base/threads.h"
#include "src/device/device.h"
#include "src/device/streamed_runtime.h"

namespace msprobe::device {

// The part of CANN's AscendCL that we call, in declarations of our own, and its functions as found
// in the libascendcl.so of this machine. All functions but two return 0 for success.

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

// Puts the files of a kernel dump together from the pieces the runtime hands over, away from the
// runtime's threads.

class ChunkAssembler {
 public:
  // Uses the sink and the limits of `options`.
  explicit ChunkAssembler(const KernelDumpOptions& options);
  ChunkAssembler(const ChunkAssembler&) = delete;
  ChunkAssembler& operator=(const ChunkAssembler&) = delete;
  ~ChunkAssembler();

  // Before the first piece comes.
  Status Start();

  // Copies the piece and returns; waits while the queue is full. Any thread. Pieces of different
  // files may alternate, those of one file come in order.
  void Add(const AclDumpChunk* chunk) noexcept;

  // Returns when the sink has every complete file. An error when pieces were lost or files ended
  // early. To be called once; nothing may be added afterwards.
  Status Finish();

 private:
  struct Piece {
    std::string path;
    std::vector<std::byte> bytes;
    int64_t offset = -1;
    bool last = false;
  };
  struct Assembly {
    std::vector<std::byte> bytes;
    bool damaged = false;  // the rest of it is ignored
  };

  void Assemble(const Piece& piece);
  // Null, or why the piece cannot follow.
  const char* Append(const Piece& piece, std::vector<std::byte>& bytes);
  void Lose(std::string_view path, const char* reason) noexcept;  // mutex_ is not held

  const KernelDumpOptions options_;
  const pid_t process_;
  std::mutex mutex_;
  uint64_t losses_ = 0;
  std::string first_loss_;

  // Used by the worker only:
  std::unordered_map<std::string, Assembly> open_;
  uint64_t assembled_bytes_ = 0;

  std::unique_ptr<base::WorkQueue<Piece>> queue_;  // null: not started, or ended
};

// The dump of kernels that CANN's runtime writes: switched on and off, and its files taken over in
// memory instead of on disk.

class AclRuntime;

class AclKernelDump final : public KernelDump {
 public:
  explicit AclKernelDump(AclRuntime& runtime) : runtime_(runtime) {}
  AclKernelDump(const AclKernelDump&) = delete;
  AclKernelDump& operator=(const AclKernelDump&) = delete;
  ~AclKernelDump() override;  // ends what is under way

  Status Begin(const KernelDumpOptions& options) override;
  Status End() override;

 private:
  Status TakeFiles(const KernelDumpOptions& options);
  Status ReturnFiles();
  Status SwitchOn(const std::string& config_path);

  AclRuntime& runtime_;
  std::mutex mutex_;
  bool active_ = false;
  int32_t device_ = 0;
  std::shared_ptr<ChunkAssembler> assembler_;  // with a sink
};

class AclRuntime final : public StreamedRuntime {
 public:
  explicit AclRuntime(Loading loading);
  ~AclRuntime() override;

  Kind kind() const override { return Kind::kAcl; }
  Status Ready() override;
  Inventory Describe() override;
  Result<bool> Overflowed(int32_t device, Stream stream) override;
  Status ResetOverflow(int32_t device, Stream stream) override;
  Result<OverflowMode> GetOverflowMode(int32_t device) override;
  Status SetOverflowMode(int32_t device, OverflowMode mode) override;
  Result<std::unique_ptr<Scratch>> AllocateScratch(int32_t device, size_t bytes) override;
  Result<KernelDump*> GetKernelDump() override;

 private:
  friend class AclKernelDump;
  class AclScratch;

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

  // The device of the calling thread; nullopt: it has none.
  std::optional<int32_t> CurrentDevice();

  // The memory to which a device writes its overflow status. It is kept: queued work may write to
  // it after an error.
  struct OverflowBlock {
    void* on_device = nullptr;
    HostBuffer on_host;
  };

  Result<OverflowBlock*> BlockOf(int32_t device);  // overflow_mutex_ is held

  Status Open();  // ready_mutex_ is held
  DeviceInfo DescribeDevice(int32_t index);

  const Loading loading_;
  std::mutex ready_mutex_;
  std::atomic<bool> ready_ = false;
  bool initialised_by_us_ = false;
  uint32_t device_count_ = 0;
  AclApi api_;
  std::mutex overflow_mutex_;
  std::map<int32_t, OverflowBlock> overflow_blocks_;  // by device
  std::unique_ptr<AclKernelDump> kernel_dump_;
};

}  // namespace msprobe::device
