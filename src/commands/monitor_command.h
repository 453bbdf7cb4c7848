// msprobe monitor: everything around the training monitor, each as a subcommand of its own.
#pragma once

#include <memory>
#include <vector>

#include "src/commands/command.h"

namespace msprobe::commands {

class MonitorCommand final : public Command {
 public:
  MonitorCommand();
  std::string_view name() const override { return "monitor"; }
  std::string_view summary() const override {
    return "Watch a training run; analyse, compare, convert and show what was recorded";
  }
  std::vector<Command*> subcommands() const override;
  bool is_group() const override { return true; }
  Result<ExitCode> Run(const Context& context) override;

 private:
  std::vector<std::unique_ptr<Command>> commands_;
};

}  // namespace msprobe::commands
