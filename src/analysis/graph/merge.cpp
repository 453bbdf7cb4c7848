#include "src/analysis/graph/merge.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <cmath>
#include <map>
#include <optional>
#include <set>
#include <span>
#include <string_view>
#include <utility>

#include <fmt/format.h>

#include "src/analysis/graph/build.h"
#include "src/analysis/graph/merged_dump.h"
#include "src/analysis/graph/node_names.h"
#include "src/analysis/graph/scores.h"
#include "src/analysis/graph/stage_merge.h"
#include "src/base/number_text.h"
#include "src/base/strings.h"

namespace msprobe::analysis::graph {
namespace {

using compare::SideRow;
using compare::StatValue;

constexpr std::string_view kColumn = ".ColumnParallelLinear.";
constexpr std::string_view kRow = ".RowParallelLinear.";

bool IsForwardOf(std::string_view name, std::string_view kind) {
  return name.find(kind) != std::string_view::npos && name.find(".forward") != name.npos;
}
bool IsBackwardOf(std::string_view name, std::string_view kind) {
  return name.find(kind) != std::string_view::npos && name.find(".backward") != name.npos;
}

std::string NumberText(const StatValue& value) {
  return value.kind == compare::StatKind::kInteger ? std::to_string(value.integer)
                                                   : base::PythonFloatRepr(value.number);
}

std::string Listed(std::span<const Statistics> values, size_t stat, std::string_view behind,
                   std::string_view between) {
  std::string text;
  for (const Statistics& value : values) {
    text += text.empty() ? "" : between;
    text += NumberText(value[stat]);
    text += behind;
  }
  return text;
}

// The statistics of the whole tensor, and how they were made.
Statistics Combine(std::span<const Statistics> values, std::string_view item,
                   std::vector<std::string>& info) {
  Statistics whole = values.front();
  double sum = 0;
  double squares = 0;
  for (const Statistics& value : values) {
    if (value[compare::kMax].number > whole[compare::kMax].number) {
      whole[compare::kMax] = value[compare::kMax];
    }
    if (value[compare::kMin].number < whole[compare::kMin].number) {
      whole[compare::kMin] = value[compare::kMin];
    }
    sum += value[compare::kMean].number;
    squares += value[compare::kNorm].number * value[compare::kNorm].number;
  }
  const auto set = [&whole](size_t stat, double number) {
    whole[stat].kind = compare::StatKind::kNumber;
    whole[stat].number = number;
  };
  set(compare::kMean, sum / static_cast<double>(values.size()));
  set(compare::kNorm, std::sqrt(squares));
  info.push_back(fmt::format("The Max value merging method for {} is: max({}) = {}", item,
                             Listed(values, compare::kMax, "", ", "),
                             NumberText(whole[compare::kMax])));
  info.push_back(fmt::format("The Min value merging method for {} is: min({}) = {}", item,
                             Listed(values, compare::kMin, "", ", "),
                             NumberText(whole[compare::kMin])));
  info.push_back(fmt::format("The Mean value merging method for {} is: ({}) / {} = {}", item,
                             Listed(values, compare::kMean, "", " + "), values.size(),
                             NumberText(whole[compare::kMean])));
  info.push_back(fmt::format("The Norm value merging method for {} is: ({}) ** 0.5 = {}", item,
                             Listed(values, compare::kNorm, " ** 2", " + "),
                             NumberText(whole[compare::kNorm])));
  return whole;
}

// Tensor-parallel ranks into the first of them.
class TensorMerge {
 public:
  TensorMerge(std::span<MergedModel> shards, const std::vector<int64_t>& ranks)
      : shards_(shards), whole_(shards.front()), ranks_(ranks) {}

  void Run() {
    const std::vector<uint32_t> order = whole_.graph.PostOrder();
    FindSplitRegions(order);
    for (size_t place = 0; place < order.size(); ++place) {
      const uint32_t node = order[place];
      const std::string_view name = whole_.graph.nodes[node].name;
      if (whole_.contents[node].entry != kNone && !name.starts_with("Distributed")) {
        MergeNode(node, split_[place]);
      }
    }
  }

 private:
  // From a ColumnParallelLinear to the next RowParallelLinear each rank has a part of the tensors,
  // equal or not.
  void FindSplitRegions(const std::vector<uint32_t>& order) {
    split_.assign(order.size(), false);
    constexpr size_t kNowhere = SIZE_MAX;
    size_t begin = kNowhere;
    for (size_t place = 0; place < order.size(); ++place) {
      const Node& node = whole_.graph.nodes[order[place]];
      if (begin == kNowhere && IsForwardOf(node.name, kColumn)) {
        begin = place;
        while (begin > 0 && whole_.graph.nodes[order[begin - 1]].parent == order[place]) {
          --begin;
        }
      } else if (begin != kNowhere && IsForwardOf(node.name, kRow)) {
        for (; begin <= place; ++begin) {
          split_[begin] = true;
        }
        begin = kNowhere;
      }
    }
  }

  // Whether a row is the same on all ranks by the way these layers work.
  bool IsShared(uint32_t node, std::string_view item) const {
    const std::string_view name = whole_.graph.nodes[node].name;
    const uint32_t above = whole_.graph.nodes[node].parent;
    const bool in_column = IsForwardOf(name, kColumn) ||
                           (above != kNone && IsForwardOf(whole_.graph.nodes[above].name, kColumn));
    return (in_column && item == "input.0") ||
           (IsForwardOf(name, kRow) && (item.starts_with("output.") || item == "parameters.bias"));
  }

  void MergeNode(uint32_t node, bool is_split) {
    MergedContent& content = whole_.contents[node];
    const compare::SideEntry& entry = content.dump->side().entries[content.entry];
    std::vector<const MergedContent*> parts = {&content};
    for (MergedModel& shard : shards_.subspan(1)) {
      const uint32_t other = shard.graph.Find(whole_.graph.nodes[node].name);
      if (other == kNone || shard.contents[other].entry == kNone ||
          shard.contents[other].RowCount() != entry.row_count) {
        return;
      }
      parts.push_back(&shard.contents[other]);
    }
    const std::optional<Statistics> reduced = ReducedOutput(node);
    std::vector<std::string> info;
    std::map<uint32_t, Statistics> changed;
    std::string reduced_from;
    for (uint32_t row = 0; row < entry.row_count; ++row) {
      const SideRow& first = content.Row(row);
      const std::string_view item = content.ItemName(row);
      std::vector<Statistics> values;
      for (const MergedContent* part : parts) {
        values.push_back(part->StatisticsOf(row));
      }
      if (!first.is_tensor || !std::all_of(values.begin(), values.end(), IsNumeric)) {
        continue;
      }
      if (reduced && item == "output.0") {
        changed[row] = *reduced;
        reduced_from = reduced_from_;
        continue;
      }
      const bool differ = std::any_of(
          values.begin() + 1, values.end(),
          [&values](const Statistics& value) { return !SameStatistics(values.front(), value); });
      const bool shared = is_split && IsShared(node, item);
      if (shared ? item.starts_with("input.") && differ : differ || is_split) {
        changed[row] = Combine(values, item, info);
      }
    }
    if (changed.empty()) {
      return;
    }
    if (!reduced_from.empty()) {
      info.push_back(fmt::format("The output of this data is merged from {}", reduced_from));
    }
    std::vector<std::string> numbers;
    for (const int64_t rank : ranks_) {
      numbers.push_back(std::to_string(rank));
    }
    content.info.push_back(
        fmt::format("This data is the merged data after tensor parallelism(TP), and the data is "
                    "merged from rank [{}].",
                    base::Join(numbers, ", ")));
    content.info.insert(content.info.end(), info.begin(), info.end());
    for (auto& [row, stats] : changed) {
      content.changed[row] = stats;
    }
  }

  // Where a call's output is a part of a sum, the sum that the collective behind it made.
  std::optional<Statistics> ReducedOutput(uint32_t node) {
    const uint32_t above = whole_.graph.nodes[node].parent;
    if (above == kNone || whole_.graph.nodes[node].type != NodeType::kApi) {
      return std::nullopt;
    }
    const std::string_view layer = whole_.graph.nodes[above].name;
    if (!IsForwardOf(layer, kRow) && !IsBackwardOf(layer, kColumn)) {
      return std::nullopt;
    }
    const MergedContent& content = whole_.contents[node];
    const std::optional<Statistics> own = content.Find("output.0");
    const std::vector<uint32_t>& siblings = whole_.graph.nodes[above].children;
    for (auto at = std::find(siblings.begin(), siblings.end(), node); at != siblings.end(); ++at) {
      const std::string_view name = whole_.graph.nodes[*at].name;
      if (whole_.contents[*at].entry == kNone ||
          (name.find("all_reduce") == name.npos && name.find("reduce_scatter") == name.npos)) {
        continue;
      }
      // reduce_scatter is given the buffer for its output first.
      const std::string_view input =
          name.find("reduce_scatter") == name.npos ? "input.0" : "input.1";
      const std::optional<Statistics> given = whole_.contents[*at].Find(input);
      const std::optional<Statistics> made = whole_.contents[*at].Find("output.0");
      if (own && given && made && IsNumeric(*own) && IsNumeric(*given) &&
          SameStatistics(*own, *given)) {
        reduced_from_ = fmt::format("{}.output.0", name);
        return made;
      }
    }
    return std::nullopt;
  }

  const std::span<MergedModel> shards_;
  MergedModel& whole_;
  const std::vector<int64_t>& ranks_;
  std::vector<bool> split_;  // by place in the order
  std::string reduced_from_;
};

// Numbers of the ranks that differ in one kind of parallelism only: by group, then place in it.
std::vector<std::vector<int64_t>> GroupsOf(const Parallelism& sizes, std::string_view kind) {
  std::map<std::string_view, uint64_t> size_of = {
      {"tp", sizes.tensor},
      {"pp", sizes.pipeline},
      {"dp", sizes.rank_count / (sizes.tensor * sizes.pipeline)}};
  uint64_t stride = 1;
  for (const std::string_view part : base::Split(sizes.order, '-')) {
    if (part == kind) {
      break;
    }
    const auto found = size_of.find(part);
    stride *= found == size_of.end() ? 1 : found->second;
  }
  const uint64_t size = size_of[kind];
  std::vector<std::vector<int64_t>> groups;
  for (uint64_t rank = 0; rank < sizes.rank_count; ++rank) {
    if (rank / stride % size == 0) {
      std::vector<int64_t>& group = groups.emplace_back();
      for (uint64_t place = 0; place < size; ++place) {
        group.push_back(static_cast<int64_t>(rank + place * stride));
      }
    }
  }
  return groups;
}

// Parts of virtual pipelines follow each other as a sample passes them: the first part of every
// rank, then the second one of every rank.
Result<MergedModel> MergePipeline(std::vector<MergedModel>& stages,
                                  const std::vector<int64_t>& group, const Parallelism& sizes,
                                  const std::vector<std::filesystem::path>& folders) {
  if (sizes.virtual_pipeline == 1) {
    MergedModel whole = std::move(stages.front());
    for (size_t place = 1; place < group.size(); ++place) {
      MergeStage(whole, stages[place],
                 {.rank = group[place], .is_first_rank = false, .chunk = std::nullopt});
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
                 {.rank = group[place],
                  .is_first_rank = place == 0,
                  .chunk = static_cast<int64_t>(chunk)});
    }
  }
  return whole;
}

}  // namespace

Status CheckParallelism(const Parallelism& sizes, size_t rank_folders) {
  const auto usage = [](std::string text) { return UsageError("--rank_size: " + std::move(text)); };
  if (sizes.rank_count != rank_folders) {
    return usage(
        fmt::format("{} ranks were asked for, but {} are there", sizes.rank_count, rank_folders));
  }
  if (sizes.tensor == 0 || sizes.pipeline == 0 || sizes.rank_count % sizes.tensor != 0 ||
      sizes.rank_count % sizes.pipeline != 0 ||
      sizes.rank_count % (sizes.tensor * sizes.pipeline) != 0) {
    return usage(fmt::format("{} ranks cannot be divided by --tp {} and --pp {}", sizes.rank_count,
                             sizes.tensor, sizes.pipeline));
  }
  if (sizes.virtual_pipeline > 1 && sizes.pipeline == 1) {
    return UsageError("--vpp above 1 needs --pp above 1");
  }
  std::set<std::string_view> kinds;
  for (const std::string_view part : base::Split(sizes.order, '-')) {
    constexpr std::string_view kKinds[] = {"tp", "cp", "ep", "dp", "pp"};
    if (!base::IsOneOf(part, kKinds) || !kinds.insert(part).second) {
      return UsageError(
          fmt::format("--order: \"{}\" is none of tp, cp, ep, dp and pp, or stands "
                      "there twice",
                      part));
    }
  }
  if (!kinds.contains("tp") || !kinds.contains("pp") || !kinds.contains("dp")) {
    return UsageError("--order must name tp, dp and pp");
  }
  return {};
}

Result<std::vector<std::filesystem::path>> MergeRanks(
    const std::vector<std::filesystem::path>& ranks, const Parallelism& sizes,
    MergedParameters parameters, const std::filesystem::path& target,
    std::vector<std::string>& warnings) {
  std::vector<RankDump> dumps;
  dumps.reserve(ranks.size());
  for (const std::filesystem::path& folder : ranks) {
    MSP_ASSIGN_OR_RETURN(RankDump dump, RankDump::Load(folder));
    SetPlaces(dump.side(), Edition::k26);
    dumps.push_back(std::move(dump));
  }
  // Pipelines first: the model of a pipeline has the number of its first rank.
  std::map<int64_t, MergedModel> pipelines;
  for (const std::vector<int64_t>& group : GroupsOf(sizes, "pp")) {
    std::vector<MergedModel> stages;
    for (const int64_t rank : group) {
      stages.push_back(MergedModel::Of(dumps[static_cast<size_t>(rank)], warnings));
    }
    MSP_ASSIGN_OR_RETURN(MergedModel whole, MergePipeline(stages, group, sizes, ranks));
    pipelines.emplace(group.front(), std::move(whole));
  }
  std::vector<std::filesystem::path> folders;
  for (const std::vector<int64_t>& group : GroupsOf(sizes, "tp")) {
    if (!pipelines.contains(group.front())) {
      continue;  // of a later stage
    }
    std::vector<MergedModel> shards;
    for (const int64_t rank : group) {
      shards.push_back(std::move(pipelines.at(rank)));
    }
    if (shards.size() > 1) {
      TensorMerge(shards, group).Run();
    }
    const std::filesystem::path folder = target / fmt::format("rank{}", folders.size());
    MSP_RETURN_IF_ERROR(WriteMergedDump(shards.front(), parameters, folder));
    folders.push_back(folder);
  }
  return folders;
}

}  // namespace msprobe::analysis::graph
