#include "src/analysis/compare/mapping.h"

#include <utility>

#include "src/analysis/compare/mapping_rules.h"
#include "src/json/config.h"

namespace msprobe::analysis {

Result<TextMap> LoadTextMap(const std::filesystem::path& path) {
  MSP_ASSIGN_OR_RETURN(const json::Config config, json::LoadYamlConfig(path));
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

Result<RowMapping> BuildRowMapping(const CompareOptions& options, const Side& npu,
                                   const Side& bench) {
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

}  // namespace msprobe::analysis
