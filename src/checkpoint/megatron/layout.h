// Where the files of a Megatron checkpoint lie: in an iteration's folder one folder per rank.
#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "msprobe/status.h"

namespace msprobe::checkpoint {

// How many ranks share one layer's tensors, the layers, and the experts.
struct ParallelSizes {
  int64_t tensor = 1;
  int64_t pipeline = 1;
  int64_t expert = 1;
};

struct RankPlace {
  int64_t tensor = 0;
  int64_t pipeline = 0;
  int64_t expert = 0;
};

// mp_rank_TT, then _PPP and _EEE where there is more than one of them.
std::string RankFolderName(const ParallelSizes& sizes, const RankPlace& place);

// The one to three numbers of a rank folder's name; nothing for other names.
std::optional<std::vector<int64_t>> ParseRankFolderName(std::string_view name);

// Names of all rank folders, sorted.
Result<std::vector<std::string>> ListRankFolders(const std::filesystem::path& folder);

// The file with the model's tensors in a rank folder; the usual one when there is none.
std::filesystem::path RankFile(const std::filesystem::path& rank_folder);

}  // namespace msprobe::checkpoint
