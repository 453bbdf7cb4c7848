// The Python that trainings here would use, asked where it looks for packages.
#pragma once

#include <cstddef>
#include <filesystem>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <nlohmann/json.hpp>

#include "msprobe/status.h"

#include "src/base/files.h"
#include "src/io/zip.h"
#include "src/json/config.h"

namespace msprobe::analysis::config_check::internal {

// A pack, written from front to back and there only when it is complete.

// Names of members.
inline constexpr std::string_view kEnvironmentMember = "env";
inline constexpr std::string_view kPackagesMember = "pip";
inline constexpr std::string_view kVersionsMember = "versions";  // ours; the Python tool has none
inline constexpr std::string_view kScriptVariablesMember = "script_env";  // ours, too
inline constexpr std::string_view kStaticMember = "hyperparameters/hyperparameters_static.json";
inline constexpr std::string_view kDynamicMember = "hyperparameters/hyperparameters_dynamic.json";

// The checks that need no writing: the name ends with ".zip" and names no folder.
Status CheckPackPath(const std::filesystem::path& path);

class PackWriter {
 public:
  // Creates missing folders. The file appears under `path` with Finish(), in place of an older one.
  static Result<PackWriter> Create(const std::filesystem::path& path);

  Status Add(std::string_view member, std::string_view content);
  Status Finish();

 private:
  explicit PackWriter(base::AtomicFile file);

  std::unique_ptr<base::AtomicFile> file_;  // the zip writer refers to it
  io::ZipWriter zip_;
};

// The environment of this process, as it was started.

// In the order of the process, each name once.
using Environment = std::vector<std::pair<std::string, std::string>>;

Environment ThisEnvironment();
// Parses entries "NAME=value". An entry without a name or "=" is left out; if a name is repeated,
// the first one counts, as in Python.
Environment ParseEnvironment(const char* const* entries);

// A variable that launch scripts set for their training.
struct ScriptVariable {
  std::string name;
  json::Json value;    // a text, or what OneOf() makes of several
  std::string origin;  // "train.sh line 3"
};

// Empty when there is no such variable.
std::string ValueOf(const Environment& environment, std::string_view name);

struct EnvironmentJson {
  std::string text;   // the pack's member "env"
  size_t masked = 0;  // variables with a secret
};
// `of_scripts`: what launch scripts set; it takes the place of what this process has.
EnvironmentJson WriteEnvironment(const Environment& environment,
                                 const std::vector<ScriptVariable>& of_scripts = {});

struct Interpreter {
  std::filesystem::path path;                      // as it calls itself
  std::string version;                             // "3.10.12"
  std::vector<std::filesystem::path> search_path;  // its sys.path, in order
};

// `wanted`: a path, or a name looked up in PATH. Empty: python3 or python in PATH, else the one
// of VIRTUAL_ENV or CONDA_PREFIX. kNotFound when there is none.
Result<std::filesystem::path> FindInterpreter(const std::string& wanted,
                                              const Environment& environment);

// Runs the interpreter for as long as it takes to print its sys.path; it imports nothing but what
// every start of it imports. Ended after `limit_seconds`.
Result<Interpreter> AskInterpreter(const std::filesystem::path& program, double limit_seconds);

}  // namespace msprobe::analysis::config_check::internal
