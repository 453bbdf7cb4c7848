#include "src/commands/flag_parser.h"

#include <algorithm>
#include <memory>
#include <optional>
#include <set>
#include <string_view>
#include <utility>

#include <CLI/CLI.hpp>
#include <fmt/format.h>

#include "src/base/strings.h"
#include "src/commands/project_file.h"
#include "src/commands/suggestions.h"

namespace msprobe::commands {
namespace {

// A command with its tables and the parser made from them.
struct Node {
  Command* command = nullptr;
  CLI::App* app = nullptr;
  std::vector<Flag> flags;
  std::vector<CLI::Option*> flag_options;  // in the order of `flags`
  std::vector<Positional> positionals;
  std::vector<CLI::Option*> positional_options;
  std::vector<std::unique_ptr<Node>> below;
};

bool IsLong(std::string_view spelling) { return spelling.starts_with("--"); }

// Several letters after one dash, as in the Python tools. Other parsers read a bundle of letters.
bool IsLongWithOneDash(std::string_view spelling) {
  return spelling.size() > 2 && spelling[0] == '-' && spelling[1] != '-';
}

CLI::Option* AddFlag(CLI::App& app, const Flag& flag) {
  std::vector<std::string> names;
  for (std::string& spelling : Spellings(flag)) {
    if (!IsLongWithOneDash(spelling)) {
      names.push_back(std::move(spelling));
    }
  }
  if (!flag.turned_off_by.empty()) {
    names.push_back("!" + std::string(flag.turned_off_by));
  }
  const std::string text = base::Join(names, ",");
  if (flag.is_switch()) {
    return app.add_flag(text);
  }
  return app.add_option(text, [](const CLI::results_t&) { return true; })
      ->type_size(1)
      ->type_name(flag.type)
      ->expected(static_cast<int>(flag.arguments.least), static_cast<int>(flag.arguments.most))
      ->multi_option_policy(CLI::MultiOptionPolicy::TakeAll)
      ->allow_extra_args(false);
}

CLI::Option* AddPositional(CLI::App& app, const Positional& positional) {
  return app.add_option(std::string(positional.name), [](const CLI::results_t&) { return true; })
      ->type_size(1)
      ->expected(1)
      ->multi_option_policy(CLI::MultiOptionPolicy::TakeAll)
      ->allow_extra_args(positional.takes_rest);
}

// Commands that no argument names take no part: most of the program's flags are another command's.
bool IsNamed(const Command& command, const std::vector<std::string>& arguments) {
  return std::any_of(arguments.begin(), arguments.end(), [&](const std::string& argument) {
    return !argument.empty() && (argument == command.name() || argument == command.alias());
  });
}

void FillNode(Node& node, GeneralValues& general, const std::vector<std::string>& arguments) {
  node.app->set_help_flag();  // a row of the table like the others
  node.app->allow_extras();   // reported here, all of them and in their order
  node.flags = AllFlags(*node.command, general);
  for (const Flag& flag : node.flags) {
    node.flag_options.push_back(AddFlag(*node.app, flag));
  }
  node.positionals = node.command->positionals();
  for (const Positional& positional : node.positionals) {
    node.positional_options.push_back(AddPositional(*node.app, positional));
  }
  const std::vector<Command*> subcommands = node.command->subcommands();
  node.app->require_subcommand(0, 1);
  for (Command* const command : subcommands) {
    if (!IsNamed(*command, arguments)) {
      continue;
    }
    CLI::App* const app = node.app->add_subcommand(std::string(command->name()));
    if (!command->alias().empty()) {
      app->alias(std::string(command->alias()));
    }
    node.below.push_back(std::make_unique<Node>());
    node.below.back()->command = command;
    node.below.back()->app = app;
    FillNode(*node.below.back(), general, arguments);
  }
}

// The nodes of the commands that were named.
std::vector<Node*> NamedNodes(Node& program) {
  std::vector<Node*> nodes = {&program};
  for (bool deeper = true; deeper;) {
    deeper = false;
    for (const std::unique_ptr<Node>& below : nodes.back()->below) {
      if (below->app->parsed()) {
        nodes.push_back(below.get());
        deeper = true;
        break;
      }
    }
  }
  return nodes;
}

const Flag* FindFlag(const Node& node, std::string_view spelling) {
  for (const Flag& flag : node.flags) {
    const std::vector<std::string> all = Spellings(flag);
    if (std::find(all.begin(), all.end(), spelling) != all.end()) {
      return &flag;
    }
  }
  return nullptr;
}

std::string_view NameIn(std::string_view argument) {
  return argument.substr(0, argument.find('='));
}

// Writes long names for those with one dash, as far as they are flags and no values of flags.
std::vector<std::string> WithoutLongNamesOfOneDash(const Node& program,
                                                   std::vector<std::string> arguments) {
  const Node* node = &program;
  size_t values = 0;  // arguments that are values of the flag before
  constexpr size_t kLongAgo = 2;
  size_t since_optional = kLongAgo;  // arguments behind a flag whose value may be left out
  size_t place = 0;
  for (std::string& argument : arguments) {
    if (argument == "--") {
      if (since_optional < kLongAgo) {  // the parser takes it for the end of that flag's values
        arguments.insert(arguments.begin() + static_cast<std::ptrdiff_t>(place), "--");
      }
      break;
    }
    ++place;
    since_optional = std::min(since_optional + 1, kLongAgo);
    if (values > 0) {
      --values;
      continue;
    }
    if (!argument.starts_with('-')) {
      for (const std::unique_ptr<Node>& below : node->below) {
        if (argument == below->command->name() || argument == below->command->alias()) {
          node = below.get();
          break;
        }
      }
      continue;
    }
    since_optional = kLongAgo;
    const std::string_view name = NameIn(argument);
    const Flag* const flag = FindFlag(*node, name);
    if (flag == nullptr) {
      continue;
    }
    if (!flag->is_switch() && name.size() == argument.size()) {
      values = flag->arguments.least;
      since_optional = values == 0 ? 0 : kLongAgo;
    }
    if (IsLongWithOneDash(name)) {
      argument.replace(0, name.size(), flag->name);
    }
  }
  return arguments;
}

// As it was typed; the name of the row where it was typed among other letters ("-sc").
std::string TypedName(const Flag& flag, const std::vector<std::string>& arguments) {
  const std::vector<std::string> spellings = Spellings(flag);
  for (const std::string& argument : arguments) {
    const std::string_view name = NameIn(argument);
    if (std::find(spellings.begin(), spellings.end(), name) != spellings.end()) {
      return std::string(name);
    }
  }
  return std::string(flag.name);
}

// The unknown arguments in the order of typing.
std::vector<std::string> InOrderOfTyping(std::vector<std::string> unknown,
                                         const std::vector<std::string>& arguments) {
  std::vector<std::string> ordered;
  for (const std::string& argument : arguments) {
    if (const auto found = std::find(unknown.begin(), unknown.end(), argument);
        found != unknown.end()) {
      ordered.push_back(argument);
      unknown.erase(found);
    }
  }
  // Rests of bundles of letters were not typed as they are.
  ordered.insert(ordered.end(), unknown.begin(), unknown.end());
  return ordered;
}

bool LooksLikeFlag(std::string_view argument) {
  return argument.size() > 1 && argument[0] == '-' && (argument[1] < '0' || argument[1] > '9');
}

Status UnknownArguments(const std::vector<std::string>& unknown, const CommandPath& path,
                        const Node& node) {
  std::vector<std::string> flags;
  std::vector<std::string> others;
  for (const std::string& argument : unknown) {
    (LooksLikeFlag(argument) ? flags : others).push_back(base::Printable(NameIn(argument)));
  }
  if (flags.empty() && node.command->is_group()) {
    return UsageError(fmt::format("{} has no command \"{}\"", TitleOf(path), others[0]))
        .WithHint(SuggestCommand(others[0], path));
  }
  const std::vector<std::string>& named = flags.empty() ? others : flags;
  const std::string_view plural = named.size() > 1 ? "s" : "";
  Status error =
      UsageError(flags.empty() ? fmt::format("{}: unexpected argument{}: {}", TitleOf(path), plural,
                                             base::Join(named, ", "))
                               : fmt::format("{} has no flag{} {}", TitleOf(path), plural,
                                             base::Join(named, ", ")));
  return flags.empty() ? error : error.WithHint(SuggestFlag(flags[0], node.flags));
}

Status FillFlags(Node& node, const std::vector<std::string>& arguments, ParsedLine& line) {
  // In the order of typing, so that of several mistakes the first is reported.
  std::vector<std::pair<const Flag*, CLI::Option*>> given;
  for (const CLI::Option* const option : node.app->parse_order()) {
    const auto place = std::find(node.flag_options.begin(), node.flag_options.end(), option);
    const auto index = static_cast<size_t>(place - node.flag_options.begin());
    if (place == node.flag_options.end() ||
        std::any_of(given.begin(), given.end(),
                    [&](const auto& other) { return other.second == *place; })) {
      continue;
    }
    given.emplace_back(&node.flags[index], *place);
  }
  for (const auto& [flag, option] : given) {
    line.typed.emplace(flag->name, TypedName(*flag, arguments));
  }
  for (const auto& [flag, option] : given) {
    const std::string& typed = line.typed.find(flag->name)->second;
    std::vector<std::string> texts = option->results();
    if (flag->arguments.least == 0) {  // bare it arrives as one empty text
      std::erase(texts, std::string());
    }
    for (const std::string& text : texts) {
      if (!flag->is_switch() && IsLong(text) && FindFlag(node, NameIn(text)) != nullptr) {
        return UsageError(fmt::format("{} needs a value, found the flag {}", typed, text));
      }
    }
    if (texts.size() < flag->arguments.least ||
        (flag->arguments.most > 1 && texts.size() > flag->arguments.most)) {
      return UsageError(fmt::format("{} needs {}, found {}", typed, flag->type,
                                    texts.empty() ? "nothing" : base::Join(texts, " ")));
    }
    MSP_RETURN_IF_ERROR(FillFlag(*flag, typed, std::move(texts)));
  }
  for (const auto& [flag, option] : given) {
    const std::string& typed = line.typed.find(flag->name)->second;
    if (!flag->needs.empty() && line.typed.find(flag->needs) == line.typed.end()) {
      return UsageError(fmt::format("{} needs {}", typed, flag->needs));
    }
    if (const auto other = line.typed.find(flag->excludes); other != line.typed.end()) {
      return UsageError(fmt::format("{} and {} cannot be combined", other->second, typed));
    }
  }
  return {};
}

// Whether the flag that may stand for an argument was typed.
bool IsGivenByFlag(const Node& node, const Positional& positional, const ParsedLine& line) {
  const Flag* const flag = FindFlag(node, positional.or_flag);
  return flag != nullptr && line.typed.find(flag->name) != line.typed.end();
}

// The shortest way to type it, "-tp".
std::string ShortName(const Node& node, std::string_view name) {
  const auto flag = std::find_if(node.flags.begin(), node.flags.end(),
                                 [&](const Flag& known) { return known.name == name; });
  if (flag == node.flags.end() || !flag->letter.empty()) {
    return std::string(flag == node.flags.end() ? name : flag->letter);
  }
  const auto alias = std::find_if(flag->aliases.begin(), flag->aliases.end(), IsLongWithOneDash);
  return alias == flag->aliases.end() ? std::string(name) : *alias;
}

// "msprobe compare TEST REFERENCE, or -i, -tp"; "msprobe isolate --reference DUMP -- python3
// train.py"
std::string WaysToCall(const Node& node, std::string_view title) {
  std::string text(title);
  for (const Flag& flag : node.flags) {
    if (flag.required) {
      text += fmt::format(" {} {}", flag.name, flag.type);
    }
  }
  std::vector<std::string> flags;
  for (const Positional& positional : node.positionals) {
    if (positional.required || !positional.needed_unless.empty()) {
      text += positional.name == "PROGRAM" ? " -- python3 train.py"
                                           : " " + std::string(positional.name);
    }
    for (const std::string_view name : base::Split(positional.needed_unless, ' ')) {
      const std::string flag = ShortName(node, name);
      if (!name.empty() && !base::IsOneOf(flag, flags)) {
        flags.push_back(flag);
      }
    }
  }
  return flags.empty() ? text : text + ", or " + base::Join(flags, ", ");
}

// `filled`: arguments that the command line has not, but the project's file.
Status CheckRequired(const Node& node, const ParsedLine& line,
                     const std::set<const Positional*>& filled) {
  const std::string title = TitleOf(line.path);
  const auto is_typed = [&](std::string_view flag) {
    return line.typed.find(flag) != line.typed.end();
  };
  for (size_t i = 0; i < node.positionals.size(); ++i) {
    const Positional& positional = node.positionals[i];
    if (node.positional_options[i]->count() > 0 || filled.contains(&positional)) {
      continue;
    }
    const std::vector<std::string_view> others = base::Split(positional.needed_unless, ' ');
    if (positional.required || (!positional.needed_unless.empty() &&
                                std::none_of(others.begin(), others.end(), is_typed))) {
      return MissingArgument(title, positional.name).WithHint(WaysToCall(node, title));
    }
  }
  for (const Flag& flag : node.flags) {
    if (flag.required && !is_typed(flag.name)) {
      return MissingArgument(title, fmt::format("{} {}", flag.name, flag.type))
          .WithHint(WaysToCall(node, title));
    }
  }
  return {};
}

Status FillLine(const std::vector<Node*>& nodes, const std::vector<std::string>& arguments,
                const FindProjectFile& find_project, ParsedLine& line) {
  for (Node* const node : nodes) {
    MSP_RETURN_IF_ERROR(FillFlags(*node, arguments, line));
  }
  if (line.general.help) {
    return {};
  }
  const Node& last = *nodes.back();
  std::vector<std::string> unknown = nodes.front()->app->remaining(true);
  std::erase(unknown, "--");  // the mark in front of what are not flags
  if (!unknown.empty()) {
    return UnknownArguments(InOrderOfTyping(unknown, arguments), line.path, last);
  }
  std::optional<ProjectFile> project;
  if (find_project && !line.general.no_config && HasProjectKeys(*last.command)) {
    MSP_ASSIGN_OR_RETURN(project, find_project());
  }
  if (project) {
    MSP_RETURN_IF_ERROR(project->Check({line.path.front()}));
    MSP_RETURN_IF_ERROR(project->Apply(last.flags, line));
  }
  std::set<const Positional*> from_project;
  for (size_t i = 0; i < last.positionals.size(); ++i) {
    const Positional& positional = last.positionals[i];
    const bool given = last.positional_options[i]->count() > 0;
    // A reference belongs to what stands in front of it.
    if (project && !given && i > 0 && last.positional_options[i - 1]->count() > 0 &&
        !positional.project_key.empty() && !IsGivenByFlag(last, positional, line)) {
      MSP_ASSIGN_OR_RETURN(const bool filled, project->Apply(positional, line));
      if (filled) {
        from_project.insert(&positional);
        continue;
      }
    }
    std::vector<std::string> texts =
        given ? last.positional_options[i]->results() : std::vector<std::string>();
    if (!positional.or_flag.empty()) {
      line.paths = line.paths.ok() ? FillEither(TitleOf(line.path), positional, texts)
                                   : std::move(line.paths);
    } else if (given) {
      MSP_RETURN_IF_ERROR(FillPositional(positional, texts));
    }
  }
  line.project_remark = project ? project->Remark() : std::string();
  return CheckRequired(last, line, from_project);
}

Status MissingValue(const Node& node, const std::vector<std::string>& arguments, Status otherwise) {
  for (auto argument = arguments.rbegin(); argument != arguments.rend(); ++argument) {
    const std::string_view name = NameIn(*argument);
    if (const Flag* const flag = FindFlag(node, name); flag != nullptr && !flag->is_switch()) {
      return UsageError(fmt::format("{} needs {}: {}{}", name, flag->type, flag->help,
                                    flag->values.empty() ? "" : ": " + AnyOf(flag->values)));
    }
  }
  return otherwise;
}

}  // namespace

ParsedLine ParseArguments(Command& program, const std::vector<std::string>& arguments,
                          const FindProjectFile& find_project) {
  ParsedLine line;
  CLI::App app;
  Node root;
  root.command = &program;
  root.app = &app;
  FillNode(root, line.general, arguments);
  std::vector<std::string> reversed = WithoutLongNamesOfOneDash(root, arguments);
  std::reverse(reversed.begin(), reversed.end());  // CLI11 takes the last first
  Status parsed;
  bool lacks_value = false;  // of the last flag: all others find an argument behind them
  try {
    app.parse(std::move(reversed));
  } catch (const CLI::ArgumentMismatch& error) {
    parsed = UsageError(error.what());
    lacks_value = true;
  } catch (const CLI::ParseError& error) {
    parsed = UsageError(error.what());
  }
  const std::vector<Node*> nodes = NamedNodes(root);
  if (lacks_value) {
    parsed = MissingValue(*nodes.back(), arguments, std::move(parsed));
  }
  for (const Node* const node : nodes) {
    line.path.push_back(node->command);
  }
  line.status = parsed.ok() ? FillLine(nodes, arguments, find_project, line) : std::move(parsed);
  return line;
}

}  // namespace msprobe::commands
