#include "src/commands/help_text.h"

#include <algorithm>
#include <optional>
#include <string_view>
#include <vector>

#include <fmt/format.h>

#include "src/base/strings.h"
#include "src/commands/common_flags.h"

namespace msprobe::commands {
namespace {

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
    if (flag.hidden) {
      continue;
    }
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

std::string WithValues(const std::string& help, const std::vector<std::string>& values) {
  if (values.empty()) {
    return help;
  }
  const size_t end = std::min(help.find(';'), help.size());
  return help.substr(0, end) + ": " + AnyOf(values) + help.substr(end);
}

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
  GeneralValues general;
  AddFlags(text, AllFlags(command, general), width);
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

}  // namespace msprobe::commands
