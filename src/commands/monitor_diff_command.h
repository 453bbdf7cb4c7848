// msprobe monitor diff: the first step and module where two runs diverge.
#pragma once

#include <string>
#include <vector>

#include "src/analysis/monitor/diff/diff.h"
#include "src/commands/answer.h"
#include "src/commands/command.h"

namespace msprobe::commands {

class MonitorDiffCommand final : public Command {
 public:
  std::string_view name() const override { return "diff"; }
  std::string_view summary() const override {
    return "Find the first step and module where two runs diverge";
  }
  std::vector<Flag> flags() override;
  std::vector<Positional> positionals() override;
  std::vector<Example> examples() const override;
  std::string notes() const override;
  Result<ExitCode> Run(const Context& context) override;

 private:
  analysis::monitor::DiffOptions options_;
  std::string format_ = "table";
  AnswerFlags answer_;
};

}  // namespace msprobe::commands
