#include <filesystem>
#include <string>
#include <utility>
#include <vector>

#include "src/analysis/recheck/recheck.h"
#include "src/analysis/recheck/recompute.h"
#include "src/base/output_files.h"
#include "src/commands/answer.h"
#include "src/commands/command.h"
#include "src/commands/commands.h"
#include "src/commands/common_flags.h"

namespace msprobe::commands {
namespace {

// msprobe recheck: which calls of a dump are wrong.

class RecheckCommand final : public Command {
 public:
  std::string_view name() const override { return "recheck"; }
  std::string_view summary() const override {
    return "Recompute the calls of a tensor dump in float64 and name those that are wrong";
  }
  FlagTable flags() override;
  std::vector<Positional> positionals() override;
  std::vector<Example> examples() const override;
  std::string notes() const override;
  Result<ExitCode> Run(const Context& context) override;

 private:
  analysis::recheck::Options options_;
  std::string direction_ = "both";
  std::string accumulation_ = "any";
  std::string factors_ = "any";
  AnswerFlags answer_;
};

namespace recheck = analysis::recheck;

constexpr const char* kRecheckNotes =
    R"(Each call is recomputed from the inputs that were captured with it: an error that came in with them is not its own.
A call is wrong if it is further from the exact result than its dtype, the length of its sums in any order, and the
documented errors of its functions allow.

)";

std::vector<Positional> RecheckCommand::positionals() {
  return {Argument("DUMP", &options_.dump, "Dump of task tensor", kRequired),
          Argument("BENCH", &options_.bench,
                   "A second dump of the same model: tells per call which side is wrong")};
}

FlagTable RecheckCommand::flags() {
  return {
      Group::kSelection,
      Text("--calls", "TEXT,...", &options_.calls, "Only calls whose names contain one of these",
           kSeparatedByCommas),
      Choice("--direction", "NAME", &direction_, {"forward", "backward", "both"},
             "Which halves of the calls to recompute"),
      Group::kMethod,
      Choice("--accumulation", "NAME", &accumulation_, {"any", "float32"},
             "What calls on 16-bit tensors may round their steps to: any is float32 or the type "
             "itself"),
      Choice("--factors", "NAME", &factors_, {"any", "float32"},
             "What products of float32 tensors may round their factors to: any is float32, TF32 "
             "or HF32"),
      OutputFolderFlag(options_.output, "Folder for a table with a row per call",
                       {"--output_path"}),
      FormatsFlag(options_.formats, {"csv", "xlsx"}, "csv"),
      ForceFlag(),
      ThreadsFlag(options_.threads),
      AnswerRows(answer_, recheck::kGateLevels),
  };
}

std::vector<Example> RecheckCommand::examples() const {
  return {
      {"msprobe recheck npu_dump", "which calls computed something else than they should"},
      {"msprobe recheck npu_dump gpu_dump", "the same of both sides: which of the two is wrong?"},
      {"msprobe recheck npu_dump --calls matmul,softmax -o result", "some calls, with a table"},
      {"msprobe recheck npu_dump --fail-on beyond -q", "in CI: exit code 1 if a call is wrong"},
  };
}

std::string RecheckCommand::notes() const {
  return kRecheckNotes + FailOnHelp(recheck::kGateLevels);
}

Result<ExitCode> RecheckCommand::Run(const Context& context) {
  if (options_.output.empty() && context.Given("--format")) {
    return UsageError("--format is given, but no folder for the table")
        .WithHint("give -o DIR as well");
  }
  if (!options_.output.empty()) {
    MSP_RETURN_IF_ERROR(base::CheckOutputFolder(options_.output));
  }
  options_.precision.accumulation =
      accumulation_ == "any" ? recheck::Accumulation::kAny : recheck::Accumulation::kFloat32;
  options_.precision.factors =
      factors_ == "any" ? recheck::ProductFactors::kAny : recheck::ProductFactors::kFloat32;
  options_.forward = direction_ != "backward";
  options_.backward = direction_ != "forward";
  options_.quiet = context.quiet || answer_.json;
  MSP_ASSIGN_OR_RETURN(const recheck::Answer answer, recheck::Run(options_));
  return GiveAnswer(recheck::MakeDocument(answer), answer_, context);
}

}  // namespace

std::unique_ptr<Command> MakeRecheck() { return std::make_unique<RecheckCommand>(); }

}  // namespace msprobe::commands
