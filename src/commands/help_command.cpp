#include <filesystem>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <fmt/format.h>

#include "src/base/files.h"
#include "src/base/output_files.h"
#include "src/base/strings.h"
#include "src/commands/command.h"
#include "src/commands/commands.h"
#include "src/commands/common_flags.h"
#include "src/commands/help_text.h"
#include "src/commands/print.h"
#include "src/commands/suggestions.h"

namespace msprobe::commands {
namespace {

// msprobe help: what --help of a command shows, also as man page, Markdown and JSON.

class HelpCommand final : public Command {
 public:
  explicit HelpCommand(Command& program) : program_(program) {}

  std::string_view name() const override { return "help"; }
  std::string_view summary() const override { return "Show the help of a command"; }
  FlagTable flags() override;
  std::vector<Positional> positionals() override;
  std::vector<Example> examples() const override;
  Result<ExitCode> Run(const Context& context) override;

 private:
  Result<CommandPath> Find() const;
  Result<ExitCode> WritePages();

  Command& program_;
  std::vector<std::string> words_;
  std::string format_ = "text";
  std::filesystem::path pages_;  // a folder for all man pages; empty: none
};

void AddPages(const CommandPath& path, std::vector<CommandPath>& pages) {
  pages.push_back(path);
  for (Command* const below : path.back()->subcommands()) {
    CommandPath longer = path;
    longer.push_back(below);
    AddPages(longer, pages);
  }
}

FlagTable HelpCommand::flags() {
  return {
      Group::kOutput,
      Choice("--format", "NAME", &format_, {"text", "man", "markdown", "json"},
             "Output format; json includes all subcommands", Default{"text"}),
      Path("--man-pages", "DIR", &pages_, "Write the man pages of all commands to this folder"),
      ForceFlag(),
  };
}

std::vector<Positional> HelpCommand::positionals() {
  return {Argument("COMMAND", &words_, "A command and its subcommand", kRest)};
}

std::vector<Example> HelpCommand::examples() const {
  return {
      {"msprobe help monitor diff", "the same as msprobe monitor diff --help"},
      {"msprobe help compare --format man | man -l -", "as a man page"},
      {"msprobe help --man-pages share/man/man1", "the man pages of all commands"},
      {"msprobe help --format json", "every flag of every command, for programs"},
  };
}

Result<CommandPath> HelpCommand::Find() const {
  CommandPath path = FindCommand(program_, words_);
  if (path.size() <= words_.size()) {
    const std::string& word = words_[path.size() - 1];
    return UsageError(fmt::format("{} has no command \"{}\"", TitleOf(path), base::Printable(word)))
        .WithHint(SuggestCommand(word, path));
  }
  return path;
}

Result<ExitCode> HelpCommand::WritePages() {
  // A page shows what flags hold as their defaults, this one's too.
  const std::filesystem::path folder = std::exchange(pages_, {});
  MSP_RETURN_IF_ERROR(base::CheckOutputFolder(folder));
  MSP_RETURN_IF_ERROR(base::CreateFolders(folder));
  std::vector<CommandPath> pages;
  AddPages({&program_}, pages);
  for (const CommandPath& path : pages) {
    const std::filesystem::path file = folder / (ManPageName(path) + ".1");
    MSP_RETURN_IF_ERROR(base::CheckOutputFile(file));
    MSP_RETURN_IF_ERROR(base::WriteFileAtomically(file, ManPage(path)));
  }
  return ExitCode::kDone;
}

Result<ExitCode> HelpCommand::Run(const Context& context) {
  MSP_ASSIGN_OR_RETURN(const CommandPath path, Find());
  if (!pages_.empty()) {
    return WritePages();
  }
  MSP_RETURN_IF_ERROR(Print(format_ == "man"        ? ManPage(path)
                            : format_ == "markdown" ? MarkdownTables(path)
                            : format_ == "json"     ? TablesJson(path)
                                                    : HelpText(path, context.width)));
  return ExitCode::kDone;
}

}  // namespace

std::unique_ptr<Command> MakeHelp(Command& program) {
  return std::make_unique<HelpCommand>(program);
}

}  // namespace msprobe::commands
