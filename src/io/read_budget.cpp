#include "src/io/read_budget.h"

#include <fmt/format.h>

#include "src/base/strings.h"

namespace msprobe::io {
namespace {

// Enough for every honest file: views share storages a few times at most.
constexpr uint64_t kTimesFileSize = 8;
constexpr uint64_t kFreeBytes = uint64_t{1} << 30U;

}  // namespace

ReadBudget::ReadBudget(uint64_t file_bytes)
    : left_bytes_(file_bytes > UINT64_MAX / (2 * kTimesFileSize)
                      ? UINT64_MAX
                      : file_bytes * kTimesFileSize + kFreeBytes) {}

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
