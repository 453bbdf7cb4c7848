#include "src/commands/parse_shell.h"

#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include <fmt/format.h>

#include "src/base/log.h"
#include "src/base/output_files.h"
#include "src/base/strings.h"
#include "src/commands/common_flags.h"
#include "src/commands/flag_parser.h"
#include "src/commands/help_text.h"
#include "src/commands/line_editor.h"
#include "src/commands/parse_tools.h"
#include "src/commands/print.h"

namespace msprobe::commands {
namespace {

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
  Context context = outer;
  context.quiet = outer.quiet || line.general.quiet;
  context.typed = std::move(line.typed);
  base::SetExistingFiles(context.Given(ForceFlag().name) ? base::Existing::kReplace
                                                         : base::Existing::kRefuse);
  return command.Run(context);
}

}  // namespace

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

}  // namespace msprobe::commands
