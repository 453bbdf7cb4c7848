// Commands that compute single calls of a dump again: recheck judges all of them, repro and
// op_generate write one as a script.
#include <filesystem>
#include <string>
#include <vector>

#include <fmt/format.h>

#include "src/analysis/recheck/recheck.h"
#include "src/analysis/recheck/recompute.h"
#include "src/analysis/repro/op_generate.h"
#include "src/analysis/repro/repro.h"
#include "src/base/output_files.h"
#include "src/commands/answer.h"
#include "src/commands/command.h"
#include "src/commands/commands.h"

namespace msprobe::commands {
namespace {

namespace recheck = analysis::recheck;

constexpr const char* kRecheckNotes =
    R"(Each call is recomputed from the inputs that were captured with it: an error that came in with them is not its own.
A call is wrong if it is further from the exact result than its dtype, the length of its sums in any order, and the
documented errors of its functions allow.

)";

// msprobe recheck: which calls of a dump are wrong.
class RecheckCommand final : public Command {
 public:
  RecheckCommand()
      : Command("recheck",
                "Recompute the calls of a tensor dump in float64 and name those that are wrong") {}

  FlagTable flags() override {
    return {
        Group::kSelection,
        Text("--calls", "TEXT,...", &options_.calls, "Only calls whose names contain one of these",
             kSeparatedByCommas),
        Choice("--direction", "NAME", &direction_, {"forward", "backward", "both"},
               "Which halves of the calls to recompute"),
        Group::kMethod,
        Choice("--accumulation", "NAME", &options_.precision.accumulation,
               {{"any", recheck::Accumulation::kAny}, {"float32", recheck::Accumulation::kFloat32}},
               "What calls on 16-bit tensors may round their steps to: any is float32 or the type "
               "itself"),
        Choice("--factors", "NAME", &options_.precision.factors,
               {{"any", recheck::ProductFactors::kAny},
                {"float32", recheck::ProductFactors::kFloat32}},
               "What products of float32 tensors may round their factors to: any is float32, TF32 "
               "or HF32"),
        OutputFolderFlag(options_.output, "Folder for a table with a row per call",
                         {"--output_path"}),
        FormatsFlag(options_.formats, {"csv", "xlsx"}, "csv"),
        ForceFlag(),
        ThreadsFlag(options_.threads),
        ShareRows(answer_),
        AnswerRows(answer_, recheck::kGateLevels),
    };
  }

  std::vector<Positional> positionals() override {
    return {Argument("DUMP", &options_.dump, "Dump of task tensor", kRequired),
            Argument("REFERENCE", &options_.bench,
                     "A second dump of the same model: tells per call which side is wrong")};
  }

  std::vector<Example> examples() const override {
    return {
        {"msprobe recheck npu_dump", "which calls computed a wrong result"},
        {"msprobe recheck npu_dump gpu_dump", "the same of both sides: which of the two is wrong?"},
        {"msprobe recheck npu_dump --calls matmul,softmax -o result", "some calls, with a table"},
        {"msprobe recheck npu_dump --fail-on beyond -q", "in CI: exit code 1 if a call is wrong"},
    };
  }

  std::string notes() const override { return kRecheckNotes + FailOnHelp(recheck::kGateLevels); }

  Result<ExitCode> Run(const Context& context) override {
    if (options_.output.empty() && context.Typed("--format")) {
      return UsageError("--format is given, but no folder for the table")
          .WithHint("give -o DIR as well");
    }
    if (!options_.output.empty()) {
      MSP_RETURN_IF_ERROR(base::CheckOutputFolder(options_.output));
    }
    options_.forward = direction_ != "backward";
    options_.backward = direction_ != "forward";
    options_.quiet = context.quiet || answer_.json;
    MSP_ASSIGN_OR_RETURN(const recheck::Answer answer, recheck::Run(options_));
    if (!answer.reports) {
      return ExitCode::kDone;
    }
    return EmitReport(recheck::MakeDocument(answer), answer_, context);
  }

 private:
  analysis::recheck::Options options_;
  std::string direction_ = "both";
  AnswerFlags answer_;
};

namespace repro = analysis::repro;

constexpr const char* kReproNotes =
    R"(The folder holds the call as a dump of its own (dump/), a script that makes it again under PyTorch (run.py), a
script that recomputes it and judges what was captured (recheck.sh), and README.md. It needs nothing else of the dump.
)";

// msprobe repro: one call of a dump as a folder that makes it again.
class ReproCommand final : public Command {
 public:
  ReproCommand()
      : Command("repro",
                "Extract one call of a tensor dump into a folder that reproduces it, as small as "
                "possible") {}

  FlagTable flags() override {
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

  std::vector<Positional> positionals() override {
    return {Argument("DUMP", &options_.dump, "Dump of task tensor", kRequired),
            Argument("CALL", &options_.call,
                     "Name of the call; without .forward or .backward: the half that is wrong",
                     kRequired)};
  }

  std::vector<Example> examples() const override {
    return {
        {"msprobe repro npu_dump Functional.gelu.0.forward", "one call, as it was captured"},
        {"msprobe repro npu_dump Functional.gelu.0 -o gelu --minimise",
         "the half that is wrong, as small as it can be"},
    };
  }

  std::string notes() const override { return kReproNotes; }

  Result<ExitCode> Run(const Context& context) override {
    options_.quiet = context.quiet || answer_.json;
    MSP_ASSIGN_OR_RETURN(const repro::Answer answer, repro::Run(options_));
    return EmitReport(repro::MakeDocument(answer), answer_, context);
  }

 private:
  analysis::repro::Options options_;
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

// msprobe op_generate: a script that runs one API of a dump on a device and on the CPU.
class OpGenerateCommand final : public Command {
 public:
  OpGenerateCommand()
      : Command("op_generate",
                "Write a script that runs one API on a device and on the CPU, and compares the "
                "results") {}

  std::vector<Positional> positionals() override {
    return {Argument("CONFIG", &options_.config, "JSON file that names the dump and the API",
                     NeededUnless{"--config-input"})};
  }

  FlagTable flags() override {
    return {
        Group::kInput,
        Path("--config-input -i", "FILE", &config_flag_, "The same as CONFIG", kPython811),
        OutputFolderFlag(options_.output, "Existing folder for the script", {"--api_output_path"}),
        ForceFlag(),
        AnswerRows(answer_, {}),
    };
  }

  std::vector<Example> examples() const override {
    return {{"msprobe op_generate -i softmax.json -o scripts",
             "scripts/Functional.softmax.0.forward.py"},
            {"msprobe -f pytorch op_generate -i softmax.json -o scripts",
             "the Python tool's command line"},
            {"msprobe -f mindspore op_generate -i relu.json -o scripts",
             "an API of MindSpore, with PyTorch as its bench"}};
  }

  std::string notes() const override { return kOpGenerateNotes; }

  Result<ExitCode> Run(const Context& context) override {
    if (options_.output.empty()) {
      return MissingArgument("msprobe op_generate", "-o DIR")
          .WithHint("msprobe op_generate CONFIG -o DIR");
    }
    if (!config_flag_.empty() && !options_.config.empty()) {
      return UsageError("give only one of CONFIG and -i")
          .WithHint("msprobe op_generate CONFIG -o DIR");
    }
    if (options_.config.empty()) {
      options_.config = config_flag_;
    }
    options_.for_mindspore = context.framework == "mindspore";
    MSP_ASSIGN_OR_RETURN(const repro::OpGenerateAnswer answer, repro::OpGenerate(options_));
    return EmitReport(DocumentOf(answer), answer_, context);
  }

 private:
  analysis::repro::OpGenerateOptions options_;
  std::filesystem::path config_flag_;  // -i
  AnswerFlags answer_;
};

}  // namespace

std::unique_ptr<Command> MakeRecheck() { return std::make_unique<RecheckCommand>(); }
std::unique_ptr<Command> MakeRepro() { return std::make_unique<ReproCommand>(); }
std::unique_ptr<Command> MakeOpGenerate() { return std::make_unique<OpGenerateCommand>(); }

}  // namespace msprobe::commands
