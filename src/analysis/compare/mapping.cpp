#include "src/analysis/compare/mapping.h"

#include <algorithm>
#include <optional>
#include <string_view>
#include <utility>

#include "src/analysis/compare/mapping_rules.h"
#include "src/base/files.h"
#include "src/json/config.h"

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
  if (config.root.kind == json::ConfigKind::kNull) {
    return map;
  }
  if (config.root.kind != json::ConfigKind::kObject) {
    return config.ErrorAt(config.root, "", "a mapping file holds lines `name: other name`");
  }
  map.reserve(config.root.members.size());
  for (const auto& [key, value] : config.root.members) {
    if (value.kind == json::ConfigKind::kList || value.kind == json::ConfigKind::kObject) {
      return config.ErrorAt(value, key,
                            "must be a name, not " + std::string(json::ConfigKindName(value.kind)));
    }
    if (value.kind != json::ConfigKind::kNull) {
      map.emplace(key, value.text);
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

}  // namespace msprobe::analysis::compare
