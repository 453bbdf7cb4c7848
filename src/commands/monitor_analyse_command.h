// msprobe monitor analyse: alerts of all ranks, nearest to the cause first.
#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include "src/analysis/monitor/analyse/analyse.h"
#include "src/commands/answer.h"
#include "src/commands/command.h"

namespace msprobe::commands {

class MonitorAnalyseCommand final : public Command {
 public:
  std::string_view name() const override { return "analyse"; }
  std::string_view summary() const override {
    return "Sort the alerts of all ranks: which tensor went wrong first?";
  }
  std::vector<Flag> flags() override;
  std::vector<Positional> positionals() override;
  std::vector<Example> examples() const override;
  std::string notes() const override;
  Result<ExitCode> Run(const Context& context) override;

 private:
  std::filesystem::path run_;
  analysis::monitor::AnalyseOptions options_;
  int64_t top_ = 8;
  std::string steps_;
  std::string order_ = "python";
  AnswerFlags answer_;
};

}  // namespace msprobe::commands
