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

// How files are called; of `dump` ("MatMul.x.4.1.17...") what is converted of it:
enum class ArrayNames : uint8_t {
  kParse,      // <dump>.input.0.npy; in another layout than the device's <dump>.input.0.2x3x4.npy;
               // <dump>.input.0.2_3_4.<dtype>.<FORMAT>.bin
  kVendor,     // the same; of what is not converted <dump>.input.0.<elements>.<dtype>.<FORMAT>.bin
  kMindSpore,  // <type>.<last part of the operator's path>.<task>....input.0.<FORMAT>.npy
};

struct Options {
  std::vector<std::filesystem::path> inputs;  // files and folders, which are read to the bottom
  std::filesystem::path output;               // folder, made when missing
  ArrayFile kind = ArrayFile::kNpy;
  ArrayNames names = ArrayNames::kParse;

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
