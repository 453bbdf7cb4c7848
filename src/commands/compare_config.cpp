#include "src/commands/compare_config.h"

#include <string>
#include <vector>

#include "src/base/output_files.h"
#include "src/base/log.h"
#include "src/json/config.h"

namespace msprobe::commands {

Status ReadCompareConfig(const std::filesystem::path& file, analysis::compare::Options& options) {
  static const std::vector<std::string> known_keys = {
      "npu_path", "bench_path", "stack_path", "is_print_compare_log",
      "rank_id",  "step_id",    "common",     "map_dict"};
  MSP_ASSIGN_OR_RETURN(const json::Config config, json::LoadJsonConfig(file));
  const json::ConfigValue& root = config.root;
  if (root.kind != json::ConfigKind::kObject) {
    return config.ErrorAt(root, "", "the file must hold an object with npu_path and bench_path");
  }
  // The Python tool ignores keys it does not know; a mistyped one deserves a word.
  if (const Status unknown = config.CheckKeys(root, known_keys); !unknown.ok()) {
    base::LogWarning(unknown.message() + "; ignored");
  }
  MSP_ASSIGN_OR_RETURN(const std::string npu_path, config.RequiredText(root, "npu_path"));
  MSP_ASSIGN_OR_RETURN(const std::string bench_path, config.RequiredText(root, "bench_path"));
  options.npu_path = base::WithoutLastSlash(npu_path);
  options.bench_path = base::WithoutLastSlash(bench_path);
  MSP_ASSIGN_OR_RETURN(const std::string stack_path, config.Text(root, "stack_path", ""));
  if (!stack_path.empty()) {
    options.stack_path = stack_path;
  }
  // Only looked at for its kind: this tool prints no two lines per row.
  MSP_RETURN_IF_ERROR(config.Bool(root, "is_print_compare_log", true).status());
  MSP_ASSIGN_OR_RETURN(options.common_folders, config.Bool(root, "common", false));
  if (root.Find("rank_id") != nullptr) {
    MSP_ASSIGN_OR_RETURN(options.rank_ids, config.IntList(root, "rank_id"));
  }
  MSP_ASSIGN_OR_RETURN(options.step_ids, config.IntList(root, "step_id"));
  if (const json::ConfigValue* map = root.Find("map_dict");
      map != nullptr && map->kind != json::ConfigKind::kNull) {
    if (map->kind != json::ConfigKind::kObject) {
      return config.ErrorAt(*map, "map_dict", "must be an object of NPU name to bench name");
    }
    for (const auto& [npu_name, value] : map->members) {
      MSP_ASSIGN_OR_RETURN(std::string bench_name, config.RequiredText(*map, npu_name));
      options.common_map.emplace_back(npu_name, std::move(bench_name));
    }
  }
  return {};
}

}  // namespace msprobe::commands
