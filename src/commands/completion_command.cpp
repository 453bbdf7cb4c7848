#include <string>
#include <string_view>
#include <vector>

#include "src/commands/command.h"
#include "src/commands/commands.h"
#include "src/commands/completion.h"
#include "src/commands/print.h"

namespace msprobe::commands {
namespace {

// msprobe completion: the script that lets a shell complete this program's command lines.

class CompletionCommand final : public Command {
 public:
  explicit CompletionCommand(Command& program) : program_(program) {}

  std::string_view name() const override { return "completion"; }
  std::string_view summary() const override {
    return "Print the completion script of a shell: bash, zsh or fish";
  }
  std::vector<Positional> positionals() override;
  std::vector<Example> examples() const override;
  Result<ExitCode> Run(const Context& context) override;

 private:
  Command& program_;
  std::string shell_;
};

std::vector<Positional> CompletionCommand::positionals() {
  return {Argument("SHELL", &shell_, "The shell", std::vector<std::string>{"bash", "zsh", "fish"},
                   kRequired)};
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

}  // namespace

std::unique_ptr<Command> MakeCompletion(Command& program) {
  return std::make_unique<CompletionCommand>(program);
}

}  // namespace msprobe::commands
