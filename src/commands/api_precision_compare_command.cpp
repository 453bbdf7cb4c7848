#include <filesystem>
#include <string>
#include <vector>

#include "src/analysis/accuracy/precision_compare/precision_compare.h"
#include "src/base/output_files.h"
#include "src/commands/accuracy_flags.h"
#include "src/commands/answer.h"
#include "src/commands/command.h"
#include "src/commands/commands.h"
#include "src/commands/common_flags.h"

namespace msprobe::commands {
namespace {

// msprobe api_precision_compare: is the NPU as accurate as the GPU, operator by operator?

class ApiPrecisionCompareCommand final : public Command {
 public:
  std::string_view name() const override { return "api_precision_compare"; }
  std::string_view summary() const override {
    return "Judge the accuracy of an NPU's operators by that of a GPU's";
  }
  FlagTable flags() override;
  std::vector<Positional> positionals() override;
  std::vector<Example> examples() const override;
  std::string notes() const override;
  Result<ExitCode> Run(const Context& context) override;

 private:
  analysis::accuracy::PrecisionOptions options_;
  std::string version_ = "8.1.1";
  std::string language_ = "zh";
  uint64_t worst_ = 10;
  AnswerFlags answer_;
};

namespace accuracy = analysis::accuracy;

constexpr const char* kPrecisionNotes =
    R"(NPU and GPU are accuracy_checking_details_*.csv of `msprobe run_ut` or `acc_check` of the same dump on both devices. An NPU passes
where its errors against the CPU are no larger than those of the GPU, or within the fixed limits of the operator.

)";

std::vector<Positional> ApiPrecisionCompareCommand::positionals() {
  return {Argument("NPU", &options_.npu_file, "Details file of the NPU", OrFlag{"-npu"}),
          Argument("GPU", &options_.gpu_file, "Details file of the GPU", OrFlag{"-gpu"})};
}

FlagTable ApiPrecisionCompareCommand::flags() {
  return {
      Group::kInput,
      Path("--npu-csv-path -npu", "FILE", &options_.npu_file,
           "Details file of the NPU, instead of NPU", kPython811),
      Path("--gpu-csv-path -gpu", "FILE", &options_.gpu_file,
           "Details file of the GPU, instead of GPU", kPython811),
      Group::kMethod,
      StandardVersionFlag(version_),
      StandardsFileFlag(options_.standards_file),
      Switch("--strict", &options_.strict,
             "Also judge, and put into the files, what the Python tool leaves out: outputs that "
             "the GPU's file lacks, empty tensors of any shape, cells without a number"),
      OutputFolderFlag(options_.output, "Folder for both result files", {"--out_path"}),
      LanguageFlag(language_),
      Group::kOutput,
      Number("--top", "N", &worst_,
             "Number of outputs to name, those furthest beyond their limits first",
             Between(0, 1000)),
      ForceFlag(),
      AnswerRows(answer_, accuracy::kPrecisionGateLevels),
  };
}

std::vector<Example> ApiPrecisionCompareCommand::examples() const {
  return {
      {"msprobe api_precision_compare npu_details.csv gpu_details.csv -o result",
       "which operators of the NPU are less accurate than those of the GPU"},
      {"msprobe -f pytorch api_precision_compare -npu npu_details.csv -gpu gpu_details.csv -o "
       "result",
       "the Python tool's command line"},
      {"msprobe api_precision_compare npu_details.csv gpu_details.csv --standard-version 26 "
       "--fail-on error",
       "by the limits of 26.x; exit code 1 if an operator misses them"},
  };
}

std::string ApiPrecisionCompareCommand::notes() const {
  return kPrecisionNotes + FailOnHelp(accuracy::kPrecisionGateLevels);
}

Result<ExitCode> ApiPrecisionCompareCommand::Run(const Context& context) {
  MSP_RETURN_IF_ERROR(base::CheckOutputFolder(options_.output));
  options_.version = StandardVersionOf(version_);
  options_.english = language_ == "en";
  options_.worst = worst_;
  MSP_ASSIGN_OR_RETURN(const accuracy::PrecisionComparison comparison, accuracy::Run(options_));
  return GiveAnswer(accuracy::MakeDocument(comparison), answer_, context);
}

}  // namespace

std::unique_ptr<Command> MakeApiPrecisionCompare() {
  return std::make_unique<ApiPrecisionCompareCommand>();
}

}  // namespace msprobe::commands
