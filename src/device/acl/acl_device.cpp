#include "src/device/acl/acl_device.h"

#include <algorithm>
#include <cstdlib>
#include <utility>
#include <vector>

#include <fmt/format.h>

#include "src/base/strings.h"

namespace msprobe::device {
namespace {

std::vector<std::string> LibraryNames() {
  std::vector<std::string> names = {"libascendcl.so"};
  const char* home = std::getenv("ASCEND_TOOLKIT_HOME");
  if (home != nullptr && *home != '\0') {
    names.push_back(fmt::format("{}/lib64/libascendcl.so", home));
  }
  names.emplace_back("/usr/local/Ascend/ascend-toolkit/latest/lib64/libascendcl.so");
  return names;
}

}  // namespace

AclRuntime::AclRuntime(Loading loading)
    : loading_(loading), kernel_dump_(std::make_unique<AclKernelDump>(*this)) {}

AclRuntime::~AclRuntime() {
  kernel_dump_.reset();
  if (!ready_ || !InOwnProcess()) {
    return;
  }
  GiveBack();
  for (auto& [device, block] : overflow_blocks_) {
    const Result<Scope> scope = Enter(device);
    if (scope.ok()) {
      (void)api_.aclrtSynchronizeDevice();
      (void)api_.aclrtFree(block.on_device);
    }
    block.on_host = {};
  }
  if (loading_ == Loading::kMayLoad && initialised_by_us_) {
    (void)api_.aclFinalize();
  }
}

Status AclRuntime::Ready() {
  if (ready_) {
    return {};
  }
  const std::lock_guard lock(ready_mutex_);
  if (!ready_) {
    MSP_RETURN_IF_ERROR(CheckProcess());
    MSP_RETURN_IF_ERROR(Open());
    ready_ = true;
  }
  return {};
}

Status AclRuntime::Open() {
  if (!api_.library.is_open()) {
    MSP_ASSIGN_OR_RETURN(Library library,
                         Library::Open({"MSPROBE_ACL_LIB", LibraryNames(), "Ascend devices",
                                        "with CANN installed, source its set_env.sh first"},
                                       loading_));
    api_.Load(std::move(library));
  }
  MSP_RETURN_IF_ERROR(api_.Require(AclFeature::kCore));
  MSP_RETURN_IF_ERROR(api_.Require(AclFeature::kCopies));
  ClaimProcess();
  // Whoever initialises first, the others are told so and may go on.
  const int code = api_.aclInit(nullptr);
  if (code != kAclRepeatInitialize) {
    MSP_RETURN_IF_ERROR(api_.Check(code, "aclInit"));
    initialised_by_us_ = true;
  }
  MSP_RETURN_IF_ERROR(MSPROBE_ACL_CALL(api_, aclrtGetDeviceCount, &device_count_));
  if (device_count_ == 0) {
    return DeviceError("the runtime finds no Ascend device")
        .WithHint(
            "npu-smi info shows the devices the driver knows; ASCEND_RT_VISIBLE_DEVICES hides "
            "some");
  }
  return {};
}

DeviceInfo AclRuntime::DescribeDevice(int32_t index) {
  DeviceInfo info;
  info.index = index;
  const char* name = api_.aclrtGetSocName == nullptr ? nullptr : api_.aclrtGetSocName();
  info.name = name == nullptr ? "" : base::Printable(name);
  int state = 0;
  if (api_.aclrtQueryDeviceStatus != nullptr &&
      api_.aclrtQueryDeviceStatus(index, &state) == kAclSuccess && state == kAclDeviceAbnormal) {
    info.trouble = "the runtime reports its state as abnormal";
    return info;
  }
  const Result<Scope> scope = Enter(index);
  if (!scope.ok()) {
    info.trouble = scope.status().message();
    return info;
  }
  if (api_.Require(AclFeature::kMemoryInfo).ok()) {
    size_t free_bytes = 0;
    size_t total_bytes = 0;
    const Status known =
        MSPROBE_ACL_CALL(api_, aclrtGetMemInfo, kAclHbmMemory, &free_bytes, &total_bytes);
    if (!known.ok()) {
      info.trouble = known.message();
    }
    info.free_bytes = free_bytes;
    info.total_bytes = total_bytes;
  }
  return info;
}

Inventory AclRuntime::Describe() {
  Inventory inventory;
  inventory.status = Ready();
  const std::lock_guard lock(ready_mutex_);
  inventory.library = api_.library.path();
  if (api_.library.is_open()) {
    inventory.limitations = api_.features.Limitations();
  }
  if (!inventory.status.ok()) {
    return inventory;
  }
  int32_t major = 0;
  int32_t minor = 0;
  int32_t patch = 0;
  if (api_.aclrtGetVersion != nullptr &&
      api_.aclrtGetVersion(&major, &minor, &patch) == kAclSuccess) {
    inventory.version = fmt::format("AscendCL {}.{}.{}", major, minor, patch);
  }
  for (uint32_t index = 0; index < device_count_; ++index) {
    inventory.devices.push_back(DescribeDevice(static_cast<int32_t>(index)));
  }
  return inventory;
}

std::optional<int32_t> AclRuntime::CurrentDevice() {
  int32_t device = -1;
  const bool known = api_.aclrtGetDevice(&device) == kAclSuccess && device >= 0;
  return known ? std::optional(device) : std::nullopt;
}

// A thread of the framework has a context and keeps it; a thread of ours has none.
Result<StreamedRuntime::Scope> AclRuntime::EnterDevice(int32_t device) {
  void* context = nullptr;
  const bool has_context =
      api_.aclrtGetCurrentContext(&context) == kAclSuccess && context != nullptr;
  if (has_context && CurrentDevice() == device) {
    return Scope();
  }
  MSP_RETURN_IF_ERROR(MSPROBE_ACL_CALL(api_, aclrtSetDevice, device), "device ",
                      std::to_string(device));
  return has_context ? Scope(this, context) : Scope();
}

void AclRuntime::LeaveDevice(void* restore) { (void)api_.aclrtSetCurrentContext(restore); }

Result<void*> AclRuntime::AllocatePinned(size_t bytes) {
  void* memory = nullptr;
  MSP_RETURN_IF_ERROR(MSPROBE_ACL_CALL(api_, aclrtMallocHost, &memory, bytes),
                      "no host memory for copies, ", base::FormatBytes(bytes));
  return memory;
}

void AclRuntime::FreePinned(void* memory) { (void)api_.aclrtFreeHost(memory); }

Result<Stream> AclRuntime::CreateStream() {
  Stream stream = nullptr;
  MSP_RETURN_IF_ERROR(MSPROBE_ACL_CALL(api_, aclrtCreateStream, &stream));
  return stream;
}

void AclRuntime::DestroyStream(Stream stream) { (void)api_.aclrtDestroyStream(stream); }

Status AclRuntime::SynchronizeStream(Stream stream) {
  return MSPROBE_ACL_CALL(api_, aclrtSynchronizeStream, stream);
}

Status AclRuntime::SynchronizeCurrentDevice() {
  return MSPROBE_ACL_CALL(api_, aclrtSynchronizeDevice);
}

Result<bool> AclRuntime::IsCapturing(Stream stream) {
  if (!api_.Require(AclFeature::kGraphCapture).ok()) {
    return false;  // a runtime that old records no graphs
  }
  int state = kAclCaptureNone;
  void* graph = nullptr;
  MSP_RETURN_IF_ERROR(MSPROBE_ACL_CALL(api_, aclmdlRICaptureGetInfo, stream, &state, &graph));
  return state != kAclCaptureNone;
}

// Events with flags are cheaper, but which of them may be recorded, waited for and queried at the
// same time differs between versions; these may everywhere.
Result<StreamedRuntime::Event> AclRuntime::CreateEvent() {
  Event event = nullptr;
  MSP_RETURN_IF_ERROR(MSPROBE_ACL_CALL(api_, aclrtCreateEvent, &event));
  return event;
}

void AclRuntime::DestroyEvent(Event event) { (void)api_.aclrtDestroyEvent(event); }

Status AclRuntime::RecordEvent(Event event, Stream stream) {
  return MSPROBE_ACL_CALL(api_, aclrtRecordEvent, event, stream);
}

Status AclRuntime::MakeStreamWait(Stream stream, Event event) {
  return MSPROBE_ACL_CALL(api_, aclrtStreamWaitEvent, stream, event);
}

Result<bool> AclRuntime::EventReached(Event event) {
  int state = 0;
  MSP_RETURN_IF_ERROR(MSPROBE_ACL_CALL(api_, aclrtQueryEventStatus, event, &state));
  return state == kAclEventComplete;
}

Status AclRuntime::SynchronizeEvent(Event event) {
  return MSPROBE_ACL_CALL(api_, aclrtSynchronizeEvent, event);
}

Status AclRuntime::QueueCopyToHost(const CopyRequest& request, Stream stream) {
  return MSPROBE_ACL_CALL(api_, aclrtMemcpyAsync, request.target, request.bytes, request.source,
                          request.bytes, kAclCopyDeviceToHost, stream);
}

Result<AclRuntime::OverflowBlock*> AclRuntime::BlockOf(int32_t device) {
  const auto found = overflow_blocks_.find(device);
  if (found != overflow_blocks_.end()) {
    return &found->second;
  }
  OverflowBlock block;
  MSP_ASSIGN_OR_RETURN(block.on_host, AllocateHost(device, kAclOverflowStatusBytes));
  MSP_RETURN_IF_ERROR(MSPROBE_ACL_CALL(api_, aclrtMalloc, &block.on_device, kAclOverflowStatusBytes,
                                       kAclMallocNormalOnly));
  return &overflow_blocks_.emplace(device, std::move(block)).first->second;
}

Result<bool> AclRuntime::Overflowed(int32_t device, Stream stream) {
  MSP_ASSIGN_OR_RETURN(const Scope scope, Enter(device));
  MSP_RETURN_IF_ERROR(api_.Require(AclFeature::kOverflow));
  const std::lock_guard lock(overflow_mutex_);
  MSP_ASSIGN_OR_RETURN(OverflowBlock * block, BlockOf(device));
  MSP_RETURN_IF_ERROR(MSPROBE_ACL_CALL(api_, aclrtGetOverflowStatus, block->on_device,
                                       kAclOverflowStatusBytes, stream));
  std::byte* const bytes = block->on_host.data();
  MSP_RETURN_IF_ERROR(MSPROBE_ACL_CALL(api_, aclrtMemcpyAsync, bytes, kAclOverflowStatusBytes,
                                       block->on_device, kAclOverflowStatusBytes,
                                       kAclCopyDeviceToHost, stream));
  MSP_RETURN_IF_ERROR(MSPROBE_ACL_CALL(api_, aclrtSynchronizeStream, stream));
  // Which of the words tells is not documented; all are zero when nothing overflowed.
  return std::any_of(bytes, bytes + kAclOverflowStatusBytes,
                     [](std::byte value) { return value != std::byte{0}; });
}

Status AclRuntime::ResetOverflow(int32_t device, Stream stream) {
  MSP_ASSIGN_OR_RETURN(const Scope scope, Enter(device));
  MSP_RETURN_IF_ERROR(api_.Require(AclFeature::kOverflow));
  return MSPROBE_ACL_CALL(api_, aclrtResetOverflowStatus, stream);
}

Result<OverflowMode> AclRuntime::GetOverflowMode(int32_t device) {
  MSP_ASSIGN_OR_RETURN(const Scope scope, Enter(device));
  MSP_RETURN_IF_ERROR(api_.Require(AclFeature::kOverflowMode));
  int mode = 0;
  MSP_RETURN_IF_ERROR(MSPROBE_ACL_CALL(api_, aclrtGetDeviceSatMode, &mode));
  if (mode < 0 || mode > static_cast<int>(OverflowMode::kUndefined)) {
    return DeviceError(fmt::format("aclrtGetDeviceSatMode gives an unknown mode {}", mode));
  }
  return static_cast<OverflowMode>(mode);
}

Status AclRuntime::SetOverflowMode(int32_t device, OverflowMode mode) {
  MSP_ASSIGN_OR_RETURN(const Scope scope, Enter(device));
  MSP_RETURN_IF_ERROR(api_.Require(AclFeature::kOverflowMode));
  return MSPROBE_ACL_CALL(api_, aclrtSetDeviceSatMode, static_cast<int>(mode));
}

class AclRuntime::AclScratch final : public Scratch {
 public:
  AclScratch(AclRuntime& runtime, int32_t device, void* memory, size_t bytes)
      : runtime_(runtime), device_(device), memory_(memory), bytes_(bytes) {}
  AclScratch(const AclScratch&) = delete;
  AclScratch& operator=(const AclScratch&) = delete;
  ~AclScratch() override {
    const Result<Scope> scope = runtime_.Enter(device_);
    if (scope.ok()) {
      (void)runtime_.api_.aclrtSynchronizeDevice();
      (void)runtime_.api_.aclrtFree(memory_);
    }
  }

  const void* address() const override { return memory_; }
  Status Fill(uint8_t value, Stream stream) override {
    MSP_ASSIGN_OR_RETURN(const Scope scope, runtime_.Enter(device_));
    return MSPROBE_ACL_CALL(runtime_.api_, aclrtMemsetAsync, memory_, bytes_, value, bytes_,
                            stream);
  }

 private:
  AclRuntime& runtime_;
  const int32_t device_;
  void* const memory_;
  const size_t bytes_;
};

Result<std::unique_ptr<Scratch>> AclRuntime::AllocateScratch(int32_t device, size_t bytes) {
  MSP_ASSIGN_OR_RETURN(const Scope scope, Enter(device));
  MSP_RETURN_IF_ERROR(api_.Require(AclFeature::kScratch));
  MSP_RETURN_IF_ERROR(api_.Require(AclFeature::kOverflow));  // it brings aclrtMalloc
  void* memory = nullptr;
  MSP_RETURN_IF_ERROR(MSPROBE_ACL_CALL(api_, aclrtMalloc, &memory, bytes, kAclMallocNormalOnly));
  return std::unique_ptr<Scratch>(std::make_unique<AclScratch>(*this, device, memory, bytes));
}

Result<KernelDump*> AclRuntime::GetKernelDump() {
  MSP_RETURN_IF_ERROR(CheckProcess());
  MSP_RETURN_IF_ERROR(Ready());
  MSP_RETURN_IF_ERROR(api_.Require(AclFeature::kKernelDump));
  return kernel_dump_.get();
}

}  // namespace msprobe::device
