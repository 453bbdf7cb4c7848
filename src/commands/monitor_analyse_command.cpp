#include "src/commands/monitor_analyse_command.h"

#include <CLI/CLI.hpp>
#include <fmt/format.h>

#include "src/base/log.h"
#include "src/base/strings.h"
#include "src/commands/common_flags.h"
#include "src/commands/print.h"

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
  app.footer(kExamples);
}

Result<ExitCode> MonitorAnalyseCommand::Run(const Context& context) {
  options_.top = top_ > 0 ? static_cast<size_t>(top_) : 0;
  options_.order =
      order_ == "causal" ? monitor::AnomalyOrder::kCausal : monitor::AnomalyOrder::kPython;
  MSP_ASSIGN_OR_RETURN(options_.steps, monitor::ParseStepList(steps_));
  MSP_ASSIGN_OR_RETURN(const monitor::AnalyseResult result, monitor::AnalyseAnomalies(options_));
  for (const std::string& warning : result.warnings) {
    base::LogWarning(warning);
  }
  if (context.quiet) {
    return ExitCode::kDone;
  }
  std::string text = fmt::format("Top {} anomalies are listed as follows:\n", result.top.size());
  for (size_t i = 0; i < result.top.size(); ++i) {
    text += fmt::format("{}: {}\n", i, base::Printable(result.top[i].message));
  }
  text += fmt::format("\n{} of {}; result: {}\n", base::Plural(result.alerts, "alert"),
                      base::Plural(result.ranks, "rank"), result.file.string());
  MSP_RETURN_IF_ERROR(Print(text));
  return ExitCode::kDone;
}

}  // namespace msprobe::commands
