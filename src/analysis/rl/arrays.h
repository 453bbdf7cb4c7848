// Saved arrays: opened, and read side by side as doubles.
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <span>
#include <vector>

#include "msprobe/status.h"
#include "msprobe/tensor_file.h"
#include "msprobe/tensor_view.h"

#include "src/tensor/element_blocks.h"

namespace msprobe::analysis::rl {

inline constexpr auto kBlockElements = static_cast<int64_t>(tensor::kCopyBlockElements);

struct OpenArray {
  TensorFile file;
  TensorView view;  // borrows from the file and from the scratch it was opened with
};
// `scratch` must outlive the result; one per array that is open.
Result<OpenArray> OpenSavedArray(const std::filesystem::path& path,
                                 std::vector<std::byte>& scratch);

// The common prefix of every axis. An error when the numbers of axes differ or there is nothing in
// common.
Result<Shape> CommonShape(const Shape& first, const Shape& second);

// The part of a view that lies in `shape`; axes of `shape` are no longer than its own.
TensorView Crop(const TensorView& view, const Shape& shape);

// Elements of one view in row-major order, block by block.
class BlockReader {
 public:
  explicit BlockReader(TensorView view) : view_(std::move(view)) {}

  // `count` elements from the flat index `at` on; good until the next call.
  std::span<const double> Read(int64_t at, int64_t count);

 private:
  TensorView view_;
  std::vector<std::byte> bytes_;
  std::vector<double> values_;
};

}  // namespace msprobe::analysis::rl
