// Inside of the room: which commands start a training, and what their arguments say.
#pragma once

#include <optional>
#include <span>
#include <string>
#include <string_view>

#include "src/analysis/config_check/parameters.h"
#include "src/analysis/config_check/shell_variables.h"

namespace msprobe::analysis::config_check::internal {

enum class LauncherKind : uint8_t {
  kPython,       // python train.py: only what follows the script is about the training
  kDistributed,  // torchrun, deepspeed, ...: its own options are recorded, too
};

struct Launch {
  LauncherKind kind = LauncherKind::kPython;
  size_t arguments = 0;  // index of the first field behind the launcher
};

// nullopt when the command starts no training. Looks behind env, sudo, nohup, srun, mpirun and the
// like.
std::optional<Launch> FindLaunch(std::span<const ShellField> fields);

// The text that `bash -c TEXT` or `eval TEXT` would run, also behind such programs.
std::optional<std::string> FindNestedScript(std::span<const ShellField> fields);

// An argument that begins with a dash and is no number.
bool IsOption(std::string_view text);

// `arguments`: what follows the launcher.
void ReadLaunchArguments(LauncherKind kind, std::span<const ShellField> arguments,
                         Parameters& parameters);

}  // namespace msprobe::analysis::config_check::internal
