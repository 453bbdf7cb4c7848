#include <filesystem>
#include <string>
#include <vector>

#include "src/analysis/monitor/analyse/analyse.h"
#include "src/base/output_files.h"
#include "src/commands/answer.h"
#include "src/commands/command.h"
#include "src/commands/commands.h"
#include "src/commands/common_flags.h"

namespace msprobe::commands {
namespace {

// msprobe monitor analyse: alerts of all ranks, nearest to the cause first.

class MonitorAnalyseCommand final : public Command {
 public:
  std::string_view name() const override { return "analyse"; }
  std::string_view summary() const override {
    return "Sort the alerts of all ranks: which tensor went wrong first?";
  }
  FlagTable flags() override;
  std::vector<Positional> positionals() override;
  std::vector<Example> examples() const override;
  std::string notes() const override;
  Result<ExitCode> Run(const Context& context) override;

 private:
  analysis::monitor::AnalyseOptions options_;
  int64_t top_ = 8;
  std::string steps_;
  std::string order_ = "python";
  AnswerFlags answer_;
};

constexpr const char* kMonitorAnalyseNotes =
    R"(Alerts are sorted by step, micro step, phase (forward, backward, optimizer), pipeline stage and call.

)";

std::vector<Positional> MonitorAnalyseCommand::positionals() {
  return {Argument(
      "RUN", &options_.data,
      "Output folder of the monitor, or its folder anomaly_detected (rank<R>/anomaly.json)",
      OrFlag{"-d"})};
}

FlagTable MonitorAnalyseCommand::flags() {
  return {
      Group::kInput,
      Path("--data-path -d", "DIR", &options_.data, "The folder anomaly_detected, instead of RUN",
           kPython811),
      Group::kSelection,
      Text("--step -s --step_list", "LIST", &steps_, "Only alerts of these steps: '[1,3]' or 1,3",
           Default{"all"}, kPython811),
      Number("--top -k --topk", "N", &top_, "Number of alerts to show", kPython811),
      Group::kMethod,
      Choice("--order", "NAME", &order_, {"python", "causal"},
             "Order of parameters and communication; python: before everything else, causal: "
             "where they happen in a step"),
      Group::kOutput,
      Path("--output -o --out_path", "DIR", &options_.output, "Folder for anomaly_analyse.json",
           Default{"the folder of the alerts"}, kPython811),
      ForceFlag(),
      AnswerRows(answer_, analysis::monitor::kAnalyseLevels),
  };
}

std::vector<Example> MonitorAnalyseCommand::examples() const {
  return {
      {"msprobe monitor analyse monitor_output",
       "the first eight alerts, also written to anomaly_analyse.json in that folder"},
      {"msprobe monitor analyse monitor_output -o result -k 20 -s '[100,101]'",
       "twenty alerts, of these steps only"},
      {"msprobe monitor analyse monitor_output --order causal",
       "with parameters and communication where they happen in a step"},
      {"msprobe monitor analyse monitor_output --fail-on alert --junit alerts.xml -q",
       "in CI: exit code 1 if there is an alert"},
  };
}

std::string MonitorAnalyseCommand::notes() const { return kMonitorAnalyseNotes; }

Result<ExitCode> MonitorAnalyseCommand::Run(const Context& context) {
  if (base::IsFolder(options_.data / "anomaly_detected")) {
    options_.data /= "anomaly_detected";
  }
  options_.top = top_ > 0 ? static_cast<size_t>(top_) : 0;
  options_.order = order_ == "causal" ? analysis::monitor::AnomalyOrder::kCausal
                                      : analysis::monitor::AnomalyOrder::kPython;
  MSP_ASSIGN_OR_RETURN(options_.steps, analysis::monitor::ParseStepList(steps_));
  MSP_ASSIGN_OR_RETURN(const analysis::monitor::AnalyseResult result,
                       analysis::monitor::RunAnalyse(options_));
  return GiveAnswer(MakeDocument(result), answer_, context);
}

}  // namespace

std::unique_ptr<Command> MakeMonitorAnalyse() { return std::make_unique<MonitorAnalyseCommand>(); }

}  // namespace msprobe::commands
