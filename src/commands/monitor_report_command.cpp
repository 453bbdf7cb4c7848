#include <string>
#include <vector>

#include "src/analysis/monitor/report/report.h"
#include "src/commands/answer.h"
#include "src/commands/command.h"
#include "src/commands/commands.h"
#include "src/commands/common_flags.h"
#include "src/commands/monitor_flags.h"

namespace msprobe::commands {
namespace {

// msprobe monitor report: a monitored run as a page for browsers.

class MonitorReportCommand final : public Command {
 public:
  std::string_view name() const override { return "report"; }
  std::string_view summary() const override {
    return "Write one monitored run, or two for comparison, as an HTML file";
  }
  FlagTable flags() override;
  std::vector<Positional> positionals() override;
  std::vector<Example> examples() const override;
  std::string notes() const override;
  Result<ExitCode> Run(const Context& context) override;

 private:
  analysis::monitor::ReportOptions options_;
  AnswerFlags answer_;
};

constexpr const char* kMonitorReportNotes = R"(The same run always gives the same bytes.

)";

std::vector<Positional> MonitorReportCommand::positionals() {
  return {Argument("RUN", &options_.run, "The run: the folder that contains <stamp>-rank<R>-<id>/",
                   kRequired),
          Argument("REFERENCE", &options_.other, "A second run for comparison")};
}

FlagTable MonitorReportCommand::flags() {
  return {
      TablesFlag(options_.read.tables),
      StatisticsFlag(options_.read.ops),
      TimeStartFlag(options_.read.find.time_start),
      TimeEndFlag(options_.read.find.time_end),
      Group::kOutput,
      Path("--output -o", "FILE", &options_.output, "HTML file to write"),
      ForceFlag(),
      AnswerRows(answer_, analysis::monitor::kReportLevels),
  };
}

std::vector<Example> MonitorReportCommand::examples() const {
  return {
      {"msprobe monitor report monitor_output -o report.html",
       "curves, heat maps over ranks and modules, alerts; for any current browser, without "
       "network"},
      {"msprobe monitor report npu_output gpu_output -o both.html",
       "two runs of the same model, overlaid"},
      {"msprobe monitor report monitor_output -o grads.html --tables grad_reduced,exp_avg "
       "--statistics norm,max",
       "a smaller file: only these tables and statistics"},
      {"msprobe monitor report monitor_output --fail-on not_finite",
       "in CI: exit code 1 if a table contains NaN or infinity"},
  };
}

std::string MonitorReportCommand::notes() const { return kMonitorReportNotes; }

Result<ExitCode> MonitorReportCommand::Run(const Context& context) {
  MSP_ASSIGN_OR_RETURN(const analysis::monitor::ReportResult outcome,
                       analysis::monitor::RunReport(options_));
  return GiveAnswer(MakeDocument(outcome, options_.output), answer_, context);
}

}  // namespace

std::unique_ptr<Command> MakeMonitorReport() { return std::make_unique<MonitorReportCommand>(); }

}  // namespace msprobe::commands
