// msprobe help: what --help of a command shows, also as man page, Markdown and JSON.
#pragma once

#include <filesystem>
#include <string>
#include <string_view>
#include <vector>

#include "src/commands/command.h"

namespace msprobe::commands {

class HelpCommand final : public Command {
 public:
  explicit HelpCommand(Command& program) : program_(program) {}

  std::string_view name() const override { return "help"; }
  std::string_view summary() const override { return "Show the help of a command"; }
  std::vector<Flag> flags() override;
  std::vector<Positional> positionals() override;
  std::vector<Example> examples() const override;
  Result<ExitCode> Run(const Context& context) override;

 private:
  Result<CommandPath> Find() const;
  Result<ExitCode> WritePages();

  Command& program_;
  std::vector<std::string> words_;
  std::string format_ = "text";
  std::filesystem::path pages_;  // a folder for all man pages; empty: none
};

}  // namespace msprobe::commands
