// Recognises commands that start a training, and reads their arguments.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>

#include "src/analysis/config_check/parameters.h"

namespace msprobe::analysis::config_check::internal {

// One argument of a command after expansion.
struct ShellField {
  std::string text;
  // Nothing but one reference whose value the script does not tell: "$UNDEFINED", "$(date)".
  bool is_unknown = false;
  bool may_vanish = false;  // it is not quoted: any number of words, or none
  int line = 0;
  bool holds_options = false;  // such a reference, called $EXTRA_ARGS or the like
};

enum class LauncherKind : uint8_t {
  kPython,       // python train.py: only what follows the script is about the training
  kDistributed,  // torchrun, deepspeed, ...: its own options are recorded, too
};

struct Launch {
  LauncherKind kind = LauncherKind::kPython;
  size_t arguments = 0;  // index of the first field behind the launcher
  size_t program = 0;    // index of the launcher
};

// A shell inside of the shell.
struct NestedScript {
  std::string text;  // what "bash -c" is given, or the name of a script
  bool is_file = false;
  size_t arguments = 0;  // index of the first field that it is given
};

// nullopt when the command starts no training. Looks behind env, sudo, nohup, srun, mpirun and the
// like.
std::optional<Launch> FindLaunch(std::span<const ShellField> fields);

// What `bash -c TEXT` or `bash NAME` would run, also behind such programs.
std::optional<NestedScript> FindNestedScript(std::span<const ShellField> fields);

// An argument that begins with a dash and is not a number.
bool IsOption(std::string_view text);

// In the arguments that follow the launcher: the index after the script or module.
size_t FindProgramEnd(LauncherKind kind, std::span<const ShellField> arguments);

// `arguments`: what follows the launcher.
void ReadLaunchArguments(LauncherKind kind, std::span<const ShellField> arguments,
                         Parameters& parameters);

}  // namespace msprobe::analysis::config_check::internal
