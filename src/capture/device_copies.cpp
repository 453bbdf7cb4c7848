#include "src/capture/device_copies.h"

#include <algorithm>
#include <exception>
#include <map>
#include <mutex>
#include <new>
#include <string>
#include <utility>

#include <fmt/format.h>
#include <sys/types.h>
#include <unistd.h>

#include "src/base/threads.h"
#include "src/capture/step_recording.h"
#include "src/dump/record_log.h"
#include "src/json/writer.h"

namespace msprobe::capture {
namespace {

constexpr size_t kAlignmentBytes = 64;
constexpr size_t kSmallestRingBytes = size_t{1} << 20U;
// Each copy under way costs the runtime two events, of which devices have some ten thousands.
constexpr size_t kCopiesUnderWay = 1024;

// Made when the library is loaded: where memory has run out, none is left for a message.
const Result<std::span<const std::byte>> kNoMemoryForCopy = InternalError("no memory for the copy");

// Copies end in the order in which they began: their memory is a ring.
class Ring {
 public:
  // A ring of `bytes`, or of less.
  Status Make(device::Runtime& runtime, int32_t device, size_t bytes) {
    while (true) {
      Result<device::HostBuffer> buffer = runtime.AllocateHost(device, bytes);
      if (buffer.ok()) {
        buffer_ = *std::move(buffer);
        return {};
      }
      if (bytes / 2 < kSmallestRingBytes) {
        return std::move(buffer).status();
      }
      bytes = bytes / 2 / kAlignmentBytes * kAlignmentBytes;
    }
  }

  size_t capacity() const { return buffer_.capacity(); }

  // Null when the free part is too small for now. `bytes` <= capacity().
  std::byte* Take(size_t bytes) {
    const size_t rounded = (bytes + kAlignmentBytes - 1) / kAlignmentBytes * kAlignmentBytes;
    if (begin_ == end_) {
      begin_ = end_ = 0;
    }
    end_before_ = end_;
    const auto place = static_cast<size_t>(end_ % capacity());
    // A copy that does not fit after the last one begins at the front; the rest is skipped.
    const bool fits = place + rounded <= capacity();
    const size_t wanted = fits ? rounded : capacity() - place + rounded;
    if (end_ - begin_ + wanted > capacity()) {
      return nullptr;
    }
    end_ += wanted;
    return buffer_.data() + (fits ? place : 0);
  }

  // Gives back everything up to and with what ended here.
  uint64_t end() const { return end_; }
  void Release(uint64_t end) { begin_ = end; }
  // Takes the last Take() back.
  void Undo() { end_ = end_before_; }

 private:
  device::HostBuffer buffer_;
  uint64_t begin_ = 0;  // positions count on; modulo capacity they are places
  uint64_t end_ = 0;
  uint64_t end_before_ = 0;  // of the last Take()
};

}  // namespace

// Everything that a forked child must not touch: the locks and threads of its parent.
class DeviceCopies::Line {
 public:
  Line(device::Registry& devices, size_t memory_bytes)
      : devices_(devices),
        memory_bytes_(std::max(memory_bytes, kAlignmentBytes) / kAlignmentBytes * kAlignmentBytes),
        process_(::getpid()) {}
  Line(const Line&) = delete;
  Line& operator=(const Line&) = delete;
  bool InOwnProcess() const { return ::getpid() == process_; }

  Status Queue(const Source& source, Deliver deliver) {
    const std::lock_guard queueing(queueing_mutex_);
    MSP_ASSIGN_OR_RETURN(Ring * ring, RingOf(source.kind, source.device));
    if (const Status started = queue_.Start(); !started.ok()) {
      return InternalError(fmt::format("no copies from devices: {}", started.message()));
    }
    Job job;
    job.line = this;
    job.bytes = source.bytes;
    job.deliver = std::move(deliver);
    if (source.bytes <= ring->capacity()) {
      job.ring = ring;
      while (!TakePlace(job)) {
      }
    } else {
      queue_.WaitUntilIdle();
      MSP_ASSIGN_OR_RETURN(job.own_memory,
                           devices_.Get(source.kind).AllocateHost(source.device, source.bytes));
      job.target = job.own_memory.data();
    }
    Result<std::unique_ptr<device::Copy>> copy =
        devices_.Get(source.kind)
            .CopyToHost({source.device, source.data, source.bytes, job.target, source.stream});
    if (!copy.ok()) {
      if (job.ring != nullptr) {
        const std::lock_guard lock(rings_mutex_);
        ring->Undo();
      }
      return std::move(copy).status();
    }
    job.copy = *std::move(copy);
    if (queue_.TryAdd(job) != base::WorkQueue<Job>::Added::kYes) {
      Finish(job);  // no memory for its place in the queue
    }
    return {};
  }

  void Wait() { queue_.WaitUntilIdle(); }

 private:
  struct Job {
    Line* line = nullptr;
    std::unique_ptr<device::Copy> copy;
    device::HostBuffer own_memory;
    std::byte* target = nullptr;
    size_t bytes = 0;
    Ring* ring = nullptr;
    uint64_t ring_end = 0;
    Deliver deliver;
  };

  // A place in its ring; false after a wait for copies to end, when it is to be tried again.
  bool TakePlace(Job& job) {
    const uint64_t finished = queue_.finished_count();
    if (queue_.has_room()) {
      const std::lock_guard lock(rings_mutex_);
      job.target = job.ring->Take(job.bytes);
      job.ring_end = job.ring->end();
    }
    if (job.target == nullptr) {
      queue_.WaitForMoreThan(finished);
    }
    return job.target != nullptr;
  }

  Result<Ring*> RingOf(device::Kind kind, int32_t device) {
    const auto key = std::pair(kind, device);
    const auto found = rings_.find(key);
    if (found != rings_.end()) {
      return &found->second;
    }
    Ring ring;
    MSP_RETURN_IF_ERROR(ring.Make(devices_.Get(kind), device, memory_bytes_));
    return &rings_.emplace(key, std::move(ring)).first->second;
  }

  static void Finish(Job& job) {
    try {
      Status copied = job.copy->Wait();
      if (copied.ok()) {
        job.deliver(std::span<const std::byte>(job.target, job.bytes));
      } else {
        job.deliver(std::move(copied));
      }
    } catch (const std::bad_alloc&) {  // of Wait(): whether the bytes arrived is unknown
      job.deliver(kNoMemoryForCopy);
    }
    job.copy.reset();
    job.deliver = nullptr;
    if (job.ring != nullptr) {
      const std::lock_guard lock(job.line->rings_mutex_);
      job.ring->Release(job.ring_end);
    }
  }

  device::Registry& devices_;
  const size_t memory_bytes_;
  const pid_t process_;
  std::mutex queueing_mutex_;  // copies begin in the order of their places
  std::mutex rings_mutex_;     // of the insides of the rings
  std::map<std::pair<device::Kind, int32_t>, Ring> rings_;
  base::WorkQueue<Job> queue_{{.most = kCopiesUnderWay}, Finish};
};

DeviceCopies::DeviceCopies(device::Registry& devices, size_t memory_bytes)
    : line_(std::make_unique<Line>(devices, memory_bytes)) {}

DeviceCopies::~DeviceCopies() {
  if (!line_->InOwnProcess()) {
    (void)line_.release();
  }
}

Status DeviceCopies::Queue(const Source& source, Deliver deliver) {
  if (!line_->InOwnProcess()) {
    return DeviceError("a forked process cannot copy from the devices of its parent");
  }
  Status queued = line_->Queue(source, std::move(deliver));
  if (queued.ok() || queued.code() == StatusCode::kInternal) {
    return queued;
  }
  // For hooks it is all the same whether a library, a device or a feature of it is missing.
  return DeviceError(queued.message()).WithHint(queued.hint());
}

void DeviceCopies::Wait() {
  if (line_->InOwnProcess()) {
    line_->Wait();
  }
}

Result<bool> TakeDeviceOverflow(device::Registry& devices, const DeviceCopies::Source& source) {
  device::Runtime& runtime = devices.Get(source.kind);
  const Result<device::OverflowMode> mode = runtime.GetOverflowMode(source.device);
  if (mode.status().code() == StatusCode::kUnsupported) {
    return false;
  }
  MSP_RETURN_IF_ERROR(mode.status());
  if (*mode != device::OverflowMode::kSaturation) {
    return false;
  }
  MSP_ASSIGN_OR_RETURN(const bool overflowed, runtime.Overflowed(source.device, source.stream));
  if (overflowed) {
    MSP_RETURN_IF_ERROR(runtime.ResetOverflow(source.device, source.stream));
  }
  return overflowed;
}

namespace {

void Deliver(DeviceTensor& tensor, std::span<const std::byte> bytes) {
  TensorView view = tensor.view;
  view.data = bytes.data();
  if (!tensor.job) {
    tensor.values = ExamineTensor(view, tensor.request);
  } else {
    TensorWriters& writers = *tensor.step->engine().writers;
    const size_t size_bytes = view.size_bytes();
    TensorJob& job = *tensor.job;
    if (!job.memory) {
      job.memory =
          tensor.is_held ? writers.TryTake(size_bytes) : writers.Take(size_bytes, kPatience);
    }
    tensor.request.copy_to = job.memory.data();
    tensor.values = ExamineTensor(view, tensor.request);
    job.data_crc32 = tensor.values.copy_crc32;
    if (!job.memory) {
      WriteWithoutCopy(job, view, !tensor.is_held && !writers.fits(size_bytes), writers);
      tensor.job.reset();
    }
  }
  if (!tensor.is_held) {
    PublishDeviceTensor(tensor);
  }
}

}  // namespace

void DeliverDeviceTensor(DeviceTensor& tensor, const Result<std::span<const std::byte>>& bytes) {
  if (tensor.is_dropped.load()) {
    return;
  }
  const base::NoFileSizeSignal guard;
  const char* trouble = nullptr;
  try {
    if (bytes.ok()) {
      Deliver(tensor, *bytes);
      return;
    }
  } catch (const std::bad_alloc&) {
    trouble = "no memory";
  } catch (const std::exception&) {
    trouble = "a defect in msprobe";
  }
  tensor.job.reset();
  tensor.step->CountLostRecord();
  try {
    tensor.step->ReportError(tensor.entry_name,
                             "a tensor could not be copied: " +
                                 (trouble != nullptr ? trouble : bytes.status().message()));
  } catch (const std::bad_alloc&) {  // it is counted
  }
}

void PublishDeviceTensor(DeviceTensor& tensor) {
  StepRecording& step = *tensor.step;
  std::string records;
  const auto append = [&](uint64_t ticket, auto put) {
    std::string text;
    json::Writer json(text, 1, step.non_finite(), tensor.depth);
    put(json);
    dump::AppendPending(ticket, text, records);
  };
  if (tensor.statistics_ticket != 0) {
    for (size_t i = 0; i < tensor.values.statistics.size(); ++i) {
      append(tensor.statistics_ticket + i,
             [&](json::Writer& json) { PutStatistic(tensor.values.statistics[i], json); });
    }
  }
  if (tensor.checksum_ticket != 0) {
    append(tensor.checksum_ticket, [&](json::Writer& json) { PutChecksum(tensor.values, json); });
  }
  if (tensor.extended_ticket != 0) {
    append(tensor.extended_ticket, [&](json::Writer& json) { PutExtended(tensor.values, json); });
  }
  if (!records.empty() && !step.Append(records)) {
    step.ReportError(tensor.entry_name, step.LostError().message());
  }
  if (tensor.job) {
    tensor.job->Submit(*step.engine().writers);
    tensor.job.reset();
  }
}

void PutChecksum(const TensorValues& values, json::Writer& json) {
  if (values.scalar) {
    PutStatistic(*values.scalar, json);
  } else if (values.xor64) {
    json.Text(fmt::format("0x{:016x}", static_cast<uint64_t>(*values.xor64)));
  } else if (values.crc32) {
    json.Text(fmt::format("{:08x}", *values.crc32));
  } else {
    json.Null();
  }
}

void PutExtended(const TensorValues& values, json::Writer& json) {
  json.BeginObject();
  json.Member("nan_count", values.counts.nan_count);
  json.Member("positive_infinity_count", values.counts.positive_inf_count);
  json.Member("negative_infinity_count", values.counts.negative_inf_count);
  json.Member("zero_count", values.counts.zero_count);
  json.Member("finite_max", values.finite_max);
  json.Member("finite_min", values.finite_min);
  json.EndObject();
}

}  // namespace msprobe::capture
