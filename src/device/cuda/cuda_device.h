// CUDA devices through the driver API of libcuda.so.1. Works in the primary context of a device,
// the one that frameworks use.
#pragma once

#include <atomic>
#include <map>
#include <mutex>

#include "src/device/cuda/cuda_api.h"
#include "src/device/cuda/cuda_statistics.h"
#include "src/device/streamed_runtime.h"

namespace msprobe::device {

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
