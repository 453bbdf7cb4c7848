#include "src/analysis/compare/layer_mapping.h"

#include <algorithm>
#include <unordered_set>
#include <utility>

#include "src/analysis/compare/mapping_rules.h"
#include "src/base/strings.h"
#include "src/dump/layout.h"
#include "src/json/config.h"

namespace msprobe::analysis::compare {
namespace {

constexpr std::string_view kNoPartner = "N/A";

std::string RuleKey(std::string_view type_name, std::string_view first_segment) {
  std::string key(type_name);
  key += '\n';
  key += first_segment;
  return key;
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
  const std::vector<std::string_view> segments = base::Split(path, '.');
  size_t node_length = 0;  // of the prefix of `path` that has been walked
  for (size_t i = 0; i < segments.size();) {
    const auto type = types.find(path.substr(0, node_length));
    const std::string_view type_name = type == types.end() ? "" : type->second;
    const LayerRules::Step step = rules.Translate(type_name, segments, i);
    if (!step.target.empty()) {
      translated += translated.empty() ? "" : ".";
      translated += step.target;
    }
    i += step.consumed;
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

Result<LayerRules> LayerRules::Load(const std::filesystem::path& file) {
  LayerRules rules;
  if (file.empty()) {
    return rules;
  }
  MSP_ASSIGN_OR_RETURN(const json::Config config, json::LoadYamlConfig(file));
  if (config.root.kind == json::ConfigKind::kNull) {
    return rules;
  }
  if (config.root.kind != json::ConfigKind::kObject) {
    return config.ErrorAt(config.root, "", "a layer mapping holds one object per module type");
  }
  for (const auto& [type_name, object] : config.root.members) {
    if (object.kind == json::ConfigKind::kNull) {
      continue;
    }
    if (object.kind != json::ConfigKind::kObject) {
      return config.ErrorAt(object, type_name, "must be an object `NPU name: bench name`");
    }
    const std::string_view type = type_name == "Cell" ? kTopLayer : std::string_view(type_name);
    for (const auto& [from, to] : object.members) {
      if (to.kind == json::ConfigKind::kList || to.kind == json::ConfigKind::kObject) {
        return config.ErrorAt(to, from,
                              "must be a name, not " + std::string(json::ConfigKindName(to.kind)));
      }
      Rule rule;
      for (const std::string_view segment : base::Split(from, '.')) {
        rule.segments.emplace_back(segment);
      }
      if (to.kind != json::ConfigKind::kNull) {
        rule.target = base::Trim(std::string_view(to.text).substr(0, to.text.find('(')));
      }
      rules.rules_[RuleKey(type, rule.segments.front())].push_back(std::move(rule));
    }
  }
  for (auto& [key, list] : rules.rules_) {
    std::stable_sort(list.begin(), list.end(), [](const Rule& a, const Rule& b) {
      return a.segments.size() > b.segments.size();
    });
  }
  return rules;
}

LayerRules::Step LayerRules::Translate(std::string_view type_name,
                                       const std::vector<std::string_view>& segments,
                                       size_t from) const {
  if (const auto list = rules_.find(RuleKey(type_name, segments[from])); list != rules_.end()) {
    for (const Rule& rule : list->second) {
      const bool fits = rule.segments.size() <= segments.size() - from &&
                        std::equal(rule.segments.begin(), rule.segments.end(),
                                   segments.begin() + static_cast<ptrdiff_t>(from));
      if (fits) {
        return {rule.target, rule.segments.size()};
      }
    }
  }
  return {segments[from], 1};
}

Result<std::vector<uint32_t>> PairEntriesByLayer(const std::filesystem::path& file,
                                                 bool grouped_frames, const Side& npu,
                                                 const Side& bench,
                                                 std::vector<std::string>& warnings) {
  MSP_ASSIGN_OR_RETURN(const LayerRules rules, LayerRules::Load(file));
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
