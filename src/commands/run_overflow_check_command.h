// msprobe run_overflow_check: does the CPU overflow where the device did?
#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include "src/analysis/accuracy/check/options.h"
#include "src/commands/answer.h"
#include "src/commands/command.h"

namespace msprobe::commands {

class RunOverflowCheckCommand final : public Command {
 public:
  std::string_view name() const override { return "run_overflow_check"; }
  std::string_view summary() const override {
    return "Check whether operators overflow on the CPU as they do on the device";
  }
  std::vector<Flag> flags() override;
  std::vector<Positional> positionals() override;
  std::vector<Example> examples() const override;
  std::string notes() const override;
  Result<ExitCode> Run(const Context& context) override;

 private:
  analysis::accuracy::CheckOptions options_;
  std::filesystem::path dump_;
  std::string jit_compile_;
  AnswerFlags answer_;
};

}  // namespace msprobe::commands
