#include "src/commands/completion_command.h"

#include "src/commands/completion.h"
#include "src/commands/print.h"

namespace msprobe::commands {

std::vector<Positional> CompletionCommand::positionals() {
  return {{.name = "SHELL",
           .fills = &shell_,
           .values = {"bash", "zsh", "fish"},
           .help = "The shell",
           .required = true}};
}

std::vector<Example> CompletionCommand::examples() const {
  return {
      {"source <(msprobe completion bash)", "in this shell; add it to ~/.bashrc for all shells"},
      {"source <(msprobe completion zsh)", "the same for zsh, in ~/.zshrc after compinit"},
      {"msprobe completion fish > ~/.config/fish/completions/msprobe.fish", "for fish"},
  };
}

Result<ExitCode> CompletionCommand::Run(const Context&) {
  MSP_RETURN_IF_ERROR(Print(shell_ == "bash"  ? BashCompletion(program_)
                            : shell_ == "zsh" ? ZshCompletion(program_)
                                              : FishCompletion(program_)));
  return ExitCode::kDone;
}

}  // namespace msprobe::commands
