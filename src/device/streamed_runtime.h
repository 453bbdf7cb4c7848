// The common part of runtimes with streams and events: how copies are ordered, and which process
// may touch a device. A vendor's runtime supplies the primitives.
#pragma once

#include <atomic>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <string_view>
#include <vector>

#include <sys/types.h>

#include "msprobe/status.h"

#include "src/device/device.h"

namespace msprobe::device {

// A vendor's library, opened at run time, and the functions found in it. The only place that talks
// to the dynamic loader.

// Stays open until the process ends: the threads of a vendor's library cannot be unloaded.
class Library {
 public:
  Library() = default;

  // The library that `override_variable` names in the environment wins, whatever `loading` says.
  // Otherwise the first of `names` that this process has loaded already; with kMayLoad also the
  // first that the loader finds.
  struct Search {
    const char* override_variable;
    std::vector<std::string> names;
    std::string_view purpose;       // in the error: "Ascend devices"
    std::string_view install_hint;  // what may be done when there is none; may be empty
  };
  static Result<Library> Open(const Search& search, Loading loading);
  // Only if this process has it; nothing else is tried.
  static Library IfLoaded(const char* name);

  bool is_open() const { return handle_ != nullptr; }
  const std::string& path() const { return path_; }

  // Null when the library does not export it.
  template <typename Function>
  Function* Find(const char* symbol) const {
    return reinterpret_cast<Function*>(FindAddress(symbol));
  }

 private:
  explicit Library(void* handle);
  void* FindAddress(const char* symbol) const;

  void* handle_ = nullptr;
  std::string path_;
};

// The features for which a library is too old. A feature is a number; its name, such as "overflow
// status", follows "no" in messages.
class FeatureTable {
 public:
  explicit FeatureTable(std::vector<std::string_view> feature_names);

  // Looks a function up; one that is absent takes its feature away.
  template <typename Function>
  void Load(const Library& library, size_t feature, const char* symbol, Function*& target) {
    target = library.Find<Function>(symbol);
    if (target == nullptr) {
      missing_[feature].emplace_back(symbol);
    }
  }

  // Ok, or kUnsupported with the functions that `library` lacks for it.
  Status Require(const Library& library, size_t feature) const;
  // A sentence per feature that is not available.
  std::vector<std::string> Limitations() const;

 private:
  std::vector<std::string_view> names_;
  std::vector<std::vector<std::string>> missing_;  // by feature
};

class StreamedRuntime : public Runtime {
 public:
  using Event = void*;

  Result<HostBuffer> AllocateHost(int32_t device, size_t bytes) final;
  Result<std::unique_ptr<Copy>> CopyToHost(const CopyRequest& request) final;
  Status Synchronize(int32_t device) final;

 protected:
  // Makes `device` the current one of the calling thread; at its end the thread has what it had
  // before.
  class Scope {
   public:
    Scope() = default;
    Scope(StreamedRuntime* runtime, void* restore) : runtime_(runtime), restore_(restore) {}
    Scope(Scope&& other) noexcept
        : runtime_(std::exchange(other.runtime_, nullptr)), restore_(other.restore_) {}
    Scope& operator=(Scope&&) = delete;
    Scope(const Scope&) = delete;
    Scope& operator=(const Scope&) = delete;
    ~Scope() {
      if (runtime_ != nullptr) {
        runtime_->LeaveDevice(restore_);
      }
    }

   private:
    StreamedRuntime* runtime_ = nullptr;
    void* restore_ = nullptr;
  };

  // Ready, in the process that made this object, and on `device`: the begin of everything.
  Result<Scope> Enter(int32_t device);
  // From now on the runtime belongs to this process; to be called before its library is.
  void ClaimProcess();
  // False in a forked child of the process that claimed.
  bool InOwnProcess() const;
  Status CheckProcess() const;
  // Streams and events, for the destructor of a runtime.
  void GiveBack();

  void FreeHost(int32_t device, void* memory) final;

  // Primitives, called after Ready() succeeded; but for EnterDevice, on the device.
  virtual Result<Scope> EnterDevice(int32_t device) = 0;
  virtual void LeaveDevice(void* restore) = 0;
  virtual Result<void*> AllocatePinned(size_t bytes) = 0;
  virtual void FreePinned(void* memory) = 0;
  virtual Result<Stream> CreateStream() = 0;
  virtual void DestroyStream(Stream stream) = 0;
  virtual Status SynchronizeStream(Stream stream) = 0;
  virtual Status SynchronizeCurrentDevice() = 0;
  // Whether work on the stream is being recorded into a graph instead of executed.
  virtual Result<bool> IsCapturing(Stream stream) = 0;
  virtual Result<Event> CreateEvent() = 0;
  virtual void DestroyEvent(Event event) = 0;
  virtual Status RecordEvent(Event event, Stream stream) = 0;
  virtual Status MakeStreamWait(Stream stream, Event event) = 0;
  virtual Result<bool> EventReached(Event event) = 0;
  virtual Status SynchronizeEvent(Event event) = 0;
  virtual Status QueueCopyToHost(const CopyRequest& request, Stream stream) = 0;

 private:
  class StreamedCopy;

  // An event that is of no use any more, but still known to work that is queued on `producer`.
  struct RetiredEvent {
    int32_t device;
    Stream producer;
    Event event;
    uint64_t queued;  // by this tick of the clock
  };

  // Keeps an event of a copy, begun at the tick `begun` and over by now; destroys older ones that
  // nothing refers to any more. The device is entered.
  void RetireEvent(const RetiredEvent& retired, uint64_t begun);
  Result<Stream> CopyStream(int32_t device);

  std::atomic<pid_t> process_ = 0;  // 0: not claimed yet
  std::mutex streams_mutex_;
  std::map<int32_t, Stream> copy_streams_;  // by device
  std::atomic<uint64_t> clock_ = 0;         // orders what calling threads queue
  std::mutex retired_mutex_;
  std::vector<RetiredEvent> retired_;
};

}  // namespace msprobe::device
