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
  std::vector<Flag> flags() override;
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
  return {
      {.name = "DUMP", .fills = &options_.dump, .help = "Dump of task tensor", .required = true},
      {.name = "CALL",
       .fills = &options_.call,
       .help = "Name of the call; without .forward or .backward: the half that is wrong",
       .required = true}};
}

std::vector<Flag> ReproCommand::flags() {
  std::vector<Flag> flags = {
      {.name = "--step",
       .type = "N",
       .fills = &options_.step,
       .group = Group::kSelection,
       .help = "The call of this step",
       .default_text = "the first that has it"},
      {.name = "--rank",
       .type = "N",
       .fills = &options_.rank,
       .group = Group::kSelection,
       .help = "The call of this rank",
       .default_text = "the first that has it"},
      {.name = "--minimise",
       .fills = &options_.minimise,
       .group = Group::kMethod,
       .help = "Shrink shapes, arguments and values while the same element stays wrong"},
      {.name = "--attempts",
       .type = "N",
       .fills = &options_.attempts,
       .group = Group::kMethod,
       .help = "Recomputed calls at most",
       .needs = "--minimise"},
      OutputFolderFlag(options_.output, "Folder to write", {"--output_path"}),
      ForceFlag(),
      ThreadsFlag(options_.threads),
  };
  for (Flag& flag : flags) {
    if (flag.name == "--output") {
      flag.default_text = "<CALL>_repro";
    }
  }
  AddAnswerFlags(flags, answer_, {});
  return flags;
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
  MSP_RETURN_IF_ERROR(CheckAnswerFlags(answer_));
  options_.quiet = context.quiet || answer_.json;
  MSP_ASSIGN_OR_RETURN(const repro::Answer answer, repro::Run(options_));
  return GiveAnswer(repro::MakeDocument(answer), answer_, context);
}

}  // namespace

std::unique_ptr<Command> MakeRepro() { return std::make_unique<ReproCommand>(); }

}  // namespace msprobe::commands
