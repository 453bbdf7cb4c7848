// msprobe dump recover: the files of a dump out of the records of a run that was interrupted.
#pragma once

#include <filesystem>
#include <string_view>
#include <vector>

#include "src/commands/answer.h"
#include "src/commands/command.h"

namespace msprobe::commands {

class DumpRecoverCommand final : public Command {
 public:
  std::string_view name() const override { return "recover"; }
  std::string_view summary() const override {
    return "Make the JSON files of a dump whose training was killed";
  }
  std::vector<Flag> flags() override;
  std::vector<Positional> positionals() override;
  std::vector<Example> examples() const override;
  Result<ExitCode> Run(const Context& context) override;

 private:
  std::filesystem::path folder_;
  AnswerFlags answer_;
};

}  // namespace msprobe::commands
