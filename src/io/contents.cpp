#include "src/io/contents.h"

#include <algorithm>
#include <utility>

#include <fmt/format.h>

#include "src/base/strings.h"

namespace msprobe::io {

Result<int64_t> DenseBytes(const Shape& shape, size_t element_bytes) {
  if (shape.size() > kMaxRank) {
    return UnsupportedError(
        fmt::format("a tensor of rank {} (the limit is {})", shape.size(), kMaxRank));
  }
  auto bytes = static_cast<int64_t>(element_bytes);
  bool empty = false;
  for (int64_t size : shape) {
    if (size < 0) {
      return BadFormatError(fmt::format("negative size in shape {}", ShapeText(shape)));
    }
    empty |= size == 0;
    if (size > 0 && !CheckedMultiply(bytes, size, &bytes)) {
      return BadFormatError(fmt::format("shape {} is larger than any memory", ShapeText(shape)));
    }
  }
  return empty ? 0 : bytes;
}

Result<TensorView> MakeDenseView(DType dtype, Shape shape, bool fortran_order,
                                 std::span<const std::byte> data) {
  MSP_ASSIGN_OR_RETURN(const int64_t bytes, DenseBytes(shape, DTypeSize(dtype)));
  if (static_cast<uint64_t>(bytes) > data.size()) {
    return BadFormatError(fmt::format("shape {} of {} needs {} bytes, there are {}",
                                      ShapeText(shape), DTypeName(dtype), bytes, data.size()));
  }
  TensorView view;
  view.dtype = dtype;
  if (fortran_order) {
    Shape reversed(shape.rbegin(), shape.rend());
    view.strides = ContiguousStrides(reversed);
    std::reverse(view.strides.begin(), view.strides.end());
  } else {
    view.strides = ContiguousStrides(shape);
  }
  view.shape = std::move(shape);
  view.data = data.data();
  view.extent_bytes = static_cast<size_t>(bytes);
  return view;
}

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
