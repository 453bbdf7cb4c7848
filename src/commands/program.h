// The program as the command that holds all others.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "src/commands/command.h"

namespace msprobe::commands {

class Program final : public Command {
 public:
  Program();

  std::string_view name() const override { return "msprobe"; }
  std::string_view summary() const override;
  FlagTable flags() override;
  std::vector<Command*> subcommands() const override;
  bool is_group() const override { return true; }
  Result<ExitCode> Run(const Context& context) override;

  const std::string& framework() const { return framework_; }
  bool wants_version() const { return version_; }

 private:
  std::vector<std::unique_ptr<Command>> commands_;
  std::string framework_;  // -f
  bool version_ = false;
};

}  // namespace msprobe::commands
