#include "src/device/acl/acl_device.h"

#include <algorithm>
#include <array>
#include <cstdlib>
#include <cstring>
#include <new>
#include <string>
#include <utility>
#include <vector>

#include <fmt/format.h>
#include <unistd.h>

#include "src/base/strings.h"
#include "src/base/threads.h"

namespace msprobe::device {
namespace {

// In the order of AclFeature.
constexpr std::array<std::string_view, 14> kAclFeatureNames = {
    "runtime",
    "copies from the device",
    "error texts of the runtime",
    "version of the runtime",
    "names of devices",
    "memory sizes",
    "state of devices",
    "check for streams that record a graph",
    "overflow status",
    "saturation mode",
    "memory that doctor --ascend fills",
    "kernel dump",
    "kernel dump into memory",
    "way back from a kernel dump into memory",
};

struct CodeName {
  int code;
  std::string_view name;
};
constexpr CodeName kCodeNames[] = {
    {100000, "invalid parameter"},
    {100001, "not initialised"},
    {100002, "initialised twice"},
    {100003, "invalid file"},
    {100009, "invalid dump configuration"},
    {100037, "finalised twice"},
    {100044, "a dump is configured already"},
    {100045, "no dump is configured"},
    {107002, "no context on this thread"},
    {200000, "out of memory"},
    {200001, "function not supported"},
    {200002, "invalid device"},
    {200005, "invalid handle"},
    {200006, "feature not supported"},
    {207000, "feature not supported by the runtime"},
    {300000, "storage limit exceeded"},
    {500000, "internal error"},
    {500001, "failure"},
    {500002, "graph engine failure"},
    {500003, "runtime failure"},
    {500004, "driver failure"},
    {500005, "profiling failure"},
};

// Numbers without a name of their own tell at least whose they are.
std::string_view NameOfCode(int code) {
  for (const CodeName& known : kCodeNames) {
    if (known.code == code) {
      return known.name;
    }
  }
  const int family = code / 1000;
  return family == 107   ? "a parameter the runtime refuses"
         : family == 207 ? "out of a resource of the runtime"
         : family == 507 ? "a failure inside the runtime or the device"
                         : "unknown code";
}

}  // namespace

AclApi::AclApi() : features({kAclFeatureNames.begin(), kAclFeatureNames.end()}) {}

void AclApi::Load(Library opened) {
  library = std::move(opened);
  features = FeatureTable({kAclFeatureNames.begin(), kAclFeatureNames.end()});
#define MSPROBE_ACL_LOAD(feature, name, ...) \
  features.Load(library, static_cast<size_t>(AclFeature::feature), #name, name);
  MSPROBE_ACL_FUNCTIONS(MSPROBE_ACL_LOAD)
#undef MSPROBE_ACL_LOAD

  // A process of MindSpore has an implementation of its own; some versions of CANN keep it apart.
  constexpr const char* kRegister = "acldumpRegCallback";
  Library home = Library::IfLoaded("libmindspore_ascend.so.2");
  if (home.Find<void>(kRegister) == nullptr && library.Find<void>(kRegister) == nullptr) {
    home = Library::IfLoaded("libascend_dump.so");
  }
  if (home.Find<void>(kRegister) == nullptr) {
    home = library;
  }
  features.Load(home, static_cast<size_t>(AclFeature::kDumpCallback), kRegister,
                acldumpRegCallback);
  features.Load(home, static_cast<size_t>(AclFeature::kDumpUnregister), "acldumpUnregCallback",
                acldumpUnregCallback);
}

Status AclApi::Check(int code, std::string_view function) const {
  if (code == kAclSuccess) {
    return {};
  }
  std::string text = fmt::format("{} failed with {} ({})", function, code, NameOfCode(code));
  const char* said = aclGetRecentErrMsg == nullptr ? nullptr : aclGetRecentErrMsg();
  if (said != nullptr && *said != '\0') {
    std::string line(base::Trim(said));  // often several, indented
    std::replace_if(
        line.begin(), line.end(), [](char c) { return c == '\n' || c == '\r' || c == '\t'; }, ' ');
    text += ": " + base::Printable(line);
  }
  return DeviceError(std::move(text));
}

ChunkAssembler::ChunkAssembler(const KernelDumpOptions& options)
    : options_(options), process_(::getpid()) {}

Status ChunkAssembler::Start() {
  auto queue = std::make_unique<base::WorkQueue<Piece>>(
      base::WorkQueue<Piece>::Rules{.most = options_.queue_bytes}, [this](const Piece& piece) {
        try {
          Assemble(piece);
        } catch (const std::bad_alloc&) {
          Lose(piece.path, "no memory");
        }
      });
  if (const Status started = queue->Start(); !started.ok()) {
    return InternalError(fmt::format("no kernel dump: {}", started.message()));
  }
  queue_ = std::move(queue);
  return {};
}

ChunkAssembler::~ChunkAssembler() {
  if (::getpid() != process_) {
    (void)queue_.release();  // its thread did not come along into this process
  } else if (queue_ != nullptr) {
    (void)Finish();
  }
}

void ChunkAssembler::Lose(std::string_view path, const char* reason) noexcept {
  const std::lock_guard lock(mutex_);
  if (losses_++ > 0) {
    return;
  }
  try {
    first_loss_ = fmt::format("{}: {}", base::Printable(path), reason);
  } catch (const std::bad_alloc&) {
    first_loss_.clear();  // the count says it
  }
}

void ChunkAssembler::Add(const AclDumpChunk* chunk) noexcept {
  if (chunk == nullptr) {
    return Lose("a file", "a piece without content");
  }
  const size_t path_bytes = ::strnlen(chunk->file_name, sizeof(chunk->file_name));
  if (path_bytes == 0 || path_bytes == sizeof(chunk->file_name)) {
    return Lose("a file", "a piece without a file name");
  }
  // A callback of C: nothing may be thrown through the runtime.
  try {
    Piece piece;
    piece.path.assign(chunk->file_name, path_bytes);
    const auto* bytes = reinterpret_cast<const std::byte*>(chunk) + offsetof(AclDumpChunk, buffer);
    piece.bytes.assign(bytes, bytes + chunk->buffer_bytes);
    piece.offset = chunk->offset;
    piece.last = chunk->is_last_chunk != 0;

    const uint64_t size_bytes = piece.bytes.size();
    if (queue_->Add(piece, size_bytes, {}) != base::WorkQueue<Piece>::Added::kYes) {
      Lose(piece.path, "no memory for a piece");
    }
  } catch (const std::bad_alloc&) {
    Lose(std::string_view(chunk->file_name, path_bytes), "no memory for a piece");
  }
}

const char* ChunkAssembler::Append(const Piece& piece, std::vector<std::byte>& bytes) {
  if (piece.offset >= 0 && static_cast<uint64_t>(piece.offset) != bytes.size()) {
    return "a piece is missing";
  }
  if (assembled_bytes_ + piece.bytes.size() > options_.assembly_bytes) {
    return "the files under way exceed their memory limit";
  }
  try {
    bytes.insert(bytes.end(), piece.bytes.begin(), piece.bytes.end());
  } catch (const std::bad_alloc&) {
    return "no memory";
  }
  assembled_bytes_ += piece.bytes.size();
  return nullptr;
}

void ChunkAssembler::Assemble(const Piece& piece) {
  Assembly& assembly = open_[piece.path];
  if (!assembly.damaged) {
    const char* const reason = Append(piece, assembly.bytes);
    if (reason != nullptr) {
      Lose(piece.path, reason);
      assembled_bytes_ -= assembly.bytes.size();
      assembly = {{}, true};
    }
  }
  if (!piece.last) {
    return;
  }
  KernelDumpFile file = {piece.path, std::move(assembly.bytes)};
  const bool whole = !assembly.damaged;
  assembled_bytes_ -= file.bytes.size();
  open_.erase(piece.path);
  if (!whole) {
    return;
  }
  // Statistics come as a C text.
  if (file.path.ends_with(".csv") && !file.bytes.empty() && file.bytes.back() == std::byte{0}) {
    file.bytes.pop_back();
  }
  options_.sink(std::move(file));
}

Status ChunkAssembler::Finish() {
  queue_.reset();  // once all that waits is done
  for (const auto& [path, assembly] : open_) {
    if (!assembly.damaged) {
      Lose(path, "its last piece is missing");
    }
  }
  open_.clear();
  if (losses_ == 0) {
    return {};
  }
  return DeviceError(losses_ == 1 ? fmt::format("the kernel dump lost a file: {}", first_loss_)
                                  : fmt::format("the kernel dump lost data {} times, first: {}",
                                                losses_, first_loss_));
}

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
// may end its dump: losses are reported by End() instead.
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
  // Each step is made whatever became of the one before; the first error is reported.
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
  // Whoever initialises first, the others get an error and may go on.
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
  // It is not documented which word holds the status; all are zero when nothing overflowed.
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
