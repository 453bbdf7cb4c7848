#include "src/commands/monitor_analyse_command.h"

#include <CLI/CLI.hpp>

#include "src/analysis/monitor/answers.h"
#include "src/commands/common_flags.h"

namespace msprobe::commands {
namespace {

constexpr const char* kExamples = R"(Examples:
  msprobe monitor analyse -d monitor_output/anomaly_detected
      the eight alerts nearest to the cause, also written to anomaly_analyse.json there
  msprobe monitor analyse -d monitor_output/anomaly_detected -o result -k 20 -s '[100,101]'
      twenty, of these steps only
  msprobe monitor analyse -d monitor_output/anomaly_detected --order causal
      parameters and communication at their place in a step instead of before everything

Order: step, micro step, stage of the step (forward, backward, optimizer), place in the pipeline, call.)";

}  // namespace

void MonitorAnalyseCommand::Configure(CLI::App& app) {
  app.add_option("-d,--data_path", options_.data,
                 "The folder anomaly_detected: rank<R>/anomaly.json below it")
      ->type_name("DIR")
      ->required();
  app.add_option("-o,--out_path", options_.output, "Folder for anomaly_analyse.json (default: DIR)")
      ->type_name("DIR");
  app.add_option("-k,--topk", top_, "How many alerts to keep (default 8)")->type_name("N");
  app.add_option("-s,--step,--step_list", steps_,
                 "Only alerts of these steps, as '[1,3]' or 1,3 (default: all)")
      ->type_name("LIST");
  app.add_option("--order", order_,
                 "python: as the Python tool, parameters and communication first; causal: where "
                 "they come about in a step")
      ->type_name("NAME")
      ->check(CLI::IsMember({"python", "causal"}));
  AddForceFlag(app);
  AddAnswerFlags(app, answer_);
  app.footer(kExamples);
}

Result<ExitCode> MonitorAnalyseCommand::Run(const Context& context) {
  options_.top = top_ > 0 ? static_cast<size_t>(top_) : 0;
  options_.order =
      order_ == "causal" ? monitor::AnomalyOrder::kCausal : monitor::AnomalyOrder::kPython;
  MSP_ASSIGN_OR_RETURN(options_.steps, monitor::ParseStepList(steps_));
  MSP_ASSIGN_OR_RETURN(const monitor::AnalyseResult result, monitor::AnalyseAnomalies(options_));
  return GiveAnswer(MakeDocument(result), answer_, context);
}

}  // namespace msprobe::commands
