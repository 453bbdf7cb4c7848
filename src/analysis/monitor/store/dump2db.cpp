#include <algorithm>
#include <array>
#include <cmath>
#include <cstdint>
#include <filesystem>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <utility>

#include <fmt/format.h>

#include "src/analysis/monitor/store/dump_calls.h"
#include "src/analysis/monitor/store/run.h"
#include "src/analysis/monitor/store/store_file.h"
#include "src/base/files.h"
#include "src/base/limited_warnings.h"
#include "src/base/number_text.h"
#include "src/base/path_kind.h"
#include "src/base/strings.h"
#include "src/dump/dump_file.h"
#include "src/dump/layout.h"
#include "src/dump/leaves.h"
#include "src/dump/names.h"
#include "src/dump/statistic_keys.h"

namespace msprobe::analysis::monitor {
namespace {

namespace fs = std::filesystem;
using dump::EntryTree;
using dump::NodeKind;

// Longer names come of broken or hostile files, which could make a store far larger than they are.
constexpr size_t kMostNameBytes = 1024;
constexpr std::array<std::string_view, 4> kMetricNames = {"forward", "backward", "recompute",
                                                          "parameters_grad"};
constexpr std::array<std::string_view, 4> kKeys = {dump::KeyOf(dump::kNorm),
                                                   dump::KeyOf(dump::kMax), dump::KeyOf(dump::kMin),
                                                   dump::KeyOf(dump::kMean)};

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
  DumpFiller(msprobe::monitor::TrendStore& store, const NameMapping& mapping, StoreResult& result)
      : store_(store),
        mapping_(mapping),
        result_(result),
        warnings_(result.warnings, base::LimitedWarnings::kOfRows) {}

  // All metrics are there, whether the dump has them or not.
  Status Begin() {
    store_.PutRankFirst();
    for (size_t metric = 0; metric < kMetricNames.size(); ++metric) {
      MSP_ASSIGN_OR_RETURN(metric_ids_[metric], store_.Metric(kMetricNames[metric], statistics_));
    }
    return {};
  }

  // `calls`: of the file, null where micro steps get no steps of their own. The first error is the
  // store's: nothing more can be written.
  Status AddFile(const fs::path& path, int64_t rank, int64_t step, DumpCalls* calls) {
    rank_ = rank;
    step_ = step;
    calls_ = calls;
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
                                            ? "; the entries before it are used"
                                            : "; nothing of it is used"));
      if (first_broken_.ok()) {
        first_broken_ = std::move(broken);
      }
    } else if (header->recovery) {
      warnings_.Add(fmt::format("{}: the capture was interrupted; using its log", path.string()));
    } else if (header->truncated) {
      warnings_.Add(fmt::format("{} is truncated: its complete entries are used", path.string()));
    }
    if (result_.rows > rows_before) {
      ranks_.insert(rank);
    }
    return {};
  }

  void SayThatTheLaterCounts(const fs::path& path, int64_t rank, int64_t step) {
    warnings_.Add(fmt::format("{} is another file of rank {} and step {}; the later one counts",
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
    if (warnings_.more() > 0) {
      result_.warnings.push_back(
          fmt::format("... and {} more like this", base::FormatCount(warnings_.more())));
    }
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
    const dump::EntryName parts = dump::ParseEntryName(name);
    const std::string_view call_name = NameOfCalls(name, parts);
    CallPosition place{step_, parts.call.value_or(0)};
    if (calls_ != nullptr) {
      // Gradients of parameters are of the step as a whole.
      const int64_t micro_step = parts.is_parameters_grad ? 0 : calls_->MicroStepOf(name);
      place.step += micro_step;
      place.index = calls_->IndexInMicroStep(call_name, micro_step, place.index);
    }
    Status status;
    std::string target;
    walker_.ForEach(name, tree, [&](std::string_view leaf_name, uint32_t index) {
      // ".input.0" of "Torch.matmul.3.forward.input.0".
      const size_t entry_bytes = parts.is_parameters_grad ? call_name.size() : name.size();
      const std::string_view place_in_call =
          leaf_name.substr(std::min(entry_bytes, leaf_name.size()));
      // A module's parameters stay as they are within a step: the store is about what flows.
      if (status.ok() && !place_in_call.starts_with(".parameters.") &&
          dump::IsTensorLeaf(tree, index)) {
        target = call_name;
        target += place_in_call;
        status = AddTensor(target, tree, index, *metric, place);
      }
    });
    return status;
  }

  // Where a row stands: its step in the store, and the call among those of its name.
  struct CallPosition {
    int64_t step = 0;
    int64_t index = 0;
  };

  Status AddTensor(std::string_view name, const EntryTree& tree, uint32_t index, size_t metric,
                   const CallPosition& place) {
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
    const int64_t metric_id = metric_ids_[metric];
    MSP_ASSIGN_OR_RETURN(const int64_t target,
                         store_.Target(mapped, 0, place.index, metric_id, &TagsOfDumpName));
    names_.insert(target);
    ++result_.rows;
    return store_.Insert(rank_, place.step, target, metric_id, values);
  }

  msprobe::monitor::TrendStore& store_;
  const NameMapping& mapping_;
  StoreResult& result_;
  base::LimitedWarnings warnings_;
  const std::vector<std::string> statistics_ = {"norm", "max", "min", "mean"};  // as kKeys
  std::array<int64_t, kMetricNames.size()> metric_ids_{};
  dump::LeafWalker walker_;
  int64_t rank_ = 0;
  int64_t step_ = 0;
  DumpCalls* calls_ = nullptr;
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

std::vector<msprobe::monitor::TrendStore::NameTag> TagsOfDumpName(std::string_view name) {
  constexpr std::array<std::string_view, 6> kSections = {
      "input", "output", "input_args", "input_kwargs", "parameters", "parameters_grad"};
  const std::vector<std::string_view> parts = base::Split(name, '.');
  // The last section: names of modules may hold the same words.
  size_t section = parts.size();
  for (size_t i = parts.size(); i-- > 1 && section == parts.size();) {
    section =
        std::find(kSections.begin(), kSections.end(), parts[i]) != kSections.end() ? i : section;
  }
  const auto joined = [&](size_t begin, size_t end) {
    std::string text;
    for (size_t i = begin; i < end; ++i) {
      text += text.empty() ? "" : ".";
      text += parts[i];
    }
    return text;
  };
  const auto is_number = [](std::string_view part) {
    return !part.empty() && part.find_first_not_of("0123456789") == std::string_view::npos;
  };
  std::vector<msprobe::monitor::TrendStore::NameTag> tags;
  const auto add = [&tags](std::string text, std::string_view category) {
    if (!text.empty()) {
      tags.push_back({std::move(text), category});
    }
  };
  if (parts[0] != "Module" && parts[0] != "Cell") {
    add(joined(0, section), "function");
  } else {
    add(std::string(parts[0]), "default");
    size_t begin = 1;  // of the words since the last number
    for (size_t i = 1; i < section; ++i) {
      if (!is_number(parts[i])) {
        continue;
      }
      if (i > begin) {
        add(joined(begin, i - 1), "module");
        add(joined(i - 1, i + 1), "layer");
      }
      begin = i + 1;
    }
    add(joined(begin, section), "module");
  }
  // "input.0" of "input.0.k.1": tensors within one argument share a tag.
  add(joined(section, std::min(section + 2, parts.size())), "index");
  return tags;
}

namespace {

// Processes that never learned their rank, proc<pid>, get numbers behind the largest rank, in order
// of their pid.
void AddProcessFolders(const fs::path& folder, std::optional<int64_t> step,
                       std::vector<dump::RankFolder>& ranks) {
  std::map<int64_t, fs::path> processes;
  for (const std::string& name : base::NamesIn(folder)) {
    constexpr std::string_view kPrefix = "proc";
    const std::optional<int64_t> process =
        name.starts_with(kPrefix) ? base::ParseInt(std::string_view(name).substr(kPrefix.size()))
                                  : std::nullopt;
    if (process && base::IsRegularFile(folder / name / dump::kDumpFileName)) {
      processes.emplace(*process, folder / name);
    }
  }
  int64_t rank = -1;
  for (const dump::RankFolder& other : ranks) {
    rank = other.step == step ? std::max(rank, other.rank.value_or(0)) : rank;
  }
  for (const auto& [process, path] : processes) {
    dump::RankFolder added;
    added.step = step;
    added.rank = ++rank;
    added.folder = path;
    added.has_dump = true;
    ranks.push_back(std::move(added));
  }
}

void AddAllProcessFolders(const fs::path& data, std::vector<dump::RankFolder>& ranks) {
  AddProcessFolders(data, dump::ParseStepName(data.filename().string()).number, ranks);
  for (const std::string& name : base::NamesIn(data)) {
    if (const dump::NumberedName step = dump::ParseStepName(name); step.valid) {
      AddProcessFolders(data / name, step.number, ranks);
    }
  }
}

// The first number of each step in the store: every step takes as many as its largest rank has
// micro steps.
std::map<int64_t, int64_t> NumberDumpSteps(const std::vector<dump::RankFolder>& ranks) {
  std::map<int64_t, int64_t> counts;
  for (const dump::RankFolder& folder : ranks) {
    int64_t& count = counts[RankAndStep(folder).second];
    count = std::max(count,
                     DumpCalls::Read(folder.folder / dump::kConstructFileName).micro_step_count());
  }
  int64_t next = 0;
  std::map<int64_t, int64_t> numbers;
  for (const auto& [step, count] : counts) {
    numbers[step] = next;
    next += count;
  }
  return numbers;
}

}  // namespace

Result<StoreResult> RunDump2Db(const StoreOptions& options) {
  Result<dump::DumpLayout> found = dump::FindDump(options.data);
  dump::DumpLayout layout;
  if (found.ok()) {
    layout = *std::move(found);
  }
  std::vector<dump::RankFolder>& ranks = layout.ranks;
  std::erase_if(ranks, [](const dump::RankFolder& folder) { return !folder.has_dump; });
  if (!layout.is_single_file) {
    AddAllProcessFolders(options.data, ranks);
  }
  if (!found.ok() && ranks.empty()) {
    return std::move(found).status();
  }
  if (ranks.empty()) {
    return NotFoundError(fmt::format("{} holds no {}", options.data.string(), dump::kDumpFileName));
  }
  // The order in which the store keeps rows.
  std::stable_sort(ranks.begin(), ranks.end(),
                   [](const dump::RankFolder& a, const dump::RankFolder& b) {
                     return RankAndStep(a) < RankAndStep(b);
                   });
  const std::map<int64_t, int64_t> numbers =
      options.number_micro_steps ? NumberDumpSteps(ranks) : std::map<int64_t, int64_t>();
  MSP_RETURN_IF_ERROR(CheckStoreFile(options.output, kDumpStoreName));
  StoreResult result;
  const auto fill = [&](msprobe::monitor::TrendStore& store) -> Status {
    DumpFiller filler(store, options.mapping, result);
    MSP_RETURN_IF_ERROR(filler.Begin());
    std::optional<std::pair<int64_t, int64_t>> before;
    for (const dump::RankFolder& folder : ranks) {
      const auto [rank, step] = RankAndStep(folder);
      const fs::path path =
          layout.is_single_file ? layout.root : folder.folder / dump::kDumpFileName;
      if (before == std::pair(rank, step)) {
        filler.SayThatTheLaterCounts(path, rank, step);
      }
      before = std::pair(rank, step);
      DumpCalls calls = options.number_micro_steps
                            ? DumpCalls::Read(folder.folder / dump::kConstructFileName)
                            : DumpCalls();
      MSP_RETURN_IF_ERROR(filler.AddFile(path, rank,
                                         options.number_micro_steps ? numbers.at(step) : step,
                                         options.number_micro_steps ? &calls : nullptr));
    }
    return filler.Finish(options.data);
  };
  MSP_ASSIGN_OR_RETURN(result.file, WriteStoreFile(options.output, kDumpStoreName, fill));
  return result;
}

}  // namespace msprobe::analysis::monitor
