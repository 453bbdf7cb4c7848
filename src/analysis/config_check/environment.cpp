#include "src/analysis/config_check/environment.h"

#include <algorithm>
#include <string_view>
#include <unordered_set>
#include <utility>

#include <unistd.h>

#include "src/analysis/config_check/parameters.h"
#include "src/analysis/config_check/secrets.h"
#include "src/base/secrets.h"
#include "src/json/writer.h"

extern char** environ;  // POSIX gives it no header

namespace msprobe::analysis::config_check::internal {

Environment ThisEnvironment() { return ParseEnvironment(environ); }

Environment ParseEnvironment(const char* const* entries) {
  Environment environment;
  std::unordered_set<std::string_view> names;
  for (; entries != nullptr && *entries != nullptr; ++entries) {
    const std::string_view entry = *entries;
    const size_t sign = entry.find('=');
    if (sign == std::string_view::npos || sign == 0 ||
        !names.insert(entry.substr(0, sign)).second) {
      continue;
    }
    environment.emplace_back(entry.substr(0, sign), entry.substr(sign + 1));
  }
  return environment;
}

std::string ValueOf(const Environment& environment, std::string_view name) {
  const auto found = std::find_if(environment.begin(), environment.end(),
                                  [name](const auto& entry) { return entry.first == name; });
  return found == environment.end() ? std::string() : found->second;
}

EnvironmentJson WriteEnvironment(const Environment& environment,
                                 const std::vector<ScriptVariable>& of_scripts) {
  EnvironmentJson result;
  json::Writer writer(result.text, 4);
  writer.BeginObject();
  for (const auto& [name, value] : environment) {
    const std::string& variable = name;
    if (std::none_of(of_scripts.begin(), of_scripts.end(),
                     [&](const ScriptVariable& set) { return set.name == variable; })) {
      const base::Masked masked = base::MaskValue(name, value);
      result.masked += masked.count > 0 ? 1 : 0;
      writer.Member(name, masked.text);
    }
  }
  for (const ScriptVariable& set : of_scripts) {
    json::ConfigValue value = set.value;
    result.masked += MaskParameter(set.name, value) > 0 ? 1 : 0;
    writer.Key(set.name);
    WriteParameter(value, writer);
  }
  writer.EndObject();
  return result;
}

}  // namespace msprobe::analysis::config_check::internal
