#include "src/commands/monitor_run_command.h"

#include <utility>

#include <fmt/format.h>

#include "src/base/log.h"
#include "src/commands/dump_launcher.h"
#include "src/monitor/settings.h"

namespace msprobe::commands {
namespace {

constexpr const char* kMonitorRunNotes =
    R"(Tables go to <output>/<time>-rank<R>-<id>/. The exit code is that of the script; messages of msprobe go to stderr.
A script can also start the monitor itself: from msprobe.pytorch import TrainerMon.)";

}  // namespace

std::vector<Positional> MonitorRunCommand::positionals() {
  return {{.name = "PROGRAM",
           .fills = &program_,
           .help = "The script to run and its arguments, after --",
           .required = true,
           .takes_rest = true}};
}

std::vector<Flag> MonitorRunCommand::flags() {
  std::vector<Flag> flags = {
      {.name = "--config",
       .letter = "-c",
       .type = "FILE",
       .fills = &config_file_,
       .group = Group::kInput,
       .help = "Configuration of the monitor",
       .required = true},
      {.name = "--grad-acc-steps",
       .type = "N",
       .fills = &micro_steps_,
       .bounds = {.least = 1, .most = 1e6},
       .group = Group::kMethod,
       .help = "Forward and backward passes per optimizer step"},
      {.name = "--output",
       .letter = "-o",
       .type = "DIR",
       .fills = &output_folder_,
       .group = Group::kOutput,
       .help = "Folder for the tables",
       .default_text = "MONITOR_OUTPUT_DIR, or monitor_output"},
  };
  AddAnswerFlags(flags, answer_);
  return flags;
}

std::vector<Example> MonitorRunCommand::examples() const {
  return {
      {"msprobe monitor run -c monitor.json -- python3 train.py --epochs 1",
       "the outermost model and its optimizers are found while the script runs"},
      {"msprobe monitor run -c monitor.json -o watched --grad-acc-steps 4 -- torchrun "
       "--nproc-per-node 8 train.py",
       "every process of a distributed run; four micro steps per optimizer step"},
  };
}

std::string MonitorRunCommand::notes() const { return kMonitorRunNotes; }

Result<ExitCode> MonitorRunCommand::Run(const Context& context) {
  if (context.framework == "mindspore") {
    return UsageError("monitor run finds models of PyTorch only")
        .WithHint("in a MindSpore script: from msprobe.mindspore import TrainerMon");
  }
  // What is wrong with the configuration is said here, once, and not by every process of a run.
  MSP_ASSIGN_OR_RETURN(const monitor::Settings settings, monitor::LoadSettings(config_file_, ""));
  for (const std::string& warning : settings.warnings) {
    base::LogWarning(warning);
  }
  std::error_code ignored;
  LaunchOptions options;
  options.program = program_;
  options.purpose = "MONITOR";
  options.config_file = config_file_;
  options.framework = "pytorch";
  options.quiet = context.quiet;
  options.output_to_stderr = answer_.json;
  options.output_folder = output_folder_.empty() ? monitor::OutputRoot() : output_folder_;
  options.variables.emplace_back("MSPROBE_MONITOR_MICRO_STEPS", fmt::format("{}", micro_steps_));
  if (!output_folder_.empty()) {
    options.variables.emplace_back("MONITOR_OUTPUT_DIR",
                                   std::filesystem::absolute(output_folder_, ignored).string());
  }
  MSP_ASSIGN_OR_RETURN(const ProgramEnd end, RunWithCapture(options));
  return TellEnd(end, "monitor run", "nothing was watched", options.framework, answer_, context);
}

}  // namespace msprobe::commands
