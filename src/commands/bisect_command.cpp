// msprobe bisect: which commit, package version or setting turns a run bad.
#include <filesystem>
#include <memory>
#include <string>
#include <system_error>
#include <utility>
#include <vector>

#include <fmt/format.h>

#include "src/analysis/bisect/bisect.h"
#include "src/base/files.h"
#include "src/base/output_files.h"
#include "src/base/progress.h"
#include "src/commands/answer.h"
#include "src/commands/command.h"
#include "src/commands/commands.h"

namespace msprobe::commands {
namespace {

namespace bisect = analysis::bisect;

constexpr const char* kBisectNotes =
    R"(The program is run with some of the changes between a good and a bad side. --check judges a run by its exit code: 0 good, 125 skip, others up to 127 bad; it reads what the program printed. Without it the values that the program computes are held against those of the good side.
Runs that may lie are repeated until the odds are 20 to 1. A search that was killed goes on when it is started again.

)";

class BisectCommand final : public Command {
 public:
  BisectCommand()
      : Command("bisect",
                "Say which commit, package version or setting turns a run bad, by few runs") {}

  FlagTable flags() override {
    return {
        Group::kInput,
        Choice("--by", "KIND", &options_.by,
               {{"commits", bisect::By::kCommits},
                {"packages", bisect::By::kPackages},
                {"settings", bisect::By::kSettings}},
               "What differs between the sides: commits of this repository, versions in two lock "
               "files, or values in two configurations"),
        Text("--good", "A", &options_.good, "The good side: a commit, or a file", kRequired),
        Text("--bad", "B", &options_.bad, "The bad side", kRequired),
        Text("--link", "PATH", &options_.links,
             "Of --by commits: a file or folder of the checkout that git does not know, such as "
             "data; may be repeated"),
        Text("--find-links", "DIR", &options_.find_links,
             "Of --by packages: also take packages from a folder; may be repeated"),
        Switch("--no-index", &options_.no_index,
               "Of --by packages: take packages from those folders only"),
        Group::kMethod,
        Text("--check", "COMMAND", &options_.check,
             "A command of the shell whose exit code judges a run",
             Default{"values are compared with those of the good side"}),
        Number("--repeats", "N", &options_.repeats,
               "Most runs of a state that was run before; 0: runs never lie", kNotNegative),
        Number("--timeout", "SECONDS", &options_.timeout_s, "End a run after so long", kNotNegative,
               Default{"never"}),
        Group::kOutput,
        OutputFolderFlag(options_.output, "Folder for bisect.csv and the logs of the runs", {}),
        FormatsFlag({{"csv", nullptr}, {"html", &wants_page_}}, "csv"),
        OpenFlag(answer_),
        ForceFlag(),
        Switch("--keep", &options_.keeps, "Keep the checkout, environment or settings of the runs"),
        AnswerRows(answer_, bisect::kGateLevels),
    };
  }

  std::vector<Positional> positionals() override {
    return {ProgramArgument(options_.program, kRequired)};
  }

  std::vector<Example> examples() const override {
    return {
        {"msprobe bisect --good v1.2 --bad main --check 'python3 check.py' -- python3 train.py",
         "the first bad commit; the check reads what the training printed"},
        {"msprobe bisect --good v1.2 --bad main -- python3 train.py",
         "the same, judged by the values that the training computes"},
        {"msprobe bisect --by packages --good old.txt --bad new.txt --check 'grep -q \"loss "
         "2.31\"' "
         "-- python3 train.py",
         "which package, of two outputs of pip freeze"},
        {"msprobe bisect --by settings --good a.yaml --bad b.yaml --check 'python3 check.py' -- "
         "python3 train.py {config}",
         "which setting, or which two together"},
    };
  }

  std::string notes() const override { return kBisectNotes + FailOnHelp(bisect::kGateLevels); }

  Result<ExitCode> Run(const Context& context) override {
    MSP_RETURN_IF_ERROR(base::CheckOutputFolder(options_.output));
    MSP_RETURN_IF_ERROR(base::CheckOutputFile(options_.output / "bisect.csv"));
    OwnForms own;
    if (wants_page_ || answer_.open) {
      own.page = options_.output / "bisect.html";
      MSP_RETURN_IF_ERROR(CheckPage(own.page));
    }
    std::error_code failure;
    options_.msprobe = std::filesystem::read_symlink("/proc/self/exe", failure);
    if (failure) {
      return NotFoundError("cannot find the location of this program without /proc");
    }
    options_.quiet = context.quiet;
    options_.replaces = base::ExistingFiles() == base::Existing::kReplace;
    const base::Stopwatch watch;
    MSP_ASSIGN_OR_RETURN(const bisect::Findings findings, bisect::Run(options_));
    report::Document document = bisect::MakeDocument(findings);
    document.seconds = watch.seconds();
    return EmitReport(std::move(document), answer_, context, own);
  }

 private:
  bisect::Options options_;
  bool wants_page_ = false;
  AnswerFlags answer_;
};

}  // namespace

std::unique_ptr<Command> MakeBisect() { return std::make_unique<BisectCommand>(); }

}  // namespace msprobe::commands
