#include "src/checkpoint/megatron/layout.h"

#include <algorithm>
#include <array>
#include <numeric>
#include <string_view>
#include <system_error>
#include <utility>

#include <fmt/format.h>

#include "src/base/files.h"
#include "src/base/numbers.h"
#include "src/base/output_files.h"
#include "src/base/strings.h"

namespace msprobe::checkpoint {
namespace {

namespace fs = std::filesystem;

constexpr std::string_view kRankPrefix = "mp_rank_";
// Digits of one number in a rank folder's name: beyond any machine, far below overflow.
constexpr size_t kMostRankDigits = 6;
// The second one: older versions beside a distributed optimizer.
constexpr std::array<std::string_view, 2> kRankFiles = {"model_optim_rng.pt", "model_rng.pt"};

bool IsFolder(const fs::path& path) { return base::IsFolder(path); }

}  // namespace

std::string RankFolderName(const ParallelSizes& sizes, const RankPlace& place) {
  std::string name = fmt::format("{}{:02}", kRankPrefix, place.tensor);
  if (sizes.pipeline > 1) {
    name += fmt::format("_{:03}", place.pipeline);
  }
  if (sizes.expert > 1) {
    name += fmt::format("_{:03}", place.expert);
  }
  return name;
}

std::optional<std::vector<int64_t>> ParseRankFolderName(std::string_view name) {
  if (!name.starts_with(kRankPrefix)) {
    return std::nullopt;
  }
  std::vector<int64_t> numbers;
  for (std::string_view digits : base::Split(name.substr(kRankPrefix.size()), '_')) {
    const std::optional<int64_t> number = base::ParseInt(digits);
    if (!number || *number < 0 || digits.size() > kMostRankDigits || numbers.size() == 3) {
      return std::nullopt;
    }
    numbers.push_back(*number);
  }
  return numbers;
}

Result<std::vector<std::string>> ListRankFolders(const fs::path& folder) {
  MSP_ASSIGN_OR_RETURN(std::vector<std::string> names, base::ListFolder(folder));
  std::erase_if(names, [&folder](const std::string& name) {
    return !ParseRankFolderName(name) || !IsFolder(folder / name);
  });
  return names;
}

fs::path RankFile(const fs::path& rank_folder) {
  for (std::string_view name : kRankFiles) {
    if (base::IsRegularFile(rank_folder / name)) {
      return rank_folder / name;
    }
  }
  return rank_folder / kRankFiles[0];
}

namespace {

// Ranks of a whole checkpoint: a number in the arguments, which costs a file nothing.
constexpr int64_t kMostRanks = 100'000;

}  // namespace

MegatronArgs::MegatronArgs(const TensorFile& file) {
  for (const NamedScalar& scalar : file.scalars()) {
    if (scalar.path.size() == 2 && scalar.path[0] == "args") {
      values_.insert_or_assign(scalar.path[1], Value{scalar.type, scalar.text});
    }
  }
}

const MegatronArgs::Value* MegatronArgs::Find(std::string_view name) const {
  const auto found = values_.find(std::string(name));
  return found != values_.end() ? &found->second : nullptr;
}

bool MegatronArgs::Has(std::string_view name) const { return Find(name) != nullptr; }

std::optional<int64_t> MegatronArgs::Integer(std::string_view name) const {
  const Value* value = Find(name);
  return value != nullptr && value->type == "int" ? base::ParseInt(value->text) : std::nullopt;
}

bool MegatronArgs::Flag(std::string_view name) const {
  const Value* value = Find(name);
  return value != nullptr && value->type == "bool" && value->text == "True";
}

std::string_view MegatronArgs::Text(std::string_view name) const {
  const Value* value = Find(name);
  return value != nullptr && value->type != "None" ? std::string_view(value->text)
                                                   : std::string_view();
}

ModelFacts FactsFromArgs(const MegatronArgs& args) {
  ModelFacts facts;
  facts.layers = args.Integer("num_layers");
  facts.attention_heads = args.Integer("num_attention_heads");
  facts.query_groups =
      args.Flag("group_query_attention") ? args.Integer("num_query_groups") : facts.attention_heads;
  facts.hidden_size = args.Integer("hidden_size");
  facts.head_size = args.Integer("kv_channels");
  if (!facts.head_size && facts.hidden_size && facts.attention_heads.value_or(0) > 0) {
    facts.head_size = *facts.hidden_size / *facts.attention_heads;
  }
  facts.experts = args.Integer("num_experts");
  facts.vocabulary = args.Integer("vocab_size");
  constexpr std::array<std::string_view, 4> kGatedSwitches = {"swiglu", "geglu",
                                                              "gated_linear_unit", "bias_swiglu"};
  // Not recorded at all: nothing is known.
  if (std::any_of(kGatedSwitches.begin(), kGatedSwitches.end(),
                  [&args](std::string_view name) { return args.Has(name); }) ||
      !args.Text("glu_activation").empty()) {
    facts.gated = !args.Text("glu_activation").empty() ||
                  std::any_of(kGatedSwitches.begin(), kGatedSwitches.end(),
                              [&args](std::string_view name) { return args.Flag(name); });
  }
  return facts;
}

Result<ParallelSizes> FindParallelSizes(const MegatronArgs& args,
                                        const std::vector<std::string>& rank_folders,
                                        bool second_is_expert) {
  // One more than the largest of each number.
  std::array<int64_t, 3> counts = {1, 1, 1};
  size_t numbers_in_names = 1;
  for (const std::string& name : rank_folders) {
    const std::vector<int64_t> numbers = ParseRankFolderName(name).value_or(std::vector<int64_t>());
    numbers_in_names = std::max(numbers_in_names, numbers.size());
    for (size_t i = 0; i < numbers.size(); ++i) {
      counts[i] = std::max(counts[i], numbers[i] + 1);
    }
  }
  const std::optional<int64_t> tensor = args.Integer("tensor_model_parallel_size");
  const std::optional<int64_t> pipeline = args.Integer("pipeline_model_parallel_size");
  const std::optional<int64_t> expert = args.Integer("expert_model_parallel_size");

  ParallelSizes sizes;
  sizes.tensor = tensor.value_or(counts[0]);
  const bool second_is_pipeline = pipeline ? *pipeline > 1
                                  : expert ? *expert <= 1 || numbers_in_names == 3
                                           : !second_is_expert || numbers_in_names == 3;
  sizes.pipeline = pipeline.value_or(second_is_pipeline ? counts[1] : 1);
  sizes.expert = expert.value_or(second_is_pipeline ? counts[2] : counts[1]);

  for (const int64_t size : {sizes.tensor, sizes.pipeline, sizes.expert}) {
    if (size < 1 || size > kMostRanks) {
      return BadFormatError(fmt::format("the arguments record {} ranks side by side", size));
    }
  }
  if (sizes.pipeline > kMostRanks / sizes.tensor ||
      sizes.expert > kMostRanks / (sizes.tensor * sizes.pipeline)) {
    return BadFormatError(
        fmt::format("the arguments record {} tensor x {} pipeline x {} expert ranks", sizes.tensor,
                    sizes.pipeline, sizes.expert));
  }
  return sizes;
}

namespace {

struct Replacement {
  std::string_view from;
  std::string_view to;
};

// In this order, every occurrence.
constexpr Replacement kTranslations[] = {
    {"self_attention.linear_qkv.layer_norm_", "input_layernorm."},
    {"language_model.", ""},
    {"encoder", "decoder"},
    {".input_norm.", ".input_layernorm."},
    {"query_key_value", "linear_qkv"},
    {".dense.", ".linear_proj."},
    {"post_attention_norm", "pre_mlp_layernorm"},
    {"dense_h_to_4h", "linear_fc1"},
    {"dense_4h_to_h", "linear_fc2"},
    {"mlp.local_experts", "mlp.experts.local_experts"},
    {"final_norm", "final_layernorm"},
    {"word_embeddings_for_head", "output_layer"},
};
// After the others.
constexpr Replacement kCorrections[] = {
    {"mlp.linear_fc1.layer_norm_", "pre_mlp_layernorm."},
    {"post_attention_layernorm", "pre_mlp_layernorm"},
};

constexpr std::array<std::string_view, 4> kRowParts = {
    "linear_qkv", "linear_fc1", "word_embeddings.weight", "output_layer.weight"};
constexpr std::array<std::string_view, 2> kColumnParts = {"linear_fc2.weight",
                                                          "linear_proj.weight"};
// Projections of latent and of cross attention: split by rows like linear_qkv.
constexpr std::array<std::string_view, 5> kCorrectedRowParts = {
    "linear_q_proj.weight", "linear_q_up_proj.weight", "linear_kv_up_proj.weight",
    "attention.linear_q.", "attention.linear_kv."};
constexpr std::string_view kFusedLayerNorm = ".layer_norm_";

// Longer numbers in a name are not indices.
constexpr size_t kMostDigits = 9;

template <size_t kCount>
bool ContainsAny(std::string_view name, const std::array<std::string_view, kCount>& parts) {
  return std::any_of(parts.begin(), parts.end(), [name](std::string_view part) {
    return name.find(part) != std::string_view::npos;
  });
}

bool IsDigit(char c) { return c >= '0' && c <= '9'; }

struct Digits {
  size_t at = 0;
  size_t count = 0;
};

// The first run of digits between `before` and a dot.
std::optional<Digits> FindIndex(std::string_view name, std::string_view before) {
  for (size_t found = name.find(before); found != std::string_view::npos;
       found = name.find(before, found + 1)) {
    const size_t at = found + before.size();
    size_t end = at;
    while (end < name.size() && IsDigit(name[end])) {
      ++end;
    }
    if (end > at && end - at <= kMostDigits && end < name.size() && name[end] == '.') {
      return Digits{at, end - at};
    }
  }
  return std::nullopt;
}

std::optional<Digits> FindLayer(std::string_view name, bool corrected) {
  if (corrected && (name.starts_with("mtp.") || name.find(".mtp.") != std::string_view::npos)) {
    return std::nullopt;
  }
  return FindIndex(name, "layers.");
}

std::optional<int64_t> NumberAt(std::string_view name, const std::optional<Digits>& digits) {
  return digits ? base::ParseInt(name.substr(digits->at, digits->count)) : std::nullopt;
}

std::string Raise(std::string_view name, const std::optional<Digits>& digits, int64_t by) {
  const std::optional<int64_t> number = NumberAt(name, digits);
  if (!number || by == 0) {
    return std::string(name);
  }
  return fmt::format("{}{}{}", name.substr(0, digits->at), *number + by,
                     name.substr(digits->at + digits->count));
}

// "...mlp.experts.linear_fc1.weight3" becomes "...mlp.experts.local_experts.3.linear_fc1.weight".
std::string NameGroupedExpert(const std::string& name) {
  constexpr std::string_view kGroupedExperts = ".experts.";
  const size_t experts = name.find(kGroupedExperts);
  if (experts == std::string::npos) {
    return name;
  }
  const size_t layer_at = experts + kGroupedExperts.size();
  for (std::string_view layer :
       {"linear_fc1.weight", "linear_fc1.bias", "linear_fc2.weight", "linear_fc2.bias"}) {
    const std::string_view rest = std::string_view(name).substr(layer_at);
    if (!rest.starts_with(layer)) {
      continue;
    }
    const std::string_view index = rest.substr(layer.size());
    if (!index.empty() && index.size() <= kMostDigits &&
        std::all_of(index.begin(), index.end(), IsDigit)) {
      return fmt::format("{}local_experts.{}.{}", name.substr(0, layer_at), index, layer);
    }
  }
  return name;
}

}  // namespace

std::string TranslateMegatronName(std::string_view name, bool corrected) {
  std::string result(name);
  const auto apply = [&result](const Replacement& replacement) {
    if (result.find(replacement.from) != std::string::npos) {
      result = base::ReplaceAll(result, replacement.from, replacement.to);
    }
  };
  std::for_each(std::begin(kTranslations), std::end(kTranslations), apply);
  if (corrected) {
    std::for_each(std::begin(kCorrections), std::end(kCorrections), apply);
    result = NameGroupedExpert(result);
  }
  return result;
}

layout::Spread SpreadOf(std::string_view name, bool corrected, bool gated) {
  layout::Spread spread;
  if (corrected && name.find(kFusedLayerNorm) != std::string_view::npos) {
    return spread;
  }
  if (ContainsAny(name, kColumnParts) && !ContainsAny(name, kRowParts)) {
    spread.kind = layout::SpreadKind::kShard;
    spread.dimension = 1;
  } else if (ContainsAny(name, kRowParts) || (corrected && ContainsAny(name, kCorrectedRowParts))) {
    spread.kind = layout::SpreadKind::kShard;
  }
  if (corrected && gated &&
      (name.ends_with("linear_fc1.weight") || name.ends_with("linear_fc1.bias"))) {
    spread.order = layout::PartOrder::kBlocks;
    spread.blocks = 2;
  }
  return spread;
}

std::optional<int64_t> LayerOf(std::string_view name, bool corrected) {
  return NumberAt(name, FindLayer(name, corrected));
}

std::optional<int64_t> ExpertOf(std::string_view name) {
  return NumberAt(name, FindIndex(name, "experts."));
}

std::string RaiseLayer(std::string_view name, int64_t by, bool corrected) {
  return Raise(name, FindLayer(name, corrected), by);
}

std::string RaiseExpert(std::string_view name, int64_t by) {
  return Raise(name, FindIndex(name, "experts."), by);
}

namespace {

using Counts = std::vector<int64_t>;

// Layers of one part of the pipeline: more than any model has, and parts can be added up without
// overflow.
constexpr int64_t kMostLayers = 1'000'000'000;

std::vector<int64_t> Starts(const Counts& counts) {
  std::vector<int64_t> starts(counts.size(), 0);
  std::exclusive_scan(counts.begin(), counts.end(), starts.begin(), int64_t{0});
  return starts;
}

// Every part has room for the layers that its file holds.
bool Fits(const Counts& candidate, const StageLayers& layers) {
  if (candidate.size() != layers.counts.size()) {
    return false;
  }
  for (size_t i = 0; i < candidate.size(); ++i) {
    if (layers.counts[i].value_or(0) > candidate[i]) {
      return false;
    }
  }
  return true;
}

// num_layer_list: "3,5" or "[3, 5]", one number per part.
Counts ListedCounts(const MegatronArgs& args) {
  Counts counts;
  std::string_view text = base::Trim(args.Text("num_layer_list"));
  if (text.starts_with('[') && text.ends_with(']')) {
    text = text.substr(1, text.size() - 2);
  }
  for (std::string_view part : base::Split(text, ',')) {
    const std::optional<int64_t> count = base::ParseInt(base::Trim(part));
    if (!count || *count < 0 || *count > kMostLayers) {
      return {};
    }
    counts.push_back(*count);
  }
  return counts;
}

std::optional<int64_t> FirstGiven(const MegatronArgs& args, std::string_view name,
                                  std::string_view other_name) {
  const std::optional<int64_t> value = args.Integer(name);
  return value ? value : args.Integer(other_name);
}

// num_layers spread evenly over all parts but the first and last stage's where those have numbers
// of their own. Nothing when it does not come out even.
Counts SpreadCounts(const StageLayers& layers, const MegatronArgs& args, int64_t total) {
  const std::optional<int64_t> first =
      FirstGiven(args, "num_layers_in_first_pipeline_stage", "decoder_first_pipeline_num_layers");
  const std::optional<int64_t> last =
      FirstGiven(args, "num_layers_in_last_pipeline_stage", "decoder_last_pipeline_num_layers");
  const auto parts = static_cast<int64_t>(layers.counts.size());
  const int64_t virtual_stages = parts / layers.stages;
  const int64_t others = layers.stages - static_cast<int64_t>(first.has_value()) -
                         static_cast<int64_t>(last.has_value());
  if (first.value_or(0) < 0 || last.value_or(0) < 0 || others < 0 || first.value_or(0) > total ||
      last.value_or(0) > total - first.value_or(0)) {
    return {};
  }
  const int64_t rest = total - first.value_or(0) - last.value_or(0);
  const int64_t other_parts = others * virtual_stages;
  if ((other_parts == 0 && rest != 0) || (other_parts > 0 && rest % other_parts != 0) ||
      first.value_or(0) % virtual_stages != 0 || last.value_or(0) % virtual_stages != 0) {
    return {};
  }
  Counts counts;
  for (int64_t part = 0; part < parts; ++part) {
    const int64_t stage = part % layers.stages;
    if (stage == 0 && first) {
      counts.push_back(*first / virtual_stages);
    } else if (stage == layers.stages - 1 && last) {
      counts.push_back(*last / virtual_stages);
    } else {
      counts.push_back(rest / other_parts);
    }
  }
  return counts;
}

}  // namespace

std::vector<int64_t> FirstLayers(const StageLayers& layers, const MegatronArgs& args,
                                 std::vector<std::string>& warnings) {
  Counts counted;
  int64_t known_total = 0;
  int64_t longest = 0;
  bool complete = true;
  for (const std::optional<int64_t>& count : layers.counts) {
    counted.push_back(count.value_or(0));
    known_total += counted.back();
    longest = std::max(longest, counted.back());
    complete = complete && count.has_value();
  }
  const std::optional<int64_t> recorded = args.Integer("num_layers");
  if (complete && (!recorded || known_total == *recorded)) {
    return Starts(counted);
  }
  if (const Counts listed = ListedCounts(args); Fits(listed, layers)) {
    return Starts(listed);
  }
  if (recorded && *recorded >= 0) {
    if (const Counts spread = SpreadCounts(layers, args, *recorded); Fits(spread, layers)) {
      return Starts(spread);
    }
  }
  if (complete) {
    warnings.push_back(fmt::format(
        "args record {} layers, the files hold {}: layers are numbered as they were found",
        *recorded, known_total));
    return Starts(counted);
  }
  for (size_t i = 0; i < counted.size(); ++i) {
    counted[i] = layers.counts[i].value_or(longest);
  }
  warnings.push_back(fmt::format(
      "the layers of a missing pipeline stage are unknown: {} are assumed, as in the longest one",
      longest));
  return Starts(counted);
}

std::vector<int64_t> EvenFirstLayers(const StageLayers& layers) {
  // One layer where the first stage has none, so that stages stay apart. The Python tool takes all
  // virtual stages of the first stage together.
  int64_t count = 0;
  for (size_t stage = 0; count == 0 && stage < static_cast<size_t>(layers.stages); ++stage) {
    for (size_t part = stage; part < layers.counts.size();
         part += static_cast<size_t>(layers.stages)) {
      count = std::max(count, layers.counts[part].value_or(0));
    }
    if (layers.counts[stage].has_value()) {
      break;
    }
  }
  return Starts(Counts(layers.counts.size(), std::max<int64_t>(count, 1)));
}

}  // namespace msprobe::checkpoint
