// One array for people: `pt` of the interactive tool.
#pragma once

#include <filesystem>
#include <string>

#include "msprobe/status.h"
#include "msprobe/tensor_view.h"

#include "src/report/table.h"

namespace msprobe::analysis::kernel_dump {

struct ArrayView {
  std::string facts;    // "[Shape: (2, 3)] [Dtype: float32] [Max: 1.5] [Min: 0.0] [Mean: 0.5]"
  report::Table table;  // the first 16 rows of 8 elements
  std::filesystem::path text_file;  // <file>.txt: all elements, one in a line
};

// "[Shape: ..] [Dtype: ..] [Max: ..] [Min: ..] [Mean: ..]"
std::string ArrayFacts(const Shape& shape, DType dtype, double max, double min, double mean);
std::string TupleText(const Shape& shape);  // "(2, 3)", "(6,)", as Python spells it

Result<ArrayView> ViewArray(const std::filesystem::path& file);
// The elements, one in a line, to `path`, in place of an older one of this tool.
Status WriteArrayText(const std::filesystem::path& path, const TensorView& view);

}  // namespace msprobe::analysis::kernel_dump
