// Ranks that share a model by tensor, context and pipeline parallelism, made into the dump that one
// rank would have written.
#pragma once

#include <cstdint>
#include <filesystem>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "msprobe/status.h"

#include "src/analysis/graph/inputs.h"
#include "src/analysis/graph/options.h"

namespace msprobe::analysis::graph {

// Facts in the lines of a call stack.

using StackLines = std::span<const std::string>;

// For a module the first line that calls it by its own name, for an API the line after the
// recorder's own. All lines where there is no such line.
StackLines ShortStack(std::string_view node_name, StackLines lines);

// Whether the lines say that a module was computed a second time, in the backward pass.
bool ShowsRecomputation(StackLines lines);

// The purpose of a merged dump.
enum class MergedFor : uint8_t {
  kExport,  // as the 26.x line exports it: parameters are those of the first rank, shapes of a part
  kGraph,   // parameters are merged; shapes are those of the whole, "local_shape" that of a part
};

struct MergedRanks {
  std::vector<std::filesystem::path> folders;  // of the data-parallel groups
  uint64_t expert_ranks = 1;                   // so many ranks have other experts each
};

// `ranks`: the folders of all ranks of a step, by number. Writes dump.json, construct.json and
// stack.json of every data-parallel group to target/rank<g>, whole or not at all. Statistics of
// tensor-parallel ranks that differ become those of the whole (largest, smallest, average, root of
// the sum of squares; each entry's "parallel_merge_info" tells how), and so do those of ranks that
// have parts of a sequence; pipeline stages become one model with layers numbered through. Calls
// between modules stay, each rank's for itself.
Result<MergedRanks> MergeRanks(const std::vector<std::filesystem::path>& ranks,
                               const Parallelism& sizes, MergedFor purpose,
                               const std::filesystem::path& target,
                               std::vector<std::string>& warnings);

// The inputs of a run whose ranks share a model: every data-parallel group of every step made into
// one dump, and those of both sides beside each other.

// A folder that is there as long as this object, also after an interrupt.
class TemporaryFolder {
 public:
  explicit TemporaryFolder(std::filesystem::path path);
  TemporaryFolder(const TemporaryFolder&) = delete;
  TemporaryFolder& operator=(const TemporaryFolder&) = delete;
  ~TemporaryFolder();

  const std::filesystem::path& path() const { return path_; }

 private:
  const std::filesystem::path path_;
  const int slot_;
};

struct MergedInputs {
  InputPlan plan;                               // its ranks are the data-parallel groups
  std::vector<std::filesystem::path> exported;  // the dump.json of every group, when asked for
};

// `below`: an empty folder for the merged dumps, or the output folder when they are the result.
// Where neither side has several ranks nothing is written. kUsage for sizes that contradict the
// number of ranks, kMismatch when the sides have no step in common, or different numbers of groups
// of which no two were fed the same.
Result<MergedInputs> MergeInputs(const Options& options, const std::filesystem::path& below);

}  // namespace msprobe::analysis::graph
