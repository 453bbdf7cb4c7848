#include "src/device/acl/acl_dump.h"

#include <utility>

#include "src/device/acl/acl_device.h"

namespace msprobe::device {
namespace {

// The runtime's callback carries no pointer of ours: one receiver per process.
struct Receiver {
  std::mutex mutex;
  std::shared_ptr<ChunkAssembler> assembler;
};

Receiver& TheReceiver() {
  // Never destroyed: the runtime's threads may call back while the process ends.
  static auto* const receiver = new Receiver;
  return *receiver;
}

std::shared_ptr<ChunkAssembler> ExchangeReceiver(std::shared_ptr<ChunkAssembler> next) {
  const std::lock_guard lock(TheReceiver().mutex);
  return std::exchange(TheReceiver().assembler, std::move(next));
}

// On a thread of the runtime. Nothing it returns makes the runtime send a chunk again, and an error
// may end its dump: losses are told by End() instead.
int32_t OnChunk(const AclDumpChunk* chunk, int32_t /*length*/) {
  std::shared_ptr<ChunkAssembler> assembler;
  {
    const std::lock_guard lock(TheReceiver().mutex);
    assembler = TheReceiver().assembler;
  }
  if (assembler != nullptr) {
    assembler->Add(chunk);
  }
  return 0;
}

}  // namespace

AclKernelDump::~AclKernelDump() {
  if (runtime_.InOwnProcess()) {
    (void)End();
  } else if (assembler_ != nullptr) {
    ExchangeReceiver(nullptr);
  }
}

Status AclKernelDump::TakeFiles(const KernelDumpOptions& options) {
  const AclApi& api = runtime_.api_;
  MSP_RETURN_IF_ERROR(api.Require(AclFeature::kDumpCallback));
  assembler_ = std::make_shared<ChunkAssembler>(options);
  MSP_RETURN_IF_ERROR(assembler_->Start());
  ExchangeReceiver(assembler_);
  return api.Check(api.acldumpRegCallback(&OnChunk, 0), "acldumpRegCallback");
}

Status AclKernelDump::ReturnFiles() {
  if (assembler_ == nullptr) {
    return {};
  }
  if (runtime_.api_.acldumpUnregCallback != nullptr) {
    runtime_.api_.acldumpUnregCallback();
  }
  ExchangeReceiver(nullptr);
  return std::exchange(assembler_, nullptr)->Finish();
}

Status AclKernelDump::SwitchOn(const std::string& config_path) {
  const AclApi& api = runtime_.api_;
  const int code = api.aclmdlInitDump();
  Status begun = api.Check(code, "aclmdlInitDump");
  if (code == kAclDumpAlreadyRun) {
    return std::move(begun).WithHint(
        "the framework switched a dump on when it initialised the runtime: remove it there");
  }
  MSP_RETURN_IF_ERROR(std::move(begun));
  Status set = api.Check(api.aclmdlSetDump(config_path.c_str()), "aclmdlSetDump");
  if (!set.ok()) {
    (void)api.aclmdlFinalizeDump();
    return std::move(set).AddContext(config_path);
  }
  return {};
}

Status AclKernelDump::Begin(const KernelDumpOptions& options) {
  const std::lock_guard lock(mutex_);
  if (active_) {
    return UsageError("a kernel dump is already in progress");
  }
  MSP_RETURN_IF_ERROR(runtime_.CheckProcess());
  MSP_RETURN_IF_ERROR(runtime_.Ready());
  const int32_t device = runtime_.CurrentDevice().value_or(options.device);
  MSP_ASSIGN_OR_RETURN(const AclRuntime::Scope scope, runtime_.Enter(device));
  MSP_RETURN_IF_ERROR(runtime_.api_.Require(AclFeature::kKernelDump));
  Status begun = options.sink ? TakeFiles(options) : OkStatus();
  if (begun.ok()) {
    begun = SwitchOn(options.config_path);
  }
  if (!begun.ok()) {
    (void)ReturnFiles();
    return begun;
  }
  device_ = device;
  active_ = true;
  return {};
}

Status AclKernelDump::End() {
  const std::lock_guard lock(mutex_);
  if (!active_) {
    return UsageError("no kernel dump is in progress");
  }
  active_ = false;
  const AclApi& api = runtime_.api_;
  // Each step is made whatever became of the one before; the first error is told.
  Status first;
  const auto keep_first = [&first](Status status) {
    if (first.ok()) {
      first = std::move(status);
    }
  };
  {
    Result<AclRuntime::Scope> scope = runtime_.Enter(device_);
    if (scope.ok()) {
      keep_first(MSPROBE_ACL_CALL(api, aclrtSynchronizeDevice));
    } else {
      keep_first(std::move(scope).status());
    }
    if (runtime_.InOwnProcess()) {
      keep_first(MSPROBE_ACL_CALL(api, aclmdlFinalizeDump));
      keep_first(ReturnFiles());
    }
  }
  return first;
}

}  // namespace msprobe::device
