// msprobe monitor csv2tb: tables of a monitored run for TensorBoard.
#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include "src/analysis/monitor/csv2tb/csv2tb.h"
#include "src/commands/answer.h"
#include "src/commands/command.h"

namespace msprobe::commands {

class MonitorCsv2tbCommand final : public Command {
 public:
  std::string_view name() const override { return "csv2tb"; }
  std::string_view summary() const override {
    return "Convert a monitored run to TensorBoard event files";
  }
  std::vector<Flag> flags() override;
  std::vector<Positional> positionals() override;
  std::vector<Example> examples() const override;
  Result<ExitCode> Run(const Context& context) override;

 private:
  std::filesystem::path run_;
  analysis::monitor::Csv2TbOptions options_;
  AnswerFlags answer_;
};

}  // namespace msprobe::commands
