// Settings of two configurations: JSON or YAML, or lines NAME=VALUE for the environment. A state is
// the good side with some of the bad side's values, as a file of its own that {config} in the
// program stands for, or in its environment. Neither side's file is touched.
//
// A difference is a leaf: a value under a path of keys, a list as a whole, a key that one side
// lacks.
#include <map>
#include <string>
#include <utility>
#include <vector>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "src/analysis/bisect/sources.h"
#include "src/base/files.h"
#include "src/base/secrets.h"
#include "src/base/strings.h"
#include "src/json/config.h"
#include "src/json/document.h"

namespace msprobe::analysis::bisect {
namespace {

namespace fs = std::filesystem;
using json::Json;

constexpr uint64_t kMostSettingsBytes = uint64_t{16} << 20;
constexpr size_t kShownValue = 60;

struct Difference {
  std::vector<std::string> keys;
  bool is_there[2] = {false, false};  // good, bad
  Json values[2];
};

void Compare(const Json& good, const Json& bad, std::vector<std::string>& keys,
             std::vector<Difference>& differences) {
  const auto add = [&](const std::string& key, const Json* first, const Json* second) {
    keys.push_back(key);
    if (first != nullptr && second != nullptr && first->is_object() && second->is_object()) {
      Compare(*first, *second, keys, differences);
    } else if (first == nullptr || second == nullptr || *first != *second ||
               first->type() != second->type()) {
      Difference difference;
      difference.keys = keys;
      difference.is_there[0] = first != nullptr;
      difference.is_there[1] = second != nullptr;
      difference.values[0] = first != nullptr ? *first : Json();
      difference.values[1] = second != nullptr ? *second : Json();
      differences.push_back(std::move(difference));
    }
    keys.pop_back();
  };
  for (const auto& [key, value] : good.items()) {
    add(key, &value, json::Find(bad, key));
  }
  for (const auto& [key, value] : bad.items()) {
    if (json::Find(good, key) == nullptr) {
      add(key, nullptr, &value);
    }
  }
}

void Apply(Json& root, const Difference& difference) {
  Json* at = &root;
  for (size_t i = 0; i + 1 < difference.keys.size(); ++i) {
    at = &(*at)[difference.keys[i]];
  }
  if (difference.is_there[1]) {
    (*at)[difference.keys.back()] = difference.values[1];
  } else {
    at->erase(difference.keys.back());
  }
}

Result<Json> ParseVariables(std::string_view text, const std::string& file) {
  Json root = Json::object();
  size_t number = 0;
  for (const std::string_view raw : base::Split(text, '\n')) {
    ++number;
    std::string_view line = base::Trim(raw);
    if (line.starts_with("export ")) {
      line = base::Trim(line.substr(7));
    }
    if (line.empty() || line.starts_with('#')) {
      continue;
    }
    const size_t equals = line.find('=');
    const std::string name(base::Trim(line.substr(0, std::min(equals, line.size()))));
    if (equals == std::string_view::npos || name.empty() ||
        name.find_first_not_of("ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789_") !=
            std::string::npos ||
        base::IsDigit(name.front())) {
      return BadFormatError(fmt::format("{} line {}: not NAME=VALUE", file, number));
    }
    std::string_view value = line.substr(equals + 1);
    if (value.size() >= 2 && (value.front() == '"' || value.front() == '\'') &&
        value.back() == value.front()) {
      value = value.substr(1, value.size() - 2);
    }
    root[name] = std::string(value);
  }
  return root;
}

// Variables that decide what is run: no file may set them.
bool IsLoadersVariable(std::string_view name) {
  return name.starts_with("LD_") || name == "PATH" || name.starts_with("PYTHON") ||
         name == "BASH_ENV" || name == "ENV" || name == "IFS" || name.starts_with("GIT_");
}

class SettingSource final : public Source {
 public:
  SettingSource(const Options& options, fs::path work)
      : options_(options), work_(std::move(work)) {}

  Result<std::vector<Change>> Changes(std::vector<std::string>& warnings) override {
    MSP_ASSIGN_OR_RETURN(good_, Read(options_.good, "--good"));
    const bool good_has_variables = has_variables_;
    MSP_ASSIGN_OR_RETURN(const Json bad, Read(options_.bad, "--bad"));
    if (good_has_variables != has_variables_) {
      return UsageError("--good and --bad must be two configurations, or two files of variables");
    }
    std::vector<std::string> keys;
    Compare(good_, bad, keys, differences_);
    if (!has_variables_ && !NamesPlace()) {
      return UsageError("nothing tells the program which settings to use")
          .WithHint(
              "write {config} where its configuration is named: -- python3 train.py {config}");
    }
    std::vector<Change> changes;
    for (const Difference& difference : differences_) {
      const std::string name = base::Join(difference.keys, ".");
      if (has_variables_ && IsLoadersVariable(name)) {
        warnings.push_back(fmt::format("{} decides what is run and is not among the settings",
                                       base::Printable(name)));
        continue;
      }
      changes.push_back(
          {base::Printable(name), Text(difference, 0) + " -> " + Text(difference, 1)});
      used_.push_back(&difference);
    }
    return changes;
  }

  Result<Place> Make(const Chosen& chosen) override {
    Json root = good_;
    for (const size_t place : chosen) {
      Apply(root, *used_[place - 1]);
    }
    Place place;
    if (has_variables_) {
      // What the bad side has and this state has not must not come from this process.
      for (const Difference* difference : used_) {
        if (json::Find(root, difference->keys[0]) == nullptr) {
          place.variables.emplace_back(difference->keys[0], "");
        }
      }
      for (const auto& [name, value] : root.items()) {
        if (!IsLoadersVariable(name)) {
          place.variables.emplace_back(name, json::TextOf(value));
        }
      }
      return place;
    }
    MSP_RETURN_IF_ERROR(base::CreateFolders(work_));
    // The name of the file may matter to the program. JSON is YAML as well.
    place.settings = work_ / fs::path(options_.good).filename();
    MSP_RETURN_IF_ERROR(base::WriteFileAtomically(
        place.settings, json::DocumentText(root, 2, json::Writer::NonFinite::kPython) + "\n",
        base::Existing::kReplace));
    place.variables.emplace_back("MSPROBE_BISECT_CONFIG", place.settings.string());
    return place;
  }

  std::string identity() const override {
    std::string text = json::DocumentText(good_, -1, json::Writer::NonFinite::kPython);
    for (const Difference& difference : differences_) {
      text += "\n" + base::Join(difference.keys, ".") + "=" +
              json::DocumentText(difference.values[1], -1, json::Writer::NonFinite::kPython);
    }
    return text;
  }

 private:
  Result<Json> Read(const std::string& file, std::string_view flag) {
    Result<std::string> text = base::ReadTextFile(file, kMostSettingsBytes);
    if (!text.ok()) {
      return std::move(text).status().AddContext(flag);
    }
    const std::string extension = base::AsciiLower(fs::path(file).extension().string());
    has_variables_ = extension == ".env";
    Result<Json> root = has_variables_         ? ParseVariables(*text, file)
                        : extension == ".json" ? json::ParseJsonData(*text, file)
                        : extension == ".yaml" || extension == ".yml"
                            ? json::ParseYamlData(*text, file, json::YamlKeys::kTexts)
                            : Result<Json>(UnsupportedError(fmt::format(
                                  "{}: settings are .json, .yaml, .yml or .env files", file)));
    if (root.ok() && !root->is_object()) {
      return BadFormatError(fmt::format("{}: the settings must be keys with values", file));
    }
    return root;
  }

  bool NamesPlace() const {
    for (const std::string& argument : options_.program) {
      if (argument.find("{config}") != std::string::npos) {
        return true;
      }
    }
    return options_.check.find("MSPROBE_BISECT_CONFIG") != std::string::npos;
  }

  static std::string Text(const Difference& difference, size_t side) {
    if (!difference.is_there[side]) {
      return "absent";
    }
    const std::string value =
        json::DocumentText(difference.values[side], -1, json::Writer::NonFinite::kPython);
    const std::string shown =
        base::MaskValue(difference.keys.back(), json::TextOf(difference.values[side])).count > 0
            ? std::string(base::kMaskedText)
            : base::MaskText(value).text;
    return base::Printable(shown.size() <= kShownValue ? shown
                                                       : shown.substr(0, kShownValue) + "...");
  }

  const Options& options_;
  const fs::path work_;
  bool has_variables_ = false;
  Json good_;
  std::vector<Difference> differences_;
  std::vector<const Difference*> used_;
};

}  // namespace

std::unique_ptr<Source> MakeSettingSource(const Options& options, fs::path work) {
  return std::make_unique<SettingSource>(options, std::move(work));
}

}  // namespace msprobe::analysis::bisect
