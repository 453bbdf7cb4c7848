// What the configuration says about the user's own modules and functions: the section "load", and
// the file of functions that are recorded like those of the framework. Rules of names are those of
// the Python tool. Nothing that a file names is looked up here: modules are found in the program
// that runs, by the Python side.
#include <algorithm>
#include <cctype>
#include <filesystem>
#include <set>
#include <string>
#include <string_view>
#include <system_error>
#include <vector>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "src/base/files.h"
#include "src/base/strings.h"
#include "src/capture/settings.h"
#include "src/json/config.h"
#include "src/json/document.h"
#include "src/json/writer.h"

namespace msprobe::capture {
namespace {

using json::Json;
using json::SettingsReader;
using json::ShownValue;

constexpr uint64_t kMostCustomApiBytes = uint64_t{1} << 20U;
constexpr size_t kMostModulePath = 4096;
constexpr size_t kMostName = 255;

bool IsDigit(char c) { return c >= '0' && c <= '9'; }

bool IsIdentifier(std::string_view text) {
  const auto is_letter = [](char c) {
    return std::isalnum(static_cast<unsigned char>(c)) != 0 || c == '_' ||
           static_cast<unsigned char>(c) >= 0x80;
  };
  return !text.empty() && !IsDigit(text[0]) && std::all_of(text.begin(), text.end(), is_letter);
}

bool IsModulePath(std::string_view text) {
  if (text.size() > kMostModulePath) {
    return false;
  }
  const std::vector<std::string_view> parts = base::Split(text, '.');
  return std::all_of(parts.begin(), parts.end(), IsIdentifier);
}

// "Module.<path>.<Class>.forward.<n>", as far as a name tells.
bool IsForwardCall(std::string_view name) {
  constexpr std::string_view kModule = "Module.";
  constexpr std::string_view kForward = ".forward.";
  const size_t number = name.rfind('.') + 1;
  return name.starts_with(kModule) && number < name.size() &&
         std::all_of(name.begin() + static_cast<std::ptrdiff_t>(number), name.end(), IsDigit) &&
         name.substr(0, number).ends_with(kForward) &&
         name.find(".backward.") == std::string_view::npos;
}

Status ReadModules(const SettingsReader& reader, const Json& section,
                   std::vector<std::string>& modules) {
  MSP_RETURN_IF_ERROR(reader.TextList("modules", modules));
  if (modules.empty()) {
    return reader.Error(section, "modules",
                        "is missing or empty; allowed: a list of calls such as "
                        "\"Module.head.Linear.forward.0\"");
  }
  const Json& list = *reader.Find("modules");
  std::set<std::string_view> known;
  for (const std::string& name : modules) {
    if (!IsForwardCall(name)) {
      return reader.Error(list, "modules",
                          fmt::format("has \"{}\"; allowed: calls such as "
                                      "\"Module.head.Linear.forward.0\"",
                                      base::Printable(name)));
    }
    if (!known.insert(name).second) {
      return reader.Error(list, "modules", fmt::format("has \"{}\" twice", base::Printable(name)));
    }
  }
  return {};
}

// The names that stand for one module path: texts in a list, or one text. Anything else is left
// out.
void AddNames(const std::string& module, const Json& names, std::vector<CustomApi>& apis) {
  const auto add = [&](const Json& name) {
    if (name.is_string() && IsIdentifier(json::TextOf(name)) &&
        json::TextOf(name).size() <= kMostName) {
      apis.push_back({module, std::string(json::TextOf(name))});
    }
  };
  if (names.is_array()) {
    for (const Json& name : names) {
      add(name);
    }
  } else {
    add(names);
  }
}

}  // namespace

Status ReadLoad(const SettingsReader& top, std::string_view key, Settings& settings) {
  const Json* section = json::Find(top.config().root(), key);
  if (section == nullptr) {
    return {};
  }
  if (!section->is_object()) {
    return top.Error(
        *section, key,
        fmt::format("is {}; allowed: an object with path and modules", ShownValue(*section)));
  }
  const SettingsReader reader(top.config(), *section, key);
  InputsFromDump& load = settings.load.emplace();
  MSP_RETURN_IF_ERROR(reader.Text("path", load.path));
  MSP_RETURN_IF_ERROR(ReadModules(reader, *section, load.modules));
  std::error_code ignored;
  if (load.path.empty() || !std::filesystem::is_directory(load.path, ignored)) {
    return reader.Error(*section, "path",
                        load.path.empty()
                            ? std::string("is missing or empty; allowed: the dump_path of an "
                                          "earlier run")
                            : fmt::format("is \"{}\", which is not a directory; allowed: the "
                                          "dump_path of an earlier run",
                                          base::Printable(load.path)));
  }
  MSP_RETURN_IF_ERROR(reader.NumberSet("step", load.steps));
  MSP_RETURN_IF_ERROR(reader.NumberSet("rank", load.ranks));
  MSP_RETURN_IF_ERROR(reader.Bool("dump_after_load", load.dump_after_load));
  MSP_RETURN_IF_ERROR(reader.Bool("nested", load.nested));
  return reader.Bool("keep_graph", load.keep_graph);
}

void WriteLoad(const Settings& settings, std::string_view key, json::Writer& writer) {
  const InputsFromDump& load = *settings.load;
  const auto numbers = [&writer](std::string_view name, const std::vector<int64_t>& values) {
    writer.Key(name);
    writer.BeginArray();
    for (const int64_t value : values) {
      writer.Int(value);
    }
    writer.EndArray();
  };
  writer.Key(key);
  writer.BeginObject();
  writer.Member("path", load.path);
  writer.Key("modules");
  writer.BeginArray();
  for (const std::string& name : load.modules) {
    writer.Text(name);
  }
  writer.EndArray();
  numbers("step", load.steps);
  numbers("rank", load.ranks);
  writer.Member("dump_after_load", load.dump_after_load);
  writer.Member("nested", load.nested);
  writer.Member("keep_graph", load.keep_graph);
  writer.EndObject();
}

Status ReadCustomApis(const SettingsReader& reader, std::string_view key, Settings& settings) {
  if (reader.Find(key) == nullptr) {
    return {};
  }
  MSP_RETURN_IF_ERROR(reader.Text(key, settings.custom_api_file));
  settings.custom_apis.clear();
  const std::string& file = settings.custom_api_file;
  if (file.empty()) {
    return {};
  }
  const auto unusable = [&](std::string_view why) {
    settings.warnings.push_back(
        fmt::format("{} {}: no functions of your own are recorded", file, why));
  };
  const Result<std::string> text = base::ReadTextFile(file, kMostCustomApiBytes);
  if (!text.ok()) {
    unusable(fmt::format("cannot be read ({})", text.status().message()));
    return {};
  }
  const Result<Json> content = json::ParseYamlData(*text, file);
  if (!content.ok()) {
    unusable(fmt::format("is not YAML ({})", content.status().message()));
  } else if (!content->is_object()) {
    unusable(content->is_null() ? "is empty" : "is not a mapping of modules to names");
  } else {
    for (const auto& [module, names] : content->items()) {
      if (IsModulePath(module)) {
        AddNames(module, names, settings.custom_apis);
      }
    }
  }
  return {};
}

void WriteCustomApis(const Settings& settings, std::string_view key, json::Writer& writer) {
  writer.Member(key, settings.custom_api_file);
  writer.Key("custom_apis");
  writer.BeginArray();
  for (const CustomApi& api : settings.custom_apis) {
    writer.BeginArray();
    writer.Text(api.module);
    writer.Text(api.name);
    writer.EndArray();
  }
  writer.EndArray();
}

}  // namespace msprobe::capture
