#include "src/io/read_budget.h"

#include <fmt/format.h>

#include "src/base/strings.h"

namespace msprobe::io {
namespace {

// Enough for every honest file: views share storages a few times at most.
constexpr uint64_t kTimesFileSize = 8;
constexpr uint64_t kFreeBytes = uint64_t{1} << 30U;
constexpr uint64_t kFreeBytesInMemory = uint64_t{256} << 20U;

}  // namespace

ReadBudget::ReadBudget(uint64_t file_bytes) : ReadBudget(file_bytes, kFreeBytes) {}

ReadBudget::ReadBudget(uint64_t file_bytes, uint64_t free_bytes) : left_bytes_(free_bytes) {
  AddFile(file_bytes);
}

void ReadBudget::AddFile(uint64_t file_bytes) {
  const uint64_t more =
      file_bytes > UINT64_MAX / kTimesFileSize ? UINT64_MAX : file_bytes * kTimesFileSize;
  left_bytes_ = more > UINT64_MAX - left_bytes_ ? UINT64_MAX : left_bytes_ + more;
}

ReadBudget ReadBudget::ForMemory(uint64_t file_bytes) {
  return ReadBudget(file_bytes, kFreeBytesInMemory);
}

Status ReadBudget::Take(const TensorView& view) {
  const auto elements = static_cast<uint64_t>(view.element_count());
  const uint64_t size = DTypeSize(view.dtype);
  if (elements > left_bytes_ / size) {
    return UnsupportedError(
        fmt::format("{} elements over {} of storage: too many repeated bytes to read, left out",
                    base::FormatCount(elements), base::FormatBytes(view.extent_bytes)));
  }
  left_bytes_ -= elements * size;
  return {};
}

}  // namespace msprobe::io
