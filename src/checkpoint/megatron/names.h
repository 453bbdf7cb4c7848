// Names of Megatron's parameters: from every naming style to one, and the numbers inside them.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace msprobe::checkpoint {

// To the names of megatron.core's local layers: "language_model.encoder.layers.3.mlp.dense_h_to_4h"
// becomes "decoder.layers.3.mlp.linear_fc1". Without `corrected` only what the Python tool
// translates; with it also the layer norm inside TransformerEngine's fc1, the legacy
// post_attention_layernorm, and the experts of TransformerEngine's grouped layers.
std::string TranslateMegatronName(std::string_view name, bool corrected);

// How the tensor ranks share a parameter.
enum class Sharding {
  kRows,       // joined along axis 0
  kGatedRows,  // the same, but every rank has a part of the gate above its part of the rest
  kColumns,    // joined along axis 1
  kCopies,     // every rank has all of it
};
// Of a translated name. `gated`: the model's fc1 holds gate and up.
Sharding ShardingOf(std::string_view name, bool corrected, bool gated);

// L of the first "layers.L."; with `corrected` none for layers that are numbered by themselves
// (multi-token prediction).
std::optional<int64_t> LayerOf(std::string_view name, bool corrected);
// X of the first "experts.X.".
std::optional<int64_t> ExpertOf(std::string_view name);

// The names with that number raised; unchanged without such a number.
std::string RaiseLayer(std::string_view name, int64_t by, bool corrected);
std::string RaiseExpert(std::string_view name, int64_t by);

}  // namespace msprobe::checkpoint
