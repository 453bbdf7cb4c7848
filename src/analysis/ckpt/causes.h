// Why two parameters differ: the known mistakes of quantising, converting, merging and loading
// weights, each tried on the parameter as a hypothesis. A hypothesis stands only where the
// parameter agrees under it, within the rounding of its format; a sample of rows decides first, so
// that checkpoints that differ everywhere, as two steps of a training do, cost little more.
#pragma once

#include <array>
#include <deque>
#include <filesystem>
#include <span>
#include <string>
#include <vector>

#include "src/analysis/ckpt/result.h"
#include "src/base/threads.h"
#include "src/checkpoint/checkpoint.h"

namespace msprobe::analysis::ckpt {

// Another checkpoint that one of the two may have been mistaken for.
struct OtherCheckpoint {
  checkpoint::Checkpoint checkpoint;
  MatchedParameters matched;  // with the first checkpoint
};

// Folders of other steps beside that of a checkpoint: checkpoint-*, iter_*, step*, global_step*.
std::vector<std::filesystem::path> SiblingsOf(const std::filesystem::path& path);

// Sets PairResult::cause, and a note that says what was found.

class CauseSearch {
 public:
  CauseSearch(const MatchedParameters& matched, const std::array<checkpoint::Checkpoint, 2>& both,
              base::ThreadPool& pool)
      : matched_(matched), both_(both), pool_(pool) {}

  // First all causes but "stale".
  void Run(std::vector<PairResult>& results);
  // Pairs that differ and have no cause yet.
  bool HasUnexplained(std::span<const PairResult> results) const;
  void RunStale(const std::deque<OtherCheckpoint>& others, std::vector<PairResult>& results);
  // What is left: scales that are wrong in places, errors of calibrated writers.
  void RunLast(std::vector<PairResult>& results);

 private:
  const MatchedParameters& matched_;
  const std::array<checkpoint::Checkpoint, 2>& both_;
  base::ThreadPool& pool_;
};

}  // namespace msprobe::analysis::ckpt
