// One array for people: `pt` of the interactive tool.
#pragma once

#include <cstdint>
#include <filesystem>
#include <string>

#include "msprobe/status.h"
#include "msprobe/tensor_file.h"
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

// Elements that are written as text, as a multiple of the size of their file; a small file may
// repeat one very often.
inline constexpr uint64_t kTimesFileOfText = 8;
inline constexpr uint64_t kFreeTextElements = uint64_t{1} << 24U;  // the same in addition

// The elements of `array`, the only one of its file, to `path`, one in a line, in place of an older
// file. kUnsupported beyond the limits above.
Status WriteArrayText(const std::filesystem::path& path, const TensorFile& source,
                      const NamedTensor& array);

}  // namespace msprobe::analysis::kernel_dump
