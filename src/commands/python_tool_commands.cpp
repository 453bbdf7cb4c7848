// Commands that scripts of the Python tool call, and that have no other name here:
// install_deps, gen_model_config and offline_dump.
#include <filesystem>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include <fmt/format.h>

#include "src/analysis/offline_model/offline_model.h"
#include "src/analysis/response_anomaly/token_categories.h"
#include "src/base/output_files.h"
#include "src/base/progress.h"
#include "src/base/strings.h"
#include "src/commands/answer.h"
#include "src/commands/command.h"
#include "src/commands/commands.h"
#include "src/report/document.h"

namespace msprobe::commands {
namespace {

constexpr const char* kInstallDepsNotes =
    R"(Nothing is installed or downloaded: this program is complete. Only offline_dump and compare -m offline_model of .onnx files start a Python,
which must have onnx, onnxruntime and numpy. --no_check is taken and switches nothing off.)";

class InstallDepsCommand final : public Command {
 public:
  InstallDepsCommand()
      : Command("install_deps", "Say what further software is needed: nothing is installed") {}

  FlagTable flags() override {
    return {
        Group::kMethod,
        Choice("--mode -m", "MODE", &mode_, {"offline"}, "For models that are run offline",
               kPython26),
        Switch("--no-check", &no_check_, "Taken, and without effect", kPython26),
        AnswerRows(answer_),
    };
  }

  std::vector<Example> examples() const override {
    return {{"msprobe install_deps -m offline", "what running a model of ONNX takes"}};
  }

  std::string notes() const override { return kInstallDepsNotes; }

  Result<ExitCode> Run(const Context& context) override {
    report::Document document;
    document.command = "install_deps";
    document.verdict.Say("COMPLETE", "this program needs no further software", report::Tone::kGood);
    document.Add("", report::List{report::ListKind::kFacts,
                                  {{"models of ONNX",
                                    "a Python with onnx, onnxruntime and numpy; "
                                    "--python names it"},
                                   {"OM models", "run on an Ascend device only"}}});
    return EmitReport(std::move(document), answer_, context);
  }

 private:
  std::string mode_ = "offline";
  bool no_check_ = false;
  AnswerFlags answer_;
};

class GenModelConfigCommand final : public Command {
 public:
  GenModelConfigCommand()
      : Command("gen_model_config",
                "Write what response_anomaly knows of a model: its end tokens, the kind of every "
                "token") {}

  FlagTable flags() override {
    return {
        Group::kInput,
        Path("--model-path", "DIR", &options_.model, "Folder of the model, instead of MODEL",
             kPython26),
        Text("--model-name", "NAME", &options_.name, "Name in the table",
             Default{"that of the folder"}, kPython26),
        Group::kOutput,
        OutputFolderFlag(options_.output,
                         "Folder that gets configs/mtype_config.json and token2category/", {}),
        ForceFlag(),
        AnswerRows(answer_),
    };
  }

  std::vector<Positional> positionals() override {
    return {Argument("MODEL", &options_.model,
                     "Folder of the model, with tokenizer.json or vocab.json",
                     OrFlag{"--model-path"})};
  }

  std::vector<Example> examples() const override {
    return {{"msprobe gen_model_config --model-path Qwen3-8B -o tables",
             "tables/configs/mtype_config.json and tables/token2category/qwen3-8b_151669.json"},
            {"msprobe response_anomaly requests.jsonl --models tables/configs/mtype_config.json "
             "--categories tables/token2category",
             "both, in use"}};
  }

  Result<ExitCode> Run(const Context& context) override {
    if (options_.output.empty()) {
      options_.output = ".";
    }
    MSP_RETURN_IF_ERROR(base::CheckOutputFolder(options_.output));
    MSP_ASSIGN_OR_RETURN(report::Document document,
                         analysis::response_anomaly::WriteModelConfig(options_));
    return EmitReport(std::move(document), answer_, context);
  }

 private:
  analysis::response_anomaly::ModelConfigOptions options_;
  AnswerFlags answer_;
};

constexpr const char* kOfflineDumpNotes =
    R"(The model is run on the CPU by ONNX Runtime of the user's Python, in a process of its own. Below <output>/<time>: model/new_<name>.onnx, with
every tensor as an output; dump_data/onnx/<node>.<output>.<time>.npy and input_<node>.<input>.<time>.npy; input/ where the inputs were made up.)";

class OfflineDumpCommand final : public Command {
 public:
  OfflineDumpCommand() : Command("offline_dump", "Run an ONNX model and store all its tensors") {}

  FlagTable flags() override {
    return {
        Group::kInput,
        Path("--model-path", "FILE", &options_.model, "The model, instead of MODEL", kPython26),
        Path("--input-data", "FILE,FILE", &options_.input_data, "Its inputs, .npy or .bin",
             kSeparatedByCommas, Default{"the same random numbers every time"}, kPython26),
        Text("--input-shape", "SHAPES", &options_.input_shape,
             "Shapes of inputs: \"name:1,3;name:1\"", kPython26),
        Text("--dym-shape-range", "SHAPES", &options_.shape_range,
             "A run for each shape: \"name:1,2~6~2\", \"name:1,224-230\"", kPython26),
        Group::kMethod,
        Choice("--onnx-fusion-switch -ofs", "WHEN", &fusion_,
               {"True", "False", "true", "false", "yes", "no", "1", "0"},
               "Whether ONNX Runtime may fuse operators", kPython26),
        Number("--rank", "N", &rank_, "Taken, and without effect on a CPU", Between(0, 255),
               kPython26),
        Text("--output-size", "N,N", &output_size_, "Taken, and without effect on a CPU",
             kPython26),
        Path("--python", "PATH", &options_.python, "Python with onnx, onnxruntime and numpy"),
        Number("--seconds", "N", &options_.seconds, "Time for the run", kPositive),
        Group::kOutput,
        Path("--output -o --output_path", "DIR", &options_.output, "Folder for the dump",
             kPython26),
        AnswerRows(answer_),
    };
  }

  std::vector<Positional> positionals() override {
    return {Argument("MODEL", &options_.model, "The model, .onnx", OrFlag{"--model-path"})};
  }

  std::vector<Example> examples() const override {
    return {{"msprobe offline_dump --model_path model.onnx --input_data image.npy -o dump",
             "dump/<time>/dump_data/onnx"},
            {"msprobe offline_dump --model_path model.onnx --dym_shape_range \"x:1,2~6~2\"",
             "three runs, of 2, 4 and 6"}};
  }

  std::string notes() const override { return kOfflineDumpNotes; }

  Result<ExitCode> Run(const Context& context) override {
    options_.fusion =
        !base::IsOneOf(fusion_, std::vector<std::string>{"False", "false", "no", "0"});
    const base::Stopwatch watch;
    MSP_ASSIGN_OR_RETURN(const analysis::offline_model::Dumped dumped,
                         analysis::offline_model::Dump(options_));
    report::Document document;
    document.command = "offline_dump";
    document.verdict.Say("DUMPED",
                         fmt::format("{} of {}", base::Plural(dumped.tensors, "tensor"),
                                     options_.model.filename().string()),
                         report::Tone::kStrong);
    document.verdict.number = static_cast<double>(dumped.tensors);
    document.verdict.unit = "tensors";
    for (const std::filesystem::path& folder : dumped.folders) {
      document.files.push_back({folder / "dump_data" / "onnx"});
    }
    document.seconds = watch.seconds();
    document.action = "dumped";
    return EmitReport(std::move(document), answer_, context);
  }

 private:
  analysis::offline_model::Options options_;
  std::string fusion_ = "True";
  int64_t rank_ = 0;
  std::string output_size_;
  AnswerFlags answer_;
};

}  // namespace

std::unique_ptr<Command> MakeInstallDeps() { return std::make_unique<InstallDepsCommand>(); }
std::unique_ptr<Command> MakeGenModelConfig() { return std::make_unique<GenModelConfigCommand>(); }
std::unique_ptr<Command> MakeOfflineDump() { return std::make_unique<OfflineDumpCommand>(); }

}  // namespace msprobe::commands
