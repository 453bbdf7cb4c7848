// Which operator overflowed: the overflow records of a folder, and the dump of the kernel that each
// one names.
#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "msprobe/status.h"

#include "src/analysis/kernel_dump/dump_files.h"
#include "src/io/kernel_dump/overflow_record.h"
#include "src/kernels/stats.h"

namespace msprobe::analysis::kernel_dump {

struct OverflowTensor {
  std::string file;  // "<dump>.input.0.npy", as `parse` calls it
  std::string format;
  Shape shape;
  kernels::TensorStats stats;
  DType dtype = DType::kFloat32;
  Status status;
};

struct Overflow {
  std::filesystem::path record;
  uint64_t timestamp = 0;  // microseconds since 1970
  uint64_t task_id = 0;
  uint64_t stream_id = 0;
  std::string unit;  // "AI Core"
  std::vector<uint64_t> status;
  bool has_many_statuses = false;
  // The kernel with the same task and stream, the earliest one; empty where it was not dumped.
  std::filesystem::path dump;
  std::string op_type;
  std::string op_name;
  std::vector<OverflowTensor> tensors;
};

struct OverflowFindings {
  std::vector<Overflow> overflows;  // in order of time
  uint64_t records = 0;             // overflow records in the folder
  std::vector<std::pair<std::filesystem::path, Status>> unreadable;
  std::filesystem::path summary;  // the file, when one was asked for
};

struct OverflowOptions {
  std::filesystem::path dumps;
  std::filesystem::path output;  // folder of overflow_summary_<time>.txt; empty: none
  int64_t most = 1;              // records that are looked at, from the first one on; 0: all
};

// kNotFound when the folder holds no overflow record.
Result<OverflowFindings> FindOverflows(const OverflowOptions& options);

// The text of the summary, as the Python tool writes it.
std::string OverflowSummary(const OverflowFindings& findings);

}  // namespace msprobe::analysis::kernel_dump
