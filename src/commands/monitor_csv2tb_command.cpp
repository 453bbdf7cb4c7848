#include <filesystem>
#include <string>
#include <vector>

#include "src/analysis/monitor/csv2tb/csv2tb.h"
#include "src/base/strings.h"
#include "src/commands/answer.h"
#include "src/commands/command.h"
#include "src/commands/commands.h"
#include "src/commands/common_flags.h"
#include "src/commands/monitor_flags.h"

namespace msprobe::commands {
namespace {

// msprobe monitor csv2tb: tables of a monitored run for TensorBoard.

class MonitorCsv2tbCommand final : public Command {
 public:
  std::string_view name() const override { return "csv2tb"; }
  std::string_view summary() const override {
    return "Convert a monitored run to TensorBoard event files";
  }
  FlagTable flags() override;
  std::vector<Positional> positionals() override;
  std::vector<Example> examples() const override;
  Result<ExitCode> Run(const Context& context) override;

 private:
  analysis::monitor::Csv2TbOptions options_;
  AnswerFlags answer_;
};

std::vector<Positional> MonitorCsv2tbCommand::positionals() {
  return {Argument("RUN", &options_.run, "Output folder of the monitor (<stamp>-rank<R>-<id>/)",
                   OrFlag{"--monitor-path"})};
}

FlagTable MonitorCsv2tbCommand::flags() {
  return {
      Group::kInput,
      Path("--monitor-path", "DIR", &options_.run, "The same, instead of RUN", kPython811),
      TimeStartFlag(options_.find.time_start),
      TimeEndFlag(options_.find.time_end),
      Group::kSelection,
      Text("--tables --data_type_list", "LIST", &options_.tables,
           "Only these tables: " + AnyOf(analysis::monitor::KnownTables()), kSeparatedByCommas,
           Default{"all but the last two"}, kPython811),
      Group::kOutput,
      Path("--output -o --output_dirpath", "DIR", &options_.output, "Folder for the event files",
           Default{"RUN/<now>-csv2tensorboard_by_step"}, kPython811),
      ForceFlag(),
      MonitorThreadsFlag(options_.threads),
      AnswerRows(answer_),
  };
}

std::vector<Example> MonitorCsv2tbCommand::examples() const {
  return {
      {"msprobe monitor csv2tb monitor_output",
       "all ranks and tables, into monitor_output/<now>-csv2tensorboard_by_step"},
      {"msprobe monitor csv2tb monitor_output --tables actv,grad_reduced -o events",
       "two tables, into events/rank<R>/<table>; then: tensorboard --logdir events"},
      {"msprobe monitor csv2tb monitor_output --time-start Dec03_21-34-40 --time-end "
       "Dec03_22-00-00",
       "only runs started between these times"},
  };
}

Result<ExitCode> MonitorCsv2tbCommand::Run(const Context& context) {
  MSP_ASSIGN_OR_RETURN(const analysis::monitor::Csv2TbResult result,
                       analysis::monitor::RunCsv2Tb(options_));
  return GiveAnswer(MakeDocument(result), answer_, context);
}

}  // namespace

std::unique_ptr<Command> MakeMonitorCsv2tb() { return std::make_unique<MonitorCsv2tbCommand>(); }

}  // namespace msprobe::commands
