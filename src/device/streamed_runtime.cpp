#include "src/device/streamed_runtime.h"

#include <cstdlib>
#include <utility>

#include <dlfcn.h>
#include <fmt/format.h>
#include <link.h>
#include <unistd.h>

#include "src/base/strings.h"

namespace msprobe::device {
namespace {

std::string LoaderError() {
  const char* text = ::dlerror();
  return text == nullptr ? "unknown reason" : base::Printable(text);
}

}  // namespace

Library::Library(void* handle) : handle_(handle) {
  const link_map* map = nullptr;
  if (::dlinfo(handle, RTLD_DI_LINKMAP, &map) == 0 && map != nullptr && map->l_name != nullptr) {
    path_ = map->l_name;
  }
}

Library Library::IfLoaded(const char* name) {
  void* handle = ::dlopen(name, RTLD_LAZY | RTLD_NOLOAD);
  return handle == nullptr ? Library() : Library(handle);
}

Result<Library> Library::Open(const Search& search, Loading loading) {
  const char* chosen = std::getenv(search.override_variable);
  if (chosen != nullptr && *chosen != '\0') {
    void* handle = ::dlopen(chosen, RTLD_LAZY | RTLD_LOCAL);
    if (handle == nullptr) {
      return NotFoundError(fmt::format("cannot load the library that {} names: {}",
                                       search.override_variable, LoaderError()));
    }
    return Library(handle);
  }
  for (const std::string& name : search.names) {
    Library library = IfLoaded(name.c_str());
    if (library.is_open()) {
      return library;
    }
  }
  if (loading == Loading::kOnlyIfLoaded) {
    return NotFoundError(fmt::format("{} is not loaded in this process: it uses no {}",
                                     search.names.front(), search.purpose));
  }
  // A library that is there but cannot be loaded says more than one that is absent.
  std::string reason;
  for (const std::string& name : search.names) {
    void* handle = ::dlopen(name.c_str(), RTLD_LAZY | RTLD_LOCAL);
    if (handle != nullptr) {
      return Library(handle);
    }
    const std::string error = LoaderError();
    const bool absent = error.starts_with(name + ": cannot open shared object file");
    if (!absent && reason.empty()) {
      reason = error;
    }
  }
  Status status = NotFoundError(
      reason.empty() ? fmt::format("{} is not installed, or not on the search path of the loader",
                                   search.names.front())
                     : fmt::format("{} cannot be loaded: {}", search.names.front(), reason));
  return std::move(status).WithHint(search.install_hint);
}

void* Library::FindAddress(const char* symbol) const {
  return handle_ == nullptr ? nullptr : ::dlsym(handle_, symbol);
}

FeatureTable::FeatureTable(std::vector<std::string_view> feature_names)
    : names_(std::move(feature_names)), missing_(names_.size()) {}

Status FeatureTable::Require(const Library& library, size_t feature) const {
  const std::vector<std::string>& missing = missing_[feature];
  if (missing.empty()) {
    return {};
  }
  return UnsupportedError(fmt::format("{} lacks {}: no {}", library.path(),
                                      base::Join(missing, ", "), names_[feature]));
}

std::vector<std::string> FeatureTable::Limitations() const {
  std::vector<std::string> sentences;
  for (size_t feature = 0; feature < names_.size(); ++feature) {
    if (!missing_[feature].empty()) {
      sentences.push_back(fmt::format("no {}: the library lacks {}", names_[feature],
                                      base::Join(missing_[feature], ", ")));
    }
  }
  return sentences;
}

// Owns the two events of a copy. They are destroyed when nothing that is queued knows them any
// more: runtimes forbid it earlier.
class StreamedRuntime::StreamedCopy final : public Copy {
 public:
  StreamedCopy(StreamedRuntime& runtime, int32_t device) : runtime_(runtime), device_(device) {}
  StreamedCopy(const StreamedCopy&) = delete;
  StreamedCopy& operator=(const StreamedCopy&) = delete;
  ~StreamedCopy() override {
    if (under_way_) {
      (void)Wait();
    }
    if (lost_ || (produced_ == nullptr && copied_ == nullptr)) {
      return;
    }
    const Result<Scope> scope = runtime_.Enter(device_);
    if (!scope.ok()) {
      return;  // in a forked child, or the device is lost: nothing can be given back
    }
    // The event of the copy's own stream is not needed any more; the producer may not have reached
    // its own.
    if (awaited_) {
      runtime_.DestroyEvent(produced_);
    } else if (produced_ != nullptr) {
      runtime_.RetireEvent({device_, producer_, produced_, recorded_}, begun_);
    }
    if (held_ != 0) {
      runtime_.RetireEvent({device_, producer_, copied_, held_}, begun_);
    } else if (copied_ != nullptr) {
      runtime_.DestroyEvent(copied_);
    }
  }

  // The device is entered.
  Status Start(const CopyRequest& request, Stream stream) {
    Status queued = Queue(request, stream);
    if (!queued.ok()) {
      // It is impossible to wait for what was queued, and neither the target nor the events may go
      // under it.
      (void)runtime_.SynchronizeStream(stream);
      return queued;
    }
    stream_ = stream;
    under_way_ = true;
    if (!request.hold_producer) {
      return {};
    }
    if (!runtime_.MakeStreamWait(request.producer, copied_).ok()) {
      // This thread waits for what the stream would have waited for.
      return Wait();
    }
    held_ = ++runtime_.clock_;
    return {};
  }

  Result<bool> Done() override {
    if (!under_way_) {
      MSP_RETURN_IF_ERROR(outcome_);
      return true;
    }
    MSP_ASSIGN_OR_RETURN(const Scope scope, runtime_.Enter(device_));
    MSP_ASSIGN_OR_RETURN(const bool reached, runtime_.EventReached(copied_));
    under_way_ = !reached;
    return reached;
  }

  Status Wait() override {
    if (under_way_) {
      under_way_ = false;
      outcome_ = WaitForEnd();
    }
    return outcome_;
  }

 private:
  Status Queue(const CopyRequest& request, Stream stream) {
    producer_ = request.producer;
    begun_ = ++runtime_.clock_;
    MSP_ASSIGN_OR_RETURN(produced_, runtime_.CreateEvent());
    MSP_ASSIGN_OR_RETURN(copied_, runtime_.CreateEvent());
    MSP_RETURN_IF_ERROR(runtime_.RecordEvent(produced_, request.producer));
    recorded_ = ++runtime_.clock_;
    MSP_RETURN_IF_ERROR(runtime_.MakeStreamWait(stream, produced_));
    awaited_ = true;
    MSP_RETURN_IF_ERROR(runtime_.QueueCopyToHost(request, stream));
    return runtime_.RecordEvent(copied_, stream);
  }

  Status WaitForEnd() {
    MSP_ASSIGN_OR_RETURN(const Scope scope, runtime_.Enter(device_));
    Status waited = runtime_.SynchronizeEvent(copied_);
    lost_ = !waited.ok() && !runtime_.SynchronizeStream(stream_).ok();
    return waited;
  }

  StreamedRuntime& runtime_;
  const int32_t device_;
  Stream producer_ = nullptr;
  Stream stream_ = nullptr;  // of the copy
  uint64_t begun_ = 0;       // ticks of the runtime's clock
  uint64_t recorded_ = 0;
  uint64_t held_ = 0;  // 0: the producer does not wait for this copy
  Event produced_ = nullptr;
  Event copied_ = nullptr;
  bool awaited_ = false;  // the copy's stream knows `produced_`
  bool under_way_ = false;
  bool lost_ = false;  // the device never reported the end of the copy
  Status outcome_;
};

void StreamedRuntime::ClaimProcess() { process_ = ::getpid(); }

bool StreamedRuntime::InOwnProcess() const {
  const pid_t process = process_;
  return process == 0 || process == ::getpid();
}

Status StreamedRuntime::CheckProcess() const {
  if (InOwnProcess()) {
    return {};
  }
  return DeviceError(fmt::format("a forked process cannot use the {} devices of its parent",
                                 KindName(kind())))
      .WithHint("start such processes before the device is used first, or with spawn");
}

Result<StreamedRuntime::Scope> StreamedRuntime::Enter(int32_t device) {
  MSP_RETURN_IF_ERROR(CheckProcess());
  MSP_RETURN_IF_ERROR(Ready());
  return EnterDevice(device);
}

Result<HostBuffer> StreamedRuntime::AllocateHost(int32_t device, size_t bytes) {
  MSP_ASSIGN_OR_RETURN(const Scope scope, Enter(device));
  MSP_ASSIGN_OR_RETURN(void* memory, AllocatePinned(bytes));
  return HostBuffer(this, device, memory, bytes);
}

void StreamedRuntime::FreeHost(int32_t device, void* memory) {
  const Result<Scope> scope = Enter(device);
  if (scope.ok()) {
    FreePinned(memory);
  }
}

Status StreamedRuntime::Synchronize(int32_t device) {
  MSP_ASSIGN_OR_RETURN(const Scope scope, Enter(device));
  return SynchronizeCurrentDevice();
}

Result<Stream> StreamedRuntime::CopyStream(int32_t device) {
  const std::lock_guard lock(streams_mutex_);
  const auto found = copy_streams_.find(device);
  if (found != copy_streams_.end()) {
    return found->second;
  }
  MSP_ASSIGN_OR_RETURN(Stream stream, CreateStream());
  copy_streams_.emplace(device, stream);
  return stream;
}

Result<std::unique_ptr<Copy>> StreamedRuntime::CopyToHost(const CopyRequest& request) {
  MSP_ASSIGN_OR_RETURN(const Scope scope, Enter(request.device));
  auto copy = std::make_unique<StreamedCopy>(*this, request.device);
  if (request.bytes > 0) {
    MSP_ASSIGN_OR_RETURN(const bool capturing, IsCapturing(request.producer));
    if (capturing) {
      return UnsupportedError(
          "work on this stream is being recorded into a graph: there are no values to copy yet");
    }
    MSP_ASSIGN_OR_RETURN(Stream stream, CopyStream(request.device));
    MSP_RETURN_IF_ERROR(copy->Start(request, stream));
  }
  return std::unique_ptr<Copy>(std::move(copy));
}

// A later copy from the same stream recorded an event there, behind the work that knows an earlier
// one. So when that copy is over, this work is too.
void StreamedRuntime::RetireEvent(const RetiredEvent& retired, uint64_t begun) {
  const std::lock_guard lock(retired_mutex_);
  std::erase_if(retired_, [&](const RetiredEvent& earlier) {
    const bool over = earlier.device == retired.device && earlier.producer == retired.producer &&
                      earlier.queued < begun;
    if (over) {
      DestroyEvent(earlier.event);
    }
    return over;
  });
  retired_.push_back(retired);
}

void StreamedRuntime::GiveBack() {
  for (const auto& [device, stream] : copy_streams_) {
    const Result<Scope> scope = Enter(device);
    if (!scope.ok()) {
      continue;
    }
    (void)SynchronizeCurrentDevice();
    for (const RetiredEvent& retired : retired_) {
      if (retired.device == device) {
        DestroyEvent(retired.event);
      }
    }
    DestroyStream(stream);
  }
  copy_streams_.clear();
  retired_.clear();
}

}  // namespace msprobe::device
