// Ordinary memory behind the interface of a device, so that callers need no second path.
#pragma once

#include "src/device/device.h"

namespace msprobe::device {

class HostRuntime final : public Runtime {
 public:
  Kind kind() const override { return Kind::kHost; }
  Status Ready() override { return {}; }
  Inventory Describe() override;
  Result<HostBuffer> AllocateHost(int32_t device, size_t bytes) override;
  // Copies before it returns.
  Result<std::unique_ptr<Copy>> CopyToHost(const CopyRequest& request) override;
  Status Synchronize(int32_t device) override;
  Result<bool> Overflowed(int32_t device, Stream stream) override;
  Status ResetOverflow(int32_t device, Stream stream) override;
  Result<OverflowMode> GetOverflowMode(int32_t device) override;
  Status SetOverflowMode(int32_t device, OverflowMode mode) override;
  Result<KernelDump*> GetKernelDump() override;

 private:
  void FreeHost(int32_t device, void* memory) override;
};

}  // namespace msprobe::device
