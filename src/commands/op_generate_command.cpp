#include <filesystem>
#include <string>
#include <utility>
#include <vector>

#include <fmt/format.h>

#include "src/analysis/repro/op_generate.h"
#include "src/commands/answer.h"
#include "src/commands/command.h"
#include "src/commands/commands.h"
#include "src/commands/common_flags.h"

namespace msprobe::commands {
namespace {

// msprobe op_generate: a script that runs one API of a dump on a device and on the CPU.

class OpGenerateCommand final : public Command {
 public:
  std::string_view name() const override { return "op_generate"; }
  std::string_view summary() const override {
    return "Write a script that runs one API on a device and on the CPU, and compares the results";
  }
  std::vector<Positional> positionals() override;
  FlagTable flags() override;
  std::vector<Example> examples() const override;
  std::string notes() const override;
  Result<ExitCode> Run(const Context& context) override;

 private:
  analysis::repro::OpGenerateOptions options_;
  std::filesystem::path config_flag_;  // -i
  AnswerFlags answer_;
};

namespace repro = analysis::repro;

constexpr const char* kOpGenerateNotes =
    R"(The configuration is JSON: dump_json_path, api_name (Functional.softmax.0), extract_api_path, propagation (forward or
backward), data_mode (random_data or real_data), random_seed, iter_times. The script draws its inputs by the ranges of
the dump or reads them, and needs PyTorch; with -f mindspore, for APIs of MindSpore, both. msprobe repro writes a call
with the tensors that were captured.
)";

report::Document DocumentOf(const repro::OpGenerateAnswer& answer) {
  report::Document document;
  document.command = "op_generate";
  document.verdict.Say(
      "WRITTEN",
      fmt::format("{} {}, to {}", answer.api, answer.propagation, answer.script.string()),
      report::Tone::kStrong);
  document.files.push_back({answer.script});
  if (answer.was_extracted) {
    document.files.push_back({answer.extracted, "its entries"});
  }
  document.Advise(report::Advice("op_generate.run", {answer.script.string()}));
  return document;
}

std::vector<Positional> OpGenerateCommand::positionals() {
  return {Argument("CONFIG", &options_.config, "JSON file that names the dump and the API")};
}

FlagTable OpGenerateCommand::flags() {
  return {
      Group::kInput,
      Path("--config-input -i", "FILE", &config_flag_, "The same as CONFIG", kPython811),
      OutputFolderFlag(options_.output, "Existing folder for the script", {"--api_output_path"}),
      ForceFlag(),
      AnswerRows(answer_, {}),
  };
}

std::vector<Example> OpGenerateCommand::examples() const {
  return {
      {"msprobe op_generate -i softmax.json -o scripts", "scripts/Functional.softmax.0.forward.py"},
      {"msprobe -f pytorch op_generate -i softmax.json -o scripts",
       "the Python tool's command line"},
      {"msprobe -f mindspore op_generate -i relu.json -o scripts",
       "an API of MindSpore, with PyTorch as its bench"}};
}

std::string OpGenerateCommand::notes() const { return kOpGenerateNotes; }

Result<ExitCode> OpGenerateCommand::Run(const Context& context) {
  if (config_flag_.empty() == options_.config.empty() || options_.output.empty()) {
    return UsageError(options_.output.empty() ? "no folder for the script is given"
                                              : "one configuration is needed")
        .WithHint("msprobe op_generate CONFIG.json -o FOLDER");
  }
  if (options_.config.empty()) {
    options_.config = config_flag_;
  }
  options_.for_mindspore = context.framework == "mindspore";
  MSP_ASSIGN_OR_RETURN(const repro::OpGenerateAnswer answer, repro::OpGenerate(options_));
  return GiveAnswer(DocumentOf(answer), answer_, context);
}

}  // namespace

std::unique_ptr<Command> MakeOpGenerate() { return std::make_unique<OpGenerateCommand>(); }

}  // namespace msprobe::commands
