// Pairs rows of a training with rows of an inference engine.
//
// A row's key is (layer number, path below the layer with the names of both frameworks mapped to
// one form, kind of row, index). One side has fused projections (qkv, gate and up), the other
// their parts: rows with one key are joined by a full outer join into units, and the rows of the
// side that has the parts are merged into one row per unit. Units keep the order of the test
// side; units of the reference alone precede the first pair that follows them in the reference.
#include "src/analysis/compare/training_inference.h"

#include <algorithm>
#include <limits>
#include <optional>
#include <unordered_map>
#include <utility>
#include <vector>

#include "src/analysis/compare/mapping.h"
#include "src/analysis/compare/result_table.h"
#include "src/base/numbers.h"
#include "src/base/strings.h"
#include "src/dump/names.h"

namespace msprobe::analysis::compare {
namespace {

constexpr std::string_view kWrapped = "_fsdp_wrapped_module.";
constexpr std::string_view kLayers = "layers.";

struct Renamed {
  std::string_view training;
  std::string_view inference;
};
constexpr Renamed kFsdpModules[] = {{"q_proj", "qkv_proj"},
                                    {"k_proj", "qkv_proj"},
                                    {"v_proj", "qkv_proj"},
                                    {"gate_proj", "gate_up_proj"},
                                    {"up_proj", "gate_up_proj"}};
constexpr Renamed kMegatronModules[] = {
    {"word_embeddings", "embed_tokens"}, {"self_attention", "self_attn"},
    {"linear_qkv", "qkv_proj"},          {"q_layernorm", "q_norm"},
    {"k_layernorm", "k_norm"},           {"core_attention", "attn"},
    {"linear_proj", "o_proj"},           {"router", "gate"},
    {"linear_fc1", "gate_up_proj"},      {"linear_fc2", "down_proj"}};

// The key by which a row is found on the other side.
struct Key {
  int64_t layer = -1;
  std::string module;
  std::string call;      // "forward.0"
  std::string argument;  // "input.0"
  bool operator==(const Key&) const = default;
};

struct KeyHash {
  size_t operator()(const Key& key) const {
    const std::hash<std::string_view> text;
    size_t hash = std::hash<int64_t>()(key.layer);
    for (const std::string_view part : {std::string_view(key.module), std::string_view(key.call),
                                        std::string_view(key.argument)}) {
      hash = hash * 31 + text(part);
    }
    return hash;
  }
};

// The number behind "layers.", and where the text behind "layers.<n>." begins; nullopt: no layer.
struct LayerPlace {
  int64_t number = 0;
  size_t behind = 0;
};
std::optional<LayerPlace> FindLayer(std::string_view module) {
  for (size_t at = module.find(kLayers); at != std::string_view::npos;
       at = module.find(kLayers, at + 1)) {
    const size_t begin = at + kLayers.size();
    const size_t end = std::min(module.find('.', begin), module.size());
    if (const auto number = base::ParseInt(module.substr(begin, end - begin));
        number && end > begin) {
      return LayerPlace{*number, std::min(end + 1, module.size())};
    }
  }
  return std::nullopt;
}

std::string_view Behind(std::string_view text, std::string_view mark) {
  const size_t at = text.rfind(mark);
  return at == std::string_view::npos ? text : text.substr(at + mark.size());
}

// The path below its layer, without the class: "self_attn.q_proj".
std::string_view WithoutClass(std::string_view path) {
  const size_t dot = path.rfind('.');
  return dot == std::string_view::npos ? std::string_view() : path.substr(0, dot);
}

class Keys {
 public:
  Keys(TrainingBackend backend, TextMap modules)
      : backend_(backend), modules_(std::move(modules)) {}

  // A key per row of the side; none for rows of other calls than modules'.
  std::vector<std::optional<Key>> Of(const Side& side, bool is_training) const {
    std::unordered_map<std::string_view, uint64_t> calls;  // by entry name without its number
    std::vector<std::optional<Key>> keys(side.rows.size());
    for (const SideEntry& entry : side.entries) {
      const size_t forward = entry.name.find(".forward.");
      const size_t at = forward == std::string_view::npos ? entry.name.find(".backward.") : forward;
      if (at == std::string_view::npos) {
        continue;
      }
      // "Module.model.layers.0.mlp.Qwen2MLP" and "forward.0"
      const std::string_view module = entry.name.substr(0, at);
      const std::string_view call = entry.name.substr(at + 1);
      const std::optional<LayerPlace> layer = FindLayer(module);
      Key key;
      key.layer = layer ? layer->number : -1;
      key.module = is_training ? Translated(TrainingModule(module, layer))
                               : std::string(InferenceModule(module, layer));
      key.call = call;
      if (is_training) {
        const std::string_view direction = call.substr(0, call.find('.'));
        const uint64_t number = calls[entry.name.substr(0, at + 1 + direction.size())]++;
        key.call = std::string(direction) + "." + std::to_string(number);
      }
      for (uint32_t row = entry.first_row; row < entry.first_row + entry.row_count; ++row) {
        const std::string_view name = side.rows[row].name;
        if (name.starts_with(entry.name) && name.size() > entry.name.size() + 1) {
          key.argument = name.substr(entry.name.size() + 1);
          keys[row] = key;
        }
      }
    }
    return keys;
  }

 private:
  std::string_view TrainingModule(std::string_view module,
                                  const std::optional<LayerPlace>& layer) const {
    std::string_view path = backend_ == TrainingBackend::kFsdp ? Behind(module, kWrapped)
                            : layer                            ? module.substr(layer->behind)
                                                               : module;
    path = WithoutClass(Behind(path, "module.module."));
    const size_t dot = path.find('.');
    return dot == std::string_view::npos ? path : path.substr(dot + 1);
  }

  std::string_view InferenceModule(std::string_view module,
                                   const std::optional<LayerPlace>& layer) const {
    const std::string_view path =
        WithoutClass(layer ? module.substr(layer->behind) : Behind(module, "Module.model."));
    const size_t dot = backend_ == TrainingBackend::kFsdp ? path.rfind('.') : path.find('.');
    return dot == std::string_view::npos ? path : path.substr(dot + 1);
  }

  std::string Translated(std::string_view module) const {
    if (const auto own = modules_.find(module); own != modules_.end()) {
      return own->second;
    }
    const auto in = [&](const auto& table) -> std::string_view {
      for (const Renamed& renamed : table) {
        if (renamed.training == module) {
          return renamed.inference;
        }
      }
      return module;
    };
    return std::string(backend_ == TrainingBackend::kFsdp ? in(kFsdpModules)
                                                          : in(kMegatronModules));
  }

  const TrainingBackend backend_;
  const TextMap modules_;
};

// One line of the result: rows of both sides, by index into the sides as loaded.
struct Unit {
  std::vector<uint32_t> npu;
  std::vector<uint32_t> bench;
};

struct RowsOfOneKey {
  std::vector<uint32_t> rows;
  // For NPU rows: whether it is decided how they pair, whether one by one, and how many did.
  bool decided = false;
  bool in_order = false;
  size_t paired = 0;
};
using RowsOfKey = std::unordered_map<Key, RowsOfOneKey, KeyHash>;

RowsOfKey Collect(const std::vector<std::optional<Key>>& keys) {
  RowsOfKey rows;
  for (uint32_t i = 0; i < keys.size(); ++i) {
    if (keys[i]) {
      rows[*keys[i]].rows.push_back(i);
    }
  }
  return rows;
}

// The longest texts that one of these rows brings into a row that is merged of them.
size_t LongestTexts(const Side& side, const std::vector<uint32_t>& rows) {
  size_t longest = 0;
  for (const uint32_t i : rows) {
    const SideRow& row = side.rows[i];
    longest = std::max(
        longest, row.name.size() + row.dtype.size() + row.shape.size() + row.data_name.size());
  }
  return longest;
}

// Full outer join. The side whose rows are merged has several rows per unit; where a key repeats on
// both sides, each unit of the one has all rows of the other, as long as the budget allows that.
std::vector<Unit> Join(const Side& npu_side, const std::vector<std::optional<Key>>& npu,
                       const Side& bench_side, const std::vector<std::optional<Key>>& bench,
                       bool merge_npu, PairBudget& budget) {
  RowsOfKey npu_rows = Collect(npu);
  const RowsOfKey bench_rows = Collect(bench);
  std::vector<Unit> units;
  std::vector<bool> used(bench.size(), false);
  for (uint32_t row = 0; row < npu.size(); ++row) {
    const auto found = npu[row] ? bench_rows.find(*npu[row]) : bench_rows.end();
    if (found == bench_rows.end()) {
      units.push_back({{row}, {}});
      continue;
    }
    const std::vector<uint32_t>& others = found->second.rows;
    RowsOfOneKey& same = npu_rows.find(*npu[row])->second;
    if (!same.decided) {
      same.decided = true;
      same.in_order = !budget.Take(
          same.rows.size(), others.size(),
          std::max(LongestTexts(npu_side, same.rows), LongestTexts(bench_side, others)));
      if (same.in_order) {
        budget.Refuse(npu_side.rows[row].name, same.rows.size(), others.size());
      } else {
        for (const uint32_t other : others) {
          used[other] = true;
        }
      }
    }
    if (same.in_order) {
      const size_t place = same.paired++;
      if (place < others.size()) {
        used[others[place]] = true;
        units.push_back({{row}, {others[place]}});
      } else {
        units.push_back({{row}, {}});
      }
    } else if (!merge_npu) {
      units.push_back({{row}, others});
    } else if (same.rows[0] == row) {
      for (const uint32_t other : others) {
        units.push_back({same.rows, {other}});
      }
    }
  }
  for (uint32_t row = 0; row < bench.size(); ++row) {
    if (!used[row]) {
      units.push_back({{}, {row}});
    }
  }
  return units;
}

// Both orders kept where they agree, target order where they do not: rows of the bench alone stand
// in front of the first pair that follows them there.
std::vector<Unit> Ordered(std::vector<Unit> units) {
  std::vector<Unit> ordered;
  ordered.reserve(units.size());
  const auto first_alone =
      std::find_if(units.begin(), units.end(), [](const Unit& unit) { return unit.npu.empty(); });
  auto alone = first_alone;
  for (auto unit = units.begin(); unit != first_alone; ++unit) {
    if (!unit->bench.empty()) {
      for (; alone != units.end() && alone->bench[0] < unit->bench[0]; ++alone) {
        ordered.push_back(std::move(*alone));
      }
    }
    ordered.push_back(std::move(*unit));
  }
  std::move(alone, units.end(), std::back_inserter(ordered));
  return ordered;
}

class RowMerger {
 public:
  RowMerger(Side& side, std::string_view name_separator)
      : side_(side), name_separator_(name_separator) {}

  SideRow Merge(const std::vector<uint32_t>& rows) {
    SideRow merged = side_.rows[rows[0]];
    if (rows.size() == 1) {
      return merged;
    }
    merged.name = Joined(rows, name_separator_, [](const SideRow& row) { return row.name; });
    merged.dtype = Joined(rows, ";", [](const SideRow& row) { return row.dtype; });
    merged.shape = Joined(rows, ";", [](const SideRow& row) { return row.shape; });
    merged.data_name = Joined(rows, ";", [](const SideRow& row) { return row.data_name; });
    for (const uint32_t row : rows) {
      TakeExtreme(side_.rows[row].stats[kMax], true, merged.stats[kMax]);
      TakeExtreme(side_.rows[row].stats[kMin], false, merged.stats[kMin]);
    }
    for (const Stat stat : {kMean, kNorm}) {
      std::string text;
      for (const uint32_t row : rows) {
        text += (text.empty() ? "" : ";") + StatText(side_.rows[row].stats[stat]);
      }
      merged.stats[stat] = StatValue();
      merged.stats[stat].SetText(side_.Keep(text));
    }
    return merged;
  }

 private:
  template <typename TextOf>
  std::string_view Joined(const std::vector<uint32_t>& rows, std::string_view separator,
                          TextOf&& text_of) {
    std::string text;
    for (const uint32_t row : rows) {
      text += row == rows[0] ? std::string_view() : separator;
      text += text_of(side_.rows[row]);
    }
    return side_.Keep(text);
  }

  static void TakeExtreme(const StatValue& stat, bool largest, StatValue& extreme) {
    if (stat.is_numeric() && (!extreme.is_numeric() || (largest ? stat.number > extreme.number
                                                                : stat.number < extreme.number))) {
      extreme = stat;
    }
  }

  Side& side_;
  const std::string_view name_separator_;
};

// Rewrites the side's rows as the units' and returns the new index of each unit's row; entries keep
// their rows together, in their order.
std::vector<uint32_t> MergeRows(const std::vector<Unit>& units,
                                std::vector<uint32_t> Unit::*rows_of, std::string_view separator,
                                Side& side) {
  RowMerger merger(side, separator);
  struct Placed {
    uint32_t first = 0;  // row as loaded
    uint32_t unit = 0;
    SideRow row;
  };
  std::vector<Placed> placed;
  for (uint32_t i = 0; i < units.size(); ++i) {
    const std::vector<uint32_t>& rows = units[i].*rows_of;
    if (!rows.empty()) {
      placed.push_back({rows[0], i, merger.Merge(rows)});
    }
  }
  std::stable_sort(placed.begin(), placed.end(),
                   [](const Placed& a, const Placed& b) { return a.first < b.first; });
  std::vector<uint32_t> index(units.size(), kNoRow);
  std::vector<SideRow> rows;
  rows.reserve(placed.size());
  for (SideEntry& entry : side.entries) {
    entry.row_count = 0;
  }
  for (const Placed& place : placed) {
    const auto at = static_cast<uint32_t>(rows.size());
    SideEntry& entry = side.entries[place.row.entry];
    if (entry.row_count++ == 0) {
      entry.first_row = at;
    }
    index[place.unit] = at;
    rows.push_back(place.row);
  }
  side.rows = std::move(rows);
  return index;
}

bool IsWholeModel(TrainingBackend backend, std::string_view class_name) {
  if (backend == TrainingBackend::kMegatron) {
    return class_name == "GPTModel";
  }
  return class_name == "Qwen2Model" || class_name == "Qwen3Model" || class_name == "Qwen3MoeModel";
}

}  // namespace

std::function<bool(std::string_view)> ForwardPassFilter(TrainingBackend backend, bool strict) {
  return [backend, strict, paused = false](std::string_view entry_name) mutable {
    const dump::EntryName name = dump::ParseEntryName(entry_name);
    if (!name.is_module) {
      return !paused;
    }
    if (name.direction == dump::Direction::kBackward) {
      paused = paused || strict || IsWholeModel(backend, name.class_name);
    } else if (name.direction == dump::Direction::kForward) {
      const std::string_view embedding =
          backend == TrainingBackend::kMegatron ? "VocabParallelEmbedding" : "Embedding";
      const bool is_embedding = strict ? name.class_name.find("Embedding") != std::string_view::npos
                                       : name.class_name == embedding;
      paused = paused && !is_embedding;
    }
    return !paused;
  };
}

Result<MatchResult> MatchTrainingWithInference(const V26Options& options, bool for_workbook,
                                               Side& npu, Side& bench, PairResult& result) {
  const TrainingBackend backend = options.backend;
  MSP_ASSIGN_OR_RETURN(TextMap modules, LoadTextMap(options.module_mapping));
  const Keys keys(backend, std::move(modules));
  const bool merge_npu = backend == TrainingBackend::kFsdp;
  PairBudget budget(npu.rows.size(), bench.rows.size());
  const std::vector<Unit> units =
      Ordered(Join(npu, keys.Of(npu, true), bench, keys.Of(bench, false), merge_npu, budget));
  const std::string_view separator = for_workbook ? ";\n" : ";  ";
  const std::vector<uint32_t> npu_rows = MergeRows(units, &Unit::npu, separator, npu);
  const std::vector<uint32_t> bench_rows = MergeRows(units, &Unit::bench, separator, bench);
  MatchResult matches;
  for (size_t i = 0; i < units.size(); ++i) {
    if (npu_rows[i] != kNoRow) {
      matches.pairs.push_back(
          {npu_rows[i], bench_rows[i],
           bench_rows[i] == kNoRow ? MatchOutcome::kNoBenchRow : MatchOutcome::kMatched});
    } else {
      result.shown_bench_only.push_back(
          {static_cast<uint32_t>(matches.pairs.size()), bench_rows[i]});
    }
  }
  matches.bench_only_count = result.shown_bench_only.size();
  matches.warnings = budget.Warnings();
  return matches;
}

}  // namespace msprobe::analysis::compare
