// Layer mapping: calls pair by where they stand in the model. A scope is the path of modules around
// an entry, made of construct.json and, for API calls, of stack frames; rules per module type
// translate the paths of one framework to the other's; the k-th call under a path pairs with the
// k-th under the translated path.
#include <algorithm>
#include <optional>
#include <string>
#include <string_view>
#include <unordered_map>
#include <unordered_set>
#include <utility>

#include <nlohmann/json.hpp>

#include "src/analysis/compare/mapping.h"
#include "src/analysis/compare/side.h"
#include "src/base/numbers.h"
#include "src/base/strings.h"
#include "src/dump/layout.h"
#include "src/dump/names.h"
#include "src/dump/stack_file.h"
#include "src/json/config.h"

namespace msprobe::analysis::compare {
namespace {

using Parts = std::vector<std::string_view>;

// The type name of a model's root, and the first part of the path of calls outside of all modules.
constexpr std::string_view kTopLayer = "TopLayer";

enum class ScopeState : uint8_t { kForward, kBackward, kParametersGrad };

// Where one entry stands in the model.
struct EntryScope {
  std::string path;  // "Cell.network.layers.0.attention.qkv_proj", "TopLayer.outer"; empty: unknown
  std::string type_name;  // a module's class, an API's own name
  ScopeState state = ScopeState::kForward;

  // The path without its first part: the same in both frameworks when the modules have the same
  // names.
  std::string_view relative_path() const {
    const size_t dot = path.find('.');
    return dot == std::string::npos ? std::string_view() : std::string_view(path).substr(dot + 1);
  }
};

std::string JoinParts(const Parts& parts, size_t count) {
  std::string joined;
  for (size_t i = 0; i < count; ++i) {
    if (i > 0) {
      joined += '.';
    }
    joined += parts[i];
  }
  return joined;
}

std::optional<ScopeState> StateOf(std::string_view part) {
  if (part == "forward") {
    return ScopeState::kForward;
  }
  if (part == "backward") {
    return ScopeState::kBackward;
  }
  return std::nullopt;
}

struct Frame {
  std::string_view file;
  std::string_view function;
};

// "File a.py, line 1, in f, \n y = x"
Frame ParseFrame(std::string_view text) {
  Frame frame;
  const Parts fields = base::Split(text, ',');
  frame.file = fields[0];
  if (fields.size() > 2) {
    const Parts words = base::Split(base::Trim(fields[2]), ' ');
    frame.function = words.size() > 1 ? words[1] : std::string_view();
  }
  return frame;
}

bool IsModelFrame(std::string_view frame, Framework framework) {
  return framework == Framework::kMindSpore
             ? base::ContainsAny(frame, {"in construct"})
             : base::ContainsAny(frame, {"in forward,", "in backward,"});
}

// The framework's own function through which the model made this call: the outermost of the
// framework's frames that stand between the recording hook ("Template" frames) and the model's
// code. Empty when there is none.
std::string_view FrameScope(const std::vector<std::string>& frames, Framework framework) {
  size_t end = 0;
  size_t begin = 0;
  for (; end < frames.size() && !IsModelFrame(frames[end], framework); ++end) {
    if (frames[end].find("Template") != std::string::npos) {
      begin = end + 1;
    }
  }
  std::string_view scope;
  for (size_t i = begin; i < end; ++i) {
    const Frame frame = ParseFrame(frames[i]);
    if (!base::ContainsAny(frame.file, {"site-packages/torch", "package/torch",
                                        "site-packages/mindspore", "package/mindspore"})) {
      break;
    }
    const bool plumbing = base::ContainsAny(frame.file, {"msprobe", "MindSpeed"}) ||
                          frame.function == "construct" || frame.function == "__call__";
    if (!plumbing) {
      scope = frame.function;
    }
  }
  return scope;
}

// "Cell.<path>.<Class>.<state>.<call>" or "Cell.<path>.<Class>.parameters_grad"; at least four
// parts.
std::optional<EntryScope> ModuleScope(const Parts& parts) {
  const size_t count = parts.size();
  EntryScope scope;
  if (parts.back() == "parameters_grad") {
    scope.state = ScopeState::kParametersGrad;
    scope.type_name = parts[count - 2];
    scope.path = JoinParts(parts, count - 2);
    return scope;
  }
  const std::optional<ScopeState> state = StateOf(parts[count - 2]);
  if (!state) {
    return std::nullopt;
  }
  scope.state = *state;
  scope.type_name = parts[count - 3];
  scope.path = JoinParts(parts, count - 3);
  return scope;
}

// "<kind>.<api>.<call>.<state>"; at least four parts.
std::optional<EntryScope> ApiScope(const Parts& parts, std::string_view parent,
                                   std::string_view frame_scope) {
  const std::optional<ScopeState> state = StateOf(parts.back());
  if (!state) {
    return std::nullopt;
  }
  EntryScope scope;
  scope.state = *state;
  scope.type_name = parts[parts.size() - 3];
  const Parts parent_parts = base::Split(parent, '.');
  scope.path = parent_parts.size() > 3 ? JoinParts(parent_parts, parent_parts.size() - 3)
                                       : std::string(kTopLayer);
  if (!frame_scope.empty()) {
    scope.path.append(".").append(frame_scope);
  }
  scope.path.append(".").append(scope.type_name);
  return scope;
}

// A backward call stands where its forward call stood.
void TakeForwardPaths(const Side& side, std::vector<EntryScope>& scopes) {
  std::unordered_map<std::string_view, size_t> index_of_name;
  index_of_name.reserve(side.entries.size());
  for (size_t i = 0; i < side.entries.size(); ++i) {
    index_of_name.emplace(side.entries[i].name, i);
  }
  for (size_t i = 0; i < scopes.size(); ++i) {
    if (scopes[i].state != ScopeState::kBackward || scopes[i].path.empty()) {
      continue;
    }
    const auto forward =
        index_of_name.find(dump::WithDirection(side.entries[i].name, dump::Direction::kForward));
    if (forward != index_of_name.end() && !scopes[forward->second].path.empty()) {
      scopes[i].path = scopes[forward->second].path;
    }
  }
}

// Calls visit(prefix_length, digits_begin, digits_end, number) for every numbered layer below one
// of `stacks` ("<path>.layers").
template <typename Visit>
void ForEachLayerNumber(const std::unordered_set<std::string>& stacks, const std::string& path,
                        Visit&& visit) {
  constexpr std::string_view kLayers = ".layers.";
  for (size_t at = path.find(kLayers); at != std::string::npos; at = path.find(kLayers, at + 1)) {
    const size_t prefix_length = at + kLayers.size() - 1;
    if (!stacks.contains(path.substr(0, prefix_length))) {
      continue;
    }
    const size_t segment_end = std::min(path.find('.', prefix_length + 1), path.size());
    const size_t begin = path.find_first_of("0123456789", prefix_length + 1);
    size_t end = begin;
    while (end < segment_end && path[end] >= '0' && path[end] <= '9') {
      ++end;
    }
    if (begin >= segment_end) {
      continue;
    }
    const std::string_view digits = std::string_view(path).substr(begin, end - begin);
    if (const std::optional<int64_t> number = base::ParseInt(digits)) {
      visit(prefix_length, begin, end, *number);
    }
  }
}

// Pipeline stages number their layers from the stage's first one: every ParallelTransformer's
// layers start at 0.
void RenumberLayers(std::vector<EntryScope>& scopes) {
  std::unordered_set<std::string> stacks;
  for (const EntryScope& scope : scopes) {
    if (scope.type_name == "ParallelTransformer" && !scope.path.empty()) {
      stacks.insert(scope.path + ".layers");
    }
  }
  if (stacks.empty()) {
    return;
  }
  std::unordered_map<std::string, int64_t> smallest;
  for (const EntryScope& scope : scopes) {
    ForEachLayerNumber(
        stacks, scope.path, [&](size_t prefix_length, size_t, size_t, int64_t number) {
          const auto [entry, added] = smallest.emplace(scope.path.substr(0, prefix_length), number);
          if (!added) {
            entry->second = std::min(entry->second, number);
          }
        });
  }
  for (EntryScope& scope : scopes) {
    std::string renumbered;
    size_t copied = 0;
    ForEachLayerNumber(
        stacks, scope.path, [&](size_t prefix_length, size_t begin, size_t end, int64_t number) {
          renumbered.append(scope.path, copied, begin - copied);
          renumbered += std::to_string(number - smallest[scope.path.substr(0, prefix_length)]);
          copied = end;
        });
    if (copied > 0) {
      renumbered.append(scope.path, copied);
      scope.path = std::move(renumbered);
    }
  }
}

// One scope per entry, in entry order. `stack` may be null; frames in its newer layout count only
// with `grouped_frames`. Entries whose names follow no known form are counted in one warning and
// have no path.
std::vector<EntryScope> ScopesOf(const Side& side, const dump::ConstructFile& construct,
                                 const dump::StackFile* stack, bool grouped_frames,
                                 std::vector<std::string>& warnings) {
  const bool use_frames = stack != nullptr && (!stack->grouped_layout() || grouped_frames);
  std::vector<EntryScope> scopes;
  scopes.reserve(side.entries.size());
  size_t unknown = 0;
  std::string_view first_unknown;
  for (const SideEntry& entry : side.entries) {
    const Parts parts = base::Split(entry.name, '.');
    std::optional<EntryScope> scope;
    if (parts.size() >= 4) {
      if (parts[0] == "Cell" || parts[0] == "Module" || parts.back() == "parameters_grad") {
        scope = ModuleScope(parts);
      } else {
        std::string_view frame_scope;
        if (use_frames && parts[0] != "Primitive" && parts[0] != "Jit") {
          const std::vector<std::string>* frames = stack->Find(entry.name);
          frame_scope = frames == nullptr ? "" : FrameScope(*frames, side.framework);
        }
        scope = ApiScope(parts, construct.ParentOf(entry.name), frame_scope);
      }
    }
    if (!scope && unknown++ == 0) {
      first_unknown = entry.name;
    }
    scopes.push_back(scope ? std::move(*scope) : EntryScope());
  }
  if (unknown > 0) {
    warnings.push_back(side.json_path.string() + ": " + std::to_string(unknown) +
                       " entries have no place in the model and stay unmatched, first " +
                       std::string(first_unknown));
  }
  TakeForwardPaths(side, scopes);
  RenumberLayers(scopes);
  return scopes;
}

constexpr std::string_view kNoPartner = "N/A";

std::string RuleKey(std::string_view type_name, std::string_view first_segment) {
  std::string key(type_name);
  key += '\n';
  key += first_segment;
  return key;
}

// A run of path segments below a module of the NPU side, and what stands for it on the bench side.
struct LayerRule {
  std::vector<std::string> segments;
  std::string target;
};
// By module type and first segment ("<type>\n<segment>"); the longest rule first.
using LayerRules = std::unordered_map<std::string, std::vector<LayerRule>>;

// An empty path gives no rules: every segment stands for itself.
Result<LayerRules> LoadLayerRules(const std::filesystem::path& file) {
  LayerRules rules;
  if (file.empty()) {
    return rules;
  }
  MSP_ASSIGN_OR_RETURN(const json::Config config, json::LoadYamlConfig(file));
  if (config.root().is_null()) {
    return rules;
  }
  if (!config.root().is_object()) {
    return config.ErrorAt(config.root(), "", "a layer mapping holds one object per module type");
  }
  for (const auto& [type_name, object] : config.root().items()) {
    if (object.is_null()) {
      continue;
    }
    if (!object.is_object()) {
      return config.ErrorAt(object, type_name, "must be an object `test name: reference name`");
    }
    const std::string_view type = type_name == "Cell" ? kTopLayer : std::string_view(type_name);
    for (const auto& [from, to] : object.items()) {
      if (to.is_array() || to.is_object()) {
        return config.ErrorAt(to, from, "must be a name, not " + std::string(json::KindName(to)));
      }
      LayerRule rule;
      for (const std::string_view segment : base::Split(from, '.')) {
        rule.segments.emplace_back(segment);
      }
      if (!to.is_null()) {
        const std::string_view target = config.SpellingOf(to);
        rule.target = base::Trim(target.substr(0, target.find('(')));
      }
      rules[RuleKey(type, rule.segments.front())].push_back(std::move(rule));
    }
  }
  for (auto& [key, list] : rules) {
    std::stable_sort(list.begin(), list.end(), [](const LayerRule& a, const LayerRule& b) {
      return a.segments.size() > b.segments.size();
    });
  }
  return rules;
}

// Appends what stands for segments[from], and perhaps some behind it, below a module of this type;
// returns how many segments that is.
size_t Translate(const LayerRules& rules, std::string_view type_name, const Parts& segments,
                 size_t from, std::string& translated) {
  std::string_view target = segments[from];
  size_t consumed = 1;
  if (const auto list = rules.find(RuleKey(type_name, segments[from])); list != rules.end()) {
    for (const LayerRule& rule : list->second) {
      if (rule.segments.size() <= segments.size() - from &&
          std::equal(rule.segments.begin(), rule.segments.end(),
                     segments.begin() + static_cast<ptrdiff_t>(from))) {
        target = rule.target;
        consumed = rule.segments.size();
        break;
      }
    }
  }
  if (!target.empty()) {
    translated += translated.empty() ? "" : ".";
    translated += target;
  }
  return consumed;
}

Result<std::vector<EntryScope>> LoadScopes(const Side& side, bool grouped_frames,
                                           std::vector<std::string>& warnings) {
  const std::filesystem::path folder = side.json_path.parent_path();
  auto construct = dump::ConstructFile::Read(folder / dump::kConstructFileName);
  if (!construct.ok()) {
    return std::move(construct).status().WithHint(
        "layer mapping needs the construct.json that dumps of level L0 or mix write beside "
        "dump.json");
  }
  const std::filesystem::path stack_path = folder / dump::kStackFileName;
  auto stack = dump::StackFile::Read(stack_path);
  if (!stack.ok()) {
    warnings.push_back("layer mapping works without call stacks: " + stack.status().message());
  }
  return ScopesOf(side, *construct, stack.ok() ? &*stack : nullptr, grouped_frames, warnings);
}

std::string StateKey(std::string_view path, ScopeState state) {
  std::string key(path);
  key += '\n';
  key += static_cast<char>('0' + static_cast<int>(state));
  return key;
}

// The type of the module (or API) at each relative path that has an entry of its own.
using TypeOfPath = std::unordered_map<std::string_view, std::string_view>;

TypeOfPath TypesOf(const std::vector<EntryScope>& scopes) {
  TypeOfPath types;
  for (const EntryScope& scope : scopes) {
    if (!scope.path.empty()) {
      types[scope.relative_path()] = scope.type_name;
    }
  }
  types[""] = kTopLayer;
  return types;
}

std::string TranslatePath(const LayerRules& rules, const TypeOfPath& types, std::string_view path) {
  std::string translated;
  if (path.empty()) {
    return translated;
  }
  const Parts segments = base::Split(path, '.');
  size_t node_length = 0;  // of the prefix of `path` that has been walked
  for (size_t i = 0; i < segments.size();) {
    const auto type = types.find(path.substr(0, node_length));
    const std::string_view type_name = type == types.end() ? "" : type->second;
    i += Translate(rules, type_name, segments, i, translated);
    node_length = i == segments.size() ? path.size()
                                       : static_cast<size_t>(segments[i].data() - path.data()) - 1;
  }
  return translated;
}

// The bench entry beside each NPU entry: the k-th call under a path with the k-th under the
// translated path.
std::vector<uint32_t> PairScopes(const LayerRules& rules, const std::vector<EntryScope>& npu,
                                 const std::vector<EntryScope>& bench) {
  std::unordered_map<std::string, std::vector<uint32_t>> bench_entries;
  for (size_t i = 0; i < bench.size(); ++i) {
    if (!bench[i].path.empty()) {
      bench_entries[StateKey(bench[i].relative_path(), bench[i].state)].push_back(
          static_cast<uint32_t>(i));
    }
  }
  const TypeOfPath types = TypesOf(npu);
  std::unordered_map<std::string_view, std::string> translations;
  std::unordered_map<std::string, size_t> calls_seen;
  std::vector<uint32_t> partners(npu.size(), kNoPartnerEntry);
  for (size_t i = 0; i < npu.size(); ++i) {
    if (npu[i].path.empty()) {
      continue;
    }
    const std::string_view path = npu[i].relative_path();
    auto translation = translations.find(path);
    if (translation == translations.end()) {
      translation = translations.emplace(path, TranslatePath(rules, types, path)).first;
    }
    const size_t call = calls_seen[StateKey(path, npu[i].state)]++;
    const auto found = bench_entries.find(StateKey(translation->second, npu[i].state));
    if (found != bench_entries.end() && call < found->second.size()) {
      partners[i] = found->second[call];
    }
  }
  return partners;
}

}  // namespace

Result<std::vector<uint32_t>> PairEntriesByLayer(const std::filesystem::path& file,
                                                 bool grouped_frames, const Side& npu,
                                                 const Side& bench,
                                                 std::vector<std::string>& warnings) {
  MSP_ASSIGN_OR_RETURN(const LayerRules rules, LoadLayerRules(file));
  MSP_ASSIGN_OR_RETURN(const std::vector<EntryScope> npu_scopes,
                       LoadScopes(npu, grouped_frames, warnings));
  MSP_ASSIGN_OR_RETURN(const std::vector<EntryScope> bench_scopes,
                       LoadScopes(bench, grouped_frames, warnings));
  return PairScopes(rules, npu_scopes, bench_scopes);
}

Status MapRowsByLayer(const std::filesystem::path& file, bool grouped_frames, const Side& npu,
                      const Side& bench, RowMapping& mapping) {
  MSP_ASSIGN_OR_RETURN(const std::vector<uint32_t> partners,
                       PairEntriesByLayer(file, grouped_frames, npu, bench, mapping.warnings));

  std::unordered_set<std::string_view> bench_rows;
  bench_rows.reserve(bench.rows.size());
  for (const SideRow& row : bench.rows) {
    bench_rows.insert(row.name);
  }
  mapping.keys.clear();
  mapping.derived_data_mapping.reserve(npu.rows.size());
  std::string candidate;
  for (const SideRow& row : npu.rows) {
    std::string_view target = kNoPartner;
    const std::string_view entry_name = npu.entries[row.entry].name;
    const uint32_t partner = partners[row.entry];
    if (partner != kNoPartnerEntry && row.name.starts_with(entry_name)) {
      candidate = bench.entries[partner].name;
      candidate += row.name.substr(entry_name.size());
      if (const auto found = bench_rows.find(candidate); found != bench_rows.end()) {
        target = *found;  // kept by the bench side, which outlives the mapping
      }
    }
    mapping.keys.push_back(target);
    mapping.derived_data_mapping.emplace_back(row.name, target);
  }
  return OkStatus();
}

}  // namespace msprobe::analysis::compare
