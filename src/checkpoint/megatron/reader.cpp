#include "src/checkpoint/megatron/reader.h"

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <filesystem>
#include <iterator>
#include <limits>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <system_error>
#include <unordered_map>
#include <unordered_set>
#include <utility>
#include <vector>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "msprobe/status.h"

#include "src/base/log.h"
#include "src/base/output_files.h"
#include "src/base/strings.h"
#include "src/checkpoint/checkpoint.h"
#include "src/checkpoint/common/state_dict.h"
#include "src/checkpoint/megatron/layout.h"
#include "src/io/contents.h"
#include "src/kernels/element_pairs.h"

namespace msprobe::checkpoint {
namespace {

// The rank files of one Megatron checkpoint, opened: which there are, which there should be.

struct MegatronRanks {
  MegatronArgs args;  // of the first readable file
  ParallelSizes sizes;
  // Indices into Checkpoint::files; nothing where a rank is missing. Tensor ranks next to each
  // other, then pipeline stages, then expert ranks.
  std::vector<std::optional<size_t>> files;

  std::optional<size_t> FileOf(const RankPlace& place) const {
    return files[static_cast<size_t>(
        (place.expert * sizes.pipeline + place.pipeline) * sizes.tensor + place.tensor)];
  }
};

// Finds the model's tensors in a rank file: those under "model", or, without it, under
// "model0", "model1" and so on up to the first gap, one per virtual stage.
class ModelKeys {
 public:
  explicit ModelKeys(const TensorFile& file);
  // Nothing for other tensors, and for arrays and tensors in lists.
  std::optional<int64_t> VirtualStageOf(const NamedTensor& tensor) const;

 private:
  std::unordered_map<std::string, int64_t> stages_;  // by key
};

// Experts of a layer on one rank: many times what models have. Experts without elements cost
// memory, too.
constexpr int64_t kMostExperts = 65'536;

// One piece with all elements: a copy can be compared.
bool IsWhole(const Parameter& parameter) {
  return parameter.status.ok() && parameter.pieces.size() == 1 &&
         parameter.pieces[0].view.shape == parameter.shape;
}

bool CopiesAgree(const Parameter& first, const Parameter& other) {
  if (first.shape != other.shape) {
    return false;
  }
  if (first.element_count() == 0 || !IsWhole(first) || !IsWhole(other)) {
    return true;  // nothing to compare; an unreadable copy has its own message
  }
  return AreClose(first.pieces[0].view, other.pieces[0].view);
}

// The parameter that stands for one which cannot be put together.
Parameter Unreadable(Parameter parameter, Status status) {
  parameter.pieces.clear();
  parameter.status = std::move(status);
  return parameter;
}

// Parts beside each other in the order that the spread says: gates of all ranks above the rest of
// all ranks.
Result<Parameter> JoinShards(const std::vector<Parameter>& parts,
                             std::span<const layout::PartRun> runs, size_t axis) {
  std::vector<Parameter> cuts;
  cuts.reserve(runs.size());
  for (const layout::PartRun& run : runs) {
    MSP_ASSIGN_OR_RETURN(Parameter cut, Slice(parts[run.part], axis, run.first, run.count));
    if (run.first > 0) {
      cut.notes.clear();  // said by the first run of the part
    }
    cuts.push_back(std::move(cut));
  }
  return Concatenate(cuts, axis);
}

Parameter Join(std::vector<Parameter> parts, const layout::Spread& spread) {
  const auto axis = static_cast<size_t>(spread.dimension);
  const auto bad = std::find_if(parts.begin(), parts.end(),
                                [](const Parameter& part) { return !part.status.ok(); });
  std::vector<int64_t> sizes;
  for (const Parameter& part : parts) {
    sizes.push_back(axis < part.shape.size() ? part.shape[axis] : -1);
  }
  const bool have_axis = std::find(sizes.begin(), sizes.end(), -1) == sizes.end();
  const auto runs = have_axis ? layout::RunsOf(spread, sizes) : std::nullopt;
  Result<Parameter> joined = runs ? JoinShards(parts, *runs, axis) : Concatenate(parts, axis);
  if (bad != parts.end()) {
    // The shape of the whole where it is known.
    return Unreadable(joined.ok() ? *std::move(joined) : *bad, bad->status);
  }
  if (!joined.ok()) {
    return Unreadable(std::move(parts.front()), std::move(joined).status());
  }
  if (!runs) {
    joined->notes.emplace_back("an odd number of rows cannot be gate and up: joined as they are");
  }
  return *std::move(joined);
}

// The matrix of expert `index` of `count`, elements [H, F] of a stack that lies in memory one
// expert after the other whatever the shape says; `turned` gives [F, H].
Parameter CutExpert(const Parameter& grouped, int64_t index, int64_t rows, int64_t columns) {
  Parameter expert;
  expert.dtype = grouped.dtype;
  expert.status = grouped.status;
  expert.notes = grouped.notes;
  expert.shape = {columns, rows};
  if (grouped.pieces.empty() || expert.element_count() == 0) {
    return expert;
  }
  Piece piece = grouped.pieces[0];
  const auto skipped = static_cast<size_t>(index * rows * columns) * DTypeSize(piece.view.dtype);
  piece.view.data += skipped;
  piece.view.extent_bytes -= skipped;
  piece.view.shape = {columns, rows};
  piece.view.strides = {1, columns};
  piece.offset = {0, 0};
  expert.pieces.push_back(std::move(piece));
  return expert;
}

}  // namespace

bool AreClose(const TensorView& a, const TensorView& b) {
  if (a.shape != b.shape) {
    return false;
  }
  constexpr float kAbsolute = 1e-8F;
  constexpr float kRelative = 1e-5F;
  bool close = true;
  using Run = std::span<const float>;
  kernels::ForEachRun<float>(a, b, [&](Run first, Run second, size_t) {
    for (size_t i = 0; i < first.size(); ++i) {
      // Equal infinities are close; a NaN is not, whatever it is compared with.
      const bool near =
          std::fabs(first[i] - second[i]) <= kAbsolute + kRelative * std::fabs(second[i]) &&
          std::fabs(second[i]) <= std::numeric_limits<float>::max();
      close = close && (near || first[i] == second[i]);
    }
    return close;
  });
  return close;
}

MergedRanks MergeTensorRanks(std::vector<RankPart> parts, int64_t ranks,
                             const layout::Spread& spread) {
  MergedRanks merged;
  const bool alone = parts.size() == 1;
  const bool has_axis = std::all_of(parts.begin(), parts.end(), [&](const RankPart& part) {
    return part.parameter.shape.size() > static_cast<size_t>(spread.dimension) ||
           !part.parameter.status.ok();
  });
  if (spread.kind != layout::SpreadKind::kShard || !has_axis) {
    for (size_t i = 1; i < parts.size(); ++i) {
      if (!CopiesAgree(parts[0].parameter, parts[i].parameter)) {
        merged.disagreeing.push_back(parts[i].rank);
      }
    }
    merged.parameter = std::move(parts[0].parameter);
    if (!merged.disagreeing.empty()) {
      merged.parameter.notes.push_back(
          fmt::format("Inconsistent values across TP ranks: {} differ from rank {}, whose copy is "
                      "used",
                      fmt::join(merged.disagreeing, ", "), parts[0].rank));
    }
    return merged;
  }
  merged.incomplete = static_cast<int64_t>(parts.size()) < ranks;
  std::string present;
  std::vector<Parameter> shards;
  shards.reserve(parts.size());
  for (RankPart& part : parts) {
    present += fmt::format("{}{}", present.empty() ? "" : ", ", part.rank);
    shards.push_back(std::move(part.parameter));
  }
  merged.parameter = alone ? std::move(shards[0]) : Join(std::move(shards), spread);
  if (merged.incomplete) {
    merged.parameter.notes.push_back(
        fmt::format("incomplete: only the parts of TP ranks {} of {} are there", present, ranks));
  }
  return merged;
}

std::vector<Parameter> SplitGroupedExperts(const Parameter& grouped, int64_t experts) {
  constexpr std::string_view kFirst = ".experts.weight1";
  constexpr std::string_view kSecond = ".experts.weight2";
  const bool first = grouped.name.ends_with(kFirst);
  if ((!first && !grouped.name.ends_with(kSecond)) || grouped.shape.size() != 2 || experts < 1) {
    return {};
  }
  // weight1 is [H, E * F] and weight2 [E * F, H], but both lie in memory expert by expert: weight1
  // as E matrices [H, F], weight2 as E matrices [F, H].
  const size_t joined_axis = first ? 1 : 0;
  Shape each = grouped.shape;
  if (experts > kMostExperts || each[joined_axis] % experts != 0 ||
      (experts > each[joined_axis] && each[joined_axis] != 0)) {
    return {};
  }
  each[joined_axis] /= experts;
  const bool in_order = grouped.pieces.empty() ||
                        (IsWhole(grouped) && grouped.pieces[0].view.strides ==
                                                 ContiguousStrides(grouped.pieces[0].view.shape));
  if (!in_order) {
    return {};
  }
  const std::string_view prefix =
      std::string_view(grouped.name).substr(0, grouped.name.size() - kFirst.size());
  std::vector<Parameter> split;
  for (int64_t index = 0; index < experts; ++index) {
    Parameter expert = CutExpert(grouped, index, each[0], each[1]);
    expert.name = fmt::format("{}.experts.local_experts.{}.{}.weight", prefix, index,
                              first ? "linear_fc1" : "linear_fc2");
    split.push_back(std::move(expert));
  }
  return split;
}

namespace {

namespace fs = std::filesystem;

constexpr std::string_view kAllowHint =
    "copy the missing rank here, or compare what is there with --allow-missing-ranks";

// Limits the reasons and warnings that are named: the sizes in the arguments cost a file nothing,
// and one line per missing rank would fill the screen.
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

// Names the missing tensor ranks of one stage and expert rank.
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

// Opens the files of `checkpoint.path` into `checkpoint.files`. A rank without folder, without
// file, without model or with a file that cannot be read is an error that names it, or, with
// options.allow_missing_ranks, a warning per pipeline stage. An error in any case when no rank is
// left.
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

// The checksum of a small storage is looked at while opening; a large one would cost a second pass.
constexpr uint64_t kVerifyUpToBytes = uint64_t{1} << 20U;
// Parts of the pipeline, and experts that are split off one by one, of a whole checkpoint: both are
// numbers in the arguments, which cost a file nothing.
constexpr int64_t kMostPipelineParts = 100'000;
constexpr size_t kMostSplitExperts = 1'000'000;
// Experts that have no elements or cannot be read: they cost a file no byte.
constexpr uint64_t kMostEmptyExperts = 65'536;
// Bytes of the names and descriptions of all experts: a name may be long, and is repeated for each.
constexpr uint64_t kMostExpertTextBytes = uint64_t{64} << 20U;

// A tensor of one rank file.
struct RankTensor {
  std::string name;  // translated, numbered as in the rank
  int64_t virtual_stage = 0;
  size_t index = 0;  // in the file
};

// The parts that the tensor ranks of one stage hold under one name.
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

// Nothing where they are not grouped experts, or their names would fill the memory.
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
                                          SpreadOf(group.name, corrected_, gated_));
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
