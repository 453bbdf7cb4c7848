#include "src/checkpoint/megatron/reader.h"

#include <algorithm>
#include <span>
#include <string>
#include <string_view>
#include <unordered_map>
#include <unordered_set>
#include <utility>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "src/base/strings.h"
#include "src/checkpoint/common/iteration_folder.h"
#include "src/checkpoint/megatron/merge.h"
#include "src/checkpoint/megatron/names.h"
#include "src/checkpoint/megatron/ranks.h"
#include "src/checkpoint/megatron/stages.h"
#include "src/io/read_budget.h"

namespace msprobe::checkpoint {
namespace {

// The checksum of a small storage is looked at while opening; a large one would cost a second pass.
constexpr uint64_t kVerifyUpToBytes = uint64_t{1} << 20U;
// Parts of the pipeline, and experts that are split off one by one, of a whole checkpoint: both are
// numbers in the arguments, which cost a file nothing.
constexpr int64_t kMostPipelineParts = 100'000;
constexpr size_t kMostSplitExperts = 1'000'000;
// Of these, experts that have no elements or cannot be read: no byte of a file stands for them.
constexpr uint64_t kMostEmptyExperts = 65'536;
// Of the names of all, and what else they say: a name may be long, and is repeated for each.
constexpr uint64_t kMostExpertTextBytes = uint64_t{64} << 20U;

// A tensor of one rank file.
struct RankTensor {
  std::string name;  // translated, numbered as in the rank
  int64_t virtual_stage = 0;
  size_t index = 0;  // in the file
};

// What the tensor ranks of one stage hold under one name.
struct Group {
  std::string name;
  int64_t virtual_stage = 0;
  std::vector<RankPart> parts;
};

// Keys joined by dots, without dots at the ends.
std::string ModelName(const NamedTensor& tensor) {
  const std::string joined = base::Join(std::span(tensor.path).subspan(1), ".");
  const size_t first = joined.find_first_not_of('.');
  return first == std::string::npos
             ? std::string()
             : joined.substr(first, joined.find_last_not_of('.') + 1 - first);
}

class MegatronMerger {
 public:
  MegatronMerger(const MegatronRanks& ranks, const Options& options, Checkpoint& checkpoint)
      : ranks_(ranks),
        corrected_(!options.compatible_merge),
        gated_(checkpoint.facts.gated.value_or(false)),
        checkpoint_(checkpoint) {
    for (const TensorFile& file : checkpoint.files) {
      budgets_.emplace_back(file.size_bytes());
    }
  }

  Status Run() {
    CollectTensors();
    MSP_RETURN_IF_ERROR(NumberLayers());
    NumberExperts();
    for (RankPlace place; place.expert < ranks_.sizes.expert; ++place.expert) {
      for (place.pipeline = 0; place.pipeline < ranks_.sizes.pipeline; ++place.pipeline) {
        MergeStage(place);
      }
    }
    return {};
  }

 private:
  void CollectTensors();
  Status NumberLayers();
  void NumberExperts();
  void MergeStage(RankPlace place);
  void AddToGroup(std::vector<Group>& groups, std::unordered_map<std::string, size_t>& places,
                  int64_t virtual_stage, RankPart part);
  Parameter MakePart(size_t file, const RankTensor& tensor);
  std::vector<Parameter> SplitExperts(const Parameter& part);
  std::string WholeName(const Group& group, const RankPlace& place) const;
  void Keep(MergedRanks merged);
  void WarnOnce(std::string text);

  const MegatronRanks& ranks_;
  const bool corrected_;
  const bool gated_;
  Checkpoint& checkpoint_;
  std::vector<std::vector<RankTensor>> tensors_;  // per file
  std::vector<io::ReadBudget> budgets_;           // per file: copies are read while merging
  std::vector<int64_t> first_layers_;             // per part of the pipeline
  int64_t experts_per_rank_ = 0;                  // 0: experts keep their numbers
  size_t split_experts_ = 0;                      // so far
  uint64_t empty_experts_left_ = kMostEmptyExperts;
  uint64_t expert_text_bytes_left_ = kMostExpertTextBytes;
  struct Kept {
    size_t at;
    bool incomplete;
  };
  std::unordered_map<std::string, Kept> kept_;
  std::unordered_set<std::string> warned_;
};

void MegatronMerger::CollectTensors() {
  for (const TensorFile& file : checkpoint_.files) {
    const ModelKeys keys(file);
    std::vector<RankTensor>& tensors = tensors_.emplace_back();
    for (size_t i = 0; i < file.tensors().size(); ++i) {
      const NamedTensor& tensor = file.tensors()[i];
      if (const std::optional<int64_t> stage = keys.VirtualStageOf(tensor)) {
        tensors.push_back({TranslateMegatronName(ModelName(tensor), corrected_), *stage, i});
      }
    }
  }
}

Status MegatronMerger::NumberLayers() {
  const ParallelSizes& sizes = ranks_.sizes;
  int64_t virtual_stages = 1;
  for (const std::vector<RankTensor>& tensors : tensors_) {
    for (const RankTensor& tensor : tensors) {
      virtual_stages = std::max(virtual_stages, tensor.virtual_stage + 1);
    }
  }
  if (virtual_stages > kMostPipelineParts / sizes.pipeline) {
    return BadFormatError(
        fmt::format("{}: {} pipeline stages of {} virtual stages are more than a model has",
                    checkpoint_.path.native(), sizes.pipeline, virtual_stages));
  }
  StageLayers layers;
  layers.stages = sizes.pipeline;
  layers.counts.resize(static_cast<size_t>(sizes.pipeline * virtual_stages));
  for (RankPlace place; place.expert < sizes.expert; ++place.expert) {
    for (place.pipeline = 0; place.pipeline < sizes.pipeline; ++place.pipeline) {
      for (place.tensor = 0; place.tensor < sizes.tensor; ++place.tensor) {
        const std::optional<size_t> file = ranks_.FileOf(place);
        if (!file) {
          continue;
        }
        const auto count_of = [&](int64_t virtual_stage) -> std::optional<int64_t>& {
          return layers
              .counts[static_cast<size_t>(virtual_stage * sizes.pipeline + place.pipeline)];
        };
        for (int64_t stage = 0; stage < virtual_stages; ++stage) {
          count_of(stage) = count_of(stage).value_or(0);
        }
        for (const RankTensor& tensor : tensors_[*file]) {
          std::optional<int64_t>& count = count_of(tensor.virtual_stage);
          count = std::max(*count, LayerOf(tensor.name, corrected_).value_or(-1) + 1);
        }
      }
    }
  }
  first_layers_ =
      corrected_ ? FirstLayers(layers, ranks_.args, checkpoint_.warnings) : EvenFirstLayers(layers);
  return {};
}

void MegatronMerger::NumberExperts() {
  const int64_t expert_ranks = ranks_.sizes.expert;
  if (const std::optional<int64_t> experts = ranks_.args.Integer("num_experts")) {
    experts_per_rank_ = std::max<int64_t>(*experts, 0) / expert_ranks;
  } else if (corrected_ && expert_ranks > 1 && !ranks_.args.Has("num_experts")) {
    for (const std::vector<RankTensor>& tensors : tensors_) {
      for (const RankTensor& tensor : tensors) {
        experts_per_rank_ = std::max(experts_per_rank_, ExpertOf(tensor.name).value_or(-1) + 1);
      }
    }
  }
}

Parameter MegatronMerger::MakePart(size_t file_index, const RankTensor& tensor) {
  const TensorFile& file = checkpoint_.files[file_index];
  const NamedTensor& source = file.tensors()[tensor.index];
  Status status = source.status;
  if (status.ok()) {
    status = budgets_[file_index].Take(source.view);
  }
  if (status.ok()) {
    status = file.VerifyChecksum(source, kVerifyUpToBytes);
  }
  if (status.ok()) {
    return MakeParameter(tensor.name, source.view, file_index);
  }
  Parameter part;
  part.name = tensor.name;
  part.dtype = source.view.dtype;
  part.shape = source.view.shape;
  part.status = std::move(status);
  return part;
}

void MegatronMerger::AddToGroup(std::vector<Group>& groups,
                                std::unordered_map<std::string, size_t>& places,
                                int64_t virtual_stage, RankPart part) {
  const std::string& name = part.parameter.name;
  const auto [place, is_new] =
      places.try_emplace(fmt::format("{}\n{}", name, virtual_stage), groups.size());
  if (is_new) {
    groups.push_back({name, virtual_stage, {}});
  }
  std::vector<RankPart>& parts = groups[place->second].parts;
  if (!parts.empty() && parts.back().rank == part.rank) {
    WarnOnce(fmt::format("two tensors of a rank are both {}: the later one is taken", name));
    parts.back() = std::move(part);
    return;
  }
  parts.push_back(std::move(part));
}

// Nothing where they are no grouped experts, or their names would fill the memory.
std::vector<Parameter> MegatronMerger::SplitExperts(const Parameter& part) {
  uint64_t text_bytes = part.name.size() + part.status.message().size();
  for (const std::string& note : part.notes) {
    text_bytes += note.size();
  }
  const auto count = static_cast<uint64_t>(std::max<int64_t>(experts_per_rank_, 1));
  const bool empty = part.pieces.empty();
  if (text_bytes > expert_text_bytes_left_ / count || (empty && count > empty_experts_left_)) {
    return {};
  }
  std::vector<Parameter> experts = SplitGroupedExperts(part, experts_per_rank_);
  split_experts_ += experts.size();
  expert_text_bytes_left_ -= text_bytes * experts.size();
  empty_experts_left_ -= empty ? experts.size() : 0;
  return experts;
}

void MegatronMerger::MergeStage(RankPlace place) {
  std::vector<Group> groups;
  std::unordered_map<std::string, size_t> places;
  for (place.tensor = 0; place.tensor < ranks_.sizes.tensor; ++place.tensor) {
    const std::optional<size_t> file = ranks_.FileOf(place);
    if (!file) {
      continue;
    }
    for (const RankTensor& tensor : tensors_[*file]) {
      Parameter part = MakePart(*file, tensor);
      std::vector<Parameter> experts;
      if (corrected_ && split_experts_ < kMostSplitExperts) {
        experts = SplitExperts(part);
      }
      if (experts.empty()) {
        experts.push_back(std::move(part));
      }
      for (Parameter& each : experts) {
        AddToGroup(groups, places, tensor.virtual_stage, {place.tensor, std::move(each)});
      }
    }
  }
  for (Group& group : groups) {
    const std::string name = WholeName(group, place);
    const int64_t first_rank = group.parts[0].rank;
    MergedRanks merged = MergeTensorRanks(std::move(group.parts), ranks_.sizes.tensor,
                                          ShardingOf(group.name, corrected_, gated_));
    merged.parameter.name = name;
    if (!merged.disagreeing.empty()) {
      WarnOnce(fmt::format("Inconsistent values for {} across TP ranks {} and {}", name, first_rank,
                           fmt::join(merged.disagreeing, ", ")));
    }
    Keep(std::move(merged));
  }
}

std::string MegatronMerger::WholeName(const Group& group, const RankPlace& place) const {
  const auto part =
      static_cast<size_t>(group.virtual_stage * ranks_.sizes.pipeline + place.pipeline);
  return RaiseExpert(RaiseLayer(group.name, first_layers_[part], corrected_),
                     place.expert * experts_per_rank_);
}

// Later stages and expert ranks replace what they hold again, unless they hold less of it.
void MegatronMerger::Keep(MergedRanks merged) {
  const auto [place, is_new] = kept_.try_emplace(
      merged.parameter.name, Kept{checkpoint_.parameters.size(), merged.incomplete});
  if (is_new) {
    checkpoint_.parameters.push_back(std::move(merged.parameter));
    return;
  }
  if (corrected_ &&
      ((merged.incomplete && !place->second.incomplete) ||
       (!merged.parameter.status.ok() && checkpoint_.parameters[place->second.at].status.ok()))) {
    return;
  }
  checkpoint_.parameters[place->second.at] = std::move(merged.parameter);
  place->second.incomplete = merged.incomplete;
}

void MegatronMerger::WarnOnce(std::string text) {
  if (warned_.insert(text).second) {
    checkpoint_.warnings.push_back(std::move(text));
  }
}

// Optimizer states have no names of their own: one parameter per tensor and rank, with the rank in
// its name where there are several.
void AddOptimizerStates(const MegatronRanks& ranks, Checkpoint& checkpoint) {
  constexpr std::string_view kKey = "optimizer";
  for (RankPlace place; place.expert < ranks.sizes.expert; ++place.expert) {
    for (place.pipeline = 0; place.pipeline < ranks.sizes.pipeline; ++place.pipeline) {
      for (place.tensor = 0; place.tensor < ranks.sizes.tensor; ++place.tensor) {
        const std::optional<size_t> file = ranks.FileOf(place);
        if (!file) {
          continue;
        }
        const std::string prefix =
            ranks.files.size() == 1
                ? fmt::format("{}.", kKey)
                : fmt::format("{}.{}.", kKey, RankFolderName(ranks.sizes, place));
        for (const NamedTensor& tensor : checkpoint.files[*file].tensors()) {
          if (tensor.path.size() < 2 || tensor.path[0] != kKey || tensor.is_array) {
            continue;
          }
          Parameter state = MakeParameter(prefix + ModelName(tensor), tensor.view, *file);
          if (!tensor.status.ok()) {
            state.pieces.clear();
            state.status = tensor.status;
          }
          checkpoint.parameters.push_back(std::move(state));
        }
      }
    }
  }
}

}  // namespace

bool LooksLikeMegatron(const std::filesystem::path& folder) {
  const Result<IterationFolder> found = FindIterationFolder(folder);
  if (!found.ok()) {
    return true;  // a tracker that leads nowhere: opening says what is wrong with it
  }
  const Result<std::vector<std::string>> ranks = ListRankFolders(found->folder);
  return ranks.ok() && !ranks->empty();
}

Result<Checkpoint> OpenMegatron(const std::filesystem::path& folder, const Options& options) {
  MSP_ASSIGN_OR_RETURN(const IterationFolder found, FindIterationFolder(folder));
  Checkpoint checkpoint;
  checkpoint.kind = Kind::kMegatron;
  checkpoint.path = found.folder;
  MSP_ASSIGN_OR_RETURN(const MegatronRanks ranks, OpenMegatronRanks(options, checkpoint));
  checkpoint.facts = FactsFromArgs(ranks.args);
  checkpoint.iteration = found.iteration;
  MSP_RETURN_IF_ERROR(MegatronMerger(ranks, options, checkpoint).Run());
  if (options.optimizer) {
    AddOptimizerStates(ranks, checkpoint);
  }
  return checkpoint;
}

}  // namespace msprobe::checkpoint
