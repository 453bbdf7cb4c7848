#include <algorithm>
#include <cstddef>
#include <functional>
#include <iterator>
#include <map>
#include <optional>
#include <set>
#include <span>
#include <string>
#include <string_view>
#include <unordered_map>
#include <utility>
#include <vector>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "src/base/files.h"
#include "src/base/log.h"
#include "src/base/numbers.h"
#include "src/base/output_files.h"
#include "src/base/strings.h"
#include "src/checkpoint/checkpoint.h"
#include "src/checkpoint/common/readers.h"
#include "src/checkpoint/common/state_dict.h"
#include "src/io/contents.h"
#include "src/io/safetensors.h"
#include "src/json/config.h"

namespace msprobe::checkpoint {
namespace {

// Tensors of which every rank wrote its part into a file of its own, as
// torch.distributed.checkpoint does with .safetensors.

// Moves a parameter to its place in the whole. The whole's shape is nowhere: it reaches as far as
// its parts do. An offset that cannot be becomes the status.
void MoveTo(const Shape& offset, Parameter& part) {
  if (offset.size() != part.shape.size()) {
    part.status = BadFormatError(fmt::format("a part of shape {} cannot lie at {}",
                                             ShapeText(part.shape), ShapeText(offset)));
    return;
  }
  for (Piece& piece : part.pieces) {
    piece.offset = offset;
  }
  for (size_t axis = 0; axis < part.shape.size(); ++axis) {
    if (__builtin_add_overflow(part.shape[axis], offset[axis], &part.shape[axis])) {
      part.status = BadFormatError(fmt::format("a part lies at {}", ShapeText(offset)));
    }
  }
}

// Takes the pieces of one more part, which was moved to its place. A part that cannot be read makes
// the whole unreadable.
void JoinShard(Parameter& part, Parameter& whole) {
  if (whole.status.ok()) {
    whole.status = part.status;
  }
  if (!whole.status.ok()) {
    return;
  }
  if (whole.shape.size() != part.shape.size()) {
    whole.status = BadFormatError(
        fmt::format("parts reach to {} and {}", ShapeText(whole.shape), ShapeText(part.shape)));
    return;
  }
  for (size_t axis = 0; axis < whole.shape.size(); ++axis) {
    whole.shape[axis] = std::max(whole.shape[axis], part.shape[axis]);
  }
  std::move(part.pieces.begin(), part.pieces.end(), std::back_inserter(whole.pieces));
}

// After the last part: a gap or an overlap becomes the parameter's status.
void CloseShards(Parameter& whole) {
  const Status size = io::DenseBytes(whole.shape, DTypeSize(whole.dtype)).status();
  if (whole.status.ok()) {
    whole.status = size;
  }
  if (!size.ok()) {
    whole.shape.clear();  // its elements cannot be counted
  }
  if (whole.status.ok()) {
    whole.status = CheckTiling(whole);
  }
  if (!whole.status.ok()) {
    whole.pieces.clear();
  }
}

constexpr std::string_view kConfigName = "config.json";
constexpr std::string_view kQuantisationKey = "quantization_config";
constexpr std::string_view kModelOptName = "hf_quant_config.json";
// The likeliest first: the first pattern that a folder has a file for decides.
constexpr std::string_view kIndexPatterns[] = {"model.safetensors.index.json",
                                               "*.safetensors.index.json",
                                               "pytorch_model.bin.index.json", "*.bin.index.json"};
constexpr std::string_view kShardPatterns[] = {"model*.safetensors",        "*-of-*.safetensors",
                                               "pytorch_model*.bin",        "*-of-*.bin",
                                               "adapter_model.safetensors", "adapter_model.bin"};
constexpr std::string_view kAnyShard = "*.safetensors";  // beside a config.json

std::vector<std::string> Matching(const std::vector<std::string>& names, std::string_view pattern) {
  std::vector<std::string> found;
  std::copy_if(names.begin(), names.end(), std::back_inserter(found),
               [&](const std::string& name) { return base::GlobMatch(pattern, name); });
  return found;
}

std::optional<std::string> FindIndexFile(const std::vector<std::string>& names) {
  for (const std::string_view pattern : kIndexPatterns) {
    if (const std::vector<std::string> found = Matching(names, pattern); !found.empty()) {
      return found.front();
    }
  }
  return std::nullopt;
}

std::vector<std::string> FindShards(const std::vector<std::string>& names) {
  for (const std::string_view pattern : kShardPatterns) {
    if (std::vector<std::string> found = Matching(names, pattern); !found.empty()) {
      return found;
    }
  }
  return base::IsOneOf(kConfigName, names) ? Matching(names, kAnyShard)
                                           : std::vector<std::string>();
}

// Shards by name, each with the parameters that the index promises in it.
using Shards = std::map<std::string, std::vector<std::string>>;

Result<Shards> ReadIndex(const std::filesystem::path& path) {
  MSP_ASSIGN_OR_RETURN(const json::Config index, json::LoadJsonConfig(path));
  const json::Json* weight_map = json::Find(index.root(), "weight_map");
  if (weight_map == nullptr || !weight_map->is_object() || weight_map->empty()) {
    return BadFormatError(
        fmt::format("{}: no \"weight_map\" that names parameters", path.native()));
  }
  Shards shards;
  for (const auto& [name, file] : weight_map->items()) {
    if (!file.is_string() || !IsPlainFileName(json::TextOf(file))) {
      return index.ErrorAt(file, name.substr(0, 200), "must name a file in the same folder");
    }
    shards[json::TextOf(file)].push_back(name);
  }
  return shards;
}

// "model-00002-of-00005.safetensors": the second of five.
struct ShardNumber {
  int64_t number = 0;
  int64_t count = 0;
};
std::optional<ShardNumber> ParseShardNumber(std::string_view name) {
  const size_t of = name.rfind("-of-");
  const size_t dash = of == std::string_view::npos ? of : name.rfind('-', of - 1);
  if (of == std::string_view::npos || of == 0 || dash == std::string_view::npos) {
    return std::nullopt;
  }
  const std::string_view after = name.substr(of + 4);
  const std::optional<int64_t> number = base::ParseInt(name.substr(dash + 1, of - dash - 1));
  const std::optional<int64_t> count = base::ParseInt(after.substr(0, after.find('.')));
  if (!number || !count || *number < 1 || *number > *count) {
    return std::nullopt;
  }
  return ShardNumber{*number, *count};
}

// Without an index only the numbers in the names tell that a shard is missing.
Status CheckNumbers(const Shards& shards, const Options& options,
                    std::vector<std::string>& warnings) {
  std::set<int64_t> present;
  int64_t count = 0;
  for (const auto& [file, names] : shards) {
    if (const std::optional<ShardNumber> number = ParseShardNumber(file)) {
      present.insert(number->number);
      count = std::max(count, number->count);
    }
  }
  int64_t missing = 1;
  while (present.contains(missing)) {
    ++missing;
  }
  if (present.empty() || missing > count) {
    return {};
  }
  const std::string text =
      fmt::format("{} of {} shards are missing, the first one is number {}",
                  count - static_cast<int64_t>(present.size()), count, missing);
  if (options.allow_missing_ranks) {
    warnings.push_back(text);
    return {};
  }
  return NotFoundError(text).WithHint("--allow-missing-ranks compares what is there");
}

// A file of the folder itself. A link may lead within the folder, or to the blobs of the hub's
// cache (snapshots/<revision>/FILE -> ../../blobs/<hash>), and nowhere else.
Status CheckShard(const std::filesystem::path& folder, const std::string& file) {
  namespace fs = std::filesystem;
  std::error_code error;
  if (!fs::is_symlink(fs::symlink_status(folder / file, error))) {
    return {};
  }
  const fs::path target = fs::canonical(folder / file, error);
  if (error) {
    return {};  // opening tells
  }
  for (const fs::path& allowed : {folder, folder / "../../blobs"}) {
    const fs::path place = fs::canonical(allowed, error);
    if (!error && target.parent_path() == place) {
      return {};
    }
  }
  return BadFormatError(
             fmt::format("{} links outside the checkpoint's folder", (folder / file).native()))
      .WithHint("put the file itself into the folder");
}

class Reader {
 public:
  Reader(std::filesystem::path folder, Checkpoint& checkpoint)
      : folder_(std::move(folder)), checkpoint_(checkpoint) {}

  void ReadShard(const std::string& file, const std::vector<std::string>& promised) {
    const Status own = CheckShard(folder_, file);
    Result<TensorFile> opened = own.ok() ? TensorFile::Open(folder_ / file) : own;
    if (!opened.ok()) {
      const Status status = std::move(opened).status();
      unreadable_.Add(status.code() == StatusCode::kNotFound
                          ? fmt::format("shard {} is missing: {} parameters cannot be read", file,
                                        promised.size())
                          : fmt::format("shard {} cannot be read: {}", file, status.message()));
      for (const std::string& name : promised) {
        AddUnreadable(name, status);
      }
      if (first_failure_.ok()) {
        first_failure_ = status;
      }
      return;
    }
    const size_t number = checkpoint_.files.size();
    checkpoint_.files.push_back(*std::move(opened));
    const TensorFile& tensors = checkpoint_.files.back();
    memory_.AddFile(tensors.size_bytes());
    for (const std::string& warning : tensors.warnings()) {
      checkpoint_.warnings.push_back(fmt::format("{}: {}", file, warning));
    }
    const Offsets offsets = OffsetsIn(file, tensors);
    std::set<std::string, std::less<>> found;
    for (const NamedTensor& tensor : tensors.tensors()) {
      if (!promised.empty()) {
        found.insert(tensor.name());
      }
      Add(tensor, number, offsets);
    }
    for (const std::string& name : promised) {
      if (!found.contains(name)) {
        AddUnreadable(name, BadFormatError(
                                fmt::format("{}: listed in the index, but not in the file", file)));
      }
    }
  }

  Status Finish(bool optimizer) {
    if (checkpoint_.files.empty()) {
      return first_failure_;
    }
    if (unreadable_.more() > 0) {
      checkpoint_.warnings.push_back(
          fmt::format("{} more shards are missing or cannot be read", unreadable_.more()));
    }
    for (const auto& [name, entry] : sharded_) {
      Parameter& whole = entries_[entry].parameter;
      whole.name = name;  // for what is wrong with it
      if (whole.status.ok() && !first_failure_.ok()) {
        whole.status = Status(first_failure_).AddContext("a part of it may be missing");
      }
      CloseShards(whole);
    }
    AddParameters(std::move(entries_), optimizer, checkpoint_);
    return CheckNotEmpty(checkpoint_, optimizer);
  }

 private:
  using Offsets = std::unordered_map<std::string, Shape>;

  // Where the tensors of a file lie in larger ones, if it says so.
  Offsets OffsetsIn(const std::string& file, const TensorFile& tensors) {
    const std::span<const NamedScalar> texts = tensors.scalars();
    if (tensors.format() != TensorFileFormat::kSafetensors ||
        std::none_of(texts.begin(), texts.end(), [](const NamedScalar& text) {
          return text.path.back() == io::kShardingInfoKey;
        })) {
      return {};
    }
    const Result<base::FileBytes> bytes = base::FileBytes::Open(folder_ / file);
    Result<Offsets> offsets =
        bytes.ok() ? io::ReadShardOffsets(bytes->bytes()) : Result<Offsets>(bytes.status());
    if (!offsets.ok()) {
      checkpoint_.warnings.push_back(fmt::format("{}: its tensors are taken for whole ones: {}",
                                                 file, offsets.status().message()));
      return {};
    }
    return *std::move(offsets);
  }

  // A part of a tensor that several files share joins those that were read before.
  void Add(const NamedTensor& tensor, size_t file, const Offsets& offsets) {
    StateEntry entry = MakeStateEntry(tensor, file, memory_);
    const auto place = offsets.find(tensor.name());
    if (place == offsets.end()) {
      entries_.push_back(std::move(entry));
      return;
    }
    if (entry.parameter.status.ok()) {
      MoveTo(place->second, entry.parameter);
    }
    const auto [known, is_first] = sharded_.emplace(tensor.name(), entries_.size());
    if (is_first) {
      entries_.push_back(std::move(entry));
    } else {
      JoinShard(entry.parameter, entries_[known->second].parameter);
    }
  }

  void AddUnreadable(const std::string& name, const Status& status) {
    StateEntry entry;
    entry.path = {name};
    entry.parameter.status = status;
    entries_.push_back(std::move(entry));
  }

  std::filesystem::path folder_;
  Checkpoint& checkpoint_;
  std::vector<StateEntry> entries_;
  std::map<std::string, size_t, std::less<>> sharded_;  // which entry holds the parts of a tensor
  Status first_failure_;
  base::LimitedWarnings unreadable_{checkpoint_.warnings};
  io::ReadBudget memory_ = io::ReadBudget::ForMemory(0);
};

// The first of several spellings that holds a positive number.
std::optional<int64_t> NumberMember(const json::Json& object,
                                    std::initializer_list<std::string_view> keys) {
  for (const std::string_view key : keys) {
    const json::Json* value = json::Find(object, key);
    if (value != nullptr && value->is_number_integer() && json::IntOf(*value) > 0) {
      return json::IntOf(*value);
    }
  }
  return std::nullopt;
}

ModelFacts FactsOf(const json::Json& root) {
  // Models of text and pictures keep the text's facts one level down.
  const json::Json* inner = json::Find(root, "text_config");
  const json::Json& config = inner != nullptr && inner->is_object() ? *inner : root;
  ModelFacts facts;
  facts.layers = NumberMember(config, {"num_hidden_layers", "num_layers", "n_layer"});
  facts.attention_heads = NumberMember(config, {"num_attention_heads", "n_head"});
  facts.query_groups =
      NumberMember(config, {"num_key_value_heads", "num_query_groups", "multi_query_group_num"});
  facts.head_size = NumberMember(config, {"head_dim", "kv_channels"});
  facts.hidden_size = NumberMember(config, {"hidden_size", "n_embd"});
  facts.experts = NumberMember(config, {"num_local_experts", "num_experts", "n_routed_experts"});
  facts.vocabulary = NumberMember(config, {"vocab_size"});
  if (const json::Json* type = json::Find(root, "model_type");
      type != nullptr && type->is_string()) {
    facts.architecture = json::TextOf(*type);
  }
  return facts;
}

}  // namespace

bool LooksLikeHuggingFace(const std::filesystem::path& folder) {
  const std::vector<std::string> names = base::NamesIn(folder);
  return FindIndexFile(names) || !FindShards(names).empty();
}

Result<Checkpoint> OpenHuggingFace(const std::filesystem::path& folder, const Options& options) {
  MSP_ASSIGN_OR_RETURN(const std::vector<std::string> names, base::ListFolder(folder));
  Checkpoint checkpoint;
  checkpoint.kind = Kind::kHuggingFace;
  checkpoint.path = folder;
  Shards shards;
  if (const std::optional<std::string> index = FindIndexFile(names)) {
    MSP_ASSIGN_OR_RETURN(shards, ReadIndex(folder / *index));
  } else {
    for (const std::string& file : FindShards(names)) {
      shards[file];
    }
    MSP_RETURN_IF_ERROR(CheckNumbers(shards, options, checkpoint.warnings), folder.native());
  }
  if (base::IsOneOf(kModelOptName, names)) {
    const Result<json::Config> config = json::LoadJsonConfig(folder / kModelOptName);
    if (config.ok()) {
      checkpoint.quantisation = ReadQuantisation(config->root());
    }
  }
  if (base::IsOneOf(kConfigName, names)) {
    const Result<json::Config> config = json::LoadJsonConfig(folder / kConfigName);
    if (config.ok()) {
      checkpoint.facts = FactsOf(config->root());
      if (const json::Json* quantisation = json::Find(config->root(), kQuantisationKey)) {
        checkpoint.quantisation = ReadQuantisation(*quantisation);
      }
    } else {
      checkpoint.warnings.push_back(config.status().message());
    }
  }
  Reader reader(folder, checkpoint);
  for (const auto& [file, promised] : shards) {
    reader.ReadShard(file, promised);
  }
  MSP_RETURN_IF_ERROR(reader.Finish(options.optimizer), folder.native());
  return checkpoint;
}

}  // namespace msprobe::checkpoint
