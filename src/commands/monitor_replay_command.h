// msprobe monitor replay: recorded tensors through the monitor's statistics and CSV writer.
#pragma once

#include <string>

#include "src/commands/answer.h"
#include "src/commands/command.h"

namespace msprobe::commands {

class MonitorReplayCommand final : public Command {
 public:
  std::string_view name() const override { return "replay"; }
  std::string_view summary() const override {
    return "Write the tables of recorded tensors, without a model";
  }
  void Configure(CLI::App& app) override;
  Result<ExitCode> Run(const Context& context) override;

 private:
  std::string feed_;
  std::string config_;
  std::string output_;
  bool compat_ = false;
  AnswerFlags answer_;
};

}  // namespace msprobe::commands
