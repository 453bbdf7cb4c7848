// Ranks that share a model, made into one dump per data-parallel group: stages of each pipeline are
// joined first, then tensor-parallel models, then those with parts of a sequence. The model of a
// group has the number of its first rank. Stages are joined from the first on: layers of later
// stages are numbered on unless their numbers go on already, calls get the rank into their names,
// and modules around all stages take their input from the first and their output from the last.
#include "src/analysis/graph/merge.h"

#include <algorithm>
#include <cctype>
#include <charconv>
#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <fmt/format.h>

#include "src/analysis/graph/items.h"
#include "src/analysis/graph/match.h"
#include "src/analysis/graph/merged_dump.h"
#include "src/analysis/graph/rank_groups.h"
#include "src/analysis/graph/shard_merge.h"
#include "src/base/numbers.h"
#include "src/base/processes.h"
#include "src/base/strings.h"
#include "src/dump/call_facts.h"
#include "src/dump/dump_file.h"
#include "src/dump/entry_scan.h"
#include "src/dump/layout.h"

namespace msprobe::analysis::graph {
namespace {

// Stages of a pipeline joined into one model.

// One of the stages of a pipeline, of which virtual pipelines have several on each rank.
struct StagePlace {
  int64_t rank = 0;              // in the names of its calls
  bool is_first_rank = false;    // of the pipeline: its calls keep their names
  std::optional<int64_t> chunk;  // the part of the rank's model, "Module.<chunk>."; none: all of it
};

bool IsLetter(char c) { return std::isalpha(static_cast<unsigned char>(c)) != 0; }
bool IsWordPart(char c) { return std::isalnum(static_cast<unsigned char>(c)) != 0 || c == '_'; }

// A call of the recorder: "api_template(" or "<Name>Template(", a capital in front, as a word.
bool CallsRecorder(std::string_view line) {
  constexpr std::string_view kSmall = "api_template(";
  for (size_t at = line.find(kSmall); at != std::string_view::npos;
       at = line.find(kSmall, at + 1)) {
    if (at == 0 || !IsWordPart(line[at - 1])) {
      return true;
    }
  }
  constexpr std::string_view kLarge = "Template(";
  for (size_t at = line.find(kLarge); at != std::string_view::npos;
       at = line.find(kLarge, at + 1)) {
    size_t start = at;
    while (start > 0 && IsLetter(line[start - 1])) {
      --start;
    }
    const bool is_word = start == 0 || !IsWordPart(line[start - 1]);
    if (is_word && start < at && line[start] >= 'A' && line[start] <= 'Z') {
      return true;
    }
  }
  return false;
}

struct Frame {
  std::string_view file;
  std::string_view function;
};

// "File /a/b.py, line 3, in f, \n y = f(x)"
Frame ParseStackFrame(std::string_view line) {
  Frame frame;
  const std::vector<std::string_view> fields = base::Split(line, ',');
  frame.file = base::Trim(fields[0]);
  if (frame.file.starts_with("File ")) {
    frame.file = base::Trim(frame.file.substr(5));
  }
  for (size_t i = 1; i < fields.size(); ++i) {
    const std::string_view field = base::Trim(fields[i]);
    if (field.starts_with("in ")) {
      frame.function = base::Trim(field.substr(3));
      break;
    }
  }
  return frame;
}

}  // namespace

StackLines ShortStack(std::string_view node_name, StackLines lines) {
  if (IsModuleName(node_name)) {
    const std::vector<std::string_view> fields = base::Split(node_name, '.');
    if (fields.size() < 4) {
      return lines;
    }
    const std::string call = std::string(fields[fields.size() - 4]) + "(";
    const auto found = std::find_if(lines.begin(), lines.end(), [&call](const std::string& line) {
      return line.find(call) != std::string::npos;
    });
    return found == lines.end() ? lines : lines.subspan(found - lines.begin(), 1);
  }
  const auto found = std::find_if(lines.begin(), lines.end(), CallsRecorder);
  return found == lines.end() || found + 1 == lines.end()
             ? lines
             : lines.subspan(found - lines.begin() + 1, 1);
}

bool ShowsRecomputation(StackLines lines) {
  constexpr size_t kReach = 2;  // frames between a backward function and the framework's
  std::vector<Frame> frames;
  frames.reserve(lines.size());
  for (const std::string& line : lines) {
    frames.push_back(ParseStackFrame(line));
  }
  for (size_t i = 0; i < frames.size(); ++i) {
    const Frame& frame = frames[i];
    if (frame.function == "recompute_fn" && frame.file.ends_with("torch/utils/checkpoint.py")) {
      return true;
    }
    const bool is_backward =
        frame.function == "backward" || (frame.function == "checkpoint_function_backward" &&
                                         frame.file.find("megatron") != std::string_view::npos);
    for (size_t next = i + 1; is_backward && next <= i + kReach && next < frames.size(); ++next) {
      if (frames[next].file.ends_with("torch/autograd/function.py")) {
        return true;
      }
    }
  }
  return false;
}

namespace {

// "<before>.layers.<number>.<behind>"
struct LayerName {
  std::string_view before;
  std::string_view word;
  int64_t number = 0;
  std::string_view behind;
};

std::optional<LayerName> ParseLayer(std::string_view name) {
  for (const std::string_view word : {".layers.", ".layer."}) {
    const size_t at = name.find(word);
    if (at == std::string_view::npos) {
      continue;
    }
    const std::string_view rest = name.substr(at + word.size());
    LayerName layer = {name.substr(0, at), word, 0, {}};
    const auto [end, error] = std::from_chars(rest.data(), rest.data() + rest.size(), layer.number);
    if (error == std::errc() && end != rest.data() + rest.size() && *end == '.') {
      layer.behind = rest.substr(static_cast<size_t>(end - rest.data()));
      return layer;
    }
  }
  return std::nullopt;
}

// "Module.1.layers..." -> 1: where a model is a list of parts, names begin with its place there.
std::optional<int64_t> ChunkOf(std::string_view name) {
  for (const std::string_view word : {"Module.", "Cell."}) {
    if (!name.starts_with(word)) {
      continue;
    }
    int64_t chunk = 0;
    const std::string_view rest = name.substr(word.size());
    const auto [end, error] = std::from_chars(rest.data(), rest.data() + rest.size(), chunk);
    if (error == std::errc() && end != rest.data() + rest.size() && *end == '.') {
      return chunk;
    }
  }
  return std::nullopt;
}

// The same name in the first part.
std::string InFirstChunk(std::string_view name) {
  if (!ChunkOf(name)) {
    return std::string(name);
  }
  const size_t begin = name.find('.') + 1;
  return fmt::format("{}0{}", name.substr(0, begin), name.substr(name.find('.', begin)));
}

class StageMerge {
 public:
  StageMerge(MergedModel& whole, const MergedModel& stage, const StagePlace& place)
      : whole_(whole), stage_(stage), place_(place) {}

  void Run() {
    MarkWanted();
    NumberLayers();
    target_.assign(stage_.graph.nodes.size(), kNone);
    target_[kRoot] = kRoot;
    for (const uint32_t node : stage_.graph.LevelOrder()) {
      if (node != kRoot && wanted_[node]) {
        Place(node);
      }
    }
    // All at once: there may be very many of them.
    for (const auto& [above, count] : inserted_in_front_) {
      std::vector<uint32_t>& children = whole_.graph.nodes[above].children;
      std::rotate(children.begin(), children.end() - static_cast<ptrdiff_t>(count), children.end());
    }
  }

 private:
  // The modules of a part and all below them. Nodes outside of all parts come with the first.
  void MarkWanted() {
    wanted_.assign(stage_.graph.nodes.size(), true);
    if (!place_.chunk) {
      return;
    }
    for (const uint32_t node : stage_.graph.LevelOrder()) {
      const Node& about = stage_.graph.nodes[node];
      const std::optional<int64_t> named = ChunkOf(about.name);
      const bool above = about.parent == kNone || about.parent == kRoot ? *place_.chunk == 0
                                                                        : wanted_[about.parent];
      wanted_[node] = named ? *named == *place_.chunk : above;
    }
  }

  // As the whole calls it, but for the number of its layer.
  std::string OwnName(const Node& node) const {
    return place_.chunk ? InFirstChunk(node.name) : std::string(node.name);
  }

  // Stages count their layers from 0: those of later stages are moved up. Layers that are numbered
  // through, or the same everywhere, keep their numbers.
  void NumberLayers() {
    std::map<std::string, std::set<int64_t>> earlier;
    for (const Node& node : whole_.graph.nodes) {
      if (const auto layer = ParseLayer(node.name)) {
        earlier[std::string(layer->before)].insert(layer->number);
      }
    }
    std::map<std::string, std::set<int64_t>> own;
    std::set<std::string> differing;
    for (uint32_t node = 0; node < stage_.graph.nodes.size(); ++node) {
      if (wanted_[node]) {
        own_names_.insert(OwnName(stage_.graph.nodes[node]));
      }
      const std::string name = OwnName(stage_.graph.nodes[node]);
      const auto layer = ParseLayer(name);
      if (!layer || !wanted_[node]) {
        continue;
      }
      own[std::string(layer->before)].insert(layer->number);
      const uint32_t same = whole_.graph.Find(name);
      if (same != kNone && !SameRows(same, node, "input.") && !SameRows(same, node, "output.")) {
        differing.insert(std::string(layer->before));
      }
    }
    for (const std::string& before : differing) {
      offsets_[before] = *earlier[before].rbegin() + 1 - *own[before].begin();
    }
  }

  bool SameRows(uint32_t whole, uint32_t stage, std::string_view part) const {
    const MergedContent& a = whole_.contents[whole];
    const MergedContent& b = stage_.contents[stage];
    if (a.entry == kNone || b.entry == kNone || a.RowCount() != b.RowCount()) {
      return a.entry == b.entry;
    }
    for (uint32_t row = 0; row < a.RowCount(); ++row) {
      if (a.ItemName(row).starts_with(part) && a.Row(row).is_tensor) {
        const Statistics x = a.StatisticsOf(row);
        const Statistics y = b.StatisticsOf(row);
        if (IsNumeric(x) && IsNumeric(y) && !SameStatistics(x, y)) {
          return false;
        }
      }
    }
    return true;
  }

  std::string NameOf(const Node& node) const {
    if (place_.is_first_rank && node.type != NodeType::kModule) {
      return std::string(node.name);
    }
    if (node.type != NodeType::kModule) {
      return NameWithRank(node.name, place_.rank);
    }
    const std::string own = OwnName(node);
    const auto layer = ParseLayer(own);
    const auto offset = layer ? offsets_.find(std::string(layer->before)) : offsets_.end();
    return offset == offsets_.end() ? own
                                    : fmt::format("{}{}{}{}", layer->before, layer->word,
                                                  layer->number + offset->second, layer->behind);
  }

  void Place(uint32_t index) {
    const Node& node = stage_.graph.nodes[index];
    const uint32_t above = target_[node.parent];
    // Transfers between stages join them; those of the first rank are kept.
    const dump::CommunicationApi* api =
        IsCommunicationName(node.name) ? dump::FindCommunicationApi(ApiOf(node.name)) : nullptr;
    const bool is_join = !place_.is_first_rank && node.parent == kRoot && api != nullptr &&
                         api->kind != dump::CommunicationKind::kCollective;
    if (above == kNone || is_join) {
      return;
    }
    const std::string name = NameOf(node);
    uint32_t target = whole_.graph.Find(name);
    if (target == kNone) {
      target = whole_.graph.Add(name, node.type);
      whole_.graph.nodes[target].stack = node.stack;
      whole_.contents.push_back(stage_.contents[index]);
      whole_.contents.back().bare = !place_.is_first_rank;
      Insert(target, above);
    } else {
      TakeFromStage(target, index);
    }
    target_[index] = target;
  }

  // The backward pass begins with the last stage.
  void Insert(uint32_t node, uint32_t above) {
    whole_.graph.Attach(node, above);
    const bool backward =
        above != kRoot && whole_.graph.nodes[above].name.find(".backward.") != std::string::npos;
    if (backward && own_names_.contains(whole_.graph.nodes[above].name)) {
      ++inserted_in_front_[above];
    }
  }

  // Whether other modules are inside, so that it goes on from stage to stage.
  bool HoldsModules(uint32_t index) const {
    const std::vector<uint32_t>& children = stage_.graph.nodes[index].children;
    return std::any_of(children.begin(), children.end(), [this](uint32_t child) {
      return wanted_[child] && stage_.graph.nodes[child].type == NodeType::kModule;
    });
  }

  // A module around all stages: its input is the first stage's, its output the last one's. What it
  // is given within a later stage, if that was recorded, is a value in between.
  void TakeFromStage(uint32_t target, uint32_t index) {
    const std::string_view name = whole_.graph.nodes[target].name;
    const bool backward = name.find(".backward.") != std::string_view::npos;
    if (whole_.graph.nodes[target].type != NodeType::kModule ||
        stage_.contents[index].entry == kNone || whole_.contents[target].entry == kNone) {
      return;
    }
    const bool same_input = SameRows(target, index, "input.");
    const bool same_output = SameRows(target, index, "output.");
    const bool is_around = HoldsModules(index);
    if (!backward && !same_output && (same_input || is_around)) {
      whole_.contents[target].TakeFrom(stage_.contents[index], "output");
    } else if (backward && !same_input && (same_output || is_around)) {
      whole_.contents[target].TakeFrom(stage_.contents[index], "input");
    }
  }

  MergedModel& whole_;
  const MergedModel& stage_;
  const StagePlace place_;
  std::vector<bool> wanted_;                      // by node of the stage
  std::set<std::string, std::less<>> own_names_;  // of the nodes that are wanted
  std::map<std::string, int64_t> offsets_;        // by the name before ".layers."
  std::vector<uint32_t> target_;                  // nodes of the whole, by those of the stage
  // By module of the backward pass: how many of its last children come first in the end.
  std::map<uint32_t, size_t> inserted_in_front_;
};

// Puts a stage behind those that `whole` holds. Layers of later stages are numbered on, their calls
// get the rank into their names, and modules around all stages have the input of the first and the
// output of the last one. Parts become the first part: "Module.1.x" is "Module.0.x".
void MergeStage(MergedModel& whole, const MergedModel& stage, const StagePlace& place) {
  StageMerge(whole, stage, place).Run();
}

// How many parts the model of a rank has; 0: its names tell of none.
int64_t CountChunks(const MergedModel& model) {
  int64_t count = 0;
  for (const Node& node : model.graph.nodes) {
    count = std::max(count, ChunkOf(node.name).value_or(-1) + 1);
  }
  return count;
}

// Parts of virtual pipelines follow each other as a sample passes them: the first part of every
// rank, then the second one of every rank.
//
// `group`: the ranks of the stages; `named`: those in the names of their calls.
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

// Models of the ranks of `group` become one. Later stages have gone into others.
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
    SetPlaces(dump.side(), Edition::kV26);
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

namespace {

namespace fs = std::filesystem;

struct MergedStep {
  int64_t step = 0;
  std::vector<fs::path> folders;  // of data-parallel groups
};

struct MergedSide {
  std::vector<MergedStep> steps;
  bool has_steps = false;
  uint64_t expert_ranks = 1;  // MergedRanks::expert_ranks
};

// `below`: where the folders of steps are made.
Result<MergedSide> MergeSide(const fs::path& path, const Parallelism& sizes, bool merges,
                             MergedFor purpose, const fs::path& below,
                             std::vector<std::string>& warnings) {
  MSP_ASSIGN_OR_RETURN(const InputPlan inputs, FindInputs(path, {}));
  std::map<int64_t, std::vector<fs::path>> ranks;
  for (const RankFolders& rank : inputs.ranks) {
    ranks[rank.step].push_back(rank.npu);
  }
  MergedSide side;
  side.has_steps = inputs.has_steps;
  for (const auto& [step, folders] : ranks) {
    MSP_RETURN_IF_ERROR(CheckParallelism(sizes, folders.size()));
    MergedStep& merged = side.steps.emplace_back();
    merged.step = step;
    merged.folders = folders;
    if (merges) {
      MSP_ASSIGN_OR_RETURN(
          MergedRanks found,
          MergeRanks(folders, sizes, purpose, below / fmt::format("step{}", step), warnings));
      merged.folders = std::move(found.folders);
      side.expert_ranks = std::max(side.expert_ranks, found.expert_ranks);
    }
  }
  return side;
}

// The statistics of the inputs of the first call with tensors. Empty: there is none.
Result<std::string> FirstInputs(const fs::path& folder) {
  std::string text;
  Status failed;
  const auto scanned = dump::ScanEntries(
      folder / dump::kDumpFileName, [&](const dump::ScannedEntry& entry, const auto& /*so_far*/) {
        const Result<dump::EntryTree> tree = dump::ParseEntry(entry.text);
        if (!tree.ok()) {
          failed = tree.status();
          return false;
        }
        const uint32_t inputs = tree->Find(0, "input_args");
        for (uint32_t node = inputs; inputs != dump::EntryTree::kNone && node < (*tree)[inputs].end;
             ++node) {
          if (tree->Find(node, "dtype") == dump::EntryTree::kNone) {
            continue;
          }
          for (const std::string_view key : dump::kStatisticKeys) {
            const uint32_t value = tree->Find(node, key);
            const bool is_number =
                value != dump::EntryTree::kNone && ((*tree)[value].kind == dump::NodeKind::kInt ||
                                                    (*tree)[value].kind == dump::NodeKind::kFloat);
            // Merged statistics are floats where those of a rank may be integers.
            text += is_number ? base::PythonFloatRepr((*tree)[value].number) : "-";
            text += ' ';
          }
        }
        return text.empty();
      });
  MSP_RETURN_IF_ERROR(scanned.status());
  MSP_RETURN_IF_ERROR(std::move(failed));
  return text;
}

using GroupPair = std::pair<size_t, size_t>;  // places of the NPU and of the bench side

// Data-parallel groups with the same inputs. As many on both sides are paired in order.
Result<std::vector<GroupPair>> PairGroups(const MergedStep& npu, const MergedStep& bench,
                                          std::vector<std::string>& warnings) {
  std::vector<GroupPair> pairs;
  if (npu.folders.size() == bench.folders.size()) {
    for (size_t group = 0; group < npu.folders.size(); ++group) {
      pairs.emplace_back(group, group);
    }
    return pairs;
  }
  std::multimap<std::string, size_t> fed;
  for (size_t group = 0; group < bench.folders.size(); ++group) {
    MSP_ASSIGN_OR_RETURN(std::string inputs, FirstInputs(bench.folders[group]));
    if (!inputs.empty()) {
      fed.emplace(std::move(inputs), group);
    }
  }
  for (size_t group = 0; group < npu.folders.size(); ++group) {
    MSP_ASSIGN_OR_RETURN(const std::string inputs, FirstInputs(npu.folders[group]));
    if (const auto found = fed.find(inputs); found != fed.end()) {
      pairs.emplace_back(group, found->second);
      fed.erase(found);
    }
  }
  if (pairs.empty()) {
    return MismatchError(
               fmt::format("step {}: {} on the test side, {} on the reference side, and no two "
                           "of them were fed the same",
                           npu.step, base::Plural(npu.folders.size(), "model"),
                           base::Plural(bench.folders.size(), "model")))
        .WithHint(
            "give both runs the same global batch in the same order, so that at least the "
            "first data-parallel group sees the same samples; if ranks share a sequence, --cp "
            "says how many");
  }
  warnings.push_back(fmt::format(
      "step {}: {} on the test side, {} on the reference side; {} fed the same and compared",
      npu.step, base::Plural(npu.folders.size(), "model"),
      base::Plural(bench.folders.size(), "model"),
      pairs.size() == 1 ? "1 pair was" : fmt::format("{} pairs were", pairs.size())));
  return pairs;
}

}  // namespace

TemporaryFolder::TemporaryFolder(fs::path path)
    : path_(std::move(path)), slot_(base::RemoveOnInterrupt(path_.string())) {}

TemporaryFolder::~TemporaryFolder() {
  std::error_code error;
  fs::remove_all(path_, error);
  base::ForgetOnInterrupt(slot_);
}

Result<MergedInputs> MergeInputs(const Options& options, const fs::path& below) {
  MergedInputs inputs;
  InputPlan& plan = inputs.plan;
  const bool with_bench = !options.bench_path.empty();
  const MergedFor purpose = options.export_merged ? MergedFor::kExport : MergedFor::kGraph;
  MSP_ASSIGN_OR_RETURN(
      const MergedSide npu,
      MergeSide(options.npu_path, *options.npu_parallelism, options.merges(), purpose,
                options.export_merged ? below : below / "npu", plan.warnings));
  MergedSide bench;
  if (with_bench) {
    MSP_ASSIGN_OR_RETURN(
        bench, MergeSide(options.bench_path, *options.bench_parallelism, options.merges(), purpose,
                         below / "bench", plan.warnings));
  }
  if (with_bench && npu.expert_ranks != bench.expert_ranks) {
    plan.warnings.push_back(fmt::format(
        "experts are spread over {} of the test and over {} of the reference: experts of one "
        "name may be different ones, so that differences between them mean nothing",
        base::Plural(npu.expert_ranks, "rank"), base::Plural(bench.expert_ranks, "rank")));
  }
  plan.has_steps = npu.has_steps || bench.has_steps;
  for (const MergedStep& step : npu.steps) {
    const auto other =
        std::find_if(bench.steps.begin(), bench.steps.end(),
                     [&step](const MergedStep& found) { return found.step == step.step; });
    if (with_bench && other == bench.steps.end()) {
      plan.warnings.push_back(
          fmt::format("step {} is left out: the reference has none", step.step));
      continue;
    }
    MSP_ASSIGN_OR_RETURN(const std::vector<GroupPair> pairs,
                         PairGroups(step, with_bench ? *other : step, plan.warnings));
    plan.has_ranks = plan.has_ranks || step.folders.size() > 1;
    for (const auto& [group, partner] : pairs) {
      plan.ranks.push_back({step.step, static_cast<int64_t>(group), step.folders[group],
                            with_bench ? other->folders[partner] : fs::path()});
    }
    if (options.export_merged) {
      for (const fs::path& folder : step.folders) {
        inputs.exported.push_back(folder / dump::kDumpFileName);
      }
    }
  }
  if (plan.ranks.empty()) {
    return MismatchError("both sides have no step in common");
  }
  return inputs;
}

}  // namespace msprobe::analysis::graph
