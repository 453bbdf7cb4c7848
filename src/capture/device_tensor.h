// A tensor whose bytes are on their way from an accelerator: described already, with places for the
// values that follow.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>

#include "msprobe/status.h"
#include "msprobe/tensor_view.h"

#include "src/capture/tensor_values.h"
#include "src/capture/tensor_writers.h"

namespace msprobe::capture {

class StepRecording;

struct DeviceTensor {
  std::shared_ptr<StepRecording> step;
  std::string entry_name;
  TensorView view;  // its data: device memory
  ValueRequest request;
  std::optional<TensorJob> job;  // without memory; nullopt: no file
  // Tickets of what is still to be told; 0: nothing.
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
