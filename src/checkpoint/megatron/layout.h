// Where the files of a Megatron checkpoint lie: in an iteration's folder one folder per rank.
#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "msprobe/status.h"
#include "msprobe/tensor_file.h"

#include "src/checkpoint/checkpoint.h"
#include "src/layout/placement.h"

namespace msprobe::checkpoint {

// How many ranks share one layer's tensors, the layers, and the experts.
struct ParallelSizes {
  int64_t tensor = 1;
  int64_t pipeline = 1;
  int64_t expert = 1;
};

struct RankPlace {
  int64_t tensor = 0;
  int64_t pipeline = 0;
  int64_t expert = 0;
};

// mp_rank_TT, then _PPP and _EEE where there is more than one of them.
std::string RankFolderName(const ParallelSizes& sizes, const RankPlace& place);

// The one to three numbers of a rank folder's name; nothing for other names.
std::optional<std::vector<int64_t>> ParseRankFolderName(std::string_view name);

// Names of all rank folders, sorted.
Result<std::vector<std::string>> ListRankFolders(const std::filesystem::path& folder);

// The file with the model's tensors in a rank folder; the usual one when there is none.
std::filesystem::path RankFile(const std::filesystem::path& rank_folder);

// The training arguments that Megatron keeps in every rank file, as plain values.

class MegatronArgs {
 public:
  MegatronArgs() = default;
  // Reads the file's `args` entry, an object or a dict; empty if there is none.
  explicit MegatronArgs(const TensorFile& file);

  bool empty() const { return values_.empty(); }
  // Also whether it is recorded as None.
  bool Has(std::string_view name) const;
  // Nothing when absent, None or of another type.
  std::optional<int64_t> Integer(std::string_view name) const;
  bool Flag(std::string_view name) const;              // false when absent
  std::string_view Text(std::string_view name) const;  // of any plain value; "" when absent or None

 private:
  struct Value {
    std::string type;
    std::string text;
  };
  const Value* Find(std::string_view name) const;

  std::unordered_map<std::string, Value> values_;
};

ModelFacts FactsFromArgs(const MegatronArgs& args);

// From the arguments; what they do not tell, from the numbers in the rank folders' names. Fails for
// sizes that no machine has. `second_is_expert` decides what a second number means when the
// arguments do not.
Result<ParallelSizes> FindParallelSizes(const MegatronArgs& args,
                                        const std::vector<std::string>& rank_folders,
                                        bool second_is_expert);

// Names of Megatron's parameters: from every naming style to one, and the numbers inside them.

// To the names of megatron.core's local layers: "language_model.encoder.layers.3.mlp.dense_h_to_4h"
// becomes "decoder.layers.3.mlp.linear_fc1". Without `corrected` only what the Python tool
// translates; with it also the layer norm inside TransformerEngine's fc1, the legacy
// post_attention_layernorm, and the experts of TransformerEngine's grouped layers.
std::string TranslateMegatronName(std::string_view name, bool corrected);

// How the tensor ranks share the parameter of a translated name: copies, or parts along axis 0
// or 1. `gated`: the model's fc1 holds gate and up, of which every rank has a part each, one below
// the other.
layout::Spread SpreadOf(std::string_view name, bool corrected, bool gated);

// L of the first "layers.L."; with `corrected` none for layers that are numbered by themselves
// (multi-token prediction).
std::optional<int64_t> LayerOf(std::string_view name, bool corrected);
// X of the first "experts.X.".
std::optional<int64_t> ExpertOf(std::string_view name);

// The names with that number raised; unchanged without such a number.
std::string RaiseLayer(std::string_view name, int64_t by, bool corrected);
std::string RaiseExpert(std::string_view name, int64_t by);

// The layer of the whole model with which each pipeline stage begins. Rank files number layers from
// 0 in every stage, so that names of the whole model need the layers of all stages before: counted
// in the files, because arguments need not tell how uneven stages are.

// The facts in the files about one part of the pipeline: stage p of virtual stage v is number
// v * stages + p, the order in which the layers follow each other.
struct StageLayers {
  std::vector<std::optional<int64_t>> counts;  // one per part; nothing where no file was readable
  int64_t stages = 1;
};

// The first layer of every part. Layers are counted where all parts are known; where a stage is
// missing, or holds layers without parameters, the arguments decide (num_layers, layers in the
// first and last stage, a list of layers). `warnings` gets a line where counts and arguments
// contradict each other.
std::vector<int64_t> FirstLayers(const StageLayers& layers, const MegatronArgs& args,
                                 std::vector<std::string>& warnings);

// As the Python tool counts: every part is as long as the first one.
std::vector<int64_t> EvenFirstLayers(const StageLayers& layers);

}  // namespace msprobe::checkpoint
