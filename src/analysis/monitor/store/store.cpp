#include "src/analysis/monitor/store/store.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <limits>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <tuple>
#include <unordered_map>
#include <utility>
#include <vector>

#include <fmt/format.h>
#include <nlohmann/json.hpp>
#include <sqlite3.h>
#include <unistd.h>

#include "msprobe/status.h"

#include "src/analysis/monitor/common/document_parts.h"
#include "src/analysis/monitor/common/monitored_run.h"
#include "src/analysis/monitor/csv2tb/csv2tb.h"
#include "src/base/files.h"
#include "src/base/log.h"
#include "src/base/numbers.h"
#include "src/base/output_files.h"
#include "src/base/strings.h"
#include "src/dump/dump_file.h"
#include "src/dump/layout.h"
#include "src/dump/names.h"
#include "src/json/config.h"
#include "src/monitor/trend_store.h"

namespace msprobe::analysis::monitor {
namespace {

// The file of a trend store: under its name only when it is whole.

constexpr const char* kMonitorStoreName = "monitor_data.trend.db";
constexpr const char* kDumpStoreName = "dump_data.trend.db";

}  // namespace

const msprobe::monitor::SqliteApi& LinkedSqlite() {
  static const msprobe::monitor::SqliteApi kApi = {
      sqlite3_open_v2,     sqlite3_close,     sqlite3_exec,      sqlite3_prepare_v2,
      sqlite3_finalize,    sqlite3_step,      sqlite3_reset,     sqlite3_bind_int64,
      sqlite3_bind_double, sqlite3_bind_null, sqlite3_bind_text, sqlite3_column_int64,
      sqlite3_errmsg};
  return kApi;
}

Result<NameMapping> ReadMapping(const std::filesystem::path& path) {
  MSP_ASSIGN_OR_RETURN(const json::Config config, json::LoadJsonConfig(path));
  NameMapping mapping;
  if (!config.root().is_object()) {
    return UsageError(fmt::format("{} is not JSON object", path.string()))
        .WithHint("write {\"old\": \"new\"}");
  }
  for (const auto& [old_name, new_name] : config.root().items()) {
    if (!new_name.is_string()) {
      return config.ErrorAt(new_name, old_name, "must be text");
    }
    mapping.emplace_back(old_name, json::TextOf(new_name));
  }
  return mapping;
}

std::string Mapped(std::string name, const NameMapping& mapping) {
  for (const auto& pair : mapping) {
    if (!pair.first.empty()) {
      name = base::ReplaceAll(name, pair.first, pair.second);
    }
  }
  return name;
}

namespace {

namespace fs = std::filesystem;

// Before anything is read: whether the store may be written, by base/output_files.h.
Status CheckStoreFile(const fs::path& folder, std::string_view name) {
  MSP_RETURN_IF_ERROR(base::CheckOutputFolder(folder));
  return base::CheckOutputFile(folder / name);
}

// Makes <folder>/<name> of what `fill` puts into it. Until it is whole the file has a name that no
// reader looks for; nothing is left of it, and what was there stays, when `fill` fails.
Result<fs::path> WriteStoreFile(const fs::path& folder, std::string_view name,
                                const std::function<Status(msprobe::monitor::TrendStore&)>& fill) {
  MSP_RETURN_IF_ERROR(base::CreateFolders(folder));
  fs::path file = folder / name;
  base::PartialFile partial(folder / fmt::format(".{}.{}.partial", name, ::getpid()));
  MSP_RETURN_IF_ERROR(partial.Create());
  MSP_ASSIGN_OR_RETURN(
      const std::unique_ptr<msprobe::monitor::TrendStore> store,
      msprobe::monitor::TrendStore::Open(LinkedSqlite(), partial.path(),
                                         msprobe::monitor::TrendStore::Use::kWhole));
  MSP_RETURN_IF_ERROR(store->Begin());
  MSP_RETURN_IF_ERROR(fill(*store));
  MSP_RETURN_IF_ERROR(store->Commit());
  MSP_RETURN_IF_ERROR(store->Close());
  MSP_RETURN_IF_ERROR(partial.RenameTo(file));
  return file;
}

using dump::EntryTree;
using dump::NodeKind;

constexpr uint64_t kLimitBytes = uint64_t{256} << 20U;
// More calls of the whole model within one step are a broken file; steps are reserved for each.
constexpr int64_t kMostMicroSteps = 100'000;

// An entry's parent; empty for none. Some versions write a list of it and further facts.
std::string_view ParentAt(const EntryTree& tree, uint32_t node) {
  if (tree[node].kind == NodeKind::kList && tree[node].child_count > 0) {
    ++node;
  }
  return tree[node].kind == NodeKind::kText ? tree[node].text : std::string_view();
}

// The names of construct.json by number, so that a long one is looked at once, not at every place
// that it stands above.
class ParentTree {
 public:
  static constexpr uint32_t kNone = UINT32_MAX;

  // If a name occurs twice, the first one counts.
  void Add(std::string_view entry, std::string_view parent) {
    const uint32_t number = NumberOf(entry);
    if (nodes_[number].is_entry) {
      return;
    }
    nodes_[number].is_entry = true;
    entries_.push_back(number);
    const uint32_t above = parent.empty() ? kNone : NumberOf(parent);
    nodes_[number].parent = above;
  }

  // Each root at once. A broken file may go round in a circle: then its root is one of it.
  void FindRoots() {
    std::vector<uint32_t> path;
    for (uint32_t number = 0; number < nodes_.size(); ++number) {
      uint32_t at = number;
      while (nodes_[at].root == kNone && !nodes_[at].on_path && nodes_[at].parent != kNone) {
        nodes_[at].on_path = true;
        path.push_back(at);
        at = nodes_[at].parent;
      }
      const uint32_t root = nodes_[at].root != kNone ? nodes_[at].root : at;
      nodes_[at].root = root;
      for (const uint32_t below : path) {
        nodes_[below].root = root;
        nodes_[below].on_path = false;
      }
      path.clear();
    }
  }

  const std::vector<uint32_t>& entries() const { return entries_; }  // in the order of the file
  size_t size() const { return nodes_.size(); }
  std::string_view name(uint32_t number) const { return nodes_[number].name; }
  bool has_parent(uint32_t number) const { return nodes_[number].parent != kNone; }
  uint32_t root(uint32_t number) const { return nodes_[number].root; }

 private:
  struct Named {
    std::string_view name;
    uint32_t parent = kNone;
    uint32_t root = kNone;
    bool is_entry = false;
    bool on_path = false;
  };

  uint32_t NumberOf(std::string_view name) {
    const auto [found, is_new] =
        number_of_name_.try_emplace(name, static_cast<uint32_t>(nodes_.size()));
    if (is_new) {
      nodes_.push_back({name});
    }
    return found->second;
  }

  std::vector<Named> nodes_;
  std::vector<uint32_t> entries_;
  std::unordered_map<std::string_view, uint32_t> number_of_name_;
};

}  // namespace

std::string_view NameOfCalls(std::string_view entry, const dump::EntryName& parts) {
  constexpr std::string_view kGradients = ".parameters_grad";
  if (parts.is_parameters_grad) {
    return entry.substr(0, entry.rfind(kGradients));
  }
  if (!parts.call || parts.direction == dump::Direction::kNone) {
    return entry;
  }
  const std::string_view direction =
      parts.direction == dump::Direction::kForward ? "forward" : "backward";
  const std::string ending = parts.is_module ? fmt::format(".{}.{}", direction, *parts.call)
                                             : fmt::format(".{}.{}", *parts.call, direction);
  return entry.ends_with(ending) ? entry.substr(0, entry.size() - ending.size()) : entry;
}

DumpCalls DumpCalls::Read(const std::filesystem::path& construct_file) {
  DumpCalls calls;
  const Result<std::string> text = base::ReadTextFile(construct_file, kLimitBytes);
  if (!text.ok()) {
    return calls;
  }
  const Result<EntryTree> parsed = dump::ParseEntry(*text);
  if (!parsed.ok() || (*parsed)[0].kind != NodeKind::kObject) {
    return calls;
  }
  const EntryTree& tree = *parsed;
  ParentTree parents;
  tree.ForEachChild(0,
                    [&](uint32_t child) { parents.Add(tree[child].key, ParentAt(tree, child)); });
  parents.FindRoots();
  // Modules without a parent, by how often they were called. One that activation checkpointing runs
  // again has more calls than there are micro steps, so the fewest count.
  std::unordered_map<std::string_view, int64_t> models;
  for (const uint32_t number : parents.entries()) {
    const std::string_view entry = parents.name(number);
    const dump::EntryName parts = dump::ParseEntryName(entry);
    if (parts.is_module && parts.call && *parts.call >= 0 && *parts.call < kMostMicroSteps &&
        parts.direction == dump::Direction::kForward && !parents.has_parent(number)) {
      int64_t& count = models[NameOfCalls(entry, parts)];
      count = std::max(count, *parts.call + 1);
    }
  }
  const auto fewest =
      std::min_element(models.begin(), models.end(),
                       [](const auto& a, const auto& b) { return a.second < b.second; });
  calls.micro_step_count_ = fewest == models.end() ? 1 : fewest->second;
  int64_t latest = 0;  // also of what stands alone: entries come in the order of the calls
  // The micro step that a root tells, of those that were asked for.
  constexpr int64_t kNotAsked = -2;
  constexpr int64_t kTellsNone = -1;
  std::vector<int64_t> of_root(parents.size(), kNotAsked);
  for (const uint32_t number : parents.entries()) {
    const uint32_t root = parents.root(number);
    if (of_root[root] == kNotAsked) {
      const dump::EntryName parts = dump::ParseEntryName(parents.name(root));
      const auto model = models.find(NameOfCalls(parents.name(root), parts));
      const bool tells = parts.call && model != models.end() &&
                         model->second == calls.micro_step_count_ && *parts.call >= 0 &&
                         *parts.call < model->second;
      of_root[root] = tells ? *parts.call : kTellsNone;
    }
    latest = of_root[root] == kTellsNone ? latest : of_root[root];
    calls.micro_steps_.emplace(parents.name(number), latest);
  }
  for (const auto& [entry, micro_step] : calls.micro_steps_) {
    const dump::EntryName parts = dump::ParseEntryName(entry);
    if (parts.call) {
      const std::pair key(std::string(NameOfCalls(entry, parts)), micro_step);
      const auto [place, added] = calls.first_calls_.emplace(key, *parts.call);
      place->second = std::min(place->second, *parts.call);
    }
  }
  return calls;
}

int64_t DumpCalls::MicroStepOf(std::string_view entry) {
  const auto known = micro_steps_.find(std::string(entry));
  latest_ = known == micro_steps_.end() ? latest_ : known->second;
  return latest_;
}

int64_t DumpCalls::IndexInMicroStep(std::string_view name, int64_t micro_step, int64_t call) const {
  const auto first = first_calls_.find(std::pair(std::string(name), micro_step));
  return first == first_calls_.end() ? call : std::max<int64_t>(call - first->second, 0);
}

namespace {

// One row of trend_data, in the order in which the store keeps them.
struct StoreRow {
  int64_t rank;
  int64_t step;
  int64_t target;
  int64_t metric;
  uint32_t series;
  uint32_t row;
};

// Original steps and the first number of each.
std::map<int64_t, int64_t> NumberSteps(const std::vector<Series>& series) {
  std::map<int64_t, int64_t> places;  // how many numbers a step needs
  for (const Series& table : series) {
    const int64_t needed = std::max(table.micro_step, 0) + int64_t{1};
    for (const int64_t step : table.steps) {
      int64_t& count = places[step];
      count = std::max(count, needed);
    }
  }
  int64_t next = 0;
  for (auto& place : places) {
    next += std::exchange(place.second, next);
  }
  return places;
}

struct Table {
  std::vector<std::string> ops;
  int64_t metric = 0;
};

Status FillStore(const MonitoredRun& run, const StoreOptions& options,
                 msprobe::monitor::TrendStore& store, StoreResult& result) {
  std::map<std::string, Table, std::less<>> tables;
  for (const std::string& name : KnownTables()) {  // metrics get their numbers in this order
    const auto found = run.ops.find(name);
    if (found == run.ops.end()) {
      continue;
    }
    Table& table = tables[name];
    for (const std::string& op : found->second) {
      if (msprobe::monitor::TrendStore::IsStatistic(op)) {
        table.ops.push_back(op);
      }
    }
    MSP_ASSIGN_OR_RETURN(table.metric, store.Metric(name, table.ops));
  }
  const std::map<int64_t, int64_t> numbers =
      options.number_micro_steps ? NumberSteps(run.series) : std::map<int64_t, int64_t>();

  std::vector<StoreRow> rows;
  rows.reserve(run.rows);
  std::set<int64_t> names;
  std::set<int32_t> ranks;
  for (uint32_t i = 0; i < run.series.size(); ++i) {
    const Series& series = run.series[i];
    const int64_t micro_step = std::max(series.micro_step, 0);
    const int64_t metric = tables.find(series.table)->second.metric;
    MSP_ASSIGN_OR_RETURN(const int64_t target,
                         store.Target(Mapped(series.name, options.mapping), series.stage,
                                      options.number_micro_steps ? 0 : micro_step, metric));
    names.insert(target);
    for (uint32_t row = 0; row < series.steps.size(); ++row) {
      const int64_t step = options.number_micro_steps
                               ? numbers.find(series.steps[row])->second + micro_step
                               : series.steps[row];
      rows.push_back({series.ranks[row], step, target, metric, i, row});
      ranks.insert(series.ranks[row]);
    }
  }
  const auto key = [](const StoreRow& row) {
    return std::tie(row.rank, row.step, row.target, row.metric);
  };
  std::stable_sort(rows.begin(), rows.end(),
                   [&key](const StoreRow& a, const StoreRow& b) { return key(a) < key(b); });
  std::vector<double> values;
  for (const StoreRow& row : rows) {
    const Series& series = run.series[row.series];
    values.clear();
    for (const std::string& op : tables.find(series.table)->second.ops) {
      const auto found = series.values.find(op);
      values.push_back(found == series.values.end() ? std::numeric_limits<double>::quiet_NaN()
                                                    : found->second[row.row]);
    }
    MSP_RETURN_IF_ERROR(store.Insert(row.rank, row.step, row.target, row.metric, values));
  }
  result.rows = rows.size();
  result.names = names.size();
  result.ranks = ranks.size();
  return {};
}

}  // namespace

Result<StoreResult> RunCsv2Db(const StoreOptions& options) {
  ReadOptions read;
  read.tables = KnownTables();
  read.threads = options.threads;
  MSP_RETURN_IF_ERROR(CheckStoreFile(options.output, kMonitorStoreName));
  MSP_ASSIGN_OR_RETURN(MonitoredRun run, ReadMonitoredRun(options.data, read));
  StoreResult result;
  result.warnings = std::move(run.warnings);
  result.unread_files = run.unread_files;
  MSP_ASSIGN_OR_RETURN(result.file,
                       WriteStoreFile(options.output, kMonitorStoreName,
                                      [&](msprobe::monitor::TrendStore& store) -> Status {
                                        return FillStore(run, options, store, result);
                                      }));
  return result;
}

namespace {

using dump::EntryTree;
using dump::NodeKind;

// Longer names come of broken or hostile files, which could make a store far larger than they are.
constexpr size_t kMostNameBytes = 1024;
constexpr std::array<std::string_view, 4> kMetricNames = {"forward", "backward", "recompute",
                                                          "parameters_grad"};
constexpr std::array<std::string_view, 4> kKeys = {dump::KeyOf(dump::kNorm),
                                                   dump::KeyOf(dump::kMax), dump::KeyOf(dump::kMin),
                                                   dump::KeyOf(dump::kMean)};

// Position in kMetricNames; nullopt for entries that are not calls, such as saved values.
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

// N of "Module.fc.Linear.parameters_grad.N".
std::optional<int64_t> GradientNumber(std::string_view name) {
  const size_t dot = name.rfind('.');
  return dot == std::string_view::npos ? std::nullopt : base::ParseInt(name.substr(dot + 1));
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
    const std::optional<int64_t> gradient =
        parts.is_parameters_grad ? GradientNumber(name) : std::nullopt;
    place.index = gradient.value_or(place.index);
    Status status;
    std::string target;
    walker_.ForEach(name, tree, [&](std::string_view leaf_name, uint32_t index) {
      // ".input.0" of "Torch.matmul.3.forward.input.0".
      // The gradient of a parameter is named as the parameter: "Module.fc.Linear.weight".
      const std::string_view place_in_call =
          leaf_name.substr(std::min(name.size(), leaf_name.size()));
      if (status.ok() && dump::IsTensorLeaf(tree, index)) {
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
  const bool is_module = parts[0] == "Module" || parts[0] == "Cell";
  if (section == parts.size() && is_module && parts.size() > 2) {
    section = parts.size() - 2;  // the gradient of a parameter: class and parameter
  }
  const auto is_number = [](std::string_view part) {
    return !part.empty() && part.find_first_not_of("0123456789") == std::string_view::npos;
  };
  std::vector<msprobe::monitor::TrendStore::NameTag> tags;
  const auto add = [&tags](std::string text, std::string_view category) {
    if (!text.empty()) {
      tags.push_back({std::move(text), category});
    }
  };
  if (!is_module) {
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
  if (section < parts.size() && parts[section] == "parameters") {
    add("parameters", "default");
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

report::Document MakeDocument(std::span<const StoreResult> stores) {
  report::Document document;
  document.command = "monitor csv2db";
  uint64_t rows = 0;
  size_t unread_files = 0;
  std::vector<std::string> texts;
  for (const StoreResult& store : stores) {
    rows += store.rows;
    unread_files += store.unread_files;
    texts.push_back(fmt::format("{}: {} of {} and {}", store.file.filename().string(),
                                base::Plural(store.rows, "row"), base::Plural(store.names, "name"),
                                base::Plural(store.ranks, "rank")));
    document.sections.push_back(
        internal::FiguresSection({{"rows", static_cast<double>(store.rows)},
                                  {"names", static_cast<double>(store.names)},
                                  {"ranks", static_cast<double>(store.ranks)}}));
    document.sections.back().title = store.file.filename().string();
    document.files.push_back({store.file});
    document.warnings.insert(document.warnings.end(), store.warnings.begin(), store.warnings.end());
  }
  document.verdict = internal::Written(base::Join(texts, "; "), rows, "rows");
  internal::TellUnread(unread_files, document.verdict);
  return document;
}

}  // namespace msprobe::analysis::monitor
