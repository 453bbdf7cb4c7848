#include "src/checkpoint/megatron/layout.h"

#include <array>
#include <system_error>
#include <utility>

#include <fmt/format.h>

#include "src/base/files.h"
#include "src/base/numbers.h"
#include "src/base/output_files.h"
#include "src/base/strings.h"

namespace msprobe::checkpoint {
namespace {

namespace fs = std::filesystem;

constexpr std::string_view kRankPrefix = "mp_rank_";
// Of one number in a rank folder's name: beyond any machine, far below overflow.
constexpr size_t kMostRankDigits = 6;
// The second one: older versions beside a distributed optimizer.
constexpr std::array<std::string_view, 2> kRankFiles = {"model_optim_rng.pt", "model_rng.pt"};

bool IsFolder(const fs::path& path) { return base::IsFolder(path); }

}  // namespace

std::string RankFolderName(const ParallelSizes& sizes, const RankPlace& place) {
  std::string name = fmt::format("{}{:02}", kRankPrefix, place.tensor);
  if (sizes.pipeline > 1) {
    name += fmt::format("_{:03}", place.pipeline);
  }
  if (sizes.expert > 1) {
    name += fmt::format("_{:03}", place.expert);
  }
  return name;
}

std::optional<std::vector<int64_t>> ParseRankFolderName(std::string_view name) {
  if (!name.starts_with(kRankPrefix)) {
    return std::nullopt;
  }
  std::vector<int64_t> numbers;
  for (std::string_view digits : base::Split(name.substr(kRankPrefix.size()), '_')) {
    const std::optional<int64_t> number = base::ParseInt(digits);
    if (!number || *number < 0 || digits.size() > kMostRankDigits || numbers.size() == 3) {
      return std::nullopt;
    }
    numbers.push_back(*number);
  }
  return numbers;
}

Result<std::vector<std::string>> ListRankFolders(const fs::path& folder) {
  MSP_ASSIGN_OR_RETURN(std::vector<std::string> names, base::ListFolder(folder));
  std::erase_if(names, [&folder](const std::string& name) {
    return !ParseRankFolderName(name) || !IsFolder(folder / name);
  });
  return names;
}

fs::path RankFile(const fs::path& rank_folder) {
  for (std::string_view name : kRankFiles) {
    if (base::IsRegularFile(rank_folder / name)) {
      return rank_folder / name;
    }
  }
  return rank_folder / kRankFiles[0];
}

}  // namespace msprobe::checkpoint
