#include "src/analysis/monitor/dump2db.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdint>
#include <filesystem>
#include <optional>
#include <set>
#include <string>
#include <utility>

#include <fmt/format.h>

#include "src/analysis/monitor/warnings.h"
#include "src/base/number_text.h"
#include "src/base/strings.h"
#include "src/dump/dump_file.h"
#include "src/dump/layout.h"
#include "src/dump/leaves.h"
#include "src/dump/names.h"

namespace msprobe::monitor {
namespace {

namespace fs = std::filesystem;
using dump::EntryTree;
using dump::NodeKind;

// Longer names come of broken or hostile files, which could make a store far larger than they are.
constexpr size_t kMostNameBytes = 1024;
constexpr int64_t kNoMetric = 0;  // the store counts from 1
constexpr std::array<std::string_view, 4> kMetricNames = {"forward", "backward", "recompute",
                                                          "parameters_grad"};
constexpr std::array<std::string_view, 4> kKeys = {"Norm", "Max", "Min", "Mean"};

// Position in kMetricNames; nullopt for entries that are no calls, such as saved values.
std::optional<size_t> MetricOf(std::string_view name, const EntryTree& tree) {
  const dump::EntryName entry = dump::ParseEntryName(name);
  if (entry.is_parameters_grad) {
    return 3;
  }
  if (entry.direction == dump::Direction::kBackward) {
    return 1;
  }
  if (entry.direction != dump::Direction::kForward) {
    return std::nullopt;
  }
  const uint32_t mark =
      tree[0].kind == NodeKind::kObject ? tree.Find(0, "is_recompute") : EntryTree::kNone;
  return mark != EntryTree::kNone && tree[mark].boolean ? 2 : 0;
}

double NumberAt(const EntryTree& tree, uint32_t index) {
  switch (tree[index].kind) {
    case NodeKind::kInt:
    case NodeKind::kFloat:
      return tree[index].number;
    case NodeKind::kBool:
      return tree[index].boolean ? 1 : 0;
    case NodeKind::kText:
      return base::ParseDouble(tree[index].text).value_or(std::nan(""));
    default:
      return std::nan("");
  }
}

class DumpFiller {
 public:
  DumpFiller(TrendStore& store, const NameMapping& mapping, StoreResult& result)
      : store_(store), mapping_(mapping), result_(result), warnings_(result.warnings) {}

  // The first error is the store's: nothing more can be written.
  Status AddFile(const fs::path& path, int64_t rank, int64_t step) {
    rank_ = rank;
    step_ = step;
    const uint64_t rows_before = result_.rows;
    Status refused;
    Result<dump::DumpHeader> header =
        dump::ReadDumpFile(path, {.allow_truncated = true},
                           [this, &refused](std::string_view name, const EntryTree& tree) {
                             refused = AddEntry(name, tree);
                             return refused;
                           });
    MSP_RETURN_IF_ERROR(std::move(refused));
    if (!header.ok()) {
      Status broken = std::move(header).status();
      warnings_.Add(broken.message() + (result_.rows > rows_before
                                            ? "; what stands in front of this place is used"
                                            : "; nothing of it is used"));
      if (first_broken_.ok()) {
        first_broken_ = std::move(broken);
      }
    } else if (header->recovery) {
      warnings_.Add(fmt::format(
          "{}: the capture did not come to its end; what its log holds is used", path.string()));
    } else if (header->truncated) {
      warnings_.Add(fmt::format("{} ends early: its complete entries are used", path.string()));
    }
    if (result_.rows > rows_before) {
      ranks_.insert(rank);
    }
    return {};
  }

  void SayThatTheLaterCounts(const fs::path& path, int64_t rank, int64_t step) {
    warnings_.Add(fmt::format("{} is one more of rank {} and step {}; the later one counts",
                              path.string(), rank, step));
  }

  Status Finish(const fs::path& data) {
    if (left_out_ > 0) {
      warnings_.Add(fmt::format("{}: entries left out, neither forward nor backward calls: {}",
                                data.string(), base::FormatCount(left_out_)));
    }
    if (long_names_ > 0) {
      warnings_.Add(fmt::format("{}: left out {} of more than {} bytes", data.string(),
                                base::Plural(long_names_, "name"), kMostNameBytes));
    }
    warnings_.Finish();
    result_.names = names_.size();
    result_.ranks = ranks_.size();
    if (result_.rows > 0) {
      return {};
    }
    return !first_broken_.ok()
               ? std::move(first_broken_)
               : BadFormatError(fmt::format("{} holds no statistics of tensors", data.string()))
                     .WithHint("dump with \"task\": \"statistics\" or \"tensor\"");
  }

 private:
  Status AddEntry(std::string_view name, const EntryTree& tree) {
    const std::optional<size_t> metric = MetricOf(name, tree);
    if (!metric) {
      ++left_out_;
      return {};
    }
    if (name.size() > kMostNameBytes) {
      ++long_names_;
      return {};
    }
    Status status;
    walker_.ForEach(name, tree, [&](std::string_view leaf_name, uint32_t index) {
      if (status.ok() && dump::IsTensorLeaf(tree, index)) {
        status = AddTensor(leaf_name, tree, index, *metric);
      }
    });
    return status;
  }

  Status AddTensor(std::string_view name, const EntryTree& tree, uint32_t index, size_t metric) {
    std::array<double, kKeys.size()> values{};
    bool has_statistics = false;
    for (size_t i = 0; i < kKeys.size(); ++i) {
      const uint32_t child = tree.Find(index, kKeys[i]);
      has_statistics = has_statistics || child != EntryTree::kNone;
      values[i] = child != EntryTree::kNone ? NumberAt(tree, child) : std::nan("");
    }
    if (!has_statistics) {
      return {};
    }
    if (name.size() > kMostNameBytes) {
      ++long_names_;
      return {};
    }
    const std::string mapped = Mapped(std::string(name), mapping_);
    if (mapped.size() > kMostNameBytes) {
      ++long_names_;
      return {};
    }
    if (metric_ids_[metric] == kNoMetric) {
      MSP_ASSIGN_OR_RETURN(metric_ids_[metric], store_.Metric(kMetricNames[metric], statistics_));
    }
    const int64_t metric_id = metric_ids_[metric];
    MSP_ASSIGN_OR_RETURN(const int64_t target,
                         store_.Target(mapped, 0, 0, metric_id, &TagsOfDumpName));
    names_.insert(target);
    ++result_.rows;
    return store_.Insert(rank_, step_, target, metric_id, values);
  }

  TrendStore& store_;
  const NameMapping& mapping_;
  StoreResult& result_;
  Warnings warnings_;
  const std::vector<std::string> statistics_ = {"norm", "max", "min", "mean"};  // as kKeys
  std::array<int64_t, kMetricNames.size()> metric_ids_{};
  dump::LeafWalker walker_;
  int64_t rank_ = 0;
  int64_t step_ = 0;
  std::set<int64_t> names_;
  std::set<int64_t> ranks_;
  uint64_t left_out_ = 0;
  uint64_t long_names_ = 0;
  Status first_broken_;
};

// What has no number counts as 0.
std::pair<int64_t, int64_t> RankAndStep(const dump::RankFolder& folder) {
  return {folder.rank.value_or(0), folder.step.value_or(0)};
}

}  // namespace

std::vector<TrendStore::NameTag> TagsOfDumpName(std::string_view name) {
  const std::optional<dump::RowName> row = dump::ParseRowName(name);
  if (!row || row->api_name.empty()) {
    return TrendStore::TagsOfParts(name);
  }
  // "input.0" of "input.0.k.1": tensors within one argument share a tag.
  const std::string_view place = name.substr(row->api_name.size());
  const size_t section_end = place.find('.');
  const std::string_view index = section_end == std::string_view::npos
                                     ? place
                                     : place.substr(0, place.find('.', section_end + 1));
  // Parameters' gradients are an entry's last part themselves.
  const dump::EntryName entry = dump::ParseEntryName(
      row->state == dump::RowState::kParametersGrad
          ? name.substr(0, row->api_name.size() + place.substr(0, section_end).size())
          : row->api_name.substr(0, row->api_name.size() - 1));
  std::string_view path = entry.subject;
  std::string_view function = entry.class_name;
  if (function.empty()) {  // an API; some have modules in front: "matmul.MatMul"
    const size_t dot = path.rfind('.');
    function = dot == std::string_view::npos ? path : path.substr(dot + 1);
    path = dot == std::string_view::npos ? std::string_view() : path.substr(0, dot);
  }
  std::vector<TrendStore::NameTag> tags = TrendStore::TagsOfParts(path);
  for (const auto& [text, category] :
       {std::pair<std::string_view, std::string_view>(entry.kind, "default"),
        std::pair<std::string_view, std::string_view>(function, "function"),
        std::pair<std::string_view, std::string_view>(index, "index")}) {
    if (!text.empty()) {
      tags.push_back({std::string(text), category});
    }
  }
  return tags;
}

Result<StoreResult> ConvertDumpToStore(const StoreOptions& options) {
  MSP_ASSIGN_OR_RETURN(dump::DumpLayout layout, dump::FindDump(options.data));
  std::vector<dump::RankFolder>& ranks = layout.ranks;
  std::erase_if(ranks, [](const dump::RankFolder& folder) { return !folder.has_dump; });
  if (ranks.empty()) {
    return NotFoundError(fmt::format("{} holds no {}", options.data.string(), dump::kDumpFileName));
  }
  // The order in which the store keeps rows.
  std::stable_sort(ranks.begin(), ranks.end(),
                   [](const dump::RankFolder& a, const dump::RankFolder& b) {
                     return RankAndStep(a) < RankAndStep(b);
                   });
  StoreResult result;
  const auto fill = [&](TrendStore& store) -> Status {
    DumpFiller filler(store, options.mapping, result);
    std::optional<std::pair<int64_t, int64_t>> before;
    for (const dump::RankFolder& folder : ranks) {
      const auto [rank, step] = RankAndStep(folder);
      const fs::path path =
          layout.is_single_file ? layout.root : folder.folder / dump::kDumpFileName;
      if (before == std::pair(rank, step)) {
        filler.SayThatTheLaterCounts(path, rank, step);
      }
      before = std::pair(rank, step);
      MSP_RETURN_IF_ERROR(filler.AddFile(path, rank, step));
    }
    return filler.Finish(options.data);
  };
  MSP_ASSIGN_OR_RETURN(result.file, WriteStoreFile(options.output, "dump_data.trend.db", fill));
  return result;
}

}  // namespace msprobe::monitor
