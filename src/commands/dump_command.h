// msprobe dump: captures from an unmodified script; checks, shows and repairs what belongs to it.
#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include "src/commands/answer.h"
#include "src/commands/command.h"
#include "src/commands/dump_ctl_command.h"
#include "src/commands/dump_recover_command.h"

namespace msprobe::commands {

class DumpCommand final : public Command {
 public:
  std::string_view name() const override { return "dump"; }
  std::string_view summary() const override {
    return "Capture what a training or inference script computes";
  }
  std::vector<Flag> flags() override;
  std::vector<Positional> positionals() override;
  std::vector<Example> examples() const override;
  std::string notes() const override;
  std::vector<Command*> subcommands() const override { return {&recover_, &ctl_}; }
  Result<ExitCode> Run(const Context& context) override;

 private:
  Result<ExitCode> Check(const Context& context) const;
  Result<ExitCode> Launch(const Context& context);
  // Messages about the folder name the flag.
  Status CheckOutput(const Context& context) const;
  // The flags that win over the file, as one JSON object; empty when none is given.
  std::string OverridesJson() const;

  std::filesystem::path config_file_;
  std::filesystem::path checked_file_;
  std::string task_;
  std::string level_;
  std::string dump_path_;
  int64_t repeat_ = 0;
  bool replaces_ = false;
  std::vector<std::string> program_;
  bool example_ = false;
  mutable DumpRecoverCommand recover_;
  mutable DumpCtlCommand ctl_;
  AnswerFlags answer_;
};

}  // namespace msprobe::commands
