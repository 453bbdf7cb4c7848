#include "src/checkpoint/megatron/ranks.h"

#include <algorithm>
#include <map>
#include <string>
#include <string_view>
#include <system_error>
#include <unordered_set>
#include <utility>

#include <fmt/format.h>

#include "src/base/path_kind.h"

namespace msprobe::checkpoint {
namespace {

namespace fs = std::filesystem;

constexpr std::string_view kAllowHint =
    "copy the missing rank here, or compare what is there with --allow-missing-ranks";

// Opens rank folders on demand, each once.
class RankOpener {
 public:
  explicit RankOpener(Checkpoint& checkpoint) : checkpoint_(checkpoint) {}

  Result<size_t> Open(const std::string& folder) {
    const auto known = opened_.find(folder);
    return known != opened_.end() ? known->second
                                  : opened_.emplace(folder, OpenNew(folder)).first->second;
  }

 private:
  Result<size_t> OpenNew(const std::string& folder) {
    const fs::path path = RankFile(checkpoint_.path / folder);
    if (!base::Exists(checkpoint_.path / folder)) {
      return NotFoundError(fmt::format("rank folder {} is missing", folder));
    }
    if (!base::IsRegularFile(path)) {
      return NotFoundError(fmt::format("{} holds no {}", folder, path.filename().native()));
    }
    TensorFile::Options file_options;
    // Optimizer states outweigh the model several times: their bytes stay alone.
    file_options.verify_stored_up_to_bytes = 0;
    MSP_ASSIGN_OR_RETURN(TensorFile file, TensorFile::Open(path, file_options));
    const std::vector<NamedTensor>& tensors = file.tensors();
    const ModelKeys keys(file);
    if (std::none_of(tensors.begin(), tensors.end(), [&keys](const NamedTensor& tensor) {
          return keys.VirtualStageOf(tensor).has_value();
        })) {
      return BadFormatError(
          fmt::format("{}: no tensors under \"model\" or \"model0\"", path.native()));
    }
    for (const std::string& warning : file.warnings()) {
      if (warned_.emplace(warning, true).second) {
        checkpoint_.warnings.push_back(fmt::format("{}: {}", path.native(), warning));
      }
    }
    checkpoint_.files.push_back(std::move(file));
    return checkpoint_.files.size() - 1;
  }

  Checkpoint& checkpoint_;
  std::map<std::string, Result<size_t>> opened_;
  std::map<std::string, bool> warned_;
};

// Only the last pipeline stage has the final norm: a first file of several that has it, too, is one
// of several expert ranks.
bool HoldsLastLayer(const TensorFile& file) {
  return std::any_of(file.tensors().begin(), file.tensors().end(), [](const NamedTensor& tensor) {
    return tensor.path[0] == "model" &&
           (tensor.name().find("final_norm") != std::string::npos ||
            tensor.name().find("final_layernorm") != std::string::npos);
  });
}

struct MissingRank {
  RankPlace place;
  Status reason;
};

Status MissingRanks(const std::vector<MissingRank>& missing, const MegatronRanks& ranks,
                    const fs::path& folder) {
  constexpr size_t kMostNamed = 8;
  std::string text;
  for (size_t i = 0; i < std::min(missing.size(), kMostNamed); ++i) {
    text += fmt::format("{}{}", i > 0 ? "; " : "", missing[i].reason.message());
  }
  if (missing.size() > kMostNamed) {
    text += fmt::format("; and {} more", missing.size() - kMostNamed);
  }
  const ParallelSizes& sizes = ranks.sizes;
  return Status(missing[0].reason.code(),
                fmt::format("{}: {} of {} ranks (TP {}, PP {}, EP {}) cannot be used: {}",
                            folder.native(), missing.size(), ranks.files.size(), sizes.tensor,
                            sizes.pipeline, sizes.expert, text))
      .WithHint(kAllowHint);
}

// One line per stage and expert rank.
void WarnAboutMissing(const std::vector<MissingRank>& missing, const MegatronRanks& ranks,
                      std::vector<std::string>& warnings) {
  for (size_t i = 0; i < missing.size();) {
    const RankPlace& place = missing[i].place;
    std::string reasons;
    int64_t count = 0;
    for (; i < missing.size() && missing[i].place.pipeline == place.pipeline &&
           missing[i].place.expert == place.expert;
         ++i, ++count) {
      reasons += fmt::format("{}{}", reasons.empty() ? "" : "; ", missing[i].reason.message());
    }
    std::string where = fmt::format("pipeline stage {}", place.pipeline);
    if (ranks.sizes.expert > 1) {
      where += fmt::format(", expert rank {}", place.expert);
    }
    warnings.push_back(fmt::format(
        "{}: {} of {} tensor ranks cannot be used, {} ({})", where, count, ranks.sizes.tensor,
        count == ranks.sizes.tensor ? "nothing of it is compared"
                                    : "what they share is compared without their parts",
        reasons));
  }
}

}  // namespace

ModelKeys::ModelKeys(const TensorFile& file) {
  std::unordered_set<std::string_view> top;
  for (const NamedTensor& tensor : file.tensors()) {
    if (!tensor.path.empty()) {
      top.insert(tensor.path[0]);
    }
  }
  for (const NamedScalar& scalar : file.scalars()) {
    if (!scalar.path.empty()) {
      top.insert(scalar.path[0]);
    }
  }
  if (top.count("model") != 0) {
    stages_.emplace("model", 0);
    return;
  }
  for (std::string key = "model0"; top.count(key) != 0;
       key = fmt::format("model{}", stages_.size())) {
    stages_.emplace(key, static_cast<int64_t>(stages_.size()));
  }
}

std::optional<int64_t> ModelKeys::VirtualStageOf(const NamedTensor& tensor) const {
  if (tensor.path.size() < 2 || !tensor.in_dicts || tensor.is_array) {
    return std::nullopt;
  }
  const auto found = stages_.find(tensor.path[0]);
  return found != stages_.end() ? std::optional<int64_t>(found->second) : std::nullopt;
}

Result<MegatronRanks> OpenMegatronRanks(const Options& options, Checkpoint& checkpoint) {
  const fs::path& folder = checkpoint.path;
  MSP_ASSIGN_OR_RETURN(const std::vector<std::string> names, ListRankFolders(folder));
  if (names.empty()) {
    return NotFoundError(fmt::format("no rank folders (mp_rank_...) found in {}", folder.native()));
  }
  RankOpener opener(checkpoint);
  // The arguments are the same in every rank; any readable one will do.
  std::optional<size_t> first;
  for (const std::string& name : names) {
    const Result<size_t> opened = opener.Open(name);
    if (opened.ok()) {
      first = *opened;
      break;
    }
    if (!options.allow_missing_ranks) {
      return Status(opened.status()).WithHint(kAllowHint);
    }
  }
  if (!first) {
    return Status(opener.Open(names[0]).status())
        .AddContext(fmt::format("no rank of {} can be used", folder.native()));
  }
  MegatronRanks ranks;
  const TensorFile& file = checkpoint.files[*first];
  ranks.args = MegatronArgs(file);
  MSP_ASSIGN_OR_RETURN(ranks.sizes, FindParallelSizes(ranks.args, names, HoldsLastLayer(file)),
                       folder.native());

  const ParallelSizes& sizes = ranks.sizes;
  std::unordered_set<std::string> expected;
  std::vector<MissingRank> missing;
  for (RankPlace place; place.expert < sizes.expert; ++place.expert) {
    for (place.pipeline = 0; place.pipeline < sizes.pipeline; ++place.pipeline) {
      for (place.tensor = 0; place.tensor < sizes.tensor; ++place.tensor) {
        const std::string name = RankFolderName(sizes, place);
        expected.insert(name);
        Result<size_t> opened = opener.Open(name);
        ranks.files.push_back(opened.ok() ? std::optional<size_t>(*opened) : std::nullopt);
        if (!opened.ok()) {
          missing.push_back({place, std::move(opened).status()});
        }
      }
    }
  }
  for (const std::string& name : names) {
    if (expected.count(name) == 0) {
      checkpoint.warnings.push_back(fmt::format("{} is not read: args record TP {}, PP {}, EP {}",
                                                (folder / name).native(), sizes.tensor,
                                                sizes.pipeline, sizes.expert));
    }
  }
  if (missing.size() == ranks.files.size() || (!missing.empty() && !options.allow_missing_ranks)) {
    return MissingRanks(missing, ranks, folder);
  }
  WarnAboutMissing(missing, ranks, checkpoint.warnings);
  return ranks;
}

}  // namespace msprobe::checkpoint
