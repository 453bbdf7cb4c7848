#include "src/io/kernel_dump/row_groups.h"

#include <algorithm>
#include <cstring>

#include "src/kernels/stream_copy.h"
#include "src/kernels/transpose.h"

namespace msprobe::io::kernel_dump {
namespace {

constexpr int64_t kFewestRows = 16;
constexpr int64_t kMostPlanes = int64_t{1} << 16U;
constexpr int64_t kPageBytes = 4096;
constexpr int64_t kRunBytes = 1024;  // of a row that are written at once
// Of one that is only gathered: the buffer fits the first cache.
constexpr int64_t kPlainRunBytes = 256;
constexpr int64_t kBufferBytes = int64_t{256} << 10U;  // in the second-level cache
constexpr int64_t kLineBytes = 64;
constexpr int64_t kMostFetched = 16;  // lines that are on their way from memory at once

// An axis as one digit where its two are one walk: filters 16 by 16, each block behind the other.
BlockedAxis OneDigit(const BlockedAxis& axis) {
  BlockedAxis whole = axis;
  if (axis.block > 1 && axis.outer_stride == axis.block * axis.inner_stride) {
    whole.block = 1;
    whole.outer_stride = axis.inner_stride;
    whole.inner_stride = 0;
  }
  return whole;
}

class RowCopy {
 public:
  RowCopy(const RowGroups& groups, size_t element_bytes, const std::byte* device, std::byte* plain)
      : groups_(groups),
        size_(static_cast<int64_t>(element_bytes)),
        device_(device),
        plain_(plain),
        row_bytes_(groups.channels * groups.window * size_),
        block_bytes_(groups.block * groups.window * size_),
        rows_at_once_(std::clamp<int64_t>(
            kBufferBytes / std::max(block_bytes_, kRunBytes), 1,
            std::min(groups.rows, std::max(kFewestRows, kPageBytes / (groups.block * size_))))),
        blocks_at_once_(
            std::max<int64_t>(1, (groups.window > 1 ? kRunBytes : kPlainRunBytes) / block_bytes_)),
        buffer_row_(blocks_at_once_ * block_bytes_ + 2 * kLineBytes),
        buffer_(static_cast<size_t>(rows_at_once_ * buffer_row_)),
        kept_(static_cast<size_t>(rows_at_once_)) {}

  void Run() {
    std::byte* plain = plain_;
    for (const int64_t plane : groups_.planes) {
      for (int64_t row = 0; row < groups_.rows; row += rows_at_once_) {
        Rows(device_ + (plane + row * groups_.block) * size_, plain + row * row_bytes_,
             std::min(rows_at_once_, groups_.rows - row));
      }
      plain += groups_.rows * row_bytes_;
    }
    kernels::FinishStreams();
  }

 private:
  // A row of the buffer begins where a cache line of the plain row does, so that whole lines are
  // written: what is left of the last one waits for the next blocks.
  void Rows(const std::byte* device, std::byte* plain, int64_t rows) {
    for (int64_t row = 0; row < rows; ++row) {
      kept_[static_cast<size_t>(row)] =
          static_cast<int64_t>(reinterpret_cast<uintptr_t>(plain + row * row_bytes_) % kLineBytes);
    }
    const int64_t blocks = (groups_.channels + groups_.block - 1) / groups_.block;
    for (int64_t first = 0; first < blocks; first += blocks_at_once_) {
      const int64_t end = std::min(blocks, first + blocks_at_once_);
      for (int64_t block = first; block < end; ++block) {
        const int64_t channels = std::min(groups_.block, groups_.channels - block * groups_.block);
        const std::byte* from = device + block * groups_.block_stride * size_;
        std::byte* to = buffer_.data() + (block - first) * block_bytes_;
        const bool fetches = block + 1 < blocks && groups_.window <= kMostFetched;
        for (int64_t row = 0; row < rows; ++row) {
          if (fetches && row * groups_.block * size_ % kLineBytes == 0) {
            FetchNext(from);
          }
          Block(from, to + kept_[static_cast<size_t>(row)], channels);
          from += groups_.block * size_;
          to += buffer_row_;
        }
      }
      const int64_t begin = first * block_bytes_;
      const int64_t bytes = std::min(end * block_bytes_, row_bytes_) - begin;
      for (int64_t row = 0; row < rows; ++row) {
        WriteRow(plain + row * row_bytes_, begin, bytes, end == blocks, row);
      }
    }
  }

  // `bytes` more of a row, from its byte `begin` on.
  void WriteRow(std::byte* plain, int64_t begin, int64_t bytes, bool is_last, int64_t row) {
    int64_t& kept = kept_[static_cast<size_t>(row)];
    std::byte* const from = buffer_.data() + row * buffer_row_;
    std::byte* const line = plain + begin - kept;  // where the buffer's row begins
    const int64_t filled = kept + bytes;
    const int64_t whole = filled / kLineBytes * kLineBytes;
    // The first line of a row is partly the row's in front of it.
    const int64_t head = begin == 0 && kept > 0 ? std::min(kLineBytes, filled) : 0;
    if (head > 0) {
      std::memcpy(line + kept, from + kept, static_cast<size_t>(head - kept));
    }
    if (whole > head) {
      kernels::StreamCopy(line + head, from + head, static_cast<size_t>(whole - head));
    }
    const int64_t rest = std::max(whole, head);
    const auto left = static_cast<size_t>(filled - rest);
    if (is_last) {
      std::memcpy(line + rest, from + rest, left);
    } else {
      // What is no last run fills more than a line.
      std::memmove(from, from + rest, left);
      kept = static_cast<int64_t>(left);
    }
  }

  // Lines of the next block on their way while this one is turned around: a page at each place of
  // the window is too short for the processor to see where the next one begins.
  void FetchNext(const std::byte* from) const {
    const std::byte* next = from + groups_.block_stride * size_;
    for (int64_t place = 0; place < groups_.window; ++place) {
      __builtin_prefetch(next);
      next += groups_.window_stride * size_;
    }
  }

  // The block of one row.
  void Block(const std::byte* from, std::byte* to, int64_t channels) const {
    if (groups_.window > 1) {
      kernels::TransposeMatrix(static_cast<size_t>(size_), from, groups_.window_stride, to,
                               groups_.window, groups_.window, channels);
      return;
    }
    // Most are one of two sizes, for which the compiler knows a few instructions.
    switch (const int64_t bytes = channels * size_) {
      case 32:
        std::memcpy(to, from, 32);
        break;
      case 64:
        std::memcpy(to, from, 64);
        break;
      default:
        std::memcpy(to, from, static_cast<size_t>(bytes));
    }
  }

  const RowGroups& groups_;
  const int64_t size_;
  const std::byte* const device_;
  std::byte* const plain_;
  const int64_t row_bytes_;
  const int64_t block_bytes_;
  const int64_t rows_at_once_;
  const int64_t blocks_at_once_;
  const int64_t buffer_row_;
  std::vector<std::byte> buffer_;
  std::vector<int64_t> kept_;  // by row: bytes in front of the next block
};

}  // namespace

std::optional<RowGroups> FindRowGroups(const Layout& layout, size_t element_bytes) {
  if (layout.groups > 1) {
    return std::nullopt;
  }
  std::vector<BlockedAxis> axes = layout.axes;
  std::transform(axes.begin(), axes.end(), axes.begin(), OneDigit);
  axes = JoinedAxes(axes);
  RowGroups groups;
  size_t place = axes.size();  // of the blocked axis, the last or the one in front of it
  for (size_t i = axes.size(); i-- > 0 && i + 2 >= axes.size();) {
    if (axes[i].block > 1) {
      place = i;
    }
  }
  if (place == axes.size() || place == 0 || axes[place].inner_stride != 1) {
    return std::nullopt;
  }
  const BlockedAxis& blocks = axes[place];
  const BlockedAxis& rows = axes[place - 1];
  if (rows.block > 1 || rows.outer_stride != blocks.block || rows.extent < kFewestRows) {
    return std::nullopt;
  }
  groups.rows = rows.extent;
  groups.channels = blocks.extent;
  groups.block = blocks.block;
  groups.block_stride = blocks.outer_stride;
  if (place + 1 < axes.size()) {
    if (axes.back().block > 1) {
      return std::nullopt;
    }
    groups.window = axes.back().extent;
    groups.window_stride = axes.back().outer_stride;
  }
  if (groups.window == 1 && groups.channels * static_cast<int64_t>(element_bytes) < kPageBytes) {
    return std::nullopt;
  }
  groups.planes = {0};
  for (size_t i = 0; i + 1 < place; ++i) {
    if (axes[i].block > 1 ||
        axes[i].extent > kMostPlanes / static_cast<int64_t>(groups.planes.size())) {
      return std::nullopt;
    }
    std::vector<int64_t> planes;
    for (const int64_t plane : groups.planes) {
      for (int64_t index = 0; index < axes[i].extent; ++index) {
        planes.push_back(plane + index * axes[i].outer_stride);
      }
    }
    groups.planes = std::move(planes);
  }
  return groups;
}

void CopyRowGroups(const RowGroups& groups, size_t element_bytes, const std::byte* device,
                   std::byte* plain) {
  RowCopy(groups, element_bytes, device, plain).Run();
}

}  // namespace msprobe::io::kernel_dump
