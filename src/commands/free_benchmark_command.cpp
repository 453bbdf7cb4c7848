#include "src/commands/free_benchmark_command.h"

#include <cstdio>
#include <system_error>
#include <utility>

#include <fmt/format.h>

#include "src/base/log.h"
#include "src/capture/free_benchmark_settings.h"
#include "src/commands/dump_launcher.h"
#include "src/json/writer.h"

namespace msprobe::commands {
namespace {

constexpr const char* kNotes =
    R"(Rows go to <output>/step<N>/rank<R>/free_benchmark.csv. The exit code is that of the script; messages of msprobe go to stderr.
A script can also control it itself: from msprobe.pytorch (or msprobe.mindspore) import PrecisionDebugger.)";

}  // namespace

std::vector<Positional> FreeBenchmarkCommand::positionals() {
  return {{.name = "PROGRAM",
           .fills = &program_,
           .help = "The script to run and its arguments, after --",
           .required = true,
           .takes_rest = true}};
}

std::vector<Flag> FreeBenchmarkCommand::flags() {
  std::vector<Flag> flags = {
      {.name = "--config",
       .letter = "-c",
       .type = "FILE",
       .fills = &config_file_,
       .group = Group::kInput,
       .help = "Configuration with a section free_benchmark",
       .required = true},
      {.name = "--output",
       .letter = "-o",
       .type = "DIR",
       .fills = &dump_path_,
       .group = Group::kOutput,
       .help = "Overrides dump_path in the config file",
       .default_text = "that of the config file"},
  };
  AddAnswerFlags(flags, answer_);
  return flags;
}

std::vector<Example> FreeBenchmarkCommand::examples() const {
  return {
      {"msprobe free_benchmark -c config.json -- python3 train.py --epochs 1",
       "the outermost model and its steps are found while the script runs"},
      {"msprobe free_benchmark -c config.json -o unstable -- torchrun --nproc-per-node 8 train.py",
       "every process of a distributed run"},
      {"msprobe -f mindspore free_benchmark -c config.json -- python3 train.py",
       "a script of MindSpore in dynamic-graph mode"},
  };
}

std::string FreeBenchmarkCommand::notes() const { return kNotes; }

Result<ExitCode> FreeBenchmarkCommand::Run(const Context& context) {
  std::error_code ignored;
  if (!std::filesystem::is_regular_file(config_file_, ignored)) {
    return NotFoundError(fmt::format("{} is not a file", config_file_.string()))
        .WithHint("--config takes a JSON file with dump_path and a section free_benchmark");
  }
  const capture::Framework framework = context.framework == "mindspore"
                                           ? capture::Framework::kMindSpore
                                           : capture::Framework::kPyTorch;
  LaunchOptions options;
  json::Writer overrides(options.overrides_json, -1);
  overrides.BeginObject();
  overrides.Member("task", "free_benchmark");
  if (!dump_path_.empty()) {
    overrides.Member("dump_path", std::filesystem::absolute(dump_path_, ignored).string());
  }
  overrides.EndObject();
  // What is wrong with the configuration is said here, once, and not by every process of a run.
  MSP_ASSIGN_OR_RETURN(const capture::FreeBenchmarkSettings settings,
                       capture::LoadFreeBenchmarkSettings(config_file_, options.overrides_json,
                                                          framework, "the flags"));
  options.program = program_;
  options.config_file = config_file_;
  options.framework = capture::FrameworkName(framework);
  options.quiet = context.quiet;
  options.output_to_stderr = answer_.json;
  options.output_folder = settings.dump_path;
  MSP_ASSIGN_OR_RETURN(const ProgramEnd end, RunWithCapture(options));
  if (end.progress == LaunchProgress::kNoPython ||
      (end.progress == LaunchProgress::kPython && end.exit_code == 0 && end.signal == 0)) {
    base::LogWarning("nothing was checked: " + WhyNothing(end.progress, options.framework));
  }
  if (answer_.json) {
    report::Document document;
    document.command = "free_benchmark";
    document.verdict.word = end.signal == 0 && end.exit_code == 0 ? "DONE" : "FAILED";
    document.verdict.text = end.signal != 0
                                ? fmt::format("the script was ended by signal {}", end.signal)
                                : fmt::format("the script ended with exit code {}", end.exit_code);
    document.verdict.number = static_cast<double>(end.exit_code);
    OwnForms own;
    own.exit_code = end.exit_code;
    MSP_RETURN_IF_ERROR(GiveAnswer(std::move(document), answer_, context, own).status());
    std::fflush(stdout);
  }
  if (end.signal != 0) {
    EndBySignal(end.signal);
  }
  return static_cast<ExitCode>(end.exit_code);
}

}  // namespace msprobe::commands
