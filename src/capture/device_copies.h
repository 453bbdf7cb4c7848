// Tensors of accelerators on their way to the host: copied behind the work that produces them, into
// memory of a fixed size, and handed over when complete. The training thread waits only while that
// memory is full. In a forked child nothing is copied any more, and nothing delivered.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>

#include "msprobe/status.h"
#include "msprobe/tensor_view.h"

#include "src/capture/tensor_files.h"
#include "src/capture/tensor_values.h"
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

// Overflow on devices that replace what is beyond the range of a type by its largest number:
// tensors do not show it there, the hardware keeps a status instead.

// Whether something overflowed since the last question, in work that was queued on the stream of
// `source` before; waits for it. False where tensors show it: on devices that make infinities, and
// where there is no such status.
Result<bool> TakeDeviceOverflow(device::Registry& devices, const DeviceCopies::Source& source);

// A tensor whose bytes are on their way from an accelerator: described already, with places for the
// values that follow.

class StepRecording;

struct DeviceTensor {
  std::shared_ptr<StepRecording> step;
  std::string entry_name;
  TensorView view;  // its data: device memory
  ValueRequest request;
  std::optional<TensorJob> job;  // without memory; nullopt: no file
  // Tickets of copies whose end is still to be reported; 0: none.
  uint64_t statistics_ticket = 0;
  uint64_t checksum_ticket = 0;
  uint64_t extended_ticket = 0;
  size_t depth = 0;  // of the object under extended_ticket
  // Overflow check: what was found is kept until the commit asks for it.
  bool is_held = false;
  std::atomic<bool> is_dropped{false};

  TensorValues values;  // when delivered
};

// To be called with the bytes behind view.data, on whatever thread they arrive. Never throws.
void DeliverDeviceTensor(DeviceTensor& tensor, const Result<std::span<const std::byte>>& bytes);
// Records values and hands over the file of a held one.
void PublishDeviceTensor(DeviceTensor& tensor);

// The value of "md5" and of "extended", as JSON.
void PutChecksum(const TensorValues& values, json::Writer& json);
void PutExtended(const TensorValues& values, json::Writer& json);

}  // namespace msprobe::capture
