#include <filesystem>
#include <string>
#include <vector>

#include <fmt/format.h>

#include "src/analysis/grad/grad.h"
#include "src/base/output_files.h"
#include "src/base/progress.h"
#include "src/base/strings.h"
#include "src/commands/answer.h"
#include "src/commands/command.h"
#include "src/commands/commands.h"
#include "src/commands/common_flags.h"

namespace msprobe::commands {
namespace {

// msprobe grad_compare: the directions of two runs' gradients.

class GradCompareCommand final : public Command {
 public:
  std::string_view name() const override { return "grad_compare"; }
  std::string_view summary() const override {
    return "Compare the signs of two runs' gradients, as the task grad_probe stored them";
  }
  FlagTable flags() override;
  std::vector<Positional> positionals() override;
  std::vector<Example> examples() const override;
  std::string notes() const override;
  Result<ExitCode> Run(const Context& context) override;

 private:
  analysis::grad::Options options_;
  std::vector<std::string> formats_;
  AnswerFlags answer_;
};

namespace grad = analysis::grad;

constexpr const char* kGradCompareNotes =
    R"(RUN and REFERENCE are folders that the task grad_probe wrote with grad_level L1 or L2.
A step stands out when fewer signs agree than --min-similarity at the first step, or when the share
has dropped by more than --max-drop since the step before.

)";

std::vector<Positional> GradCompareCommand::positionals() {
  return {Argument("RUN", &options_.first, "Folder of the run under test", kRequired),
          Argument("REFERENCE", &options_.second, "Folder of the reference run", kRequired)};
}

FlagTable GradCompareCommand::flags() {
  return {
      Number("--min-similarity", "SHARE", &options_.min_similarity,
             "Share of equal signs below which the first step stands out", Between(0, 1)),
      Number("--max-drop", "SHARE", &options_.max_drop,
             "Drop of that share from one step to the next above which a step stands out",
             Between(0, 1)),
      OutputFolderFlag(options_.output, "Folder for the result files", {}),
      FormatsFlag(formats_, {"csv", "html"}, "csv"),
      ForceFlag(),
      ThreadsFlag(options_.threads),
      AnswerRows(answer_, grad::kGateLevels),
  };
}

std::vector<Example> GradCompareCommand::examples() const {
  return {
      {"msprobe grad_compare grad_npu grad_gpu -o result",
       "result/rank<R>/similarities.csv: a row per parameter, a column per step"},
      {"msprobe grad_compare grad_npu grad_gpu -o result --format csv,html",
       "also a page with the curve of every parameter"},
      {"msprobe grad_compare grad_npu grad_gpu --fail-on diverged",
       "in CI: exit code 1 if a step stands out"},
  };
}

std::string GradCompareCommand::notes() const {
  return kGradCompareNotes + FailOnHelp(grad::kGateLevels);
}

Result<ExitCode> GradCompareCommand::Run(const Context& context) {
  for (const std::filesystem::path* folder : {&options_.first, &options_.second}) {
    if (!base::IsFolder(*folder)) {
      return NotFoundError(fmt::format("{} is not a folder", folder->string()));
    }
  }
  MSP_RETURN_IF_ERROR(base::CheckOutputFolder(options_.output));
  OwnForms own;
  if (base::IsOneOf("html", formats_)) {
    own.page = options_.output / "grad_compare.html";
    MSP_RETURN_IF_ERROR(CheckPage(own.page));
  }
  options_.quiet = context.quiet;
  const base::Stopwatch watch;
  MSP_ASSIGN_OR_RETURN(const grad::Comparison comparison, grad::Run(options_));
  report::Document document = grad::MakeDocument(comparison);
  document.seconds = watch.seconds();
  return GiveAnswer(std::move(document), answer_, context, own);
}

}  // namespace

std::unique_ptr<Command> MakeGradCompare() { return std::make_unique<GradCompareCommand>(); }

}  // namespace msprobe::commands
