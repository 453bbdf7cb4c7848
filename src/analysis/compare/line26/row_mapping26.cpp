#include "src/analysis/compare/line26/row_mapping26.h"

#include <algorithm>
#include <optional>
#include <string>
#include <unordered_map>
#include <utility>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "src/analysis/compare/mapping.h"
#include "src/base/numbers.h"
#include "src/base/strings.h"
#include "src/base/text_finder.h"
#include "src/base/utf8.h"
#include "src/json/config.h"

namespace msprobe::analysis::compare {
namespace {

constexpr size_t kLongestMappedModule = 4096;

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

std::vector<std::string_view> OwnNames(const Side& side) {
  std::vector<std::string_view> names;
  names.reserve(side.rows.size());
  for (const SideRow& row : side.rows) {
    names.push_back(row.name);
  }
  return names;
}

void PairRowsByName(const Options& options, const Side& npu, const Side& bench,
                    RowMapping& mapping) {
  const bool strict = options.line26 && options.line26->strict;
  const bool renumber = !options.fuzzy && !npu.is_debug && !(strict && NumbersFit(npu, bench));
  mapping.keys = renumber ? KeysByExecutionOrder(npu, *mapping.arena) : OwnNames(npu);
  if (renumber) {
    mapping.bench_keys = KeysByExecutionOrder(bench, *mapping.arena);
  }
  if (strict && !options.fuzzy) {
    if (!renumber) {
      mapping.bench_keys = OwnNames(bench);
    }
    DropGradientNumbers(mapping.keys, *mapping.arena);
    DropGradientNumbers(mapping.bench_keys, *mapping.arena);
  }
}

// "fc1.Linear" of "Module.fc1.Linear.forward.0.input.0"; empty for rows of no module.
std::string_view ModuleOf(std::string_view row_name) {
  if (!row_name.starts_with(kModulePrefix)) {
    return {};
  }
  const std::string_view rest = row_name.substr(kModulePrefix.size());
  size_t end = std::string_view::npos;
  for (const std::string_view mark : {".forward.", ".backward.", ".parameters_grad."}) {
    end = std::min(end, rest.find(mark));
  }
  return end == std::string_view::npos ? std::string_view() : rest.substr(0, end);
}

// Mapping files in their own order, which decides here.
Result<std::vector<std::pair<std::string, std::string>>> LoadPairs(
    const std::filesystem::path& file) {
  std::vector<std::pair<std::string, std::string>> pairs;
  if (file.empty()) {
    return pairs;
  }
  MSP_ASSIGN_OR_RETURN(const json::Config config, json::LoadYamlConfig(file));
  if (config.root().is_null()) {
    return pairs;
  }
  if (!config.root().is_object()) {
    return config.ErrorAt(config.root(), "", "a mapping file holds lines `name: other name`");
  }
  for (const auto& [key, value] : config.root().items()) {
    if (value.is_array() || value.is_object()) {
      return config.ErrorAt(value, key,
                            "must be a name, not " + std::string(json::KindName(value)));
    }
    pairs.emplace_back(key, config.SpellingOf(value));
  }
  return pairs;
}

}  // namespace

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

// Replacements of each fragment may make a name as long as the file, for every module again.
Status MapRowsByModule(const std::filesystem::path& file, const Side& npu, RowMapping& mapping) {
  MSP_ASSIGN_OR_RETURN(const auto entries, LoadPairs(file));
  mapping.keys.clear();
  std::unordered_map<std::string_view, const std::string*> exact;
  std::vector<std::string_view> fragments;
  for (const auto& [from, to] : entries) {
    exact.try_emplace(from, &to);
    fragments.push_back(from);
  }
  const base::TextFinder finder(fragments);
  std::unordered_map<std::string_view, std::string> known;  // by module
  for (const SideRow& row : npu.rows) {
    const std::string_view module = ModuleOf(row.name);
    if (module.empty()) {
      mapping.keys.push_back(row.name);
      continue;
    }
    auto [found, is_new] = known.try_emplace(module);
    if (is_new) {
      std::string& target = found->second;
      if (const auto whole = exact.find(module); whole != exact.end()) {
        target = *whole->second;
      } else {
        target = module;
        for (const uint32_t index : finder.All(module)) {
          const auto& [from, to] = entries[index];
          target = base::ReplaceFirst(target, from, to);
          if (target.size() > std::max(kLongestMappedModule, module.size())) {
            return UsageError(fmt::format("{}: makes a name of more than {} bytes of the module {}",
                                          file.string(), kLongestMappedModule,
                                          base::Printable(base::Shortened(module, 200))));
          }
        }
      }
    }
    std::string key(kModulePrefix);
    key += found->second;
    key += row.name.substr(kModulePrefix.size() + module.size());
    mapping.keys.push_back(mapping.arena->Keep(key));
  }
  return OkStatus();
}

Result<RowMapping> BuildRowMapping26(const Options& options, const Side& npu, const Side& bench) {
  const bool mindspore = npu.framework == Framework::kMindSpore;
  if (options.api_mapping.given && !mindspore) {
    return UsageError("an API mapping translates MindSpore names, but the target is not MindSpore");
  }
  const bool own_names = !options.api_mapping.given && !options.cell_mapping.given &&
                         !options.data_mapping.given && !(options.layer_mapping.given && mindspore);
  RowMapping mapping;
  if (own_names) {
    PairRowsByName(options, npu, bench, mapping);
  } else if (!mindspore && options.cell_mapping.given) {
    MSP_RETURN_IF_ERROR(MapRowsByModule(options.cell_mapping.file, npu, mapping), "cell mapping");
  } else {
    Options known = options;
    known.framework = npu.framework;
    MSP_ASSIGN_OR_RETURN(mapping, BuildRowMapping(known, npu, bench));
  }
  mapping.ignore_shapes = true;
  return mapping;
}

}  // namespace msprobe::analysis::compare
