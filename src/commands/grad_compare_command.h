// msprobe grad_compare: the directions of two runs' gradients.
#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include "src/analysis/grad/grad.h"
#include "src/commands/answer.h"
#include "src/commands/command.h"

namespace msprobe::commands {

class GradCompareCommand final : public Command {
 public:
  std::string_view name() const override { return "grad_compare"; }
  std::string_view summary() const override {
    return "Compare the signs of two runs' gradients, as the task grad_probe stored them";
  }
  std::vector<Flag> flags() override;
  std::vector<Positional> positionals() override;
  std::vector<Example> examples() const override;
  std::string notes() const override;
  Result<ExitCode> Run(const Context& context) override;

 private:
  analysis::grad::Options options_;
  std::vector<std::string> formats_;
  AnswerFlags answer_;
};

}  // namespace msprobe::commands
