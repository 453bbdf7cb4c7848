// The dump of kernels that CANN's runtime writes: switched on and off, and its files taken over in
// memory instead of on disk.
#pragma once

#include <memory>
#include <mutex>

#include "src/device/acl/chunk_assembler.h"
#include "src/device/device.h"

namespace msprobe::device {

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

}  // namespace msprobe::device
