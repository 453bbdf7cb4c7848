// The tables as Markdown for docs/, and as JSON for programs and tests.
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include <fmt/format.h>

#include "src/base/strings.h"
#include "src/commands/common_flags.h"
#include "src/commands/help_text.h"
#include "src/json/writer.h"

namespace msprobe::commands {
namespace {

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

}  // namespace

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

std::string TablesJson(const CommandPath& path) {
  std::string text;
  json::Writer writer(text, 2);
  AddCommandObject(writer, path);
  return text + "\n";
}

}  // namespace msprobe::commands
