// msprobe monitor replay: recorded tensors through the monitor's statistics and CSV writer.
#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include "src/commands/answer.h"
#include "src/commands/command.h"
#include "src/monitor/replay.h"

namespace msprobe::commands {

class MonitorReplayCommand final : public Command {
 public:
  std::string_view name() const override { return "replay"; }
  std::string_view summary() const override {
    return "Compute the monitor's tables from recorded tensors";
  }
  std::vector<Flag> flags() override;
  std::vector<Positional> positionals() override;
  std::vector<Example> examples() const override;
  std::string notes() const override;
  Result<ExitCode> Run(const Context& context) override;

 private:
  std::filesystem::path feed_;
  monitor::ReplayOptions options_;
  AnswerFlags answer_;
};

}  // namespace msprobe::commands
