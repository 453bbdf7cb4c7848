#include "src/checkpoint/megatron/args.h"

#include <algorithm>
#include <array>

#include <fmt/format.h>

#include "src/base/numbers.h"

namespace msprobe::checkpoint {
namespace {

// Of a whole checkpoint: a number in the arguments, which costs a file nothing.
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

}  // namespace msprobe::checkpoint
