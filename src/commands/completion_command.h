// msprobe completion: the script that lets a shell complete this program's command lines.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "src/commands/command.h"

namespace msprobe::commands {

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

}  // namespace msprobe::commands
