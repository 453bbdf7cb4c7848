// What is in a dump folder, a dump.json or a file of tensors, for `msprobe show`.
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

#include "msprobe/status.h"

#include "src/report/table.h"

namespace msprobe::analysis {

struct InspectOptions {
  // A dump folder (whole, step or rank), a dump.json or debug.json, a file of tensors (.pt, .npy,
  // .npz, .safetensors), or a folder of such files.
  std::filesystem::path path;
  bool statistics = false;  // of every tensor, computed from its elements
  std::string name_filter;  // glob on the first column; empty: everything
  uint64_t row_limit = 0;   // rows of the table; 0: all
  size_t threads = 0;       // 0: all cores
  bool quiet = true;        // no progress line on stderr
};

struct InspectResult {
  report::Table table;  // one row per rank, call argument, tensor or value; a bad one is filled red
  std::vector<std::string> summary;   // what it is and how much, a sentence per line
  std::vector<std::string> warnings;  // what a careful reader wants to know
  uint64_t rows_left_out = 0;         // by row_limit
  bool nothing_readable = false;      // there are tensors or files of them, and all are bad
};

// Fails only when nothing can be shown: kNotFound, kBadFormat, kUnsupported, kIo.
Result<InspectResult> Inspect(const InspectOptions& options);

}  // namespace msprobe::analysis
