// The call of the framework that a kernel belongs to, by its tensors.
#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "msprobe/status.h"

#include "src/analysis/compare/side.h"
#include "src/analysis/kernel_dump/dump_files.h"
#include "src/analysis/overflow/result.h"
#include "src/dump/stack_file.h"

namespace msprobe::analysis::overflow {

// The dumps of one step, a rank each.
class CallLookup {
 public:
  // `dump`: a dump.json, a rank, a step or a whole dump, of which `step` is looked at. Ranks are
  // read when they are needed. kNotFound when there is none.
  static Result<CallLookup> Open(const std::filesystem::path& dump, std::optional<int64_t> step);

  // The earliest of the calls that share most tensors with the kernel: shapes and statistics, and
  // among them an output, or all inputs.
  //
  // `device`: of the kernel; its calls are those of the rank with that number, or of the only rank.
  // Where there is neither, all of a few ranks are looked at, of many ranks none. What cannot be
  // read is told in `warnings`, once.
  std::optional<Call> Find(const kernel_dump::DumpPath& kernel, std::optional<int64_t> device,
                           std::vector<std::string>& warnings);

 private:
  struct RankCalls {
    std::optional<int64_t> rank;
    std::filesystem::path json;
    bool is_read = false;
    std::optional<compare::Side> calls;  // none: not read yet, or not readable
    std::optional<dump::StackFile> stack;
  };
  static void Read(RankCalls& rank, std::vector<std::string>& warnings);
  std::vector<RankCalls*> RanksOf(std::optional<int64_t> device,
                                  std::vector<std::string>& warnings);

  std::vector<RankCalls> ranks_;
  bool told_many_ranks_ = false;
};

}  // namespace msprobe::analysis::overflow
