// msprobe dump ctl: turns a live capture on and off by the key dump_enable of its configuration.
#pragma once

#include <filesystem>
#include <string>
#include <string_view>
#include <vector>

#include "src/commands/answer.h"
#include "src/commands/command.h"

namespace msprobe::commands {

class DumpCtlCommand final : public Command {
 public:
  std::string_view name() const override { return "ctl"; }
  std::string_view summary() const override {
    return "Turn a live capture on or off, or show its state";
  }
  std::vector<Flag> flags() override;
  std::vector<Positional> positionals() override;
  std::vector<Example> examples() const override;
  std::string notes() const override;
  Result<ExitCode> Run(const Context& context) override;

 private:
  std::string action_;
  std::filesystem::path config_file_;
  AnswerFlags answer_;
};

}  // namespace msprobe::commands
