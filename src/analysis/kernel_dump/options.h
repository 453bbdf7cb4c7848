// What is asked of a conversion of kernel dumps and ATB dumps.
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "msprobe/tensor_view.h"

namespace msprobe::analysis::kernel_dump {

enum class ArrayFile : uint8_t { kNpy, kPt, kBin };

struct Options {
  std::vector<std::filesystem::path> inputs;  // files and folders, which are read to the bottom
  std::filesystem::path output;               // folder, made when missing
  ArrayFile kind = ArrayFile::kNpy;

  // Plain layout of the arrays: "NCHW"; empty: the layout of the device.
  std::string format;
  // Instead: each tensor in the layout and shape that the framework knows.
  bool to_original = false;
  std::optional<Shape> shape;  // to cut the padding down to, where the file tells no original shape
  std::optional<int64_t> input;          // the number of the only input to convert
  std::optional<int64_t> output_number;  // the same of outputs
  std::string filter;                    // shell pattern of file names; empty: all

  // Also <output>/parse_index.csv: a row per array.
  bool index = false;
  size_t threads = 0;  // 0: all cores
};

}  // namespace msprobe::analysis::kernel_dump
