#include <chrono>
#include <filesystem>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include <fmt/format.h>

#include "msprobe/status.h"

#include "src/analysis/kernel_dump/kernel_dump.h"
#include "src/base/log.h"
#include "src/base/output_files.h"
#include "src/base/strings.h"
#include "src/commands/answer.h"
#include "src/commands/command.h"
#include "src/commands/commands.h"
#include "src/commands/common_flags.h"
#include "src/commands/flag_parser.h"
#include "src/commands/help_text.h"
#include "src/commands/line_editor.h"
#include "src/commands/parse_tools.h"
#include "src/commands/print.h"

namespace msprobe::commands {
namespace {

// msprobe parse: what an Ascend device dumps below the framework, as arrays.

class ParseCommand final : public Command {
 public:
  ParseCommand();
  std::string_view name() const override { return "parse"; }
  std::string_view summary() const override {
    return "Convert kernel dumps, overflow records and ATB dumps of Ascend to .npy or .pt";
  }
  FlagTable flags() override;
  std::vector<Positional> positionals() override;
  std::vector<Example> examples() const override;
  std::string notes() const override;
  std::vector<Command*> subcommands() const override;
  Result<ExitCode> Run(const Context& context) override;

 private:
  std::filesystem::path dump_;
  std::string kind_ = "pt";
  std::vector<int64_t> shape_;
  analysis::kernel_dump::Options options_;
  AnswerFlags answer_;
  std::vector<std::unique_ptr<Command>> tools_;
};

// The commands of `msprobe parse`, one in a line.

constexpr const char* kPrompt = "Parse >>> ";

// A program of its own, whose commands are the tools; made anew for every line, so that no value
// stays from the line before.
class ParseProgram final : public Command {
 public:
  std::string_view name() const override { return "parse"; }
  std::string_view summary() const override { return "Commands:"; }
  std::vector<Command*> subcommands() const override {
    std::vector<Command*> commands;
    for (const std::unique_ptr<Command>& tool : tools_) {
      commands.push_back(tool.get());
    }
    return commands;
  }
  bool is_group() const override { return true; }
  Result<ExitCode> Run(const Context&) override { return ExitCode::kDone; }

 private:
  std::vector<std::unique_ptr<Command>> tools_ = ParseTools();
};

std::vector<std::string> ToolNames() {
  std::vector<std::string> names;
  for (const std::unique_ptr<Command>& tool : ParseTools()) {
    names.emplace_back(tool->name());
  }
  return names;
}

void TellError(const Status& status) {
  base::LogError(status.message());
  if (!status.hint().empty()) {
    base::LogHint(status.hint());
  }
}

// One line. An error is one that was not told yet.
Result<ExitCode> RunLine(const std::vector<std::string>& words, const Context& outer) {
  ParseProgram program;
  ParsedLine line = ParseArguments(program, words);
  Command& command = *line.path.back();
  if ((line.general.help && line.status.ok()) || command.is_group()) {
    if (!line.status.ok()) {
      return line.status;
    }
    MSP_RETURN_IF_ERROR(Print(HelpText(line.path, outer.width)));
    return ExitCode::kDone;
  }
  MSP_RETURN_IF_ERROR(std::move(line.status));
  MSP_RETURN_IF_ERROR(std::move(line.paths));
  Context context = outer;
  context.quiet = outer.quiet || line.general.quiet;
  context.typed = std::move(line.typed);
  base::SetExistingFiles(context.Given(ForceFlag().name) ? base::Existing::kReplace
                                                         : base::Existing::kRefuse);
  return command.Run(context);
}

// Until the input ends or somebody types `exit`. A command that fails is reported and the next one
// is read; kFailed when one did.
Result<ExitCode> RunParseShell(const Context& context) {
  const std::vector<std::string> names = ToolNames();
  LineEditor editor(kPrompt, names);
  if (editor.is_terminal() && !context.quiet) {
    MSP_RETURN_IF_ERROR(Print(fmt::format("Commands: {}. COMMAND -h explains one, exit ends.\n",
                                          base::Join(names, ", "))));
  }
  ExitCode code = ExitCode::kDone;
  while (std::optional<std::string> line = editor.Next()) {
    const std::optional<std::vector<std::string>> words = SplitWords(*line);
    if (!words) {
      base::LogError("a quote that does not end");
      code = ExitCode::kFailed;
      continue;
    }
    if (words->empty() || words->front().starts_with('#')) {
      continue;
    }
    if (words->front() == "exit" || words->front() == "quit") {
      break;
    }
    const Result<ExitCode> outcome = RunLine(*words, context);
    if (!outcome.ok()) {
      TellError(outcome.status());
    }
    if (!outcome.ok() || *outcome != ExitCode::kDone) {
      code = ExitCode::kFailed;
    }
  }
  return code;
}

namespace dumps = analysis::kernel_dump;

constexpr const char* kParseNotes =
    R"(Without a dump, `msprobe parse` reads commands line by line: at a terminal with a prompt and a history,
otherwise from the standard input. They are the commands below; `exit` or the end of the input ends it. Exit code 3: one of them failed.)";

dumps::ArrayFile KindOf(std::string_view word) {
  return word == "npy"   ? dumps::ArrayFile::kNpy
         : word == "bin" ? dumps::ArrayFile::kBin
                         : dumps::ArrayFile::kPt;
}

ParseCommand::ParseCommand() : tools_(ParseTools()) {}

std::vector<Command*> ParseCommand::subcommands() const {
  std::vector<Command*> commands;
  for (const std::unique_ptr<Command>& tool : tools_) {
    commands.push_back(tool.get());
  }
  return commands;
}

std::vector<Positional> ParseCommand::positionals() {
  return {Argument("DUMP", &dump_, "A dump file, or a folder of them, which is read to the bottom",
                   OrFlag{"--input"}, kOrNeither)};
}

FlagTable ParseCommand::flags() {
  return {
      Group::kInput,
      Path("--input -d --dump_path", "PATH", &dump_, "The same as DUMP", kPython26),
      Group::kSelection,
      Text("--filter", "PATTERN", &options_.filter, "Files whose names fit: \"MatMul.*\""),
      Number("--input-number", "N", &options_.input, "The input with this number alone",
             kNotNegative),
      Number("--output-number", "N", &options_.output_number, "The output with this number alone",
             kNotNegative),
      Group::kMethod,
      Text("--layout", "NAME", &options_.format,
           "Layout of the arrays: ND, NCHW, NHWC, HWCN, CHWN, NCDHW, NDHWC, DHWCN or DHWNC",
           Default{"that of the device"}, Excludes{"--to-original"}),
      Switch("--to-original", &options_.to_original,
             "Every tensor in the layout and shape that the framework knows"),
      Number("--shape -s", "N,N,...", &shape_, "Shape to cut the padding down to", kNotNegative,
             kSeparatedByCommas, Default{"what the file tells"}, Needs{"--layout"}),
      Group::kOutput,
      Choice("--type -t", "NAME", &kind_, {"npy", "pt", "bin"}, "What to write", kPython26),
      OutputFolderFlag(options_.output, "Folder for the arrays", {"--output_path"}),
      Switch("--index", &options_.index,
             "Also write parse_index.csv: what was made of which tensor"),
      ForceFlag(),
      ThreadsFlag(options_.threads),
      AnswerRows(answer_),
  };
}

std::vector<Example> ParseCommand::examples() const {
  return {
      {"msprobe parse dump/step0 -t npy -o arrays", "all dumps of a step, in the device's layouts"},
      {"msprobe parse dump/step0 --to-original -t npy -o arrays --index",
       "the same as the framework sees them, with a table"},
      {"msprobe parse overflow -d dump/step0", "which operator overflowed"},
      {"echo 'dc -n dump/step0 -f ND' | msprobe -f pytorch parse", "commands from a script"},
  };
}

std::string ParseCommand::notes() const { return kParseNotes; }

Result<ExitCode> ParseCommand::Run(const Context& context) {
  if (dump_.empty()) {
    return RunParseShell(context);
  }
  options_.inputs = {dump_};
  options_.kind = KindOf(kind_);
  if (options_.output.empty()) {
    options_.output = "./output";
  }
  if (!shape_.empty()) {
    options_.shape = shape_;
  }
  MSP_RETURN_IF_ERROR(base::CheckOutputFolder(options_.output));
  // Told once, not of every tensor.
  MSP_RETURN_IF_ERROR(base::CheckWritable(options_.output));
  const auto begin = std::chrono::steady_clock::now();
  MSP_ASSIGN_OR_RETURN(const dumps::Findings findings, dumps::Run(options_));
  // The answer may go to a file, or nowhere: what failed is reported where errors are looked for.
  if (const uint64_t failed = findings.failed_files(); failed > 0) {
    base::LogError(base::Printable(findings.FirstFailure()));
    if (failed > 1) {
      base::LogHint(
          fmt::format("{} could not be converted whole; the answer names each tensor and why",
                      base::Plural(failed, "file")));
    }
  }
  report::Document document = dumps::MakeDocument(findings, options_.output);
  document.seconds =
      std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
  return GiveAnswer(std::move(document), answer_, context);
}

}  // namespace

std::unique_ptr<Command> MakeParse() { return std::make_unique<ParseCommand>(); }

}  // namespace msprobe::commands
