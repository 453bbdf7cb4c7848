// The tables of a command as text for the terminal, as a page for man(1), as Markdown for
// docs/, and as JSON for programs and tests; and msprobe help, which shows them.
#include <algorithm>
#include <filesystem>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <fmt/format.h>

#include "msprobe/version.h"

#include "src/base/output_files.h"
#include "src/base/strings.h"
#include "src/commands/answer.h"
#include "src/commands/command.h"
#include "src/commands/commands.h"
#include "src/commands/suggestions.h"
#include "src/json/writer.h"

namespace msprobe::commands {
namespace {

constexpr std::string_view kExitCodes =
    "Exit codes: 0 done, 1 findings (with --fail-on), 2 wrong usage, 3 unreadable input or failed "
    "output.";
constexpr std::string_view kSpellingNote =
    "Dashes and underscores within flags are interchangeable: --output_name is --output-name.";

// "msprobe compare [FLAGS] [NPU_PATH] [BENCH_PATH]"
std::string UsageLine(const CommandPath& path) {
  std::string line = TitleOf(path);
  if (path.back()->is_group()) {
    return line + (path.size() == 1 ? " [FLAGS] COMMAND" : " COMMAND");
  }
  line += " [FLAGS]";
  for (const Positional& positional : path.back()->positionals()) {
    const std::string name = std::string(positional.name) + (positional.takes_rest ? "..." : "");
    line += positional.required ? " " + name : " [" + name + "]";
  }
  return line;
}

// "-o, --output DIR"
std::string FlagHeading(const Flag& flag) {
  std::string text = flag.letter.empty() ? "" : std::string(flag.letter) + ", ";
  text += flag.name;
  if (!flag.turned_off_by.empty()) {
    text += ", " + std::string(flag.turned_off_by);
  }
  if (flag.is_switch()) {
    return text;
  }
  return text + (flag.arguments.least == 0 ? " [" + flag.type + "]" : " " + flag.type);
}

// Aliases that are not just another spelling of the name with dashes or underscores.
std::vector<std::string> FurtherNames(const Flag& flag) {
  std::vector<std::string> names;
  for (const std::string& alias : flag.aliases) {
    const std::string dashed = WithDashes(alias);
    const auto same = [&](const std::string& name) { return WithDashes(name) == dashed; };
    if (dashed != flag.name && std::none_of(names.begin(), names.end(), same)) {
      names.push_back(alias);
    }
  }
  return names;
}

// `help` with the allowed values behind its first clause: "Output format: table or csv; csv: ...".
std::string WithValues(const std::string& help, const std::vector<std::string>& values) {
  if (values.empty()) {
    return help;
  }
  const size_t end = std::min(help.find(';'), help.size());
  return help.substr(0, end) + ": " + AnyOf(values) + help.substr(end);
}

// The help of a row with what else there is to know: values, default, further names.
std::string FlagExplanation(const Flag& flag) {
  const std::string text = WithValues(flag.help, flag.values);
  std::vector<std::string> remarks;
  if (flag.required) {
    remarks.emplace_back("required");
  }
  if (const std::string value = DefaultText(flag); !value.empty()) {
    remarks.push_back("default: " + value);
  }
  if (!flag.needs.empty()) {
    remarks.push_back("with " + std::string(flag.needs));
  }
  if (const std::vector<std::string> names = FurtherNames(flag); !names.empty()) {
    remarks.push_back("also " + base::Join(names, ", "));
  }
  return remarks.empty() ? text : fmt::format("{} ({})", text, base::Join(remarks, "; "));
}

std::string PositionalExplanation(const Positional& positional) {
  return WithValues(positional.help, positional.values);
}

constexpr size_t kColumn = 30;                // where explanations begin
constexpr size_t kNarrowestExplanation = 24;  // of explanations, whatever the terminal

// Breaks at blanks; words longer than the room stand on a line of their own.
std::vector<std::string> Wrapped(std::string_view text, size_t width) {
  std::vector<std::string> lines = {""};
  for (const std::string_view word : base::Split(text, ' ')) {
    if (!lines.back().empty() && lines.back().size() + 1 + word.size() > width) {
      lines.emplace_back();
    }
    lines.back() += lines.back().empty() ? "" : " ";
    lines.back() += word;
  }
  return lines;
}

void AddEntry(std::string& text, const std::string& heading, const std::string& explanation,
              size_t width) {
  std::string line = "  " + heading;
  const size_t room = std::max(kNarrowestExplanation, width > kColumn ? width - kColumn : 0);
  for (const std::string& part : Wrapped(explanation, room)) {
    if (line.size() + 2 > kColumn) {
      text += line + "\n";
      line.clear();
    }
    line.resize(kColumn, ' ');
    text += line + part + "\n";
    line.clear();
  }
}

void AddSection(std::string& text, std::string_view title) {
  text += fmt::format("\n{}:\n", title);
}

void AddFlags(std::string& text, const std::vector<Flag>& flags, size_t width) {
  std::optional<Group> group;
  for (const Flag& flag : flags) {
    if (group != flag.group) {
      group = flag.group;
      AddSection(text, GroupTitle(flag.group));
    }
    AddEntry(text, (flag.letter.empty() ? "    " : "") + FlagHeading(flag), FlagExplanation(flag),
             width);
  }
}

// Lines of one paragraph are joined and wrapped anew; indented lines are laid out by hand.
void AddParagraphs(std::string& text, std::string_view notes, size_t width) {
  std::string paragraph;
  const auto end_paragraph = [&] {
    if (!paragraph.empty()) {
      text += base::Join(Wrapped(paragraph, width), "\n") + "\n";
      paragraph.clear();
    }
  };
  if (notes.empty()) {
    return;
  }
  text += "\n";
  for (const std::string_view line : base::Split(base::Trim(notes), '\n')) {
    if (line.empty() || line.starts_with(' ')) {
      end_paragraph();
      text += std::string(line) + "\n";
    } else {
      paragraph += (paragraph.empty() ? "" : " ") + std::string(line);
    }
  }
  end_paragraph();
}

void AddExamples(std::string& text, const std::vector<Example>& examples, size_t width) {
  constexpr size_t kIndent = 6;
  for (const Example& example : examples) {
    text += fmt::format("  {}\n", example.command);
    if (!example.meaning.empty()) {
      const size_t room = std::max(kNarrowestExplanation, width > kIndent ? width - kIndent : 0);
      for (const std::string& line : Wrapped(example.meaning, room)) {
        text += fmt::format("{:{}}{}\n", "", kIndent, line);
      }
    }
  }
}

}  // namespace

std::string HelpText(const CommandPath& path, size_t width) {
  Command& command = *path.back();
  std::string text;
  AddParagraphs(text, command.summary(), width);
  text.erase(0, 1);
  text += "\nUsage: " + UsageLine(path) + "\n";
  if (const std::vector<Positional> positionals = command.positionals(); !positionals.empty()) {
    AddSection(text, "Arguments");
    for (const Positional& positional : positionals) {
      AddEntry(text, std::string(positional.name) + (positional.takes_rest ? "..." : ""),
               PositionalExplanation(positional), width);
    }
  }
  if (const std::vector<Command*> below = command.subcommands(); !below.empty()) {
    AddSection(text, "Subcommands");
    for (const Command* const subcommand : below) {
      const std::string alias(subcommand->alias());
      AddEntry(text, std::string(subcommand->name()) + (alias.empty() ? "" : ", " + alias),
               std::string(subcommand->summary()), width);
    }
  }
  AddFlags(text, ShownFlags(command), width);
  if (const std::vector<Example> examples = command.examples(); !examples.empty()) {
    AddSection(text, "Examples");
    AddExamples(text, examples, width);
  }
  AddParagraphs(text, command.notes(), width);
  if (command.is_group()) {
    text += fmt::format("\nRun `{} COMMAND --help` for a command's flags and examples.\n",
                        TitleOf(path));
  }
  if (path.size() == 1) {
    text += std::string(kSpellingNote) + "\n" + std::string(kExitCodes) + "\n";
  }
  return text;
}

namespace {

// Pages for man(1). Roff reads lines that begin with '.' or "'" as requests and '\' as an escape.
// "msprobe-monitor-diff"
std::string ManPageName(const CommandPath& path) {
  return base::ReplaceAll(TitleOf(path), " ", "-");
}

std::string Escaped(std::string_view text) {
  std::string roff = base::ReplaceAll(text, "\\", "\\e");
  roff = base::ReplaceAll(roff, "-", "\\-");
  roff = base::ReplaceAll(roff, "\n.", "\n\\&.");
  roff = base::ReplaceAll(roff, "\n'", "\n\\&'");
  return roff.starts_with('.') || roff.starts_with('\'') ? "\\&" + roff : roff;
}

void AddManEntry(std::string& page, std::string_view heading, std::string_view explanation) {
  page += fmt::format(".TP\n.B {}\n{}\n", Escaped(heading), Escaped(explanation));
}

void AddManFlags(std::string& page, const std::vector<Flag>& flags) {
  page += ".SH OPTIONS\n";
  std::optional<Group> group;
  for (const Flag& flag : flags) {
    if (group != flag.group) {
      group = flag.group;
      page += fmt::format(".SS {}\n", Escaped(GroupTitle(flag.group)));
    }
    AddManEntry(page, FlagHeading(flag), FlagExplanation(flag));
  }
  page += ".PP\n" + Escaped(kSpellingNote) + "\n";
}

void AddNotes(std::string& page, const std::string& notes) {
  if (notes.empty()) {
    return;
  }
  page += ".SH NOTES\n";
  bool laid_out = false;  // lists and tables keep their lines
  for (const std::string_view line : base::Split(base::Trim(notes), '\n')) {
    const bool indented = line.starts_with(' ');
    if (indented != laid_out && !line.empty()) {
      page += indented ? ".nf\n" : ".fi\n";
      laid_out = indented;
    }
    page += line.empty() ? std::string(".PP\n") : Escaped(line) + "\n";
  }
  page += laid_out ? ".fi\n" : "";
}

// "monitor_diff": its page in docs/commands/.
std::string DocumentName(const CommandPath& path) {
  std::string name;
  for (size_t i = 1; i < path.size(); ++i) {
    name += (i > 1 ? "_" : "") + std::string(path[i]->name());
  }
  return name;
}

void AddOtherPages(std::string& page, const CommandPath& path) {
  std::vector<std::string> names;
  if (path.size() > 1) {
    names.push_back(ManPageName({path.begin(), path.end() - 1}));
  }
  for (Command* const below : path.back()->subcommands()) {
    CommandPath longer = path;
    longer.push_back(below);
    names.push_back(ManPageName(longer));
  }
  page += ".SH SEE ALSO\n";
  for (size_t i = 0; i < names.size(); ++i) {
    page += fmt::format(".BR {} (1){}\n", Escaped(names[i]), i + 1 < names.size() ? "," : "");
  }
  if (path.size() > 1) {
    page += fmt::format(".PP\nExamples and results: docs/commands/{}.md in share/doc/msprobe.\n",
                        DocumentName(path));
  }
}

// Section 1, named msprobe-monitor-diff for `msprobe monitor diff`.
std::string ManPage(const CommandPath& path) {
  Command& command = *path.back();
  const std::string name = ManPageName(path);
  // Without a date: the same program gives the same page.
  std::string page = fmt::format(".TH \"{}\" 1 \"\" \"msprobe {}\" \"msprobe\"\n",
                                 base::ReplaceAll(name, "-", "\\-"), MSPROBE_VERSION);
  const std::string_view summary = command.summary();
  page += fmt::format(".SH NAME\n{} \\- {}\n", Escaped(name),
                      Escaped(summary.substr(0, summary.find('\n'))));
  page += fmt::format(".SH SYNOPSIS\n.B {}\n", Escaped(UsageLine(path)));
  if (const std::vector<Positional> positionals = command.positionals(); !positionals.empty()) {
    page += ".SH ARGUMENTS\n";
    for (const Positional& positional : positionals) {
      AddManEntry(page, positional.name, PositionalExplanation(positional));
    }
  }
  if (const std::vector<Command*> below = command.subcommands(); !below.empty()) {
    page += ".SH COMMANDS\n";
    for (const Command* const subcommand : below) {
      AddManEntry(page, subcommand->name(), subcommand->summary());
    }
  }
  AddManFlags(page, ShownFlags(command));
  if (const std::vector<Example> examples = command.examples(); !examples.empty()) {
    page += ".SH EXAMPLES\n";
    for (const Example& example : examples) {
      AddManEntry(page, example.command, example.meaning);
    }
  }
  AddNotes(page, command.notes());
  page += ".SH EXIT STATUS\n";
  page += Escaped(kExitCodes.substr(kExitCodes.find(':') + 2)) + "\n";
  AddOtherPages(page, path);
  return page;
}

std::string Code(std::string_view text) { return fmt::format("`{}`", text); }

// A '|' would end the cell, also inside of code.
std::string Cell(std::string_view text) { return base::ReplaceAll(text, "|", "\\|"); }

// The spellings a reader of the Python tools' documents knows.
std::string AliasCell(const Flag& flag) {
  std::vector<std::string> names;
  for (const std::string& name : FurtherNames(flag)) {
    names.push_back(Code(name));
  }
  return base::Join(names, " ");
}

std::string MeaningCell(const Flag& flag) {
  std::vector<std::string> values;
  for (const std::string& value : flag.values) {
    values.push_back(Code(value));
  }
  std::string text = WithValues(flag.help, values);
  if (!flag.needs.empty()) {
    text += fmt::format("; with {}", Code(flag.needs));
  }
  return text;
}

void AddFlagObject(json::Writer& writer, const Flag& flag) {
  writer.BeginObject();
  writer.Member("name", flag.name);
  writer.Member("letter", flag.letter);
  writer.Member("aliases", flag.aliases);
  writer.Member("spellings", Spellings(flag));
  writer.Member("type", flag.type);
  writer.Member("values", flag.values);
  writer.Member("default", DefaultText(flag));
  writer.Member("group", GroupTitle(flag.group));
  writer.Member("help", flag.help);
  writer.Member("since", flag.since);
  writer.Member("turned_off_by", flag.turned_off_by);
  writer.Member("required", flag.required);
  writer.Member("hidden", flag.hidden);
  writer.Member("bare", flag.arguments.least == 0);
  writer.EndObject();
}

void AddCommandObject(json::Writer& writer, const CommandPath& path) {
  Command& command = *path.back();
  writer.BeginObject();
  writer.Member("command", TitleOf(path));
  writer.Member("alias", command.alias());
  writer.Member("summary", command.summary());
  writer.Member("usage", UsageLine(path));
  writer.Key("arguments");
  writer.BeginArray();
  for (const Positional& positional : command.positionals()) {
    writer.BeginObject();
    writer.Member("name", positional.name);
    writer.Member("help", positional.help);
    writer.Member("values", positional.values);
    writer.Member("required", positional.required);
    writer.EndObject();
  }
  writer.EndArray();
  writer.Key("flags");
  writer.BeginArray();
  GeneralValues general;
  for (const Flag& flag : AllFlags(command, general)) {
    AddFlagObject(writer, flag);
  }
  writer.EndArray();
  writer.Key("examples");
  writer.BeginArray();
  for (const Example& example : command.examples()) {
    writer.BeginObject();
    writer.Member("command", example.command);
    writer.Member("meaning", example.meaning);
    writer.EndObject();
  }
  writer.EndArray();
  writer.Key("subcommands");
  writer.BeginArray();
  for (Command* const below : command.subcommands()) {
    CommandPath longer = path;
    longer.push_back(below);
    AddCommandObject(writer, longer);
  }
  writer.EndArray();
  writer.EndObject();
}

// The tables of flags for docs/: one row per flag, a line of headings per group.
std::string MarkdownTables(const CommandPath& path) {
  std::string text = fmt::format("    {}\n", UsageLine(path));
  const std::vector<Positional> positionals = path.back()->positionals();
  if (!positionals.empty()) {
    text += "\n| argument | meaning |\n|---|---|\n";
    for (const Positional& positional : positionals) {
      text += fmt::format("| {} | {} |\n", Code(positional.name),
                          Cell(PositionalExplanation(positional)));
    }
  }
  text += "\n| flag | meaning | default | also | since |\n|---|---|---|---|---|\n";
  std::optional<Group> group;
  for (const Flag& flag : RowsOf(path.back()->flags())) {
    if (flag.hidden) {
      continue;
    }
    if (group != flag.group) {
      group = flag.group;
      text += fmt::format("| **{}** | | | | |\n", GroupTitle(flag.group));
    }
    const std::string value = flag.required ? "required" : DefaultText(flag);
    text += fmt::format("| {} | {} | {} | {} | {} |\n", Cell(Code(FlagHeading(flag))),
                        Cell(MeaningCell(flag)), Cell(value), AliasCell(flag), flag.since);
  }
  return text + "\n`-q`, `--verbose` and `-h` work as in every command.\n";
}

// The tables of the command and those below it, as one JSON object.
std::string TablesJson(const CommandPath& path) {
  std::string text;
  json::Writer writer(text, 2);
  AddCommandObject(writer, path);
  return text + "\n";
}

class HelpCommand final : public Command {
 public:
  explicit HelpCommand(Command& program)
      : Command("help", "Show the help of a command"), program_(program) {}

  FlagTable flags() override {
    return {
        Group::kOutput,
        Choice("--format", "NAME", &format_, {"text", "man", "markdown", "json"},
               "Output format; json includes all subcommands", Default{"text"}),
        Path("--man-pages", "DIR", &pages_, "Write the man pages of all commands to this folder"),
        ForceFlag(),
    };
  }

  std::vector<Positional> positionals() override {
    return {Argument("COMMAND", &words_, "A command and its subcommand", kRest)};
  }

  std::vector<Example> examples() const override {
    return {
        {"msprobe help monitor diff", "the same as msprobe monitor diff --help"},
        {"msprobe help compare --format man | man -l -", "as a man page"},
        {"msprobe help --man-pages share/man/man1", "the man pages of all commands"},
        {"msprobe help --format json", "every flag of every command, for programs"},
    };
  }

  Result<ExitCode> Run(const Context& context) override {
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

 private:
  Result<CommandPath> Find() const {
    CommandPath path = FindCommand(program_, words_);
    if (path.size() <= words_.size()) {
      const std::string& word = words_[path.size() - 1];
      return UsageError(
                 fmt::format("{} has no command \"{}\"", TitleOf(path), base::Printable(word)))
          .WithHint(SuggestCommand(word, path));
    }
    return path;
  }

  Result<ExitCode> WritePages() {
    // A page shows what flags hold as their defaults, this one's too.
    const std::filesystem::path folder = std::exchange(pages_, {});
    MSP_RETURN_IF_ERROR(base::CheckOutputFolder(folder));
    MSP_RETURN_IF_ERROR(base::CreateFolders(folder));
    std::vector<CommandPath> pages;
    ForEachCommand({&program_}, [&](const CommandPath& path) { pages.push_back(path); });
    for (const CommandPath& path : pages) {
      const std::filesystem::path file = folder / (ManPageName(path) + ".1");
      MSP_RETURN_IF_ERROR(base::CheckOutputFile(file));
      MSP_RETURN_IF_ERROR(base::WriteFileAtomically(file, ManPage(path)));
    }
    return ExitCode::kDone;
  }

  Command& program_;
  std::vector<std::string> words_;
  std::string format_ = "text";
  std::filesystem::path pages_;  // a folder for all man pages; empty: none
};

}  // namespace

std::unique_ptr<Command> MakeHelp(Command& program) {
  return std::make_unique<HelpCommand>(program);
}

}  // namespace msprobe::commands
