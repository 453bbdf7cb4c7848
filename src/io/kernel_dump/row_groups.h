// The copy of layouts whose plain rows lie element by element beside each other on the device:
// filters of a FRACTAL_Z weight, rows of a FRACTAL_NZ matrix, pixels of NC1HWC0 as NHWC.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <vector>

#include "src/io/kernel_dump/layout.h"

namespace msprobe::io::kernel_dump {

// One row of the plain tensor after the other: `channels` times `window` elements, of which the
// device has blocks of `block` channels, and those of the next row right behind them.
struct RowGroups {
  std::vector<int64_t> planes;  // device element where each set of rows begins, in plain order
  int64_t rows = 0;             // of one set
  int64_t channels = 0;
  int64_t block = 0;
  int64_t block_stride = 0;  // on the device, from block to block
  int64_t window = 1;
  int64_t window_stride = 0;
};

// Nothing for other layouts, and where there is nothing to win: few rows, or such short ones that a
// copy in their order writes the plain tensor from front to back.
std::optional<RowGroups> FindRowGroups(const Layout& layout, size_t element_bytes);

// What ToPlainRows does. Of each block a page of the device is read at once, which holds that of
// many rows; the pieces of each row meet in a buffer of this thread and are written side by side.
void CopyRowGroups(const RowGroups& groups, size_t element_bytes, const std::byte* device,
                   std::byte* plain);

}  // namespace msprobe::io::kernel_dump
