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

constexpr const char* kMonitorAnalyseNotes =
    R"(Alerts are sorted by step, micro step, phase (forward, backward, optimizer), pipeline stage and call.

)";

std::vector<Positional> MonitorAnalyseCommand::positionals() {
  return {
      {.name = "RUN",
       .fills = &run_,
       .help =
           "Output folder of the monitor, or its folder anomaly_detected (rank<R>/anomaly.json)"}};
}

std::vector<Flag> MonitorAnalyseCommand::flags() {
  std::vector<Flag> flags = {
      {.name = "--data-path",
       .letter = "-d",
       .type = "DIR",
       .fills = &options_.data,
       .group = Group::kInput,
       .help = "The folder anomaly_detected, instead of RUN",
       .since = kPython811},
      {.name = "--step",
       .letter = "-s",
       .aliases = {"--step_list"},
       .type = "LIST",
       .fills = &steps_,
       .group = Group::kSelection,
       .help = "Only alerts of these steps: '[1,3]' or 1,3",
       .default_text = "all",
       .since = kPython811},
      {.name = "--top",
       .letter = "-k",
       .aliases = {"--topk"},
       .type = "N",
       .fills = &top_,
       .group = Group::kSelection,
       .help = "Number of alerts to show",
       .since = kPython811},
      {.name = "--order",
       .type = "NAME",
       .fills = &order_,
       .values = {"python", "causal"},
       .group = Group::kMethod,
       .help = "Order of parameters and communication; python: before everything else, causal: "
               "where they happen in a step"},
      {.name = "--output",
       .letter = "-o",
       .aliases = {"--out_path"},
       .type = "DIR",
       .fills = &options_.output,
       .group = Group::kOutput,
       .help = "Folder for anomaly_analyse.json",
       .default_text = "the folder of the alerts",
       .since = kPython811},
      ForceFlag(),
  };
  AddAnswerFlags(flags, answer_, analysis::monitor::kAnalyseLevels);
  return flags;
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
  MSP_RETURN_IF_ERROR(TakePath(run_, "RUN", "-d", options_.data));
  if (base::IsFolder(options_.data / "anomaly_detected")) {
    options_.data /= "anomaly_detected";
  }
  options_.top = top_ > 0 ? static_cast<size_t>(top_) : 0;
  options_.order = order_ == "causal" ? analysis::monitor::AnomalyOrder::kCausal
                                      : analysis::monitor::AnomalyOrder::kPython;
  MSP_ASSIGN_OR_RETURN(options_.steps, analysis::monitor::ParseStepList(steps_));
  MSP_RETURN_IF_ERROR(CheckAnswerFlags(answer_));
  MSP_ASSIGN_OR_RETURN(const analysis::monitor::AnalyseResult result,
                       analysis::monitor::RunAnalyse(options_));
  return GiveAnswer(MakeDocument(result), answer_, context);
}

}  // namespace

std::unique_ptr<Command> MakeMonitorAnalyse() { return std::make_unique<MonitorAnalyseCommand>(); }

}  // namespace msprobe::commands
