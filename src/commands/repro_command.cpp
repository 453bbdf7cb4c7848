#include <filesystem>
#include <string>
#include <utility>
#include <vector>

#include "src/analysis/repro/repro.h"
#include "src/commands/answer.h"
#include "src/commands/command.h"
#include "src/commands/commands.h"
#include "src/commands/common_flags.h"

namespace msprobe::commands {
namespace {

// msprobe repro: one call of a dump as a folder that makes it again.

class ReproCommand final : public Command {
 public:
  std::string_view name() const override { return "repro"; }
  std::string_view summary() const override {
    return "Write one call of a tensor dump as a folder that makes it again, as small as can be";
  }
  FlagTable flags() override;
  std::vector<Positional> positionals() override;
  std::vector<Example> examples() const override;
  std::string notes() const override;
  Result<ExitCode> Run(const Context& context) override;

 private:
  analysis::repro::Options options_;
  AnswerFlags answer_;
};

namespace repro = analysis::repro;

constexpr const char* kReproNotes =
    R"(The folder holds the call as a dump of its own (dump/), a script that makes it again under PyTorch (run.py), a
script that recomputes it and judges what was captured (recheck.sh), and README.md. It needs nothing else of the dump.
)";

std::vector<Positional> ReproCommand::positionals() {
  return {Argument("DUMP", &options_.dump, "Dump of task tensor", kRequired),
          Argument("CALL", &options_.call,
                   "Name of the call; without .forward or .backward: the half that is wrong",
                   kRequired)};
}

FlagTable ReproCommand::flags() {
  Flag output = OutputFolderFlag(options_.output, "Folder to write", {"--output_path"});
  output.default_text = "<CALL>_repro";
  return {
      Group::kSelection,
      Number("--step", "N", &options_.step, "The call of this step",
             Default{"the first that has it"}),
      Number("--rank", "N", &options_.rank, "The call of this rank",
             Default{"the first that has it"}),
      Group::kMethod,
      Switch("--minimise", &options_.minimise,
             "Shrink shapes, arguments and values while the same element stays wrong"),
      Number("--attempts", "N", &options_.attempts, "Recomputed calls at most",
             Needs{"--minimise"}),
      output,
      ForceFlag(),
      ThreadsFlag(options_.threads),
      AnswerRows(answer_),
  };
}

std::vector<Example> ReproCommand::examples() const {
  return {
      {"msprobe repro npu_dump Functional.gelu.0.forward", "one call, as it was captured"},
      {"msprobe repro npu_dump Functional.gelu.0 -o gelu --minimise",
       "the half that is wrong, as small as it can be"},
  };
}

std::string ReproCommand::notes() const { return kReproNotes; }

Result<ExitCode> ReproCommand::Run(const Context& context) {
  options_.quiet = context.quiet || answer_.json;
  MSP_ASSIGN_OR_RETURN(const repro::Answer answer, repro::Run(options_));
  return GiveAnswer(repro::MakeDocument(answer), answer_, context);
}

}  // namespace

std::unique_ptr<Command> MakeRepro() { return std::make_unique<ReproCommand>(); }

}  // namespace msprobe::commands
