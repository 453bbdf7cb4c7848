// Finding the file: from the working folder upwards, but never further than what belongs to the
// user's own project, and never a file that a stranger put into a folder that everybody may write
// to. Checking it: the keys that may stand in it are collected from the rows of all commands.
// Applying it: a value becomes the texts that the command line would have had, and goes the same
// way into the row's variable, so that it obeys the same rules. A repository that was cloned brings
// its file along: nothing in it may run a program, and results stay in its folder.
#include "src/commands/project_file.h"

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <set>
#include <system_error>
#include <utility>
#include <variant>

#include <fmt/format.h>
#include <nlohmann/json.hpp>
#include <sys/stat.h>
#include <unistd.h>

#include "src/base/log.h"
#include "src/base/output_files.h"
#include "src/base/strings.h"
#include "src/json/config_toml.h"

namespace msprobe::commands {
namespace {

namespace fs = std::filesystem;

constexpr const char* kFileName = ".msprobe.toml";
constexpr const char* kSwitch = "MSPROBE_NO_CONFIG";
constexpr const char* kHint = "--no-config ignores the file";
constexpr std::string_view kOutputKey = "output";
constexpr std::string_view kLanguageKey = "lang";

std::string EnvironmentOf(const char* name) {
  const char* const value = std::getenv(name);
  return value == nullptr ? std::string() : value;
}

// The working folder and those above it in which a project file counts.
std::vector<fs::path> FoldersToSearch() {
  std::error_code error;
  fs::path folder = fs::current_path(error);
  if (error) {
    return {};
  }
  const fs::path home = base::WithoutLastSlash(fs::path(EnvironmentOf("HOME")).lexically_normal());
  std::vector<fs::path> folders;
  while (true) {
    folders.push_back(folder);
    if (fs::exists(folder / ".git", error) || (home.is_absolute() && folder == home)) {
      return folders;
    }
    if (folder == folder.parent_path()) {
      folders.resize(1);  // outside of all projects
      return folders;
    }
    folder = folder.parent_path();
  }
}

// In a folder like /tmp only one's own file counts, or the administrator's; of a link, both it and
// the file.
bool IsStrangers(const fs::path& folder, const fs::path& file) {
  struct stat of_folder = {};
  struct stat of_link = {};
  struct stat of_file = {};
  const auto is_strangers = [](const struct stat& state) {
    return state.st_uid != ::geteuid() && state.st_uid != 0;
  };
  return ::stat(folder.c_str(), &of_folder) == 0 && (of_folder.st_mode & S_IWOTH) != 0 &&
         ::lstat(file.c_str(), &of_link) == 0 && ::stat(file.c_str(), &of_file) == 0 &&
         (is_strangers(of_link) || is_strangers(of_file));
}

// Whether a path is in a folder, links followed.
bool IsInside(const fs::path& path, const fs::path& folder) {
  std::error_code error;
  // Made absolute first: of a relative path that does not exist nothing would be canonical.
  const fs::path whole = fs::weakly_canonical(fs::absolute(path, error), error);
  const fs::path root = error ? fs::path() : fs::canonical(folder, error);
  return !error &&
         std::mismatch(root.begin(), root.end(), whole.begin(), whole.end()).first == root.end();
}

// The keys that a command's rows name; with `everywhere` only those that may stand at the top.
void AddKeys(Command& command, bool everywhere, std::set<std::string>& keys) {
  for (const Flag& flag : RowsOf(command.flags())) {
    if (!flag.project_key.empty() && !(everywhere && flag.only_own_table)) {
      keys.emplace(flag.project_key);
    }
  }
  for (const Positional& argument : command.positionals()) {
    if (!argument.project_key.empty() && !(everywhere && argument.only_own_table)) {
      keys.emplace(argument.project_key);
    }
  }
}

// Every word that the rows of this key know: for a key at the top (`path` is the program) those of
// all commands, for one in a command's table those of that command. Empty where one takes any text.
std::vector<std::string> WordsOfKey(const CommandPath& path, std::string_view key) {
  std::vector<std::string> words;
  bool takes_any = false;
  const bool is_top = path.size() == 1;
  const auto take = [&](Command& command) {
    for (const Flag& flag : RowsOf(command.flags())) {
      if (flag.project_key == key && !(is_top && flag.only_own_table)) {
        words.insert(words.end(), flag.values.begin(), flag.values.end());
        takes_any = takes_any || flag.values.empty();
      }
    }
  };
  if (is_top) {
    ForEachCommand(path, [&](const CommandPath& below) { take(*below.back()); });
  } else {
    take(*path.back());
  }
  if (takes_any) {
    return {};
  }
  std::sort(words.begin(), words.end());
  words.erase(std::unique(words.begin(), words.end()), words.end());
  return words;
}

}  // namespace

bool HasProjectKeys(Command& command) {
  std::set<std::string> keys;
  AddKeys(command, false, keys);
  return !keys.empty();
}

Result<std::optional<ProjectFile>> ProjectFile::Find() {
  if (!EnvironmentOf(kSwitch).empty()) {
    return std::optional<ProjectFile>();
  }
  const std::vector<fs::path> folders = FoldersToSearch();
  for (const fs::path& folder : folders) {
    const fs::path file = folder / kFileName;
    std::error_code error;
    if (!fs::exists(file, error)) {
      continue;
    }
    if (IsStrangers(folder, file)) {
      base::LogWarning(
          fmt::format("{} is ignored: everybody may write to its folder, and it belongs "
                      "to another user",
                      base::Printable(file.string())));
      continue;
    }
    const fs::path shown = folder == folders.front() ? fs::path(kFileName) : file;
    Result<json::Config> config = json::LoadTomlConfig(shown);
    if (!config.ok()) {
      return UsageError(config.status().message()).WithHint(kHint);
    }
    // What is in the working folder stays as short as it is written.
    return std::optional(
        ProjectFile(folder == folders.front() ? fs::path() : folder, *std::move(config)));
  }
  return std::optional<ProjectFile>();
}

Status ProjectFile::Check(const CommandPath& program) const {
  const auto check = [&](const auto& self, const json::Json& table, const CommandPath& path,
                         std::string_view section) -> Status {
    const json::SettingsReader reader(config_, table, section);
    std::set<std::string> keys;
    const bool is_top = path.size() == 1;
    if (is_top) {
      ForEachCommand(path, [&](const CommandPath& below) { AddKeys(*below.back(), true, keys); });
    } else {
      AddKeys(*path.back(), false, keys);
      keys.emplace(kLanguageKey);  // of the flag that every command has
    }
    std::vector<std::string> valid(keys.begin(), keys.end());
    const std::vector<std::string> names = SubcommandNames(*path.back());
    for (const auto& [key, value] : table.items()) {
      if (keys.contains(key)) {
        MSP_ASSIGN_OR_RETURN(const std::vector<std::string> texts, TextsOf(value, key));
        const std::vector<std::string> words = WordsOfKey(path, key);
        for (const std::string& text : texts) {
          if (!words.empty() && !base::IsOneOf(text, words)) {
            const auto nearest = base::NearestMatch(text, words);
            return reader
                .Error(value, key,
                       fmt::format("\"{}\" is not one of {}", base::Printable(text), AnyOf(words)))
                .WithHint(nearest ? fmt::format("did you mean \"{}\"?", *nearest) : kHint);
          }
        }
      } else if (value.is_object() && base::IsOneOf(key, names)) {
        CommandPath longer = path;
        for (Command* const below : path.back()->subcommands()) {
          if (below->name() == key) {
            longer.push_back(below);
          }
        }
        const std::string below_section =
            section.empty() ? key : fmt::format("{}.{}", section, key);
        MSP_RETURN_IF_ERROR(self(self, value, longer, below_section));
      } else {
        if (value.is_object()) {
          valid = names;
        }
        return json::UnknownKeyError(reader, value, key, valid);
      }
    }
    return {};
  };
  return check(check, config_.root(), program, "");
}

ProjectFile::Value ProjectFile::ValueOf(const CommandPath& path, std::string_view key,
                                        bool only_own) const {
  const json::Json* table = &config_.root();
  for (size_t i = 1; i < path.size() && table != nullptr; ++i) {
    table = json::Find(*table, path[i]->name());
  }
  if (const json::Json* const own = table == nullptr ? nullptr : json::Find(*table, key)) {
    return {own, true};
  }
  return {only_own ? nullptr : json::Find(config_.root(), key), false};
}

Result<std::vector<std::string>> ProjectFile::TextsOf(const json::Json& value,
                                                      std::string_view key) const {
  std::vector<std::string> texts;
  const auto items = value.is_array() ? json::ItemsOf(value) : std::span(&value, 1);
  for (const json::Json& item : items) {
    if (item.is_string() && !json::TextOf(item).empty()) {
      texts.push_back(json::TextOf(item));
    } else if (item.is_number_integer()) {
      texts.push_back(fmt::format("{}", json::IntOf(item)));
    } else {
      return config_
          .ErrorAt(value, key,
                   fmt::format("is {}; allowed: a text, a whole number, or a list of them",
                               json::ShownValue(value)))
          .WithHint(kHint);
    }
  }
  return texts;
}

std::string ProjectFile::NameOf(const json::Json& value, std::string_view key) const {
  return fmt::format("{} line {}: {}", config_.file, config_.LineOf(value), key);
}

std::string ProjectFile::PathHere(const std::string& text) const {
  return (folder_ / text).lexically_normal().string();
}

void ProjectFile::Remember(std::string_view key, const std::vector<std::string>& texts) {
  applied_.push_back(fmt::format("{} = {}", key, base::Printable(base::Join(texts, ", "))));
}

Status ProjectFile::Apply(const std::vector<Flag>& flags, ParsedLine& line) {
  const auto is_given = [&line](std::string_view name) {
    return line.typed.find(name) != line.typed.end();
  };
  for (const Flag& flag : flags) {
    if (flag.project_key.empty() || is_given(flag.name) || is_given(flag.excludes)) {
      continue;
    }
    const Value value = ValueOf(line.path, flag.project_key, flag.only_own_table);
    if (value.json == nullptr) {
      continue;
    }
    MSP_ASSIGN_OR_RETURN(std::vector<std::string> texts, TextsOf(*value.json, flag.project_key));
    if (!value.is_own) {
      // A word for another command means nothing to this one.
      std::erase_if(texts, [&flag](const std::string& text) {
        return !flag.values.empty() && !base::IsOneOf(text, flag.values);
      });
    }
    if (texts.empty()) {
      continue;
    }
    Remember(flag.project_key, texts);
    if (flag.project_key == kLanguageKey) {
      line.project_language = texts.front();
    }
    if (flag.takes_paths()) {
      const bool is_output = flag.project_key == kOutputKey;
      for (std::string& text : texts) {
        if (is_output && text == kNoFiles) {
          continue;
        }
        text = PathHere(text);
        if (is_output && !IsInside(text, folder_.empty() ? fs::path(".") : folder_)) {
          return config_
              .ErrorAt(*value.json, kOutputKey, "must be in the folder of this file, or below it")
              .WithHint("-o on the command line takes any folder; --no-config ignores the file");
        }
      }
    }
    if (flag.separator != 0) {
      texts = {base::Join(texts, std::string(1, flag.separator))};
    }
    const std::string name = NameOf(*value.json, flag.project_key);
    MSP_RETURN_IF_ERROR(FillFlag(flag, name, std::move(texts)));
    line.typed.emplace(flag.name, name);
    line.from_project.emplace(flag.name);
  }
  return {};
}

Result<bool> ProjectFile::Apply(const Positional& argument, const ParsedLine& line) {
  const Value value = argument.project_key.empty()
                          ? Value()
                          : ValueOf(line.path, argument.project_key, argument.only_own_table);
  if (value.json == nullptr) {
    return false;
  }
  MSP_ASSIGN_OR_RETURN(const std::vector<std::string> texts,
                       TextsOf(*value.json, argument.project_key));
  if (texts.size() != 1) {
    return config_.ErrorAt(*value.json, argument.project_key, "must be one path").WithHint(kHint);
  }
  Remember(argument.project_key, texts);
  MSP_RETURN_IF_ERROR(FillPositional(argument, {PathHere(texts.front())}));
  return true;
}

std::string ProjectFile::Remark() const {
  return applied_.empty() ? std::string()
                          : fmt::format("using {}: {}", base::Printable(config_.file),
                                        base::Join(applied_, "; "));
}

}  // namespace msprobe::commands
