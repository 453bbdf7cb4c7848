// msprobe nan_analyze, also overflow_check: the first NaN or infinity of a step.
#include <algorithm>
#include <chrono>
#include <filesystem>
#include <string>
#include <utility>
#include <vector>

#include <fmt/format.h>

#include "src/analysis/nonfinite/nan.h"
#include "src/base/files.h"
#include "src/base/output_files.h"
#include "src/commands/answer.h"
#include "src/commands/command.h"
#include "src/commands/commands.h"
#include "src/dump/layout.h"
#include "src/report/web_page.h"

namespace msprobe::commands {
namespace {

namespace nonfinite = analysis::nonfinite;

constexpr const char* kNanAnalyzeNotes =
    R"(DUMP must have level L0, L1 or mix, and statistics. Attention masks of -inf are not reported as origins.

)";

class NanAnalyzeCommand final : public Command {
 public:
  // The same under each of the names that versions of the Python tool gave it.
  explicit NanAnalyzeCommand(std::string_view name)
      : Command(name, name == "nan_analyze"
                          ? "Find the operator that made the first NaN or infinity"
                          : "Alias of nan_analyze") {}

  FlagTable flags() override {
    return {
        Group::kInput,
        Path("--input-path -i", "STEP_DIR", &options_.input,
             "Folder of one step of the dump, instead of DUMP", kPython811),
        Path("--all-steps", "DUMP_DIR", &all_steps_,
             "Folder of a dump, instead of DUMP: its steps are searched up to the first bad one"),
        Group::kMethod,
        Switch("--mask-aware", &options_.mask_aware,
               "Do not report -inf masks and requested constants as origins", Default{"on"},
               TurnedOffBy{"--no-mask-aware"}),
        Number("--threshold", "T", &options_.threshold,
               "Also treat values beyond this magnitude as bad", kNotNegative, Default{"none"}),
        Switch("--levels", &options_.levels,
               "Also classify every operator on its own: critical, high, medium"),
        OutputFolderFlag(options_.output,
                         "Folder for the result files; created only if there is a result",
                         {"--output_path"}),
        Group::kOutput,
        Choice("--format", "NAME", &format_, {"text", "json", "md", "html"},
               "Output format; html: text, and a page for browsers"),
        Number("--top --topk", "N", &options_.top, "Number of origins to describe",
               Between(1, 1000)),
        Switch("--graph", &options_.graph,
               "Also write the propagation as a graph, in JSON and for Mermaid"),
        OpenFlag(answer_),
        ForceFlag(),
        ThreadsFlag(options_.threads),
        ShareRows(answer_),
        AnswerRows(answer_, nonfinite::kGateLevels),
    };
  }

  std::vector<Positional> positionals() override {
    return {Argument("DUMP", &dump_,
                     "A step of a dump (a folder per rank, rank<N>), or a whole dump: its steps "
                     "are searched up to the first bad one",
                     NeededUnless{"--input-path --all-steps"})};
  }

  std::vector<Example> examples() const override {
    return {
        {"msprobe nan_analyze dump/step0",
         "the operator that made the first NaN or infinity, and how it spread over the ranks"},
        {"msprobe nan_analyze dump", "the first bad step of the dump"},
        {"msprobe nan_analyze dump/step0 --top 5 --graph -o result",
         "five origins, and the propagation as a graph"},
        {"msprobe nan_analyze dump/step0 --fail-on origin",
         "in CI: exit code 1 if an operator made one"},
    };
  }

  std::string notes() const override {
    return kNanAnalyzeNotes + FailOnHelp(nonfinite::kGateLevels);
  }

  Result<ExitCode> Run(const Context& context) override {
    MSP_RETURN_IF_ERROR(CheckFlags());
    if (answer_.open && format_ == "text") {
      format_ = "html";
    }
    options_.quiet = context.quiet || format_ == "json" || format_ == "md" || answer_.json;
    if (format_ == "html") {
      MSP_RETURN_IF_ERROR(report::CheckAnswerPage());
    }
    MSP_ASSIGN_OR_RETURN(const nonfinite::Answer answer, nonfinite::Run(options_));
    if (!answer.reports) {
      return ExitCode::kDone;
    }
    report::Document document = nonfinite::MakeDocument(answer, options_.levels);
    document.command = name();
    OwnForms own;
    if (format_ == "json") {
      own.instead = nonfinite::AnswerJson(answer, static_cast<int>(ExitCodeOf(document, answer_)));
    } else if (format_ == "md") {
      own.instead = nonfinite::MarkdownAnswer(answer);
    } else if (format_ == "html") {
      own.page = PagePath(document);
    }
    return EmitReport(std::move(document), answer_, context, own);
  }

 private:
  // A dump holds steps; a step holds ranks.
  bool TakesAllSteps() const {
    if (!all_steps_.empty()) {
      return true;
    }
    const std::vector<std::string> names = base::NamesIn(dump_);
    return std::any_of(names.begin(), names.end(),
                       [](const std::string& name) { return dump::ParseStepName(name).valid; });
  }

  Status CheckFlags() {
    const int ways =
        (dump_.empty() ? 0 : 1) + (options_.input.empty() ? 0 : 1) + (all_steps_.empty() ? 0 : 1);
    if (ways > 1) {
      return UsageError("give only one of DUMP, -i and --all-steps")
          .WithHint("msprobe nan_analyze DUMP");
    }
    options_.all_steps = TakesAllSteps();
    options_.input = !dump_.empty() ? dump_ : options_.all_steps ? all_steps_ : options_.input;
    return base::CheckOutputFolder(options_.output);
  }

  // Named as the result file; by the time where nothing was found.
  std::filesystem::path PagePath(const report::Document& document) const {
    const int64_t now = std::chrono::duration_cast<std::chrono::nanoseconds>(
                            std::chrono::system_clock::now().time_since_epoch())
                            .count();
    std::filesystem::path page = document.files.empty()
                                     ? options_.output / fmt::format("anomaly_analyze_{}", now)
                                     : document.files[0].path;
    return page.replace_extension(".html");
  }

  analysis::nonfinite::Options options_;
  std::filesystem::path dump_;
  std::filesystem::path all_steps_;
  std::string format_ = "text";
  AnswerFlags answer_;
};

}  // namespace

std::unique_ptr<Command> MakeNanAnalyze(std::string_view name) {
  return std::make_unique<NanAnalyzeCommand>(name);
}

}  // namespace msprobe::commands
