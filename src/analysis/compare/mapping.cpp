#include "src/analysis/compare/mapping.h"

#include <algorithm>
#include <array>
#include <optional>
#include <string_view>
#include <unordered_set>
#include <utility>

#include <nlohmann/json.hpp>

#include "src/base/files.h"
#include "src/base/strings.h"
#include "src/base/text_finder.h"
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
  TextMap map;
  if (config.root().is_null()) {
    return map;
  }
  if (!config.root().is_object()) {
    return config.ErrorAt(config.root(), "", "a mapping file holds lines `name: other name`");
  }
  map.reserve(config.root().size());
  for (const auto& [key, value] : config.root().items()) {
    if (value.is_array() || value.is_object()) {
      return config.ErrorAt(value, key,
                            "must be a name, not " + std::string(json::KindName(value)));
    }
    if (!value.is_null()) {
      map.emplace(key, config.SpellingOf(value));
    }
  }
  return map;
}

Result<RowMapping> BuildRowMapping(const Options& options, const Side& npu, const Side& bench) {
  RowMapping mapping;
  mapping.keys.reserve(npu.rows.size());
  const bool by_layer = options.layer_mapping.given && options.framework != Framework::kPyTorch;
  const bool by_data = options.data_mapping.given && !by_layer;
  // The layer mapping is worked out even when another flag provides the keys: its by-product is a
  // result of its own.
  if (by_layer) {
    MSP_RETURN_IF_ERROR(MapRowsByLayer(options.layer_mapping.file, options.layer_mapping_frames,
                                       npu, bench, mapping),
                        "layer mapping");
  }
  if (options.api_mapping.given) {
    MSP_RETURN_IF_ERROR(MapRowsByApi(options.api_mapping.file, npu, bench, mapping), "API mapping");
  } else if (options.cell_mapping.given) {
    MSP_RETURN_IF_ERROR(MapRowsByCell(options.cell_mapping.file, npu, mapping), "cell mapping");
  } else if (by_data) {
    MSP_RETURN_IF_ERROR(MapRowsByData(options.data_mapping.file, npu, mapping), "data mapping");
  } else if (!by_layer) {
    for (const SideRow& row : npu.rows) {
      mapping.keys.push_back(row.name);
    }
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

// "<path>.<Class>" of a cell's row name that stands behind "Cell."; empty when no known part
// follows it.
std::string_view CellNameOf(std::string_view rest) {
  size_t end = std::string_view::npos;
  for (const std::string_view mark : {".forward.", ".backward.", ".parameters_grad."}) {
    end = std::min(end, rest.find(mark));
  }
  return end == std::string_view::npos ? std::string_view() : rest.substr(0, end);
}

}  // namespace

Status MapRowsByCell(const std::filesystem::path& file, const Side& npu, RowMapping& mapping) {
  MSP_ASSIGN_OR_RETURN(const TextMap targets, LoadTextMap(file));
  mapping.keys.clear();
  std::string key;
  for (const SideRow& row : npu.rows) {
    const std::string_view rest =
        row.name.starts_with(kCellPrefix) ? row.name.substr(kCellPrefix.size()) : "";
    const std::string_view cell = CellNameOf(rest);
    if (cell.empty()) {
      mapping.keys.push_back(row.name);
      continue;
    }
    const auto target = targets.find(cell);
    key = kModulePrefix;
    key += target == targets.end() ? cell : std::string_view(target->second);
    key += rest.substr(cell.size());
    mapping.keys.push_back(mapping.arena->Keep(key));
  }
  return OkStatus();
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

// Which lists of an object belong to which part of a row's name.
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

// Which position of the one side stands for which of the other.
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

// Those of `wanted` that some row of the side belongs to: a row's own name is not a name of an API.
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

}  // namespace msprobe::analysis::compare
