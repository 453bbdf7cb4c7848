// What `show` is asked for.
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <string>

namespace msprobe::analysis::inspect {

struct Options {
  // A dump folder (whole, step or rank), a dump.json or debug.json, a file of tensors (.pt, .npy,
  // .npz, .safetensors), a folder of such files, a free_benchmark.csv, or a folder of
  // those.
  std::filesystem::path path;
  bool statistics = false;  // of every tensor, computed from its elements
  std::string name_filter;  // glob on the first column; empty: everything
  uint64_t row_limit = 0;   // rows of the table; 0: all
  size_t threads = 0;       // 0: all cores
  bool quiet = true;        // no progress line on stderr
};

}  // namespace msprobe::analysis::inspect
