// msprobe compile_check: an unmodified script whose compiled graphs are checked, kernel by kernel.
#include <cmath>
#include <cstdint>
#include <filesystem>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <system_error>
#include <utility>
#include <vector>

#include <fmt/format.h>

#include "src/analysis/compile_check/compile_check.h"
#include "src/base/files.h"
#include "src/base/numbers.h"
#include "src/base/output_files.h"
#include "src/base/strings.h"
#include "src/commands/answer.h"
#include "src/commands/command.h"
#include "src/commands/commands.h"
#include "src/commands/launcher.h"
#include "src/json/writer.h"

namespace msprobe::commands {
namespace {

namespace checked = analysis::compile_check;

constexpr const char* kCompileCheckNotes =
    R"(Each kernel that inductor generated is recomputed in float64 from what it was given, with bounds that follow from the arithmetic of its operators.
The first call of every graph is checked, and with changing shapes the first of up to three of them; --step chooses other calls. All others run as without msprobe.
A program can also say itself what to check: from msprobe.pytorch import compile_check; compile_check.start(); ...; compile_check.stop().
The exit code is that of the script where it fails; messages of msprobe go to stderr.

)";

constexpr const char* kDefaultOutput = "./compile_checked";

// "30", "30s", "2GB", "500MB", "30s,2GB".
struct CheckBudget {
  std::optional<double> seconds;
  std::optional<double> megabytes;
};

Result<CheckBudget> ParseBudget(const std::vector<std::string>& parts) {
  constexpr double kMegabytesOfGigabyte = 1000;
  CheckBudget budget;
  for (const std::string& part : parts) {
    std::string_view number = part;
    const auto ends = [&number](std::string_view unit) {
      const bool found = number.ends_with(unit);
      if (found) number.remove_suffix(unit.size());
      return found;
    };
    const double factor = ends("GB") ? kMegabytesOfGigabyte : ends("MB") ? 1 : 0;
    if (factor == 0) ends("s");
    const std::optional<double> value = base::ParseDouble(number);
    if (!value || !std::isfinite(*value) || *value < 0) {
      return UsageError(
                 fmt::format("--budget: {} is neither seconds nor a size", base::Printable(part)))
          .WithHint("as in --budget 30s,2GB: at most 30 seconds, and 2 GB for one kernel");
    }
    (factor == 0 ? budget.seconds : budget.megabytes) = factor == 0 ? *value : *value * factor;
  }
  return budget;
}

class CompileCheckCommand final : public Command {
 public:
  CompileCheckCommand()
      : Command("compile_check",
                "Run an unmodified script and judge every kernel that torch.compile generated") {}

  std::vector<Positional> positionals() override {
    return {ProgramArgument(program_, NeededUnless{"--read"})};
  }

  FlagTable flags() override {
    return {
        Group::kSelection,
        Text("--step", "N,...", &steps_, "Calls of each graph to check, from 0; all: every one",
             kSeparatedByCommas, Default{"0"}),
        Text("--graph", "N,...", &graphs_,
             "Only these graphs: 0/0 is the first compilation of the first function",
             kSeparatedByCommas),
        Text("--kernel", "NAME,...", &kernels_, "Only these kernels", kSeparatedByCommas),
        Text("--budget", "LIMIT,...", &budget_,
             "Seconds that checking may take (30s), and memory for one kernel (2GB)",
             kSeparatedByCommas),
        Path("--read", "DIR", &read_,
             "Answer from the tables that an earlier run left in DIR; nothing is run"),
        Group::kMethod,
        Choice("--against", "NAME", &against_, {"eager"},
               "Also hold outputs of whole graphs against their operators run one by one"),
        Group::kOutput,
        Path("--output -o", "DIR", &output_, "Folder of compile_check.csv, or of one per rank",
             Default{kDefaultOutput}),
        Path("--repro", "DIR", &repro_,
             "Also write kernels alone, each with a script that judges it again: those that are "
             "wrong or, with --kernel, those chosen"),
        FormatsFlag({{"csv", nullptr}, {"html", &wants_page_}}, "csv"),
        OpenFlag(answer_),
        ForceFlag(),
        AnswerRows(answer_, checked::kGateLevels),
    };
  }

  std::vector<Example> examples() const override {
    return {
        {"msprobe compile_check -- python3 train.py", "every kernel of every compiled graph"},
        {"msprobe compile_check -o checked --fail-on wrong -- torchrun --nproc-per-node 8 train.py",
         "every process of a distributed run; exit code 1 if a kernel is wrong"},
        {"msprobe compile_check --step 0,100 --budget 60s -- python3 train.py",
         "two calls of each graph, and no more than a minute"},
        {"msprobe compile_check --repro alone -- python3 train.py",
         "each wrong kernel with its inputs and a script that runs it again"},
        {"msprobe compile_check --read ./compile_checked --format html",
         "the answer of a run that has ended, with a page for browsers"},
    };
  }

  std::string notes() const override {
    return kCompileCheckNotes + FailOnHelp(checked::kGateLevels);
  }

  Result<ExitCode> Run(const Context& context) override {
    if (context.framework == "mindspore") {
      return UsageError("compile_check runs scripts of PyTorch only")
          .WithHint("msprobe compile_check -- python3 train.py");
    }
    if (!read_.empty()) return Read(context);
    if (output_.empty()) output_ = kDefaultOutput;
    MSP_ASSIGN_OR_RETURN(const std::string overrides, OverridesJson());
    MSP_ASSIGN_OR_RETURN(const std::filesystem::path page, PageIn(output_));
    MSP_RETURN_IF_ERROR(ClearOutput());
    LaunchOptions options = LaunchOf(program_, "pytorch", answer_, context);
    options.purpose = "COMPILE_CHECK";
    options.overrides_json = overrides;
    options.output_folder = output_;
    MSP_ASSIGN_OR_RETURN(const ProgramEnd end, RunWithCapture(options));
    MSP_ASSIGN_OR_RETURN(checked::Verdicts verdicts, checked::ReadTables(output_));
    if (!repro_.empty()) verdicts.alone = checked::KernelsAloneIn(repro_);
    report::Document document = checked::MakeDocument(verdicts);
    const bool failed = end.signal != 0 || end.exit_code != 0;
    if (failed) {
      document.warnings.push_back(
          end.signal != 0 ? fmt::format("the script was ended by signal {}", end.signal)
                          : fmt::format("the script failed with exit code {}", end.exit_code));
    } else if (verdicts.tables.empty()) {
      document.warnings.push_back("nothing was checked: " +
                                  (end.progress == LaunchProgress::kFramework
                                       ? std::string("no graph was compiled by inductor and called")
                                       : WhyNothing(end.progress, options.framework)));
    }
    return EmitAndEnd(std::move(document), answer_, context, end,
                      failed ? std::optional(end.exit_code) : std::nullopt, page);
  }

 private:
  // The answer of a run that has ended.
  Result<ExitCode> Read(const Context& context) {
    if (!program_.empty()) {
      return UsageError("--read answers from tables, and runs nothing")
          .WithHint("msprobe compile_check --read ./compile_checked");
    }
    OwnForms own;
    if (!output_.empty() && (wants_page_ || answer_.open)) {
      MSP_RETURN_IF_ERROR(base::CreateFolders(output_));
    }
    MSP_ASSIGN_OR_RETURN(own.page, PageIn(output_.empty() ? read_ : output_));
    MSP_ASSIGN_OR_RETURN(const checked::Verdicts verdicts, checked::ReadTables(read_));
    if (verdicts.tables.empty()) {
      return NotFoundError(fmt::format("--read: there is no compile_check.csv in {}",
                                       base::Printable(read_.string())))
          .WithHint("give the folder of -o of a run of msprobe compile_check");
    }
    return EmitReport(checked::MakeDocument(verdicts), answer_, context, own);
  }

  Result<std::filesystem::path> PageIn(const std::filesystem::path& folder) const {
    if (!wants_page_ && !answer_.open) return std::filesystem::path();
    std::filesystem::path page = folder / "compile_check.html";
    MSP_RETURN_IF_ERROR(CheckPage(page));
    return page;
  }

  // Tables of an earlier run would be taken for this one's.
  Status ClearOutput() const {
    MSP_RETURN_IF_ERROR(base::CheckOutputFolder(output_).AddContext("--output"));
    if (!repro_.empty()) {
      MSP_RETURN_IF_ERROR(base::CheckOutputFolder(repro_).AddContext("--repro"));
      for (const std::filesystem::path& kernel : checked::KernelsAloneIn(repro_)) {
        MSP_RETURN_IF_ERROR(base::CheckOutputFile(kernel / "run.py"));
      }
    }
    for (const std::filesystem::path& table : checked::TablesIn(output_)) {
      MSP_RETURN_IF_ERROR(base::CheckOutputFile(table));
      std::error_code error;
      std::filesystem::remove(table, error);
      if (error) {
        return IoError(fmt::format("cannot remove {}: {}", table.string(), error.message()));
      }
    }
    return {};
  }

  Result<std::string> OverridesJson() const {
    MSP_ASSIGN_OR_RETURN(const CheckBudget budget, ParseBudget(budget_));
    std::error_code ignored;
    std::string text;
    json::Writer writer(text, -1);
    writer.BeginObject();
    writer.Member("output", std::filesystem::absolute(output_, ignored).string());
    const bool all = steps_ == std::vector<std::string>{"all"};
    std::vector<int64_t> steps;
    for (const std::string& step : all ? std::vector<std::string>() : steps_) {
      const std::optional<int64_t> number = base::ParseInt(step);
      if (!number || *number < 0) {
        return UsageError(
                   fmt::format("--step: {} is not the number of a call", base::Printable(step)))
            .WithHint("as in --step 0,10, or --step all");
      }
      steps.push_back(*number);
    }
    if (!steps.empty()) writer.Member("steps", steps);
    writer.Member("all_steps", all);
    if (!graphs_.empty()) writer.Member("graphs", graphs_);
    if (!kernels_.empty()) writer.Member("kernels", kernels_);
    if (budget.seconds) writer.Member("seconds", *budget.seconds);
    if (!repro_.empty())
      writer.Member("repro", std::filesystem::absolute(repro_, ignored).string());
    if (!against_.empty()) writer.Member("against", against_);
    if (budget.megabytes) writer.Member("megabytes", *budget.megabytes);
    writer.EndObject();
    return text;
  }

  std::vector<std::string> program_;
  std::filesystem::path output_;  // empty: not given
  std::vector<std::string> steps_;
  std::vector<std::string> graphs_;
  std::vector<std::string> kernels_;
  std::vector<std::string> budget_;
  std::filesystem::path read_;
  std::filesystem::path repro_;
  std::string against_;
  bool wants_page_ = false;
  AnswerFlags answer_;
};

}  // namespace

std::unique_ptr<Command> MakeCompileCheck() { return std::make_unique<CompileCheckCommand>(); }

}  // namespace msprobe::commands
