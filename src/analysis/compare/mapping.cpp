// The keys that rows are looked up by: names, names as a mapping file or the built-in table
// translates them, and, for v26, names with the numbers of backward calls as they ran.
#include "src/analysis/compare/mapping.h"

#include <algorithm>
#include <array>
#include <optional>
#include <string_view>
#include <unordered_set>
#include <utility>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "src/base/files.h"
#include "src/base/numbers.h"
#include "src/base/strings.h"
#include "src/base/text_finder.h"
#include "src/base/utf8.h"
#include "src/json/config.h"

namespace msprobe::resources {
extern const std::string_view kMsToPtApi;
}

namespace msprobe::analysis::compare {
namespace {

// Mapping files larger than this are refused, as the reference does.
constexpr uint64_t kLargestMappingBytes = uint64_t{1} << 30U;

// Names of rows and modules, and the N/A of a derived mapping: texts that YAML takes as they stand.
// The dot tells them from words with a meaning of their own (null, true, ...).
bool IsPlainName(std::string_view text) {
  constexpr std::string_view kLetters =
      "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_.";
  return text == "N/A" || (text.find_first_not_of(kLetters) == std::string_view::npos &&
                           text.find('.') != std::string_view::npos);
}

// Files that hold nothing but lines `name: name`, as a program writes them, need no YAML parser:
// hundreds of thousands of lines are read in milliseconds instead of seconds. nullopt: anything
// else is in the file.
std::optional<TextMap> ReadPlainLines(std::string_view text) {
  TextMap map;
  for (size_t begin = 0; begin < text.size();) {
    const size_t end = std::min(text.find('\n', begin), text.size());
    const std::string_view line = text.substr(begin, end - begin);
    begin = end + 1;
    const size_t colon = line.find(": ");
    if (colon == std::string_view::npos) {
      return std::nullopt;
    }
    const std::string_view key = line.substr(0, colon);
    const std::string_view value = line.substr(colon + 2);
    if (!IsPlainName(key) || !IsPlainName(value) || !map.emplace(key, value).second) {
      return std::nullopt;
    }
  }
  return map;
}

struct NameMember {
  std::string key;
  std::string text;
  bool is_null = false;
};

// The members of a mapping document, all of them names or nulls; none of an empty one.
Result<std::vector<NameMember>> NameMembers(const json::Config& config) {
  std::vector<NameMember> members;
  if (config.root().is_null()) {
    return members;
  }
  if (!config.root().is_object()) {
    return config.ErrorAt(config.root(), "", "a mapping file holds lines `name: other name`");
  }
  for (const auto& [key, value] : config.root().items()) {
    if (value.is_array() || value.is_object()) {
      return config.ErrorAt(value, key,
                            "must be a name, not " + std::string(json::KindName(value)));
    }
    members.push_back({key, std::string(config.SpellingOf(value)), value.is_null()});
  }
  return members;
}

}  // namespace

Result<TextMap> LoadTextMap(const std::filesystem::path& path) {
  if (path.empty()) {
    return TextMap();
  }
  MSP_ASSIGN_OR_RETURN(const std::string text, base::ReadTextFile(path, kLargestMappingBytes));
  if (std::optional<TextMap> plain = ReadPlainLines(text)) {
    return *std::move(plain);
  }
  MSP_ASSIGN_OR_RETURN(const json::Config config, json::ParseYamlConfig(text, path.string()));
  MSP_ASSIGN_OR_RETURN(const std::vector<NameMember> members, NameMembers(config));
  TextMap map;
  map.reserve(members.size());
  for (const NameMember& member : members) {
    if (!member.is_null) {
      map.emplace(member.key, member.text);
    }
  }
  return map;
}

namespace {

std::vector<std::string_view> OwnNames(const Side& side) {
  std::vector<std::string_view> names;
  names.reserve(side.rows.size());
  for (const SideRow& row : side.rows) {
    names.push_back(row.name);
  }
  return names;
}

}  // namespace

Result<RowMapping> BuildRowMapping(const MatchRules& rules, const Side& npu, const Side& bench) {
  RowMapping mapping;
  mapping.keys.reserve(npu.rows.size());
  const bool by_layer = rules.layer_mapping.given && rules.framework != Framework::kPyTorch;
  const bool by_data = rules.data_mapping.given && !by_layer;
  // The layer mapping is worked out even when another flag provides the keys: its by-product is a
  // result of its own.
  if (by_layer) {
    MSP_RETURN_IF_ERROR(
        MapRowsByLayer(rules.layer_mapping.file, rules.layer_mapping_frames, npu, bench, mapping),
        "layer mapping");
  }
  if (rules.api_mapping.given) {
    MSP_RETURN_IF_ERROR(MapRowsByApi(rules.api_mapping.file, npu, bench, mapping), "API mapping");
  } else if (rules.cell_mapping.given) {
    MSP_RETURN_IF_ERROR(MapRowsByCell(rules.cell_mapping.file, npu, mapping), "cell mapping");
  } else if (by_data) {
    MSP_RETURN_IF_ERROR(MapRowsByData(rules.data_mapping.file, npu, mapping), "data mapping");
  } else if (!by_layer) {
    mapping.keys = OwnNames(npu);
  }
  mapping.by_key_only = by_layer || by_data;
  return mapping;
}

Status MapRowsByData(const std::filesystem::path& file, const Side& npu, RowMapping& mapping) {
  MSP_ASSIGN_OR_RETURN(const TextMap targets, LoadTextMap(file));
  mapping.keys.clear();
  size_t used = 0;
  for (const SideRow& row : npu.rows) {
    const auto target = targets.find(row.name);
    if (target == targets.end()) {
      mapping.keys.push_back(row.name);
    } else {
      mapping.keys.push_back(mapping.arena->Keep(target->second));
      ++used;
    }
  }
  if (used == 0 && !targets.empty()) {
    mapping.warnings.push_back(file.string() + ": none of its " + std::to_string(targets.size()) +
                               " names is a row of " + npu.json_path.string());
  }
  return OkStatus();
}

namespace {

constexpr std::string_view kCellPrefix = "Cell.";
constexpr size_t kLongestMappedModule = 4096;

// "<path>.<Class>" of a row's name behind `prefix`; empty where no known part follows it.
std::string_view ModuleNameOf(std::string_view row_name, std::string_view prefix) {
  if (!row_name.starts_with(prefix)) {
    return {};
  }
  const std::string_view rest = row_name.substr(prefix.size());
  size_t end = std::string_view::npos;
  for (const std::string_view mark : {".forward.", ".backward.", ".parameters_grad."}) {
    end = std::min(end, rest.find(mark));
  }
  return end == std::string_view::npos ? std::string_view() : rest.substr(0, end);
}

// One key per row: of rows of modules, whose names have this prefix, with the name that `translate`
// makes of the module's; other rows keep their names.
template <typename Translate>
Status TranslateModules(const Side& npu, std::string_view prefix, const Translate& translate,
                        RowMapping& mapping) {
  mapping.keys.clear();
  std::string key;
  for (const SideRow& row : npu.rows) {
    const std::string_view module = ModuleNameOf(row.name, prefix);
    if (module.empty()) {
      mapping.keys.push_back(row.name);
      continue;
    }
    key = kModulePrefix;
    MSP_RETURN_IF_ERROR(translate(module, key));
    key += row.name.substr(prefix.size() + module.size());
    mapping.keys.push_back(mapping.arena->Keep(key));
  }
  return OkStatus();
}

}  // namespace

Status MapRowsByCell(const std::filesystem::path& file, const Side& npu, RowMapping& mapping) {
  MSP_ASSIGN_OR_RETURN(const TextMap targets, LoadTextMap(file));
  return TranslateModules(
      npu, kCellPrefix,
      [&](std::string_view cell, std::string& key) {
        const auto target = targets.find(cell);
        key += target == targets.end() ? cell : std::string_view(target->second);
        return OkStatus();
      },
      mapping);
}

// Replacements of each fragment may make a name as long as the file, for every module again.
Status MapRowsByModule(const std::filesystem::path& file, const Side& npu, RowMapping& mapping) {
  std::vector<NameMember> entries;
  if (!file.empty()) {
    MSP_ASSIGN_OR_RETURN(const json::Config config, json::LoadYamlConfig(file));
    MSP_ASSIGN_OR_RETURN(entries, NameMembers(config));
  }
  std::unordered_map<std::string_view, std::string_view> exact;
  std::vector<std::string_view> fragments;
  for (const NameMember& entry : entries) {
    exact.try_emplace(entry.key, entry.text);
    fragments.push_back(entry.key);
  }
  const base::TextFinder finder(fragments);
  std::unordered_map<std::string_view, std::string> known;  // by module
  return TranslateModules(
      npu, kModulePrefix,
      [&](std::string_view module, std::string& key) -> Status {
        auto [found, is_new] = known.try_emplace(module, module);
        std::string& target = found->second;
        if (const auto whole = exact.find(module); is_new && whole != exact.end()) {
          target = whole->second;
        } else if (is_new) {
          for (const uint32_t index : finder.All(module)) {
            target = base::ReplaceFirst(target, entries[index].key, entries[index].text);
            if (target.size() > std::max(kLongestMappedModule, module.size())) {
              return UsageError(fmt::format(
                  "{}: makes a name of more than {} bytes of the module {}", file.string(),
                  kLongestMappedModule, base::Printable(base::Shortened(module, 200))));
            }
          }
        }
        key += target;
        return OkStatus();
      },
      mapping);
}

namespace {

// Appended to the keys of rows that a user's API mapping leaves out on purpose: no bench row has
// such a name.
constexpr std::string_view kAbandoned = "abandoned";

// "Functional.abs" of "Functional.abs.0.forward.input.0"; empty when there are fewer parts.
std::string_view ApiOf(std::string_view name) {
  const size_t first = name.find('.');
  if (first == std::string_view::npos) {
    return {};
  }
  return name.substr(0, name.find('.', first + 1));
}

Result<TextMap> ParseBuiltInApis() {
  MSP_ASSIGN_OR_RETURN(const json::Config config,
                       json::ParseJsonConfig(resources::kMsToPtApi, "built-in API table"));
  TextMap table;
  table.reserve(config.root().size());
  for (const auto& [mindspore, pytorch] : config.root().items()) {
    table.emplace(mindspore, json::TextOf(pytorch));
  }
  return table;
}

// Parsed once: every rank of a comparison asks for it.
const Result<TextMap>& BuiltInApis() {
  static const Result<TextMap> table = ParseBuiltInApis();
  return table;
}

// "a.b" of "a.b.c"; empty where there is no dot.
std::string_view WithoutLastPart(std::string_view name) {
  const size_t dot = name.rfind('.');
  return dot == std::string_view::npos ? std::string_view() : name.substr(0, dot);
}

std::string_view BuiltInKey(const TextMap& table, std::string_view name, RowMapping& mapping) {
  if (name.starts_with("Mint.")) {
    return mapping.arena->Keep(base::ReplaceAll(name, "Mint", "Torch"));
  }
  if (name.starts_with("MintFunctional.")) {
    return mapping.arena->Keep(base::ReplaceAll(name, "MintFunctional", "Functional"));
  }
  const std::string_view api = ApiOf(name);
  const auto target = table.find(api);
  if (api.empty() || target == table.end()) {
    return name;
  }
  std::string key = target->second;
  key += name.substr(api.size());
  return mapping.arena->Keep(key);
}

// The lists of an object for each part of a row's name.
struct PartLists {
  std::string_view ms_key;
  std::string_view pt_key;
  std::string_view
      ms_other_spelling;  // outputs: the reference reads one key and documents the other
  std::string_view pt_other_spelling;
};
enum Part : uint8_t { kArguments, kOutputs, kParameters, kGradients };
constexpr std::array<PartLists, 4> kParts = {{
    {"ms_args", "pt_args", "", ""},
    {"ms_outputs", "pt_outputs", "ms_output", "pt_output"},
    {"ms_parameters", "pt_parameters", "", ""},
    {"ms_parameters_grad", "pt_parameters_grad", "", ""},
}};

struct RowPattern {
  std::string_view text;
  Part part;
};
constexpr std::array<RowPattern, 5> kRowPatterns = {{
    {".input.", kArguments},
    {".kwargs.", kArguments},
    {".output.", kOutputs},
    {".parameters.", kParameters},
    {".parameters_grad.", kGradients},
}};

// Empties those that stand there again later.
void KeepLastOfEach(std::vector<std::string_view>& texts) {
  std::unordered_set<std::string_view> seen;
  for (auto text = texts.rbegin(); text != texts.rend(); ++text) {
    if (!seen.insert(*text).second) {
      *text = {};
    }
  }
}

// Positions of the one side and their translations to the other.
class Positions {
 public:
  void Add(std::string ms, std::string pt) { pairs_.emplace_back(std::move(ms), std::move(pt)); }

  // The last pair whose MindSpore position `text` starts with, null if there is none: "1" fits "1"
  // and "1.k", never "10".
  const std::pair<std::string, std::string>* Find(std::string_view text) const {
    const std::pair<std::string, std::string>* found = nullptr;
    if (pairs_.size() <= kMostSearched) {
      for (const auto& pair : pairs_) {
        found = StartsWithPosition(text, pair.first) ? &pair : found;
      }
      return found;
    }
    finder_.ForEachDottedPrefix(text, [&](uint32_t index) {
      found = found == nullptr ? &pairs_[index] : std::max(found, &pairs_[index]);
      return false;
    });
    return found;
  }

  // Once all are added.
  void Index() {
    if (pairs_.size() > kMostSearched) {
      std::vector<std::string_view> positions;
      for (const auto& pair : pairs_) {
        positions.push_back(pair.first);
      }
      KeepLastOfEach(positions);
      finder_ = base::TextFinder(positions);
    }
  }

 private:
  static constexpr size_t kMostSearched = 8;  // pairs that are looked through one by one

  static bool StartsWithPosition(std::string_view text, std::string_view position) {
    return text.starts_with(position) &&
           (text.size() == position.size() || text[position.size()] == '.');
  }

  std::vector<std::pair<std::string, std::string>> pairs_;
  base::TextFinder finder_;
};

struct ApiRule {
  std::string ms_api;
  std::string pt_api;
  std::array<Positions, kParts.size()> positions;
};

Result<std::vector<std::string>> PositionList(const json::Config& config, const json::Json& object,
                                              std::string_view key, std::string_view other) {
  const json::Json* list = json::Find(object, key);
  if (list == nullptr && !other.empty()) {
    list = json::Find(object, other);
  }
  std::vector<std::string> positions;
  if (list == nullptr || list->is_null()) {
    return positions;
  }
  if (!list->is_array()) {
    return config.ErrorAt(*list, key, "must be a list of positions or argument names");
  }
  for (const json::Json& item : *list) {
    if (!item.is_number_integer() && !item.is_string()) {
      return config.ErrorAt(item, key, "must hold positions or argument names only");
    }
    positions.emplace_back(config.SpellingOf(item));
  }
  return positions;
}

// nullopt: the object contradicts itself; a warning was added.
Result<std::optional<ApiRule>> ReadRule(const json::Config& config, const json::Json& object,
                                        std::vector<std::string>& warnings) {
  if (!object.is_object()) {
    return config.ErrorAt(object, "", "each item must be an object with ms_api and pt_api");
  }
  ApiRule rule;
  MSP_ASSIGN_OR_RETURN(rule.ms_api, config.RequiredText(object, "ms_api"));
  MSP_ASSIGN_OR_RETURN(rule.pt_api, config.RequiredText(object, "pt_api"));
  for (size_t part = 0; part < kParts.size(); ++part) {
    const PartLists& lists = kParts[part];
    MSP_ASSIGN_OR_RETURN(const std::vector<std::string> ms,
                         PositionList(config, object, lists.ms_key, lists.ms_other_spelling));
    MSP_ASSIGN_OR_RETURN(const std::vector<std::string> pt,
                         PositionList(config, object, lists.pt_key, lists.pt_other_spelling));
    if (ms.size() != pt.size()) {
      warnings.push_back(config.file + " line " + std::to_string(config.LineOf(object)) + ": " +
                         rule.ms_api + ": " + std::string(lists.ms_key) + " and " +
                         std::string(lists.pt_key) +
                         " differ in length; the whole item is left out");
      return std::optional<ApiRule>();
    }
    for (size_t i = 0; i < ms.size(); ++i) {
      rule.positions[part].Add(ms[i], pt[i]);
    }
    rule.positions[part].Index();
  }
  return std::optional<ApiRule>(std::move(rule));
}

Result<std::vector<ApiRule>> LoadRules(const std::filesystem::path& file,
                                       std::vector<std::string>& warnings) {
  MSP_ASSIGN_OR_RETURN(const json::Config config, json::LoadYamlConfig(file));
  std::vector<ApiRule> rules;
  if (config.root().is_null()) {
    return rules;
  }
  if (!config.root().is_array()) {
    return config.ErrorAt(config.root(), "", "an API mapping is a list of objects");
  }
  for (const json::Json& object : config.root()) {
    MSP_ASSIGN_OR_RETURN(std::optional<ApiRule> rule, ReadRule(config, object, warnings));
    if (rule) {
      rules.push_back(std::move(*rule));
    }
  }
  return rules;
}

// The APIs of `wanted` that some row of the side belongs to: a row's own name is not a name of an
// API.
std::unordered_set<std::string_view> ApisPresent(const Side& side,
                                                 std::vector<std::string_view> wanted) {
  KeepLastOfEach(wanted);
  const base::TextFinder finder(wanted);
  std::unordered_set<std::string_view> present;
  for (const SideRow& row : side.rows) {
    finder.ForEachDottedPrefix(WithoutLastPart(row.name), [&](uint32_t index) {
      present.insert(wanted[index]);
      return false;
    });
  }
  return present;
}

std::string KeyByRule(const ApiRule& rule, const SideRow& row) {
  // The part behind the call's own name: an argument may be called "output" and a module path may
  // contain ".input.".
  const std::string_view call =
      row.name.starts_with(row.api_name) ? row.api_name : std::string_view();
  const size_t search_from = call.empty() ? 0 : call.size() - 1;
  std::string key = rule.pt_api;
  for (const RowPattern& pattern : kRowPatterns) {
    const size_t at = row.name.find(pattern.text, search_from);
    const bool fits = at != std::string_view::npos && (call.empty() || at == search_from);
    if (!fits || at < rule.ms_api.size()) {
      continue;
    }
    const size_t position_at = at + pattern.text.size();
    const std::string_view position = row.name.substr(position_at);
    if (const auto* pair = rule.positions[pattern.part].Find(position)) {
      key += row.name.substr(rule.ms_api.size(), position_at - rule.ms_api.size());
      key += pair->second;
      key += position.substr(pair->first.size());
      return key;
    }
    break;
  }
  key += row.name.substr(rule.ms_api.size());
  key += kAbandoned;
  return key;
}

// The rules whose APIs both dumps hold. Of two rules for one name the later one counts.
class RulesInUse {
 public:
  RulesInUse(const std::vector<ApiRule>& rules, const Side& npu, const Side& bench) {
    std::vector<std::string_view> ms_names;
    std::vector<std::string_view> pt_names;
    for (const ApiRule& rule : rules) {
      ms_names.push_back(rule.ms_api);
      pt_names.push_back(rule.pt_api);
    }
    const auto ms_present = ApisPresent(npu, std::move(ms_names));
    const auto pt_present = ApisPresent(bench, std::move(pt_names));
    std::vector<std::string_view> used;
    for (const ApiRule& rule : rules) {
      if (ms_present.contains(rule.ms_api) && pt_present.contains(rule.pt_api)) {
        rules_.push_back(&rule);
        used.push_back(rule.ms_api);
      }
    }
    KeepLastOfEach(used);
    finder_ = base::TextFinder(used);
  }

  // The one whose name is the shortest beginning of the row's, null if there is none.
  const ApiRule* Find(std::string_view row_name) const {
    const ApiRule* rule = nullptr;
    finder_.ForEachDottedPrefix(WithoutLastPart(row_name), [&](uint32_t index) {
      rule = rules_[index];
      return true;
    });
    return rule;
  }

 private:
  std::vector<const ApiRule*> rules_;
  base::TextFinder finder_;  // of their MindSpore names
};

}  // namespace

Status MapRowsByApi(const std::filesystem::path& file, const Side& npu, const Side& bench,
                    RowMapping& mapping) {
  const Result<TextMap>& table = BuiltInApis();
  MSP_RETURN_IF_ERROR(table.status());
  std::vector<ApiRule> rules;
  if (!file.empty()) {
    MSP_ASSIGN_OR_RETURN(rules, LoadRules(file, mapping.warnings));
  }
  const RulesInUse in_use(rules, npu, bench);
  mapping.keys.clear();
  for (const SideRow& row : npu.rows) {
    const ApiRule* rule = in_use.Find(row.name);
    mapping.keys.push_back(rule == nullptr ? BuiltInKey(*table, row.name, mapping)
                                           : mapping.arena->Keep(KeyByRule(*rule, row)));
  }
  return OkStatus();
}

namespace {

constexpr std::string_view kBackward = ".backward";

// Where the call number of a backward entry stands in its name: "Torch.add.<3>.backward",
// "Module.fc.Linear.backward.<0>".
struct CallNumber {
  size_t at = 0;
  size_t length = 0;
};

std::optional<CallNumber> BackwardNumber(std::string_view entry_name) {
  const size_t at = entry_name.rfind(kBackward);
  if (at == std::string_view::npos) {
    return std::nullopt;
  }
  const size_t behind = at + kBackward.size();
  CallNumber number;
  if (behind == entry_name.size()) {
    number.at = entry_name.rfind('.', at - (at > 0 ? 1 : 0)) + 1;
    number.length = at - std::min(number.at, at);
  } else if (entry_name[behind] == '.') {
    number.at = behind + 1;
    number.length = entry_name.size() - number.at;
  }
  const std::string_view digits = entry_name.substr(number.at, number.length);
  return base::ParseInt(digits) ? std::optional(number) : std::nullopt;
}

// Whether both sides number the backward calls of every API alike, whatever their order.
bool NumbersFit(const Side& npu, const Side& bench) {
  const auto names = [](const Side& side) {
    std::vector<std::string_view> backward;
    for (const SideEntry& entry : side.entries) {
      if (BackwardNumber(entry.name)) {
        backward.push_back(entry.name);
      }
    }
    std::sort(backward.begin(), backward.end());
    return backward;
  };
  return names(npu) == names(bench);
}

// "Module.fc.Linear.parameters_grad.0.weight" -> "...parameters_grad.weight": newer dumps number
// the gradients of a module, older ones do not.
std::optional<std::string> WithoutGradientNumber(std::string_view name) {
  constexpr std::string_view kNumbered = ".parameters_grad.0.";
  const size_t at = name.find(kNumbered);
  if (at == std::string_view::npos) {
    return std::nullopt;
  }
  std::string key(name.substr(0, at + kNumbered.size() - 2));
  key += name.substr(at + kNumbered.size());
  return key;
}

void DropGradientNumbers(std::vector<std::string_view>& keys, report::TextArena& arena) {
  for (std::string_view& key : keys) {
    if (const std::optional<std::string> shorter = WithoutGradientNumber(key)) {
      key = arena.Keep(*shorter);
    }
  }
}

// One key per row: its name, where the number of a backward call is replaced by the count of
// backward entries of the same call before it in the file. Recomputation and re-entrant runs number
// backward calls differently. Keys that differ from the names are kept in `arena`.
std::vector<std::string_view> KeysByExecutionOrder(const Side& side, report::TextArena& arena) {
  std::vector<std::string_view> keys = OwnNames(side);
  std::unordered_map<std::string, uint64_t> seen;  // by name without its number
  std::string call;
  std::string renamed;
  for (const SideEntry& entry : side.entries) {
    const std::optional<CallNumber> number = BackwardNumber(entry.name);
    if (!number) {
      continue;
    }
    const std::string_view before = entry.name.substr(0, number->at);
    const std::string_view digits = entry.name.substr(number->at, number->length);
    const std::string_view after = entry.name.substr(number->at + number->length);
    call = before;
    call += after;
    const std::string count = std::to_string(seen[call]++);
    if (count == digits) {
      continue;
    }
    for (uint32_t row = entry.first_row; row < entry.first_row + entry.row_count; ++row) {
      const std::string_view name = side.rows[row].name;
      if (name.starts_with(entry.name)) {
        renamed = before;
        renamed += count;
        renamed += after;
        renamed += name.substr(entry.name.size());
        keys[row] = arena.Keep(renamed);
      }
    }
  }
  return keys;
}

void KeysByName(bool fuzzy, bool strict, const Side& npu, const Side& bench, RowMapping& mapping) {
  const bool renumber = !fuzzy && !npu.is_debug && !(strict && NumbersFit(npu, bench));
  mapping.keys = renumber ? KeysByExecutionOrder(npu, *mapping.arena) : OwnNames(npu);
  if (renumber) {
    mapping.bench_keys = KeysByExecutionOrder(bench, *mapping.arena);
  }
  if (strict && !fuzzy) {
    if (!renumber) {
      mapping.bench_keys = OwnNames(bench);
    }
    DropGradientNumbers(mapping.keys, *mapping.arena);
    DropGradientNumbers(mapping.bench_keys, *mapping.arena);
  }
}

}  // namespace

Result<RowMapping> BuildRowMappingV26(const MatchRules& rules, bool strict, const Side& npu,
                                      const Side& bench) {
  const bool mindspore = npu.framework == Framework::kMindSpore;
  if (rules.api_mapping.given && !mindspore) {
    return UsageError("an API mapping translates MindSpore names, but the target is not MindSpore");
  }
  const bool own_names = !rules.api_mapping.given && !rules.cell_mapping.given &&
                         !rules.data_mapping.given && !(rules.layer_mapping.given && mindspore);
  RowMapping mapping;
  if (own_names) {
    KeysByName(rules.fuzzy, strict, npu, bench, mapping);
  } else if (!mindspore && rules.cell_mapping.given) {
    MSP_RETURN_IF_ERROR(MapRowsByModule(rules.cell_mapping.file, npu, mapping), "cell mapping");
  } else {
    MatchRules known = rules;
    known.framework = npu.framework;
    MSP_ASSIGN_OR_RETURN(mapping, BuildRowMapping(known, npu, bench));
  }
  mapping.ignore_shapes = true;
  return mapping;
}

}  // namespace msprobe::analysis::compare
