#include "src/analysis/config_check/launch_command.h"

#include <algorithm>
#include <array>
#include <cctype>
#include <vector>

#include <fmt/format.h>

#include "src/analysis/config_check/shell_syntax.h"
#include "src/base/numbers.h"
#include "src/base/strings.h"

namespace msprobe::analysis::config_check::internal {
namespace {

// Programs that start what their arguments name.
constexpr std::array<std::string_view, 38> kWrappers = {
    "sudo",    "env",     "nohup",      "time",     "nice",   "ionice",      "numactl",   "taskset",
    "timeout", "exec",    "command",    "stdbuf",   "setsid", "unbuffer",    "srun",      "mpirun",
    "mpiexec", "orterun", "horovodrun", "docker",   "podman", "singularity", "apptainer", "conda",
    "uv",      "poetry",  "ssh",        "nsys",     "ncu",    "msprof",      "py-spy",    "strace",
    "rocprof", "kubectl", "pdsh",       "coverage", "ray",    "unshare"};
constexpr std::array<std::string_view, 6> kShells = {"bash", "sh", "zsh", "dash", "ksh", "ash"};
// Launchers by the name of their program.
constexpr std::array<std::string_view, 13> kLaunchPrograms = {"torchrun",
                                                              "msrun",
                                                              "deepspeed",
                                                              "torch_npu_run",
                                                              "llamafactory-cli",
                                                              "accelerate-launch",
                                                              "swift",
                                                              "megatron",
                                                              "axolotl",
                                                              "xtuner",
                                                              "trl",
                                                              "lightning",
                                                              "composer"};
// Programs that are launchers when this word follows.
constexpr std::array<std::pair<std::string_view, std::string_view>, 3> kLaunchPairs = {
    {{"accelerate", "launch"}, {"colossalai", "run"}, {"tune", "run"}}};
// Launchers by the name of their Python module.
constexpr std::array<std::string_view, 6> kLaunchModules = {
    "torch.distributed.run",      "torch.distributed.launch",  "torch.distributed.elastic",
    "accelerate.commands.launch", "deepspeed.launcher.runner", "mindspore.parallel.cluster.run"};
// Modules and scripts that train nothing.
constexpr std::array<std::string_view, 12> kOtherModules = {
    "pip",     "venv",    "ensurepip",  "virtualenv", "http.server", "json.tool",
    "zipfile", "tarfile", "compileall", "pytest",     "unittest",    "build"};
// Options of launchers that take no value; that ends the guess whether the script follows.
constexpr std::array<std::string_view, 24> kLauncherFlags = {"standalone",
                                                             "no_python",
                                                             "run_path",
                                                             "use_env",
                                                             "no_local_rank",
                                                             "no_ssh",
                                                             "force_multi",
                                                             "enable_elastic_training",
                                                             "multi_gpu",
                                                             "cpu",
                                                             "quiet",
                                                             "debug",
                                                             "use_deepspeed",
                                                             "use_fsdp",
                                                             "use_megatron_lm",
                                                             "same_network",
                                                             "tpu",
                                                             "use_xpu",
                                                             "ipex",
                                                             "multi_npu",
                                                             "multi_mlu",
                                                             "multi_xpu",
                                                             "no_ssh_check",
                                                             "mpi_no_ssh"};
// Options of the interpreter that take a value.
constexpr std::array<std::string_view, 3> kInterpreterValues = {"-W", "-X",
                                                                "--check-hash-based-pycs"};

std::string_view FileName(std::string_view path) { return path.substr(path.rfind('/') + 1); }

bool IsInterpreter(std::string_view program) {
  const std::string_view name = FileName(program);
  return name.starts_with("python") &&
         name.find_first_not_of("0123456789.", std::string_view("python").size()) ==
             std::string_view::npos;
}

bool IsScript(std::string_view text) { return text.ends_with(".py"); }

// "trainer.lr=1e-3", "+model.depth=3": how some programs take their settings.
bool IsOverride(std::string_view text) {
  const size_t sign = text.find('=');
  if (sign == std::string_view::npos) {
    return false;
  }
  std::string_view name = text.substr(0, sign);
  while (name.starts_with('+') || name.starts_with('~')) {
    name.remove_prefix(1);
  }
  return !name.empty() && StartsName(name[0]) && std::all_of(name.begin(), name.end(), [](char c) {
    return std::isalnum(static_cast<unsigned char>(c)) != 0 ||
           std::string_view("_.-@/").find(c) != std::string_view::npos;
  });
}

void SetOverride(std::string_view text, Parameters& parameters) {
  const size_t sign = text.find('=');
  const size_t begin = std::min(text.find_first_not_of("+~"), sign);
  parameters.Set(std::string(text.substr(begin, sign - begin)),
                 json::Json(std::string(text.substr(sign + 1))));
}

// One text for one value or several, as a shell would need it spelled.
std::string ValueText(std::span<const ShellField> values) {
  std::string text;
  for (const ShellField& value : values) {
    text += text.empty() ? "" : " ";
    text += value.text;
  }
  const bool quoted = text.size() > 1 && text.starts_with('"') && text.ends_with('"');
  return text.find_first_of(" \t\n") == std::string::npos || quoted ? text
                                                                    : fmt::format("\"{}\"", text);
}

// The name without dashes; its value when it is part of the argument.
struct OptionText {
  std::string name;
  std::optional<std::string> value;
};

OptionText ParseOption(std::string_view text) {
  text.remove_prefix(std::min(text.find_first_not_of('-'), text.size()));
  const size_t sign = text.find('=');
  OptionText option;
  option.name = text.substr(0, sign);
  if (sign != std::string_view::npos) {
    option.value = text.substr(sign + 1);
  }
  return option;
}

// Options and values of the training itself.
void ReadScriptArguments(std::span<const ShellField> arguments, Parameters& parameters) {
  for (size_t at = 0; at < arguments.size();) {
    const std::string& text = arguments[at].text;
    ++at;
    if (!IsOption(text)) {
      if (IsOverride(text)) {
        SetOverride(text, parameters);
      }
      continue;
    }
    OptionText option = ParseOption(text);
    if (option.name.empty()) {
      continue;
    }
    if (option.value) {
      const ShellField value = {.text = std::move(*option.value)};
      parameters.Set(option.name, json::Json(ValueText({&value, 1})));
      continue;
    }
    const size_t first = at;
    // Asked once: the first value may be long, and the values behind it many.
    const bool takes_overrides = at < arguments.size() && IsOverride(arguments[at].text);
    // After the first value, anything that may not be a value ends the list.
    while (at < arguments.size() && !IsOption(arguments[at].text) && arguments[at].text != "--" &&
           !arguments[at].holds_options &&
           (at == first || (!arguments[at].is_unknown && arguments[at].text != "#" &&
                            (takes_overrides || !IsOverride(arguments[at].text))))) {
      ++at;
    }
    parameters.Set(option.name, at == first
                                    ? json::Json(true)
                                    : json::Json(ValueText(arguments.subspan(first, at - first))));
  }
}

// Reads the launcher's own options; returns the index behind the script or module.
size_t ReadLauncherArguments(std::span<const ShellField> arguments, Parameters& parameters) {
  size_t at = 0;
  while (at < arguments.size()) {
    const std::string& text = arguments[at].text;
    ++at;
    if (!IsOption(text)) {
      return at;
    }
    OptionText option = ParseOption(text);
    if (text == "-m" || text == "--module") {
      const bool has_module = at < arguments.size() && !IsOption(arguments[at].text);
      return at + (has_module ? 1 : 0);
    }
    if (option.value) {
      const ShellField value = {.text = std::move(*option.value)};
      parameters.Set(option.name, json::Json(ValueText({&value, 1})));
      continue;
    }
    const bool is_flag = base::IsOneOf(base::ReplaceAll(option.name, "-", "_"), kLauncherFlags) ||
                         at == arguments.size() || IsOption(arguments[at].text) ||
                         IsScript(arguments[at].text);
    if (option.name.empty()) {
      continue;
    }
    parameters.Set(option.name,
                   is_flag ? json::Json(true) : json::Json(ValueText(arguments.subspan(at, 1))));
    at += is_flag ? 0 : 1;
  }
  return at;
}

// What stands behind the interpreter at `at`.
std::optional<Launch> FindPythonLaunch(std::span<const ShellField> fields, size_t at) {
  for (++at; at < fields.size(); ++at) {
    const std::string& text = fields[at].text;
    if (text == "-c" || text == "-" || text == "-V" || text == "--version") {
      return std::nullopt;
    }
    if (text == "-m") {
      if (at + 1 == fields.size() || base::IsOneOf(fields[at + 1].text, kOtherModules)) {
        return std::nullopt;
      }
      const bool launcher = base::IsOneOf(fields[at + 1].text, kLaunchModules);
      return Launch{launcher ? LauncherKind::kDistributed : LauncherKind::kPython, at + 2};
    }
    if (base::IsOneOf(text, kInterpreterValues)) {
      ++at;
    } else if (!text.starts_with('-')) {
      // A launcher that is given to an interpreter as its script.
      if (base::IsOneOf(FileName(text), kLaunchPrograms)) {
        return Launch{LauncherKind::kDistributed, at + 1};
      }
      return FileName(text) == "setup.py" ? std::nullopt
                                          : std::optional(Launch{LauncherKind::kPython, at + 1});
    }
  }
  return std::nullopt;
}

std::optional<Launch> LaunchAt(std::span<const ShellField> fields, size_t at) {
  const std::string_view name = FileName(fields[at].text);
  if (base::IsOneOf(name, kLaunchPrograms)) {
    return Launch{LauncherKind::kDistributed, at + 1};
  }
  for (const auto& [program, word] : kLaunchPairs) {
    if (name == program && at + 1 < fields.size() && fields[at + 1].text == word) {
      return Launch{LauncherKind::kDistributed, at + 2};
    }
  }
  if (IsScript(name) && name != "setup.py") {  // that may be run by itself
    return Launch{LauncherKind::kPython, at + 1};
  }
  return IsInterpreter(name) ? FindPythonLaunch(fields, at) : std::nullopt;
}

// A program that may start another one: known ones, what the script does not tell, other scripts.
bool StartsOthers(const ShellField& field) {
  return field.is_unknown || base::IsOneOf(FileName(field.text), kWrappers) ||
         (field.text.find('/') != std::string::npos && !field.text.starts_with('-'));
}

// $PYTHON train.py, $LAUNCHER --nnodes 2 train.py.
std::optional<Launch> UnknownLaunch(std::span<const ShellField> fields) {
  if (fields.size() < 2 || !fields[0].is_unknown) {
    return std::nullopt;
  }
  const std::string& next = fields[1].text;
  if (next == "-m" || next == "-u" || IsScript(next)) {
    return FindPythonLaunch(fields, 0);
  }
  const bool has_script = std::any_of(fields.begin(), fields.end(),
                                      [](const ShellField& field) { return IsScript(field.text); });
  return has_script ? std::optional(Launch{LauncherKind::kDistributed, 1}) : std::nullopt;
}

}  // namespace

bool IsOption(std::string_view text) {
  const size_t dashes = text.starts_with("--") ? 2 : 1;
  if (!text.starts_with('-') || text.size() <= dashes || !StartsName(text[dashes])) {
    return false;
  }
  // "-inf" is a number; a quoted text may begin with a dash, too.
  const std::string_view name = text.substr(0, text.find('='));
  return name.find_first_of(" \t\n") == std::string_view::npos && !base::ParseDouble(text);
}

std::optional<Launch> FindLaunch(std::span<const ShellField> fields) {
  for (size_t at = 0; at < fields.size(); ++at) {
    if (std::optional<Launch> launch = LaunchAt(fields, at)) {
      launch->program = at;
      return launch;
    }
    if (at == 0 && !StartsOthers(fields[0])) {
      return std::nullopt;
    }
    // Its text or script decides.
    if (base::IsOneOf(FileName(fields[at].text), kShells)) {
      return std::nullopt;
    }
  }
  return UnknownLaunch(fields);
}

std::optional<NestedScript> FindNestedScript(std::span<const ShellField> fields) {
  for (size_t at = 0; at < fields.size(); ++at) {
    if (at == 0 && !StartsOthers(fields[0]) && !base::IsOneOf(FileName(fields[0].text), kShells)) {
      return std::nullopt;
    }
    if (!base::IsOneOf(FileName(fields[at].text), kShells)) {
      continue;
    }
    NestedScript script;
    script.is_file = true;
    size_t next = at + 1;
    while (next < fields.size() && fields[next].text.starts_with('-')) {
      const std::string& option = fields[next].text;
      script.is_file = script.is_file && (option.starts_with("--") || !option.ends_with('c'));
      next += option == "-o" ? 2 : 1;
    }
    if (next >= fields.size()) {
      return std::nullopt;
    }
    script.text = fields[next].text;
    script.arguments = next + 1;
    return script;
  }
  return std::nullopt;
}

size_t FindProgramEnd(LauncherKind kind, std::span<const ShellField> arguments) {
  Parameters ignored;
  return kind == LauncherKind::kDistributed ? ReadLauncherArguments(arguments, ignored) : 0;
}

void ReadLaunchArguments(LauncherKind kind, std::span<const ShellField> arguments,
                         Parameters& parameters) {
  const size_t script =
      kind == LauncherKind::kDistributed ? ReadLauncherArguments(arguments, parameters) : 0;
  ReadScriptArguments(arguments.subspan(script), parameters);
}

}  // namespace msprobe::analysis::config_check::internal
