// ONNX models run on the CPU by ONNX Runtime of the user's Python, in a process of its own, with
// every tensor of the graph stored: the implementation of `msprobe offline_dump` and of the models
// of `compare -m offline_model`.
#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

#include "msprobe/status.h"

namespace msprobe::analysis::offline_model {

struct Options {
  std::filesystem::path model;
  std::filesystem::path output = "output";        // gets a folder named after the time
  std::vector<std::filesystem::path> input_data;  // .npy or .bin, one for each input
  std::string input_shape;                        // "x:1,3;mask:1,1"
  std::string shape_range;                        // "x:1,2~6~2": a run for each shape
  bool fusion = true;
  std::filesystem::path python = "python3";
  int64_t seconds = 600;
};

struct Dumped {
  std::vector<std::filesystem::path> folders;  // one for each shape, with dump_data/onnx
  uint64_t tensors = 0;
};

Result<Dumped> Dump(const Options& options);

}  // namespace msprobe::analysis::offline_model
