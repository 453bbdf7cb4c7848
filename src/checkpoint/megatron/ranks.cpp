#include "src/checkpoint/megatron/ranks.h"

#include <algorithm>
#include <iterator>
#include <map>
#include <string>
#include <string_view>
#include <system_error>
#include <unordered_set>
#include <utility>

#include <fmt/format.h>

#include "src/base/log.h"
#include "src/base/output_files.h"

namespace msprobe::checkpoint {
namespace {

namespace fs = std::filesystem;

constexpr std::string_view kAllowHint =
    "copy the missing rank here, or compare what is there with --allow-missing-ranks";

// Of several reasons, and of several warnings: the sizes that the arguments record cost a file
// nothing, and a rank that is missing for each of them would fill the screen.
constexpr size_t kMostNamed = base::LimitedWarnings::kUsual;

// Opens rank folders on demand, each once.
class RankOpener {
 public:
  // `folders`: those there are. The others are known to be missing without a look at the disk.
  RankOpener(Checkpoint& checkpoint, const std::vector<std::string>& folders)
      : checkpoint_(checkpoint), folders_(folders.begin(), folders.end()) {}

  bool Exists(const std::string& folder) const { return folders_.count(folder) != 0; }

  Result<size_t> Open(const std::string& folder) {
    if (!Exists(folder)) {
      return NotFoundError(fmt::format("rank folder {} is missing", folder));
    }
    const auto known = opened_.find(folder);
    return known != opened_.end() ? known->second
                                  : opened_.emplace(folder, OpenNew(folder)).first->second;
  }

 private:
  Result<size_t> OpenNew(const std::string& folder) {
    const fs::path path = RankFile(checkpoint_.path / folder);
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
  std::unordered_set<std::string> folders_;
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

// Why ranks cannot be used: all of them counted, the first ones named.
class Reasons {
 public:
  void Add(const Status& status) {
    if (count_ == 0) {
      code_ = status.code();
    }
    if (count_ < kMostNamed) {
      text_ += fmt::format("{}{}", count_ > 0 ? "; " : "", status.message());
    }
    ++count_;
  }

  size_t count() const { return count_; }
  StatusCode code() const { return code_; }  // of the first one
  std::string Text() const {
    return count_ > kMostNamed ? fmt::format("{}; and {} more", text_, count_ - kMostNamed) : text_;
  }

 private:
  size_t count_ = 0;
  StatusCode code_ = StatusCode::kOk;
  std::string text_;
};

Status MissingRanks(const Reasons& missing, const MegatronRanks& ranks, const fs::path& folder) {
  const ParallelSizes& sizes = ranks.sizes;
  return Status(missing.code(),
                fmt::format("{}: {} of {} ranks (TP {}, PP {}, EP {}) cannot be used: {}",
                            folder.native(), missing.count(), ranks.files.size(), sizes.tensor,
                            sizes.pipeline, sizes.expert, missing.Text()))
      .WithHint(kAllowHint);
}

// Of the tensor ranks of one stage and expert rank.
std::string MissingOfStage(const Reasons& missing, const ParallelSizes& sizes,
                           const RankPlace& place) {
  std::string where = fmt::format("pipeline stage {}", place.pipeline);
  if (sizes.expert > 1) {
    where += fmt::format(", expert rank {}", place.expert);
  }
  return fmt::format("{}: {} of {} tensor ranks cannot be used, {} ({})", where, missing.count(),
                     sizes.tensor,
                     missing.count() == static_cast<size_t>(sizes.tensor)
                         ? "nothing of it is compared"
                         : "what they share is compared without their parts",
                     missing.Text());
}

// Opens every rank that the sizes tell of, into ranks.files. `expected`: those of them that have a
// folder. `warnings`: a line per stage and expert rank that lacks some.
Reasons OpenExpected(RankOpener& opener, MegatronRanks& ranks,
                     std::unordered_set<std::string>& expected,
                     std::vector<std::string>& warnings) {
  const ParallelSizes& sizes = ranks.sizes;
  Reasons missing;
  base::LimitedWarnings incomplete_stages(warnings);
  for (RankPlace place; place.expert < sizes.expert; ++place.expert) {
    for (place.pipeline = 0; place.pipeline < sizes.pipeline; ++place.pipeline) {
      Reasons missing_of_stage;
      for (place.tensor = 0; place.tensor < sizes.tensor; ++place.tensor) {
        const std::string name = RankFolderName(sizes, place);
        const Result<size_t> opened = opener.Open(name);
        if (opener.Exists(name)) {
          expected.insert(name);
        }
        ranks.files.push_back(opened.ok() ? std::optional<size_t>(*opened) : std::nullopt);
        if (!opened.ok()) {
          missing.Add(opened.status());
          missing_of_stage.Add(opened.status());
        }
      }
      if (missing_of_stage.count() > 0) {
        incomplete_stages.Add(MissingOfStage(missing_of_stage, sizes, place));
      }
    }
  }
  if (incomplete_stages.more() > 0) {
    warnings.push_back(fmt::format("{} more pipeline stages{} have ranks that cannot be used",
                                   incomplete_stages.more(),
                                   sizes.expert > 1 ? ", counted per expert rank," : ""));
  }
  return missing;
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
  RankOpener opener(checkpoint, names);
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

  std::unordered_set<std::string> expected;
  std::vector<std::string> warnings;
  const Reasons missing = OpenExpected(opener, ranks, expected, warnings);
  const ParallelSizes& sizes = ranks.sizes;
  for (const std::string& name : names) {
    if (expected.count(name) == 0) {
      checkpoint.warnings.push_back(fmt::format("{} is not read: args record TP {}, PP {}, EP {}",
                                                (folder / name).native(), sizes.tensor,
                                                sizes.pipeline, sizes.expert));
    }
  }
  if (missing.count() == ranks.files.size() ||
      (missing.count() > 0 && !options.allow_missing_ranks)) {
    return MissingRanks(missing, ranks, folder);
  }
  checkpoint.warnings.insert(checkpoint.warnings.end(), std::make_move_iterator(warnings.begin()),
                             std::make_move_iterator(warnings.end()));
  return ranks;
}

}  // namespace msprobe::checkpoint
