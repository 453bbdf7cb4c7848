#include <string>
#include <vector>

#include "src/analysis/monitor/diff/diff.h"
#include "src/commands/answer.h"
#include "src/commands/command.h"
#include "src/commands/commands.h"
#include "src/commands/common_flags.h"
#include "src/commands/monitor_flags.h"

namespace msprobe::commands {
namespace {

// msprobe monitor diff: the first step and module where two runs diverge.

class MonitorDiffCommand final : public Command {
 public:
  std::string_view name() const override { return "diff"; }
  std::string_view summary() const override {
    return "Find the first step and module where two runs diverge";
  }
  FlagTable flags() override;
  std::vector<Positional> positionals() override;
  std::vector<Example> examples() const override;
  std::string notes() const override;
  Result<ExitCode> Run(const Context& context) override;

 private:
  analysis::monitor::DiffOptions options_;
  std::string format_ = "table";
  AnswerFlags answer_;
};

constexpr const char* kMonitorDiffNotes =
    R"(Two values differ when |A - B| > atol + rtol * max(|A|, |B|). NaN equals only NaN.

)";

std::vector<Positional> MonitorDiffCommand::positionals() {
  return {Argument("RUN", &options_.a,
                   "The run under test: folders <stamp>-rank<R>-<id>, or one of them", kRequired),
          Argument("REFERENCE", &options_.b, "The run to compare it with", kRequired)};
}

FlagTable MonitorDiffCommand::flags() {
  return {
      TablesFlag(options_.tables),
      StatisticsFlag(options_.ops),
      Number("--rtol", "R", &options_.rtol, "Allowed relative difference", kNotNegative),
      Number("--atol", "A", &options_.atol, "Allowed absolute difference", kNotNegative),
      Switch("--reduce", &options_.reduce,
             "Combine the values of all ranks even if both runs have the same ranks"),
      Group::kOutput,
      Choice("--format", "NAME", &format_, {"table", "json"}, "What to print"),
      ThreadsFlag(options_.threads),
      AnswerRows(answer_, analysis::monitor::kDiffLevels),
  };
}

std::vector<Example> MonitorDiffCommand::examples() const {
  return {
      {"msprobe monitor diff after/monitor_output before/monitor_output",
       "one line per table and statistic, and the first divergence"},
      {"msprobe monitor diff npu gpu --rtol 0.05 --tables actv,grad_reduced --statistics norm",
       "norms only, up to 5 percent apart"},
      {"msprobe monitor diff eight_ranks one_rank --format json",
       "different numbers of ranks: norms of shards are combined; JSON output"},
      {"msprobe monitor diff after before --fail-on different -q",
       "in CI: exit code 1 if the runs diverge"},
  };
}

std::string MonitorDiffCommand::notes() const {
  return kMonitorDiffNotes + FailOnHelp(analysis::monitor::kDiffLevels);
}

Result<ExitCode> MonitorDiffCommand::Run(const Context& context) {
  MSP_ASSIGN_OR_RETURN(const analysis::monitor::DiffResult result,
                       analysis::monitor::RunDiff(options_));
  OwnForms own;
  if (format_ == "json") {
    own.instead = DiffJson(options_, result);
  }
  return GiveAnswer(MakeDocument(result), answer_, context, own);
}

}  // namespace

std::unique_ptr<Command> MakeMonitorDiff() { return std::make_unique<MonitorDiffCommand>(); }

}  // namespace msprobe::commands
