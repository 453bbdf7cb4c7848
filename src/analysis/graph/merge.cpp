#include "src/analysis/graph/merge.h"

#include <map>
#include <optional>
#include <utility>

#include <fmt/format.h>

#include "src/analysis/graph/merged_collections.h"
#include "src/analysis/graph/merged_dump.h"
#include "src/analysis/graph/rank_groups.h"
#include "src/analysis/graph/scores.h"
#include "src/analysis/graph/shard_merge.h"
#include "src/analysis/graph/shard_shapes.h"
#include "src/analysis/graph/stage_merge.h"
#include "src/base/strings.h"

namespace msprobe::analysis::graph {
namespace {

// Parts of virtual pipelines follow each other as a sample passes them: the first part of every
// rank, then the second one of every rank.
//
// `group`: the ranks of the stages; `named`: those that stand in the names of their calls.
Result<MergedModel> MergePipeline(std::vector<MergedModel>& stages,
                                  const std::vector<int64_t>& group,
                                  const std::vector<int64_t>& named, const Parallelism& sizes,
                                  const std::vector<std::filesystem::path>& folders) {
  if (sizes.virtual_pipeline == 1) {
    MergedModel whole = std::move(stages.front());
    for (size_t place = 1; place < group.size(); ++place) {
      MergeStage(whole, stages[place],
                 {.rank = named[place], .is_first_rank = false, .chunk = std::nullopt});
    }
    return whole;
  }
  for (size_t place = 0; place < group.size(); ++place) {
    const int64_t chunks = CountChunks(stages[place]);
    if (static_cast<uint64_t>(chunks) != sizes.virtual_pipeline) {
      return MismatchError(
                 fmt::format("{}: the model has {} by its names (Module.0., Module.1.), not {}",
                             folders[static_cast<size_t>(group[place])].string(),
                             base::Plural(static_cast<uint64_t>(chunks), "part"),
                             sizes.virtual_pipeline))
          .WithHint("--vpp is the number of parts of the model on each rank of the pipeline");
    }
  }
  MergedModel whole;
  whole.contents.push_back(stages.front().contents.front());  // of the root
  for (uint64_t chunk = 0; chunk < sizes.virtual_pipeline; ++chunk) {
    for (size_t place = 0; place < group.size(); ++place) {
      MergeStage(whole, stages[place],
                 {.rank = named[place],
                  .is_first_rank = place == 0,
                  .chunk = static_cast<int64_t>(chunk)});
    }
  }
  return whole;
}

// The model of a pipeline, or of several that were merged.
struct Merged {
  MergedModel model;
  std::vector<RankCollection> collections;  // of all ranks in it
};

// Those that begin with the ranks of `group` become one. Later stages have gone into others.
template <typename Merge>
void Join(std::map<int64_t, Merged>& models, const std::vector<std::vector<int64_t>>& groups,
          const Merge& merge) {
  for (const std::vector<int64_t>& group : groups) {
    if (group.size() == 1 || !models.contains(group.front())) {
      continue;
    }
    std::vector<MergedModel> shards;
    std::vector<RankCollection> collections;
    for (const int64_t rank : group) {
      auto found = models.extract(rank);
      shards.push_back(std::move(found.mapped().model));
      for (RankCollection& collection : found.mapped().collections) {
        collections.push_back(std::move(collection));
      }
    }
    merge(shards);
    models.emplace(group.front(), Merged{std::move(shards.front()), std::move(collections)});
  }
}

}  // namespace

Result<MergedRanks> MergeRanks(const std::vector<std::filesystem::path>& ranks,
                               const Parallelism& sizes, MergedFor purpose,
                               const std::filesystem::path& target,
                               std::vector<std::string>& warnings) {
  std::vector<RankDump> dumps;
  dumps.reserve(ranks.size());
  for (const std::filesystem::path& folder : ranks) {
    MSP_ASSIGN_OR_RETURN(RankDump dump, RankDump::Load(folder));
    SetPlaces(dump.side(), Edition::k26);
    dumps.push_back(std::move(dump));
  }
  const RankGroups groups = FindRankGroups(dumps, sizes, warnings);
  // Shards find each other by name: their calls have the rank of the first one.
  std::map<int64_t, int64_t> first_shard;
  for (const auto* kind : {&groups.tensor, &groups.context}) {
    for (const std::vector<int64_t>& group : *kind) {
      for (const int64_t rank : group) {
        int64_t& first = first_shard.try_emplace(rank, rank).first->second;
        first =
            std::min(first, first_shard.try_emplace(group.front(), group.front()).first->second);
      }
    }
  }
  // Pipelines first: the model of a pipeline has the number of its first rank.
  std::map<int64_t, Merged> models;
  for (const std::vector<int64_t>& group : groups.pipeline) {
    std::vector<MergedModel> stages;
    std::vector<int64_t> named;
    std::vector<RankCollection> collections;
    for (const int64_t rank : group) {
      MergedModel& stage =
          stages.emplace_back(MergedModel::Of(dumps[static_cast<size_t>(rank)], rank, warnings));
      for (RankCollection& collection :
           DetachCollections(stage, rank, /*keep_places=*/rank == group.front())) {
        collections.push_back(std::move(collection));
      }
      named.push_back(first_shard[rank]);
    }
    MSP_ASSIGN_OR_RETURN(MergedModel whole, MergePipeline(stages, group, named, sizes, ranks));
    models.emplace(group.front(), Merged{std::move(whole), std::move(collections)});
  }
  Join(models, groups.tensor, [&](std::vector<MergedModel>& shards) {
    MergeTensorShards(shards, groups.HaveOtherExperts(groups.tensor), warnings);
    JoinTensorShapes(shards.front());
  });
  Join(models, groups.context, [&](std::vector<MergedModel>& parts) {
    MergeSequenceParts(parts, groups.HaveOtherExperts(groups.context), warnings);
    JoinSequenceShapes(parts.front());
  });
  MergedRanks result;
  std::vector<std::filesystem::path>& folders = result.folders;
  if (!groups.expert.empty()) {
    result.expert_ranks = groups.expert.front().size();
  }
  for (auto& [rank, merged] : models) {
    AttachCollections(merged.model, std::move(merged.collections), rank);
    const std::filesystem::path folder = target / fmt::format("rank{}", folders.size());
    MSP_RETURN_IF_ERROR(WriteMergedDump(merged.model, purpose, folder));
    folders.push_back(folder);
  }
  return result;
}

}  // namespace msprobe::analysis::graph
