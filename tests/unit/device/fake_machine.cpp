#include "tests/unit/device/fake_machine.h"

#include <algorithm>
#include <atomic>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <deque>
#include <map>
#include <memory>
#include <set>
#include <thread>

#include <sys/mman.h>
#include <unistd.h>

namespace msprobe::fake {

thread_local int current_device = -1;

struct Event {
  uint64_t recorded = 0;
  uint64_t reached = 0;
  size_t users = 0;  // pieces of queued work that know it
};

struct Stream {
  std::deque<std::function<void()>> queue;
  bool busy = false;
  bool stopping = false;
  std::thread thread;
};

namespace {

struct Mapping {
  std::byte* inside = nullptr;
  size_t bytes = 0;
};

struct Machine {
  std::mutex mutex;
  std::condition_variable changed;
  std::map<uintptr_t, Mapping> device_memory;
  std::map<uintptr_t, size_t> host_memory;
  std::set<std::unique_ptr<Stream>> streams;
  Stream* default_stream = nullptr;
  std::set<std::unique_ptr<Event>> events;
  std::multiset<uintptr_t> copy_targets;  // of copies under way
  std::vector<std::string> calls;
  std::map<std::string, size_t, std::less<>> call_counts;
  std::vector<std::string> misuse;
  bool lost = false;
  bool capturing = false;
  bool overflowed = false;
  Gate* copy_gate = nullptr;
  ChunkCallback callback = nullptr;
  uint64_t resets = 1;
};

std::atomic<size_t> total_calls = 0;

Machine& Here() {
  static auto* const machine = new Machine;
  return *machine;
}

void StreamLoop(Stream& stream) {
  Machine& machine = Here();
  std::unique_lock lock(machine.mutex);
  while (true) {
    machine.changed.wait(lock, [&] { return !stream.queue.empty() || stream.stopping; });
    if (stream.queue.empty()) {
      return;
    }
    const std::function<void()> work = std::move(stream.queue.front());
    stream.queue.pop_front();
    stream.busy = true;
    lock.unlock();
    work();
    lock.lock();
    stream.busy = false;
    machine.changed.notify_all();
  }
}

// All functions with a name in ...Locked expect the machine's lock.
Stream* NewStreamLocked() {
  auto owned = std::make_unique<Stream>();
  Stream* const stream = owned.get();
  stream->thread = std::thread([stream] { StreamLoop(*stream); });
  Here().streams.insert(std::move(owned));
  return stream;
}

Stream* ResolveLocked(Stream* stream) {
  Machine& machine = Here();
  if (stream != nullptr) {
    return stream;
  }
  if (machine.default_stream == nullptr) {
    machine.default_stream = NewStreamLocked();
  }
  return machine.default_stream;
}

void SynchronizeLocked(Stream* stream, std::unique_lock<std::mutex>& lock) {
  Here().changed.wait(lock, [stream] { return stream->queue.empty() && !stream->busy; });
}

template <typename Owned, typename Pointer>
auto FindOwned(std::set<Owned>& all, Pointer* wanted) {
  return std::find_if(all.begin(), all.end(),
                      [wanted](const Owned& each) { return each.get() == wanted; });
}

void StopStream(std::unique_ptr<Stream> stream) {
  {
    const std::lock_guard lock(Here().mutex);
    stream->stopping = true;
    Here().changed.notify_all();
  }
  stream->thread.join();
}

bool InsideLocked(const std::map<uintptr_t, size_t>& ranges, uintptr_t begin, size_t bytes) {
  auto after = ranges.upper_bound(begin);
  if (after == ranges.begin()) {
    return false;
  }
  --after;
  const size_t offset = begin - after->first;
  return offset <= after->second && bytes <= after->second - offset;
}

}  // namespace

void Gate::Open() {
  const std::lock_guard lock(mutex_);
  open_ = true;
  opened_.notify_all();
}

void Gate::Wait() {
  std::unique_lock lock(mutex_);
  opened_.wait(lock, [this] { return open_; });
}

void Reset() {
  Machine& machine = Here();
  std::set<std::unique_ptr<Stream>> streams;
  {
    const std::lock_guard lock(machine.mutex);
    streams.swap(machine.streams);
    machine.default_stream = nullptr;
  }
  while (!streams.empty()) {
    StopStream(std::move(streams.extract(streams.begin()).value()));
  }
  const std::lock_guard lock(machine.mutex);
  for (const auto& [address, mapping] : machine.device_memory) {
    ::munmap(reinterpret_cast<void*>(address), mapping.bytes);
    ::munmap(mapping.inside, mapping.bytes);
  }
  machine.device_memory.clear();
  for (const auto& [address, bytes] : machine.host_memory) {
    std::free(reinterpret_cast<void*>(address));
  }
  machine.host_memory.clear();
  machine.events.clear();
  machine.copy_targets.clear();
  machine.calls.clear();
  machine.call_counts.clear();
  machine.misuse.clear();
  machine.lost = machine.capturing = machine.overflowed = false;
  machine.copy_gate = nullptr;
  machine.callback = nullptr;
  ++machine.resets;
  current_device = -1;
}

uint64_t ResetCount() {
  const std::lock_guard lock(Here().mutex);
  return Here().resets;
}

std::vector<std::string> Calls() {
  const std::lock_guard lock(Here().mutex);
  return Here().calls;
}

size_t CallCount(std::string_view function) {
  const std::lock_guard lock(Here().mutex);
  const auto found = Here().call_counts.find(function);
  return found == Here().call_counts.end() ? 0 : found->second;
}

std::vector<std::string> Misuse() {
  Machine& machine = Here();
  const std::lock_guard lock(machine.mutex);
  std::vector<std::string> all = machine.misuse;
  if (!machine.lost) {
    const size_t streams = machine.streams.size() - (machine.default_stream != nullptr ? 1 : 0);
    for (const auto& [what, count] :
         {std::pair("events", machine.events.size()), std::pair("streams", streams),
          std::pair("host buffers", machine.host_memory.size())}) {
      if (count > 0) {
        all.push_back(std::to_string(count) + " " + what + " were not given back");
      }
    }
  }
  return all;
}

size_t TotalCalls() { return total_calls; }

size_t EventCount() {
  const std::lock_guard lock(Here().mutex);
  return Here().events.size();
}

void LoseDevices() {
  const std::lock_guard lock(Here().mutex);
  Here().lost = true;
}

bool Lost() {
  const std::lock_guard lock(Here().mutex);
  return Here().lost;
}

void SetCapturing(bool capturing) {
  const std::lock_guard lock(Here().mutex);
  Here().capturing = capturing;
}

bool Capturing() {
  const std::lock_guard lock(Here().mutex);
  return Here().capturing;
}

void SetOverflow(bool overflowed) {
  const std::lock_guard lock(Here().mutex);
  Here().overflowed = overflowed;
}

bool overflow_status() {
  const std::lock_guard lock(Here().mutex);
  return Here().overflowed;
}

void ClearOverflow() { SetOverflow(false); }

void SetCopyGate(Gate* gate) {
  const std::lock_guard lock(Here().mutex);
  Here().copy_gate = gate;
}

int DeviceCount() {
  const char* text = std::getenv("FAKE_DEVICES");
  return text == nullptr ? 2 : std::atoi(text);
}

// The same pages twice: closed for the host, open for the machine.
void* DeviceAllocate(size_t bytes) {
  const int file = ::memfd_create("fake device memory", 0);
  if (file < 0 || ::ftruncate(file, static_cast<off_t>(bytes)) != 0) {
    return nullptr;
  }
  void* const outside = ::mmap(nullptr, bytes, PROT_NONE, MAP_SHARED, file, 0);
  void* const inside = ::mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
  ::close(file);
  if (outside == MAP_FAILED || inside == MAP_FAILED) {
    return nullptr;
  }
  const std::lock_guard lock(Here().mutex);
  Here().device_memory[reinterpret_cast<uintptr_t>(outside)] = {static_cast<std::byte*>(inside),
                                                                bytes};
  return outside;
}

bool DeviceFree(void* address) {
  Machine& machine = Here();
  const std::lock_guard lock(machine.mutex);
  const auto found = machine.device_memory.find(reinterpret_cast<uintptr_t>(address));
  if (found == machine.device_memory.end()) {
    return false;
  }
  ::munmap(address, found->second.bytes);
  ::munmap(found->second.inside, found->second.bytes);
  machine.device_memory.erase(found);
  return true;
}

std::byte* Inside(const void* address, size_t bytes) {
  Machine& machine = Here();
  const std::lock_guard lock(machine.mutex);
  const auto begin = reinterpret_cast<uintptr_t>(address);
  auto after = machine.device_memory.upper_bound(begin);
  if (after == machine.device_memory.begin()) {
    return nullptr;
  }
  --after;
  const size_t offset = begin - after->first;
  const bool fits = offset <= after->second.bytes && bytes <= after->second.bytes - offset;
  return fits ? after->second.inside + offset : nullptr;
}

void* HostAllocate(size_t bytes) {
  void* const memory = std::malloc(std::max<size_t>(bytes, 1));
  const std::lock_guard lock(Here().mutex);
  Here().host_memory[reinterpret_cast<uintptr_t>(memory)] = bytes;
  return memory;
}

bool HostFree(void* address) {
  Machine& machine = Here();
  const std::lock_guard lock(machine.mutex);
  const auto found = machine.host_memory.find(reinterpret_cast<uintptr_t>(address));
  if (found == machine.host_memory.end()) {
    return false;
  }
  const auto target = machine.copy_targets.lower_bound(found->first);
  if (target != machine.copy_targets.end() && *target < found->first + found->second) {
    machine.misuse.emplace_back("host memory was freed under a copy");
  }
  machine.host_memory.erase(found);
  std::free(address);
  return true;
}

Stream* NewStream() {
  const std::lock_guard lock(Here().mutex);
  return NewStreamLocked();
}

bool DestroyStream(Stream* stream) {
  Machine& machine = Here();
  std::unique_ptr<Stream> owned;
  {
    const std::lock_guard lock(machine.mutex);
    const auto found = FindOwned(machine.streams, stream);
    if (found == machine.streams.end()) {
      return false;
    }
    if (stream->busy || !stream->queue.empty()) {
      machine.misuse.emplace_back("a stream was destroyed under work");
    }
    owned = std::move(machine.streams.extract(found).value());
  }
  StopStream(std::move(owned));
  return true;
}

void Run(Stream* stream, std::function<void()> work) {
  const std::lock_guard lock(Here().mutex);
  ResolveLocked(stream)->queue.push_back(std::move(work));
  Here().changed.notify_all();
}

void Synchronize(Stream* stream) {
  std::unique_lock lock(Here().mutex);
  SynchronizeLocked(ResolveLocked(stream), lock);
}

void SynchronizeAll() {
  std::unique_lock lock(Here().mutex);
  for (const auto& stream : Here().streams) {
    SynchronizeLocked(stream.get(), lock);
  }
}

Event* NewEvent() {
  auto owned = std::make_unique<Event>();
  Event* const event = owned.get();
  const std::lock_guard lock(Here().mutex);
  Here().events.insert(std::move(owned));
  return event;
}

bool DestroyEvent(Event* event) {
  Machine& machine = Here();
  std::unique_lock lock(machine.mutex);
  const auto found = FindOwned(machine.events, event);
  if (found == machine.events.end()) {
    return false;
  }
  if (event->users > 0 && !machine.lost) {
    machine.misuse.emplace_back("an event was destroyed under work");
  }
  machine.changed.wait(lock, [event] { return event->users == 0; });
  machine.events.erase(found);
  return true;
}

void Record(Event* event, Stream* stream) {
  uint64_t number = 0;
  {
    const std::lock_guard lock(Here().mutex);
    number = ++event->recorded;
    ++event->users;
  }
  Run(stream, [event, number] {
    const std::lock_guard lock(Here().mutex);
    event->reached = std::max(event->reached, number);
    --event->users;
    Here().changed.notify_all();
  });
}

void MakeStreamWait(Stream* stream, Event* event) {
  uint64_t number = 0;
  {
    const std::lock_guard lock(Here().mutex);
    number = event->recorded;
    ++event->users;
  }
  Run(stream, [event, number] {
    std::unique_lock lock(Here().mutex);
    Here().changed.wait(lock, [event, number] { return event->reached >= number; });
    --event->users;
    Here().changed.notify_all();
  });
}

bool Reached(Event* event) {
  const std::lock_guard lock(Here().mutex);
  return event->reached >= event->recorded;
}

void Synchronize(Event* event) {
  std::unique_lock lock(Here().mutex);
  Here().changed.wait(lock, [event] { return event->reached >= event->recorded; });
}

bool QueueCopyToHost(void* target, const void* source, size_t bytes, Stream* stream) {
  Machine& machine = Here();
  const std::byte* const inside = Inside(source, bytes);
  if (inside == nullptr) {
    return false;
  }
  const auto address = reinterpret_cast<uintptr_t>(target);
  Gate* gate = nullptr;
  {
    const std::lock_guard lock(machine.mutex);
    if (!InsideLocked(machine.host_memory, address, bytes)) {
      machine.misuse.emplace_back("a copy goes to memory that is not page-locked");
      return false;
    }
    machine.copy_targets.insert(address);
    gate = machine.copy_gate;
  }
  Run(stream, [=, &machine] {
    if (gate != nullptr) {
      gate->Wait();
    }
    std::memcpy(target, inside, bytes);
    const std::lock_guard lock(machine.mutex);
    machine.copy_targets.erase(machine.copy_targets.find(address));
  });
  return true;
}

int Enter(const char* variable, const char* function) {
  ++total_calls;
  Machine& machine = Here();
  const std::lock_guard lock(machine.mutex);
  machine.calls.emplace_back(function);
  const size_t earlier = machine.call_counts[function]++;
  const char* const log = std::getenv("FAKE_LOG");
  if (log != nullptr) {
    if (std::FILE* file = std::fopen(log, "a"); file != nullptr) {
      std::fprintf(file, "%s\n", function);
      std::fclose(file);
    }
  }
  const char* rules = std::getenv(variable);
  const std::string wanted = std::string(function) + ":";
  while (rules != nullptr && *rules != '\0') {
    if (std::strncmp(rules, wanted.c_str(), wanted.size()) == 0) {
      char* end = nullptr;
      const long code = std::strtol(rules + wanted.size(), &end, 10);
      const long succeed = *end == ':' ? std::strtol(end + 1, nullptr, 10) : 0;
      return earlier < static_cast<size_t>(succeed) ? 0 : static_cast<int>(code);
    }
    rules = std::strchr(rules, ',');
    rules = rules == nullptr ? nullptr : rules + 1;
  }
  return 0;
}

void SetChunkCallback(ChunkCallback callback) {
  const std::lock_guard lock(Here().mutex);
  Here().callback = callback;
}

bool EmitChunk(std::string_view file, std::string_view bytes, bool last, int64_t offset) {
  ChunkCallback callback = nullptr;
  {
    const std::lock_guard lock(Here().mutex);
    callback = Here().callback;
  }
  if (callback == nullptr) {
    return false;
  }
  // char fileName[4096]; uint32 bufLen; uint32 isLastChunk; int64 offset; int32 flag; uint8
  // dataBuf[]
  constexpr size_t kDataOffset = 4116;
  std::vector<std::byte> chunk(kDataOffset + bytes.size() + 4);
  std::memcpy(chunk.data(), file.data(), std::min<size_t>(file.size(), 4096));
  const auto length = static_cast<uint32_t>(bytes.size());
  const uint32_t is_last = last ? 1 : 0;
  std::memcpy(chunk.data() + 4096, &length, sizeof(length));
  std::memcpy(chunk.data() + 4100, &is_last, sizeof(is_last));
  std::memcpy(chunk.data() + 4104, &offset, sizeof(offset));
  std::memcpy(chunk.data() + kDataOffset, bytes.data(), bytes.size());
  std::thread([&] { callback(chunk.data(), static_cast<int32_t>(chunk.size())); }).join();
  return true;
}

}  // namespace msprobe::fake
