// msprobe hang: which rank a distributed run waits for.
#include <filesystem>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include <fmt/format.h>

#include "src/analysis/hang/hang.h"
#include "src/base/output_files.h"
#include "src/base/progress.h"
#include "src/commands/answer.h"
#include "src/commands/command.h"
#include "src/commands/commands.h"

namespace msprobe::commands {
namespace {

namespace hang = analysis::hang;

constexpr const char* kHangNotes =
    R"(DIR holds the files that PyTorch's Flight Recorder left, one per rank, as pickle or JSON and under any names; nothing in them is executed.
The recorder runs where TORCH_FR_BUFFER_SIZE=2000 is set (before PyTorch 2.9: TORCH_NCCL_TRACE_BUFFER_SIZE).

)";

class HangCommand final : public Command {
 public:
  HangCommand()
      : Command("hang",
                "Say which rank a distributed run waits for, from its Flight Recorder files") {}

  FlagTable flags() override {
    return {
        OutputFolderFlag(options_.output, "Folder for hang.csv", {}),
        FormatsFlag({{"csv", nullptr}, {"html", &wants_page_}}, "csv"),
        OpenFlag(answer_),
        ForceFlag(),
        ThreadsFlag(options_.threads),
        AnswerRows(answer_, hang::kGateLevels),
    };
  }

  std::vector<Positional> positionals() override {
    return {Argument("DIR", &options_.path, "Folder of the recordings, or one of them", kRequired)};
  }

  std::vector<Example> examples() const override {
    return {
        {"msprobe hang traces", "the rank that did not come, the call, and where the others wait"},
        {"msprobe hang traces -o result --format csv,html", "also a map of ranks by calls"},
        {"msprobe hang traces --fail-on hang", "in CI: exit code 1 if a rank is waited for"},
    };
  }

  std::string notes() const override { return kHangNotes + FailOnHelp(hang::kGateLevels); }

  Result<ExitCode> Run(const Context& context) override {
    if (!base::Exists(options_.path)) {
      return NotFoundError(fmt::format("{} does not exist", options_.path.string()));
    }
    MSP_RETURN_IF_ERROR(base::CheckOutputFolder(options_.output));
    MSP_RETURN_IF_ERROR(base::CheckOutputFile(options_.output / "hang.csv"));
    OwnForms own;
    if (wants_page_ || answer_.open) {
      own.page = options_.output / "hang.html";
      MSP_RETURN_IF_ERROR(CheckPage(own.page));
    }
    options_.quiet = context.quiet;
    const base::Stopwatch watch;
    MSP_ASSIGN_OR_RETURN(const hang::Findings findings, hang::Run(options_));
    report::Document document = hang::MakeDocument(findings);
    document.seconds = watch.seconds();
    return EmitReport(std::move(document), answer_, context, own);
  }

 private:
  hang::Options options_;
  bool wants_page_ = false;
  AnswerFlags answer_;
};

}  // namespace

std::unique_ptr<Command> MakeHang() { return std::make_unique<HangCommand>(); }

}  // namespace msprobe::commands
