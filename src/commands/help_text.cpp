// The tables of a command as text for the terminal, as a page for man(1), as Markdown for
// docs/, and as JSON for programs and tests; and msprobe help, which shows them. `msprobe help
// which` answers by questions, from config/questions.json, which docs/README.md shows as well.
#include <algorithm>
#include <array>
#include <filesystem>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "msprobe/version.h"

#include "src/base/output_files.h"
#include "src/base/strings.h"
#include "src/commands/answer.h"
#include "src/commands/command.h"
#include "src/commands/commands.h"
#include "src/commands/suggestions.h"
#include "src/json/writer.h"
#include "src/report/render_terminal.h"
#include "src/report/texts.h"

namespace msprobe::resources {
extern const std::string_view kQuestions;
}

namespace msprobe::commands {
namespace {

constexpr std::string_view kExitCodes =
    "Exit codes: 0 done, 1 findings (with --fail-on), 2 wrong usage, 3 unreadable input or failed "
    "output.";
constexpr std::string_view kSpellingNote =
    "Dashes and underscores within flags are interchangeable: --output_name is --output-name.";

// Several commands answer "is this operator wrong?", each under other conditions.
struct OperatorCheck {
  std::string_view commands;  // the name and its aliases
  std::string_view when;
};

constexpr std::array kOperatorChecks = std::to_array<OperatorCheck>({
    {"recheck",
     "Take it first: it judges every captured call by the call's own inputs, and needs a dump with "
     "tensors but neither PyTorch nor a device."},
    {"run_ut acc_check multi_run_ut multi_acc_check",
     "Take it to run every operator of a dump again, on this device and on the CPU: it needs "
     "PyTorch, and statistics suffice."},
    {"isolate",
     "Take it when there is a dump of a good run and the script can run again: it judges modules, "
     "each on the inputs of the good run."},
    {"free_benchmark",
     "Take it when there is neither a second machine nor a good run: it runs the script and finds "
     "the operators that are sensitive to rounding."},
    {"repro",
     "Take it when the wrong call is known and its tensors were captured: it extracts that call "
     "for those who own the operator."},
    {"op_generate",
     "Take it when the operator is known and only its statistics were captured: it writes a script "
     "that runs this one API on a device and on the CPU."},
    {"api_precision_compare",
     "Take it after run_ut on two devices: it judges the errors of one by those of the other."},
    {"run_overflow_check",
     "Take it when a device reported an overflow: it shows whether the CPU overflows, too."},
});

// Empty for commands that check no operators.
std::string_view WhenToTake(const Command& command) {
  const auto* const row =
      std::find_if(kOperatorChecks.begin(), kOperatorChecks.end(), [&](const OperatorCheck& check) {
        return base::IsOneOf(command.name(), base::Split(check.commands, ' '));
      });
  return row == kOperatorChecks.end() ? std::string_view() : row->when;
}

// The same as a paragraph.
std::string WhenParagraph(const Command& command) {
  const std::string_view when = WhenToTake(command);
  return when.empty() ? std::string()
                      : fmt::format(
                            "{} docs/how-to/which-operator-check.md compares the commands "
                            "that check operators.",
                            when);
}

// "msprobe compare [FLAGS] [TEST] [REFERENCE]"
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
std::string WithValues(const std::string& english, const std::vector<std::string>& values,
                       report::Language language = report::Language::kEnglish) {
  const std::string help = report::InLanguage(english, language);
  if (values.empty()) {
    return help;
  }
  const bool is_chinese = language == report::Language::kChinese;
  const size_t end = std::min(help.find(is_chinese ? "；" : ";"), help.size());
  std::string listed = AnyOf(values);
  if (is_chinese && values.size() > 1) {
    listed = fmt::format("{} {} {}", base::Join({values.begin(), values.end() - 1}, "、"),
                         report::InLanguage("or", language), values.back());
  }
  return help.substr(0, end) + (is_chinese ? "：" : ": ") + listed + help.substr(end);
}

// The default in the language; a value that can be given stays as it is.
std::string DefaultIn(const Flag& flag, report::Language language) {
  const std::string value = DefaultText(flag);
  return std::find(flag.values.begin(), flag.values.end(), value) == flag.values.end()
             ? report::InLanguage(value, language)
             : value;
}

// The help of a row with what else there is to know: values, default, further names.
std::string FlagExplanation(const Flag& flag,
                            report::Language language = report::Language::kEnglish) {
  const std::string text = WithValues(flag.help, flag.values, language);
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
  const bool is_chinese = language == report::Language::kChinese;
  for (std::string& remark : remarks) {
    remark = is_chinese && remark.starts_with("default: ")
                 ? report::InLanguage("default", language) + "：" + DefaultIn(flag, language)
                 : report::InLanguage(remark, language);
  }
  return remarks.empty()
             ? text
             : fmt::format("{}{}{}{}", text, is_chinese ? "（" : " (",
                           base::Join(remarks, is_chinese ? "；" : "; "), is_chinese ? "）" : ")");
}

std::string PositionalExplanation(const Positional& positional,
                                  report::Language language = report::Language::kEnglish) {
  return WithValues(positional.help, positional.values, language);
}

// What help is laid out for.
struct Form {
  size_t width;
  report::Language language;
};

constexpr size_t kColumn = 30;  // where explanations begin, on terminals that are wide enough

// Appends `text` in its language, in lines of the form's width: `indent` blanks in front of the
// first, `hanging` of the others.
void AddWrapped(std::string& out, std::string_view text, const Form& form, size_t indent,
                size_t hanging) {
  size_t blanks = indent;
  for (const std::string& line : report::WrapText(report::InLanguage(text, form.language),
                                                  form.width - std::min(form.width, indent),
                                                  form.width - std::min(form.width, hanging))) {
    out.append(line.empty() ? 0 : blanks, ' ');
    out += line + "\n";
    blanks = hanging;
  }
}

void AddEntry(std::string& text, const std::string& heading, const std::string& explanation,
              const Form& form) {
  const size_t column = std::min(kColumn, form.width / 2);
  const size_t columns = report::ColumnsOf(heading) + 2;
  if (columns + 2 > column) {
    const size_t blanks = heading.find_first_not_of(' ');
    AddWrapped(text, heading.substr(blanks), form, 2 + blanks, 8);
    AddWrapped(text, explanation, form, column, column);
    return;
  }
  std::string lines;
  AddWrapped(lines, explanation, form, column, column);
  if (explanation.empty()) {
    lines.insert(0, column, ' ');
  }
  lines.replace(0, columns, "  " + heading);
  text += lines;
}

void AddSection(std::string& text, std::string_view title, const Form& form) {
  text += fmt::format("\n{}{}\n", report::InLanguage(title, form.language),
                      form.language == report::Language::kChinese ? "：" : ":");
}

void AddFlags(std::string& text, const std::vector<Flag>& flags, const Form& form) {
  std::optional<Group> group;
  for (const Flag& flag : flags) {
    if (group != flag.group) {
      group = flag.group;
      AddSection(text, GroupTitle(flag.group), form);
    }
    AddEntry(text, (flag.letter.empty() ? "    " : "") + FlagHeading(flag),
             FlagExplanation(flag, form.language), form);
  }
}

// An indented line, laid out by hand: of a list "  word  meaning", or of a file. Where it is too
// long the meaning goes on below itself.
void AddLaidOut(std::string& text, std::string_view line, const Form& form) {
  const size_t indent = std::min(line.find_first_not_of(' '), line.size());
  const size_t gap = line.find("  ", indent);
  const size_t meaning =
      gap == std::string_view::npos ? gap : std::min(line.find_first_not_of(' ', gap), line.size());
  // Words alone are names, of levels and keys.
  const std::string_view name =
      line.substr(indent, gap == std::string_view::npos ? 0 : gap - indent);
  std::string shown(line.substr(0, gap == std::string_view::npos ? indent : meaning));
  if (name.find(' ') != std::string_view::npos) {
    shown = std::string(indent, ' ') + report::InLanguage(name, form.language) + "  ";
    shown.append(meaning - std::min(meaning, report::ColumnsOf(shown)), ' ');
  }
  shown += report::InLanguage(line.substr(gap == std::string_view::npos ? indent : meaning),
                              form.language);
  if (report::ColumnsOf(shown) <= form.width) {
    text += shown + "\n";
  } else if (gap == std::string_view::npos) {
    AddWrapped(text, line.substr(indent), form, indent, indent + 4);
  } else if (meaning > form.width / 2) {
    AddWrapped(text, line.substr(indent, gap - indent), form, indent, indent + 4);
    AddWrapped(text, line.substr(meaning), form, indent + 4, indent + 4);
  } else {
    const size_t begin = text.size();
    AddWrapped(text, line.substr(meaning), form, meaning, meaning);
    text.replace(begin, meaning, line.substr(0, meaning));
  }
}

// Lines of one paragraph are joined and wrapped anew; indented lines are laid out by hand.
void AddParagraphs(std::string& text, std::string_view notes, const Form& form) {
  std::string paragraph;
  const auto end_paragraph = [&] {
    if (!paragraph.empty()) {
      AddWrapped(text, paragraph, form, 0, 0);
      paragraph.clear();
    }
  };
  if (notes.empty()) {
    return;
  }
  text += "\n";
  for (const std::string_view line : base::Split(base::Trim(notes), '\n')) {
    if (line.empty()) {
      end_paragraph();
      text += "\n";
    } else if (line.starts_with(' ')) {
      end_paragraph();
      AddLaidOut(text, line, form);
    } else {
      paragraph += (paragraph.empty() ? "" : " ") + std::string(line);
    }
  }
  end_paragraph();
}

// The words of a command line; blanks within quotes are part of a word.
std::vector<std::string> ShellWords(std::string_view line) {
  std::vector<std::string> words(1);
  char quote = 0;
  for (const char c : line) {
    if (c == ' ' && quote == 0) {
      words.emplace_back();
      continue;
    }
    if (quote == 0 && (c == '\'' || c == '"')) {
      quote = c;
    } else if (c == quote) {
      quote = 0;
    }
    words.back() += c;
  }
  return words;
}

// Too long a command goes on behind a backslash, so that it can be copied as it stands.
void AddCommandLine(std::string& text, std::string_view command, const Form& form) {
  constexpr size_t kMark = 2;  // " \"
  std::string line = " ";
  for (const std::string& word : ShellWords(command)) {
    if (line.size() > 5 &&
        report::ColumnsOf(line) + 1 + report::ColumnsOf(word) + kMark > form.width) {
      text += line + " \\\n";
      line = "     ";
    }
    line += " " + word;
  }
  text += line + "\n";
}

void AddExamples(std::string& text, const std::vector<Example>& examples, const Form& form) {
  for (const Example& example : examples) {
    AddCommandLine(text, example.command, form);
    if (!example.meaning.empty()) {
      AddWrapped(text, example.meaning, form, 6, 6);
    }
  }
}

std::string EntryName(const CommandPath& path) {
  const std::string alias(path.back()->alias());
  return TitleOf(path) + (alias.empty() ? "" : ", " + alias);
}

// Aliases in one line: "acc_check, multi_run_ut: run_ut; data2db: monitor csv2db".
std::string AliasLine(const Topic& topic) {
  std::string line;
  std::string_view before;
  for (size_t i = 0; i < topic.commands.size(); ++i) {
    const Topic::Entry& entry = topic.commands[i];
    line += (i == 0 ? "" : entry.stands_for == before ? ", " : "; ") + TitleOf(entry.path);
    before = entry.stands_for;
    if (i + 1 == topic.commands.size() || topic.commands[i + 1].stands_for != before) {
      line += ": " + std::string(before);
    }
  }
  return line;
}

void AddTopics(std::string& text, const std::vector<Topic>& topics, const Form& form) {
  for (const Topic& topic : topics) {
    AddSection(text, topic.title, form);
    if (topic.is_of_aliases) {
      AddWrapped(text, AliasLine(topic), form, 2, 2);
      continue;
    }
    for (const Topic::Entry& entry : topic.commands) {
      AddEntry(text, EntryName(entry.path), std::string(entry.path.back()->summary()), form);
    }
  }
}

}  // namespace

std::string HelpText(const CommandPath& path, size_t width, report::Language language) {
  const Form form{width, language};
  Command& command = *path.back();
  const bool is_program = path.size() == 1;
  std::string text;
  AddParagraphs(text, command.summary(), form);
  text.erase(0, 1);
  AddParagraphs(text, WhenParagraph(command), form);
  if (is_program && !command.examples().empty()) {
    AddSection(text, "Start with", form);
    AddExamples(text, command.examples(), form);
  }
  text += "\n";
  AddWrapped(text, "Usage: " + UsageLine(path), form, 0, 7);
  if (const std::vector<Positional> positionals = command.positionals(); !positionals.empty()) {
    AddSection(text, "Arguments", form);
    for (const Positional& positional : positionals) {
      AddEntry(text, std::string(positional.name) + (positional.takes_rest ? "..." : ""),
               PositionalExplanation(positional, form.language), form);
    }
  }
  AddTopics(text, command.topics(), form);
  AddFlags(text, ShownFlags(command), form);
  if (const std::vector<Example> examples = command.examples(); !examples.empty() && !is_program) {
    AddSection(text, "Examples", form);
    AddExamples(text, examples, form);
  }
  AddParagraphs(text, command.notes(), form);
  if (command.is_group()) {
    AddParagraphs(
        text,
        fmt::format("Run `{} COMMAND --help` for a command's flags and examples.", TitleOf(path)),
        form);
  }
  if (is_program) {
    AddWrapped(text, kSpellingNote, form, 0, 0);
    AddWrapped(text, kExitCodes, form, 0, 0);
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
  if (const std::string when = WhenParagraph(command); !when.empty()) {
    page += fmt::format(".SH DESCRIPTION\n{}\n", Escaped(when));
  }
  if (const std::vector<Positional> positionals = command.positionals(); !positionals.empty()) {
    page += ".SH ARGUMENTS\n";
    for (const Positional& positional : positionals) {
      AddManEntry(page, positional.name, PositionalExplanation(positional));
    }
  }
  if (const std::vector<Topic> topics = command.topics(); !topics.empty()) {
    page += ".SH COMMANDS\n";
    for (const Topic& topic : topics) {
      page += topics.size() > 1 ? fmt::format(".SS {}\n", Escaped(topic.title)) : "";
      for (const Topic::Entry& entry : topic.commands) {
        AddManEntry(page, EntryName(entry.path), entry.path.back()->summary());
      }
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

std::string MeaningCell(const Flag& flag, report::Language language) {
  std::vector<std::string> values;
  for (const std::string& value : flag.values) {
    values.push_back(Code(value));
  }
  std::string text = WithValues(flag.help, values, language);
  if (!flag.needs.empty()) {
    text += (language == report::Language::kChinese ? "；" : "; ") +
            report::InLanguage("with " + Code(flag.needs), language);
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
  writer.Member("when", WhenToTake(command));
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
  writer.Key("topics");
  writer.BeginArray();
  for (const Topic& topic : command.topics()) {
    writer.BeginObject();
    writer.Member("title", topic.title);
    writer.Key("commands");
    writer.BeginArray();
    for (const Topic::Entry& entry : topic.commands) {
      writer.Text(TitleOf(path) + " " + TitleOf(entry.path));
    }
    writer.EndArray();
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
std::string MarkdownTables(const CommandPath& path, report::Language language) {
  const auto say = [language](std::string_view text) { return report::InLanguage(text, language); };
  std::string text = fmt::format("    {}\n", UsageLine(path));
  const std::vector<Positional> positionals = path.back()->positionals();
  if (!positionals.empty()) {
    text += fmt::format("\n| {} | {} |\n|---|---|\n", say("argument"), say("meaning"));
    for (const Positional& positional : positionals) {
      text += fmt::format("| {} | {} |\n", Code(positional.name),
                          Cell(PositionalExplanation(positional, language)));
    }
  }
  text += fmt::format("\n| {} | {} | {} | {} | {} |\n|---|---|---|---|---|\n", say("flag"),
                      say("meaning"), say("default"), say("also"), say("since"));
  std::optional<Group> group;
  for (const Flag& flag : RowsOf(path.back()->flags())) {
    if (flag.hidden) {
      continue;
    }
    if (group != flag.group) {
      group = flag.group;
      text += fmt::format("| **{}** | | | | |\n", say(GroupTitle(flag.group)));
    }
    const std::string value = flag.required ? say("required") : DefaultIn(flag, language);
    text +=
        fmt::format("| {} | {} | {} | {} | {} |\n", Cell(Code(FlagHeading(flag))),
                    Cell(MeaningCell(flag, language)), Cell(value), AliasCell(flag), flag.since);
  }
  return text + "\n" + say("`-q`, `--verbose` and `-h` work as in every command.") + "\n";
}

// The tables of the command and those below it, as one JSON object.
std::string TablesJson(const CommandPath& path) {
  std::string text;
  json::Writer writer(text, 2);
  AddCommandObject(writer, path);
  return text + "\n";
}

constexpr std::string_view kWhich = "which";

// Questions, the commands that answer them, and the guides.
std::string QuestionsText(const Form& form) {
  std::string text;
  for (const nlohmann::json& row : nlohmann::json::parse(resources::kQuestions)) {
    AddWrapped(text,
               row["question"][form.language == report::Language::kChinese ? "zh" : "en"]
                   .get<std::string>(),
               form, 0, 2);
    for (const nlohmann::json& command : row["commands"]) {
      AddCommandLine(text, command.get<std::string>(), form);
    }
  }
  text += "\n";
  AddWrapped(text,
             "msprobe COMMAND --help explains a command; the guides to these questions are listed "
             "in docs/README.md.",
             form, 0, 0);
  return text;
}

std::string QuestionsMarkdown() {
  std::string text = "| question | command | guide |\n|---|---|---|\n";
  for (const nlohmann::json& row : nlohmann::json::parse(resources::kQuestions)) {
    std::vector<std::string> commands;
    for (const nlohmann::json& command : row["commands"]) {
      commands.push_back(Code(command.get<std::string>()));
    }
    std::vector<std::string> guides;
    for (const nlohmann::json& guide : row["guides"]) {
      guides.push_back(fmt::format("[{}]({})", guide["en"].get<std::string>(),
                                   guide["page"].get<std::string>()));
    }
    text += fmt::format("| {} | {} | {} |\n", Cell(row["question"]["en"].get<std::string>()),
                        base::Join(commands, "<br>"), base::Join(guides, ", "));
  }
  return text;
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
    return {Argument("COMMAND", &words_,
                     "A command and its subcommand; which: the command for a question", kRest)};
  }

  std::vector<Example> examples() const override {
    return {
        {"msprobe help which", "which command answers which question"},
        {"msprobe help monitor diff", "the same as msprobe monitor diff --help"},
        {"msprobe help compare --format man | man -l -", "as a man page"},
        {"msprobe help --man-pages share/man/man1", "the man pages of all commands"},
        {"msprobe help --format json", "every flag of every command, for programs"},
    };
  }

  Result<ExitCode> Run(const Context& context) override {
    if (words_.size() == 1 && words_.front() == kWhich) {
      return AnswerWhich(context);
    }
    MSP_ASSIGN_OR_RETURN(const CommandPath path, Find());
    if (!pages_.empty()) {
      return WritePages();
    }
    MSP_RETURN_IF_ERROR(Print(format_ == "man"        ? ManPage(path)
                              : format_ == "markdown" ? MarkdownTables(path, context.language)
                              : format_ == "json"
                                  ? TablesJson(path)
                                  : HelpText(path, context.width, context.language)));
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

  Result<ExitCode> AnswerWhich(const Context& context) const {
    if (format_ == "man") {
      return UsageError("the table of questions has no man page")
          .WithHint("--format is text, markdown or json here");
    }
    MSP_RETURN_IF_ERROR(Print(format_ == "markdown" ? QuestionsMarkdown()
                              : format_ == "json"
                                  ? std::string(resources::kQuestions)
                                  : QuestionsText({context.width, context.language})));
    return ExitCode::kDone;
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
