// What became of dump files.
#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

#include "msprobe/status.h"
#include "msprobe/tensor_view.h"

namespace msprobe::analysis::kernel_dump {

// A tensor, buffer or record of a file, and the file that was made of it.
struct Converted {
  std::string what;  // "input.0", "output.1", "l1buffer.0", "overflow"
  std::string data_type;
  std::string device_format;
  std::string format;  // of the array that was written
  Shape shape;         // the same
  std::filesystem::path path;
  Status status;  // not ok: nothing was written
};

struct FileResult {
  std::filesystem::path path;
  std::string op_type;  // from the name; empty where it has none
  std::string op_name;  // from the header, else from the name
  std::vector<Converted> parts;
  std::vector<std::string> warnings;
  uint64_t bytes = 0;
  Status status;  // not ok: the file as a whole cannot be read
};

struct Findings {
  std::vector<FileResult> files;                      // in the order of their paths
  uint64_t left_out = 0;                              // files that are no dumps: tables, mappings
  std::vector<std::filesystem::path> written_beside;  // index, list of failures
  uint64_t bytes = 0;

  uint64_t converted() const;
  uint64_t failed_parts() const;
  uint64_t failed_files() const;  // with at least one failure
  // Of the first failure, with the path of its file; empty when there is none.
  std::string FirstFailure() const;
};

}  // namespace msprobe::analysis::kernel_dump
