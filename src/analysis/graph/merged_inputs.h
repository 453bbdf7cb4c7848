// The inputs of a run whose ranks share a model: every data-parallel group of every step made into
// one dump, and those of both sides beside each other.
#pragma once

#include <filesystem>
#include <vector>

#include "msprobe/status.h"

#include "src/analysis/graph/inputs.h"
#include "src/analysis/graph/options.h"

namespace msprobe::analysis::graph {

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
