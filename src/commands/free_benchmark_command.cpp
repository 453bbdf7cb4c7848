#include <filesystem>
#include <string>
#include <system_error>
#include <utility>
#include <vector>

#include <fmt/format.h>

#include "src/capture/settings.h"
#include "src/commands/answer.h"
#include "src/commands/command.h"
#include "src/commands/commands.h"
#include "src/commands/dump_launcher.h"
#include "src/json/writer.h"

namespace msprobe::commands {
namespace {

// msprobe free_benchmark: a training as it is, its selected calls made twice.

class FreeBenchmarkCommand final : public Command {
 public:
  std::string_view name() const override { return "free_benchmark"; }
  std::string_view summary() const override {
    return "Run an unmodified script and find operators that are unstable, without a second run";
  }
  FlagTable flags() override;
  std::vector<Positional> positionals() override;
  std::vector<Example> examples() const override;
  std::string notes() const override;
  Result<ExitCode> Run(const Context& context) override;

 private:
  std::filesystem::path config_file_;
  std::string dump_path_;
  std::vector<std::string> program_;
  AnswerFlags answer_;
};

constexpr const char* kNotes =
    R"(Rows go to <output>/step<N>/rank<R>/free_benchmark.csv. The exit code is that of the script; messages of msprobe go to stderr.
A script can also control it itself: from msprobe.pytorch (or msprobe.mindspore) import PrecisionDebugger.

A configuration to start with:

  {"task": "free_benchmark", "dump_path": "unstable", "free_benchmark": {"pert_mode": "add_noise"}})";

std::vector<Positional> FreeBenchmarkCommand::positionals() {
  return {Argument("PROGRAM", &program_, "The script to run and its arguments, after --", kRequired,
                   kRest)};
}

FlagTable FreeBenchmarkCommand::flags() {
  return {
      Group::kInput,
      Path("--config -c", "FILE", &config_file_, "Configuration with a section free_benchmark",
           kRequired),
      Group::kOutput,
      Path("--output -o", "DIR", &dump_path_, "Overrides dump_path in the config file",
           Default{"that of the config file"}),
      AnswerRows(answer_),
  };
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
  return TellEnd(end, "free_benchmark", "nothing was checked", options.framework, answer_, context);
}

}  // namespace

std::unique_ptr<Command> MakeFreeBenchmark() { return std::make_unique<FreeBenchmarkCommand>(); }

}  // namespace msprobe::commands
