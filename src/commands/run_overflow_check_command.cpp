#include <filesystem>
#include <string>
#include <vector>

#include "src/analysis/accuracy/check/check.h"
#include "src/analysis/accuracy/check/document.h"
#include "src/analysis/accuracy/check/options.h"
#include "src/base/strings.h"
#include "src/commands/accuracy_flags.h"
#include "src/commands/answer.h"
#include "src/commands/command.h"
#include "src/commands/commands.h"
#include "src/commands/common_flags.h"

namespace msprobe::commands {
namespace {

// msprobe run_overflow_check: does the CPU overflow where the device did?

class RunOverflowCheckCommand final : public Command {
 public:
  std::string_view name() const override { return "run_overflow_check"; }
  std::string_view summary() const override {
    return "Check whether operators overflow on the CPU as they do on the device";
  }
  FlagTable flags() override;
  std::vector<Positional> positionals() override;
  std::vector<Example> examples() const override;
  std::string notes() const override;
  Result<ExitCode> Run(const Context& context) override;

 private:
  analysis::accuracy::CheckOptions options_;
  std::string jit_compile_;
  AnswerFlags answer_;
};

namespace accuracy = analysis::accuracy;

constexpr const char* kOverflowNotes =
    R"(Every recorded call is run forward on the device and on the CPU, in the recorded dtypes. An overflow on both sides is normal: the
inputs make it.

)";

std::vector<Positional> RunOverflowCheckCommand::positionals() {
  return {
      Argument("DUMP", &options_.dump, "dump.json of a rank, or its folder", OrFlag{"-api_info"})};
}

FlagTable RunOverflowCheckCommand::flags() {
  return {
      Group::kInput,
      Path("--api-info-file -api_info", "FILE", &options_.dump, "dump.json, instead of DUMP",
           kPython811),
      Group::kMethod,
      Text("--jit-compile -j", "BOOL", &jit_compile_, "Compile operators of NPUs while running",
           kOneOrNone, Default{"off"}, kPython811),
      WorkerFlags(options_),
      AnswerRows(answer_, accuracy::kOverflowGateLevels),
  };
}

std::vector<Example> RunOverflowCheckCommand::examples() const {
  return {{"msprobe run_overflow_check dump/step0/rank/dump.json",
           "which operators overflow on one side only"},
          {"msprobe -f pytorch run_overflow_check -api_info dump.json", "the Python tool's line"}};
}

std::string RunOverflowCheckCommand::notes() const {
  return kOverflowNotes + FailOnHelp(accuracy::kOverflowGateLevels);
}

Result<ExitCode> RunOverflowCheckCommand::Run(const Context& context) {
  MSP_RETURN_IF_ERROR(PrepareChecks(context, options_));
  const std::string jit = base::AsciiLower(jit_compile_);
  options_.jit_compile = context.Given("--jit-compile") && jit != "false" && jit != "0";
  options_.quiet = context.quiet || answer_.json;
  MSP_ASSIGN_OR_RETURN(const accuracy::OverflowCheck check, accuracy::RunOverflowCheck(options_));
  return GiveAnswer(accuracy::MakeDocument(check), answer_, context);
}

}  // namespace

std::unique_ptr<Command> MakeRunOverflowCheck() {
  return std::make_unique<RunOverflowCheckCommand>();
}

}  // namespace msprobe::commands
