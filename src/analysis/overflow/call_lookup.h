// The call of the framework that a kernel belongs to, by its tensors.
#pragma once

#include <filesystem>
#include <memory>
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
  // `dump`: a dump.json, a rank, a step or a dump of one step. Ranks that cannot be read are told
  // in `warnings`; kNotFound when none is left.
  static Result<CallLookup> Open(const std::filesystem::path& dump, std::optional<int64_t> step,
                                 std::vector<std::string>& warnings);

  // The earliest of the calls that share most tensors with the kernel: shapes and statistics, and
  // among them an output, or all inputs. `device`: of the kernel; calls of that rank are preferred.
  std::optional<Call> Find(const kernel_dump::DumpPath& kernel,
                           std::optional<int64_t> device) const;

 private:
  struct RankCalls {
    std::optional<int64_t> rank;
    compare::Side calls;
    std::optional<dump::StackFile> stack;
  };
  std::vector<RankCalls> ranks_;
};

}  // namespace msprobe::analysis::overflow
