// .msprobe.toml: what a project wants where a command line says nothing. Its keys are those that
// the rows of flags and arguments name (FromProject in flag.h); a key at the top stands for every
// command that has it, one in a table with a command's name ([compare], [monitor.diff]) for that
// command alone. It only fills variables of rows: nothing in it is run.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "msprobe/status.h"

#include "src/base/files.h"
#include "src/commands/command.h"
#include "src/commands/flag_parser.h"
#include "src/json/config.h"

namespace msprobe::commands {

class ProjectFile {
 public:
  // The nearest one at or above the working folder: up to the root of the repository; outside of a
  // repository up to the home folder, if that is above; else in the working folder alone. nullopt:
  // there is none, or MSPROBE_NO_CONFIG is set. An error where it is not TOML.
  static Result<std::optional<ProjectFile>> Find();

  // Whether every key belongs to a command of the program, or of the command whose table it is in.
  Status Check(const CommandPath& program) const;

  // Fill the rows of the line's command that have a key here and were not typed. Paths are those of
  // the file's folder. Flags join those that the line gives.
  Status Apply(const std::vector<Flag>& flags, ParsedLine& line);
  Result<bool> Apply(const Positional& argument, const ParsedLine& line);  // false: has no key here

  // "using .msprobe.toml: output = results, formats = html"; empty: nothing was applied.
  std::string Remark() const;

 private:
  struct Value {
    const json::Json* json = nullptr;  // null: not given
    bool is_own = false;               // in the command's table
  };
  ProjectFile(base::Path folder, json::Config config)
      : folder_(std::move(folder)), config_(std::move(config)) {}
  Value ValueOf(const CommandPath& path, std::string_view key, bool only_own) const;
  Result<std::vector<std::string>> TextsOf(const json::Json& value, std::string_view key) const;
  std::string NameOf(const json::Json& value, std::string_view key) const;
  std::string PathHere(const std::string& text) const;
  void Remember(std::string_view key, const std::vector<std::string>& texts);

  base::Path folder_;
  json::Config config_;
  std::vector<std::string> applied_;  // "output = results"
};

// Whether a command has a row that a project file may fill.
bool HasProjectKeys(Command& command);

}  // namespace msprobe::commands
