#include <cstdint>
#include <cstdio>
#include <filesystem>
#include <optional>
#include <string>
#include <system_error>
#include <utility>
#include <vector>

#include <fmt/format.h>

#include "src/analysis/isolate/isolate.h"
#include "src/base/output_files.h"
#include "src/commands/answer.h"
#include "src/commands/command.h"
#include "src/commands/commands.h"
#include "src/commands/common_flags.h"
#include "src/commands/dump_launcher.h"
#include "src/json/writer.h"

namespace msprobe::commands {
namespace {

// msprobe isolate: every module of a training on the values of a good run, judged alone.

class IsolateCommand final : public Command {
 public:
  std::string_view name() const override { return "isolate"; }
  std::string_view summary() const override {
    return "Run an unmodified script on a good run's values and name the modules that are wrong "
           "themselves";
  }
  std::vector<Positional> positionals() override;
  FlagTable flags() override;
  std::vector<Example> examples() const override;
  std::string notes() const override;
  Result<ExitCode> Run(const Context& context) override;

 private:
  Status ClearOutput() const;
  std::string OverridesJson() const;

  std::vector<std::string> program_;
  std::filesystem::path reference_;
  std::filesystem::path output_ = "./isolated";
  std::optional<int64_t> step_;
  AnswerFlags answer_;
};

namespace isolate = analysis::isolate;

constexpr const char* kIsolateNotes =
    R"(The reference is a dump of the good run, of the same model, data and seed: msprobe dump --task tensor --level L0 -o good -- python3 train.py.
One step is run so; afterwards parameters, buffers and random state are as before it, and the script goes on.
The exit code is that of the script where it fails; messages of msprobe go to stderr.

)";

std::vector<Positional> IsolateCommand::positionals() {
  return {Argument("PROGRAM", &program_, "The script to run and its arguments, after --", kRequired,
                   kRest)};
}

FlagTable IsolateCommand::flags() {
  return {
      Group::kInput,
      Path("--reference -r", "DUMP", &reference_,
           "The dump of the good run, with the tensors of its modules", kRequired),
      Group::kSelection,
      Number("--step", "N", &step_, "The step to run on the reference's values",
             Default{"the first of the reference"}),
      Group::kOutput,
      Path("--output -o", "DIR", &output_, "Folder of the tables, step<N>/rank<M>/isolate.csv",
           Default{"./isolated"}),
      ForceFlag(),
      AnswerRows(answer_, isolate::kGateLevels),
  };
}

std::vector<Example> IsolateCommand::examples() const {
  return {
      {"msprobe isolate --reference good -- python3 train.py",
       "all modules that are wrong by themselves, forward and backward"},
      {"msprobe isolate -r good -o isolated --fail-on guilty -- torchrun --nproc-per-node 8 "
       "train.py",
       "every process of a distributed run; exit code 1 if a module is guilty"},
  };
}

std::string IsolateCommand::notes() const {
  return kIsolateNotes + FailOnHelp(isolate::kGateLevels);
}

// Tables of an earlier run would be taken for this one's.
Status IsolateCommand::ClearOutput() const {
  MSP_RETURN_IF_ERROR(base::CheckOutputFolder(output_).AddContext("--output"));
  for (const bool unfinished : {false, true}) {
    MSP_ASSIGN_OR_RETURN(const std::vector<std::filesystem::path> tables,
                         isolate::TablesIn(output_, unfinished));
    for (const std::filesystem::path& table : tables) {
      MSP_RETURN_IF_ERROR(base::CheckOutputFile(table));
      std::error_code error;
      std::filesystem::remove(table, error);
      if (error) {
        return IoError(fmt::format("cannot remove {}: {}", table.string(), error.message()));
      }
    }
  }
  return {};
}

std::string IsolateCommand::OverridesJson() const {
  std::error_code ignored;
  std::string text;
  json::Writer writer(text, -1);
  writer.BeginObject();
  writer.Member("task", "isolate");
  writer.Member("reference", std::filesystem::absolute(reference_, ignored).string());
  writer.Member("dump_path", std::filesystem::absolute(output_, ignored).string());
  if (step_) {
    writer.Member("step", *step_);
  }
  writer.EndObject();
  return text;
}

Result<ExitCode> IsolateCommand::Run(const Context& context) {
  if (context.framework == "mindspore") {
    return UsageError("isolate runs scripts of PyTorch only")
        .WithHint("msprobe isolate --reference good -- python3 train.py");
  }
  MSP_RETURN_IF_ERROR(isolate::CheckReference(reference_).AddContext("--reference"));
  MSP_RETURN_IF_ERROR(ClearOutput());
  LaunchOptions options;
  options.program = program_;
  options.overrides_json = OverridesJson();
  options.framework = "pytorch";
  options.quiet = context.quiet;
  options.output_to_stderr = answer_.json;
  options.output_folder = output_;
  MSP_ASSIGN_OR_RETURN(const ProgramEnd end, RunWithCapture(options));
  MSP_ASSIGN_OR_RETURN(const isolate::Verdicts verdicts, isolate::Run({.output = output_}));
  report::Document document = isolate::MakeDocument(verdicts);
  const bool failed = end.signal != 0 || end.exit_code != 0;
  if (failed) {
    document.warnings.push_back(
        end.signal != 0 ? fmt::format("the script was ended by signal {}", end.signal)
                        : fmt::format("the script failed with exit code {}", end.exit_code));
  } else if (verdicts.comparisons == 0) {
    document.warnings.push_back("nothing was judged: " +
                                WhyNothing(end.progress, options.framework));
  }
  OwnForms own;
  own.to_stderr = true;
  if (failed) {
    own.exit_code = end.exit_code;
  }
  Result<ExitCode> code = GiveAnswer(std::move(document), answer_, context, own);
  if (end.signal != 0) {
    std::fflush(stdout);
    EndBySignal(end.signal);
  }
  return code;
}

}  // namespace

std::unique_ptr<Command> MakeIsolate() { return std::make_unique<IsolateCommand>(); }

}  // namespace msprobe::commands
