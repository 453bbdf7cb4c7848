// msprobe monitor report: a monitored run as a page for browsers.
#pragma once

#include <string>
#include <vector>

#include "src/analysis/monitor/report/report.h"
#include "src/commands/answer.h"
#include "src/commands/command.h"

namespace msprobe::commands {

class MonitorReportCommand final : public Command {
 public:
  std::string_view name() const override { return "report"; }
  std::string_view summary() const override {
    return "Write one monitored run, or two for comparison, as an HTML file";
  }
  std::vector<Flag> flags() override;
  std::vector<Positional> positionals() override;
  std::vector<Example> examples() const override;
  std::string notes() const override;
  Result<ExitCode> Run(const Context& context) override;

 private:
  analysis::monitor::ReportOptions options_;
  AnswerFlags answer_;
};

}  // namespace msprobe::commands
