// A machine with accelerators, made of threads and host memory, behind the fake vendor libraries of
// the tests. It is stricter than real ones: reading device memory on the host is a segmentation
// fault, work on streams happens later and on other threads, and misuse that hardware would forgive
// is written down.
#pragma once

#include <condition_variable>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <mutex>
#include <string>
#include <string_view>
#include <vector>

namespace msprobe::fake {

// ---- for tests ----

// Back to a fresh machine, whose runtimes are not initialised; objects of before must be gone.
void Reset();
uint64_t ResetCount();
// Names of the library functions called since Reset(), in order.
std::vector<std::string> Calls();
size_t CallCount(std::string_view function);
// Of all time, without a lock: also in a forked child.
size_t TotalCalls();
// What was misused, or not given back: events and streams destroyed under work, host memory freed
// under a copy, copies into memory that is not page-locked, leaks.
std::vector<std::string> Misuse();
size_t EventCount();
// From now on every call about devices fails as on a card that fell off the bus.
void LoseDevices();
// What aclrtGetOverflowStatus finds.
void SetOverflow(bool overflowed);
// Streams record into a graph from now on.
void SetCapturing(bool capturing);

// Work that waits until it may go on.
class Gate {
 public:
  void Open();
  void Wait();

 private:
  std::mutex mutex_;
  std::condition_variable opened_;
  bool open_ = false;
};
// Copies wait for the gate before they read; null: they do not.
void SetCopyGate(Gate* gate);

// Hands a piece of a file to the registered callback of the kernel dump, on a thread of its own.
// False when none is registered.
bool EmitChunk(std::string_view file, std::string_view bytes, bool last, int64_t offset = -1);

// ---- memory ----

void* DeviceAllocate(size_t bytes);
bool DeviceFree(void* address);
// The bytes behind a range of device memory, which only the machine may touch; null when it is
// none.
std::byte* Inside(const void* address, size_t bytes);
void* HostAllocate(size_t bytes);
bool HostFree(void* address);

// ---- streams and events ----

struct Stream;
struct Event;

int DeviceCount();                       // FAKE_DEVICES, default 2
extern thread_local int current_device;  // -1: the thread has no context
bool Lost();
bool Capturing();

Stream* NewStream();
bool DestroyStream(Stream* stream);
// Queues work; a null stream is the default one.
void Run(Stream* stream, std::function<void()> work);
void Synchronize(Stream* stream);
void SynchronizeAll();
Event* NewEvent();
bool DestroyEvent(Event* event);
void Record(Event* event, Stream* stream);
void MakeStreamWait(Stream* stream, Event* event);
bool Reached(Event* event);
void Synchronize(Event* event);
// False when the ranges are not what they should be.
bool QueueCopyToHost(void* target, const void* source, size_t bytes, Stream* stream);
bool overflow_status();
void ClearOverflow();

// ---- calls ----

// Writes the call down and returns the code to fail with, 0 for none. `variable` names the
// environment variable with failures to inject, "function:code" or "function:code:calls that
// succeed before", separated by commas. FAKE_LOG names a file that gets the names of all calls.
int Enter(const char* variable, const char* function);

// struct acldumpChunk*, length.
using ChunkCallback = int32_t (*)(const void* chunk, int32_t length);
void SetChunkCallback(ChunkCallback callback);

}  // namespace msprobe::fake
