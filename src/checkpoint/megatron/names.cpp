#include "src/checkpoint/megatron/names.h"

#include <algorithm>
#include <array>

#include <fmt/format.h>

#include "src/base/numbers.h"
#include "src/base/strings.h"

namespace msprobe::checkpoint {
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

// Longer numbers in a name are no indices.
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

Sharding ShardingOf(std::string_view name, bool corrected, bool gated) {
  if (corrected && name.find(kFusedLayerNorm) != std::string_view::npos) {
    return Sharding::kCopies;
  }
  if (ContainsAny(name, kRowParts)) {
    const bool is_gated =
        corrected && gated &&
        (name.ends_with("linear_fc1.weight") || name.ends_with("linear_fc1.bias"));
    return is_gated ? Sharding::kGatedRows : Sharding::kRows;
  }
  if (ContainsAny(name, kColumnParts)) {
    return Sharding::kColumns;
  }
  return corrected && ContainsAny(name, kCorrectedRowParts) ? Sharding::kRows : Sharding::kCopies;
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

}  // namespace msprobe::checkpoint
