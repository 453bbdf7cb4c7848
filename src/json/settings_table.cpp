#include "src/json/settings_table.h"

#include <utility>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "src/base/strings.h"

namespace msprobe::json {

Status UnknownKeyError(const SettingsReader& reader, const Json& value, std::string_view key,
                       std::span<const std::string> valid) {
  Status error = reader.Error(value, key, "no such key");
  if (const auto nearest = base::NearestMatch(key, valid)) {
    return std::move(error).WithHint(fmt::format("did you mean \"{}\"?", *nearest));
  }
  return std::move(error).WithHint(fmt::format("valid here: {}", base::Join(valid, ", ")));
}

}  // namespace msprobe::json
