// From the blocked layouts of a device to plain rows and back.
//
// A device splits an axis into blocks (C into C1 blocks of C0 channels), moves the index inside of
// a block to the end, and pads the last block with zeros. So an index along an axis has two digits,
// each with a stride of its own, and every layout is a list of axes with their digits. Where a
// layout is only known to the device (a FRACTAL_Z weight with groups), a function stands for it.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <optional>
#include <span>
#include <vector>

#include "msprobe/status.h"
#include "msprobe/tensor_view.h"

namespace msprobe::io::kernel_dump {

// One axis of the framework's tensor, in the memory of the device.
struct BlockedAxis {
  char name = 0;             // 'N', 'C', 'D', 'H', 'W'; 'B': all leading axes of a matrix
  int64_t extent = 0;        // without padding
  int64_t block = 1;         // index = outer * block + inner
  int64_t outer_stride = 0;  // in elements
  int64_t inner_stride = 0;
};

// How a tensor lies in the memory of the device, and which plain tensor it stands for.
struct Layout {
  std::vector<BlockedAxis> axes;  // in the order of the plain tensor
  Shape plain_shape;              // of the plain tensor; as many elements as the axes reach
  int64_t device_elements = 0;    // padding included
  unsigned groups = 1;      // of a FRACTAL_Z weight; above 1 `axes` are N, C, H, W of one group
  int64_t group_block = 0;  // C0 of such a weight
};

// Neighbours that no block divides and that lie in each other's order on the device, H and W of
// most layouts, are one axis to a copy; those of one index are none.
std::vector<BlockedAxis> JoinedAxes(const std::vector<BlockedAxis>& axes);

// `device`: the shape in the file, in the layout `from`; `to`: a plain format, in whose order
// `target` is, the shape to cut the padding down to. Without a target nothing is cut where the
// layout tells its own size.
//
// kUnsupported for a pair that has no rule ("from A to B"), kMismatch for shapes that do not belong
// together. Rules: docs/formats/kernel_dumps.md.
struct LayoutRequest {
  uint32_t from = 0;
  uint32_t to = 0;
  unsigned groups = 1;
  const Shape* device = nullptr;
  const Shape* target = nullptr;  // null: not known
};
Result<Layout> FindLayout(const LayoutRequest& request);

// Copies between both; `element_bytes` is 1, 2, 4, 8 or 16. ToPlainRows reads device_elements and
// writes the elements of plain_shape; ToDeviceLayout the other way round, padding with zeros.
void ToPlainRows(const Layout& layout, size_t element_bytes, std::span<const std::byte> device,
                 std::span<std::byte> plain);
void ToDeviceLayout(const Layout& layout, size_t element_bytes, std::span<const std::byte> plain,
                    std::span<std::byte> device);

// The layout in pieces of about `most_elements` elements of the plain tensor, one after the other,
// so that a tensor of any size is converted with a buffer of that size.
struct LayoutPiece {
  Layout layout;
  int64_t device_first = 0;  // element of the device array where the piece's strides begin
  int64_t plain_first = 0;   // element of the plain tensor; a piece is a run of it
};
Status ForEachPiece(const Layout& layout, int64_t most_elements,
                    const std::function<Status(const LayoutPiece& piece)>& visit);

// Whether FindLayout has a rule for `from` -> `to`, and the plain format that people want of a
// tensor of a layout: NCHW for 4-d ones, NCDHW for 5-d ones, ND for matrices.
bool IsPlainFormat(uint32_t format);
uint32_t NaturalPlainFormat(uint32_t from, size_t original_rank);

// The copy of layouts whose plain rows lie element by element beside each other on the device:
// filters of a FRACTAL_Z weight, rows of a FRACTAL_NZ matrix, pixels of NC1HWC0 as NHWC.

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

// The steps of ToPlainRows. Each block is read as one page of the device, which holds parts of
// many rows; the pieces of each row meet in a buffer of this thread and are written side by side.
void CopyRowGroups(const RowGroups& groups, size_t element_bytes, const std::byte* device,
                   std::byte* plain);

}  // namespace msprobe::io::kernel_dump
