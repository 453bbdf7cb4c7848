// msprobe op_generate: a script that runs one API of a dump on a device and on the CPU.
#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include "src/analysis/repro/op_generate.h"
#include "src/commands/answer.h"
#include "src/commands/command.h"

namespace msprobe::commands {

class OpGenerateCommand final : public Command {
 public:
  std::string_view name() const override { return "op_generate"; }
  std::string_view summary() const override {
    return "Write a script that runs one API on a device and on the CPU, and compares the results";
  }
  std::vector<Positional> positionals() override;
  std::vector<Flag> flags() override;
  std::vector<Example> examples() const override;
  std::string notes() const override;
  Result<ExitCode> Run(const Context& context) override;

 private:
  analysis::repro::OpGenerateOptions options_;
  std::filesystem::path config_flag_;  // -i
  AnswerFlags answer_;
};

}  // namespace msprobe::commands
