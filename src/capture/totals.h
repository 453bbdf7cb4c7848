// Counts since the capture was opened.
#pragma once

#include <atomic>
#include <cstdint>

namespace msprobe::capture {

struct Totals {
  std::atomic<uint64_t> steps{0};
  std::atomic<uint64_t> entries{0};
  std::atomic<uint64_t> tensors{0};
  std::atomic<uint64_t> tensor_files{0};
  std::atomic<uint64_t> tensor_bytes{0};
  std::atomic<uint64_t> written_bytes{0};
  std::atomic<uint64_t> deduplicated_files{0};
  std::atomic<uint64_t> lost_files{0};
  std::atomic<uint64_t> errors{0};
  std::atomic<uint64_t> dropped_records{0};
  std::atomic<uint64_t> dropped_files{0};
  std::atomic<uint64_t> dropped_steps{0};
  std::atomic<uint64_t> engine_nanoseconds{0};
  std::atomic<uint64_t> repeat_nanoseconds{
      0};  // calls that were made once more for their noise floors
};

}  // namespace msprobe::capture
