// msprobe recheck: which calls of a dump are wrong.
#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include "src/analysis/recheck/options.h"
#include "src/commands/answer.h"
#include "src/commands/command.h"

namespace msprobe::commands {

class RecheckCommand final : public Command {
 public:
  std::string_view name() const override { return "recheck"; }
  std::string_view summary() const override {
    return "Recompute the calls of a tensor dump in float64 and name those that are wrong";
  }
  std::vector<Flag> flags() override;
  std::vector<Positional> positionals() override;
  std::vector<Example> examples() const override;
  std::string notes() const override;
  Result<ExitCode> Run(const Context& context) override;

 private:
  analysis::recheck::Options options_;
  std::string direction_ = "both";
  std::string accumulation_ = "any";
  std::string factors_ = "any";
  AnswerFlags answer_;
};

}  // namespace msprobe::commands
