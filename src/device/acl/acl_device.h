// Ascend devices through libascendcl.so.
#pragma once

#include <atomic>
#include <map>
#include <memory>
#include <mutex>
#include <optional>

#include "src/device/acl/acl_api.h"
#include "src/device/acl/acl_dump.h"
#include "src/device/streamed_runtime.h"

namespace msprobe::device {

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

  // Of the calling thread; nullopt: it has none.
  std::optional<int32_t> CurrentDevice();

  // What a device writes its overflow status to. Kept: what was queued may write to it after an
  // error.
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
