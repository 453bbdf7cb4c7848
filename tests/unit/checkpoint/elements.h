// A parameter's elements as floats, however its pieces lie: what tests compare.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include <gtest/gtest.h>

#include "src/checkpoint/checkpoint.h"
#include "src/kernels/convert.h"
#include "src/tensor/tensor_buffer.h"

namespace msprobe::checkpoint::test_support {

// In row-major order; a test fails where the pieces do not tile the shape.
inline std::vector<float> ElementsOf(const Parameter& parameter) {
  EXPECT_TRUE(parameter.status.ok()) << parameter.name << ": " << parameter.status.message();
  Parameter checked = parameter;
  const Status tiling = CheckTiling(checked);
  EXPECT_TRUE(tiling.ok()) << tiling.message();
  std::vector<float> all(static_cast<size_t>(parameter.element_count()), 0);
  const Shape strides = ContiguousStrides(parameter.shape);
  for (const Piece& piece : parameter.pieces) {
    const int64_t count = piece.view.element_count();
    std::vector<std::byte> raw(static_cast<size_t>(count) * DTypeSize(piece.view.dtype));
    tensor::CopyElements(piece.view, 0, count, raw.data());
    std::vector<float> values(static_cast<size_t>(count));
    kernels::WidenToFloat(piece.view.dtype, raw, values);
    const Shape inner = ContiguousStrides(piece.view.shape);
    for (int64_t i = 0; i < count; ++i) {
      int64_t to = 0;
      for (size_t axis = 0; axis < inner.size(); ++axis) {
        to += (i / inner[axis] % piece.view.shape[axis] + piece.offset[axis]) * strides[axis];
      }
      all[static_cast<size_t>(to)] = values[static_cast<size_t>(i)];
    }
  }
  return all;
}

inline const Parameter* FindParameter(const std::vector<Parameter>& parameters,
                                      std::string_view name) {
  for (const Parameter& parameter : parameters) {
    if (parameter.name == name) {
      return &parameter;
    }
  }
  return nullptr;
}

}  // namespace msprobe::checkpoint::test_support
