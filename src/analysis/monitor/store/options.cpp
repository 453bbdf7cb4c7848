#include "src/analysis/monitor/store/options.h"

#include <fmt/format.h>

#include "src/base/strings.h"
#include "src/json/config.h"

namespace msprobe::analysis::monitor {

Result<NameMapping> ReadMapping(const std::filesystem::path& path) {
  MSP_ASSIGN_OR_RETURN(const json::Config config, json::LoadJsonConfig(path));
  NameMapping mapping;
  if (config.root.kind != json::ConfigKind::kObject) {
    return UsageError(fmt::format("{} is not a JSON object", path.string()))
        .WithHint("write {\"old\": \"new\"}");
  }
  for (const auto& member : config.root.members) {
    if (member.second.kind != json::ConfigKind::kText) {
      return config.ErrorAt(member.second, member.first, "must be text");
    }
    mapping.emplace_back(member.first, member.second.text);
  }
  return mapping;
}

std::string Mapped(std::string name, const NameMapping& mapping) {
  for (const auto& pair : mapping) {
    if (!pair.first.empty()) {
      name = base::ReplaceAll(name, pair.first, pair.second);
    }
  }
  return name;
}

}  // namespace msprobe::analysis::monitor
