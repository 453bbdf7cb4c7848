// Tensors of accelerators on their way to the host: copied behind the work that produces them, into
// memory of a fixed size, and handed over when complete. The training thread waits only while that
// memory is full. In a forked child nothing is copied any more, and nothing delivered.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <span>

#include "msprobe/status.h"

#include "src/device/device.h"

namespace msprobe::capture {

class DeviceCopies {
 public:
  struct Source {
    device::Kind kind = device::Kind::kHost;
    int32_t device = 0;
    const void* data = nullptr;  // device memory
    size_t bytes = 0;
    device::Stream stream = nullptr;  // what produces the bytes was queued here
  };
  // Gets the bytes, which are valid during the call, or why there are none. Runs on a thread of
  // this object, one at a time, in the order of Queue(). Must not call Queue() or Wait(), nor
  // throw.
  using Deliver = std::function<void(const Result<std::span<const std::byte>>& bytes)>;

  // `memory_bytes` of page-locked memory per device that is used; taken at its first copy, less
  // where that much cannot be had. A larger tensor travels alone, in memory of its own.
  DeviceCopies(device::Registry& devices, size_t memory_bytes);
  DeviceCopies(const DeviceCopies&) = delete;
  DeviceCopies& operator=(const DeviceCopies&) = delete;
  ~DeviceCopies();  // delivers what is under way

  // Queues a copy; later work on the stream cannot overtake it. Either an error, or `deliver` is
  // called once. Any thread.
  Status Queue(const Source& source, Deliver deliver);

  // Returns when everything queued before has been delivered.
  void Wait();

 private:
  class Line;

  std::unique_ptr<Line> line_;
};

}  // namespace msprobe::capture
