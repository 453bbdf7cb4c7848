// The rank files of one Megatron checkpoint, opened: which there are, which there should be.
#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <unordered_map>
#include <vector>

#include "msprobe/status.h"

#include "src/checkpoint/checkpoint.h"
#include "src/checkpoint/megatron/args.h"
#include "src/checkpoint/megatron/layout.h"

namespace msprobe::checkpoint {

struct MegatronRanks {
  MegatronArgs args;  // of the first readable file
  ParallelSizes sizes;
  // Indices into Checkpoint::files; nothing where a rank is missing. Tensor ranks next to each
  // other, then pipeline stages, then expert ranks.
  std::vector<std::optional<size_t>> files;

  std::optional<size_t> FileOf(const RankPlace& place) const {
    return files[static_cast<size_t>(
        (place.expert * sizes.pipeline + place.pipeline) * sizes.tensor + place.tensor)];
  }
};

// Opens the files of `checkpoint.path` into `checkpoint.files`. A rank without folder, without
// file, without model or with a file that cannot be read is an error that names it, or, with
// options.allow_missing_ranks, a warning per pipeline stage. An error in any case when no rank is
// left.
Result<MegatronRanks> OpenMegatronRanks(const Options& options, Checkpoint& checkpoint);

// Which tensors of a rank file are the model's: those under "model", or, without it, under
// "model0", "model1" and so on up to the first gap, one per virtual stage.
class ModelKeys {
 public:
  explicit ModelKeys(const TensorFile& file);
  // Nothing for other tensors, and for arrays and tensors in lists.
  std::optional<int64_t> VirtualStageOf(const NamedTensor& tensor) const;

 private:
  std::unordered_map<std::string, int64_t> stages_;  // by key
};

}  // namespace msprobe::checkpoint
