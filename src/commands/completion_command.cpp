// msprobe completion: scripts that complete commands, flags, the values of flags, files and
// folders. They are made from the tables and need no run of the program while somebody types.
#include <string>
#include <string_view>
#include <vector>

#include <fmt/format.h>

#include "src/base/strings.h"
#include "src/commands/answer.h"
#include "src/commands/command.h"
#include "src/commands/commands.h"
#include "src/report/texts.h"

namespace msprobe::commands {
namespace {

// Completion of the value of a flag.
enum class Kind { kNothing, kWords, kFiles, kFolders };

Kind KindOf(const Flag& flag) {
  if (!flag.values.empty()) {
    return Kind::kWords;
  }
  if (flag.type == "DIR") {
    return Kind::kFolders;
  }
  for (const std::string_view word : {"FILE", "PATH", "LOG", "ZIP", "CKPT", "DUMP"}) {
    if (flag.type.find(word) != std::string::npos) {
      return Kind::kFiles;
    }
  }
  return Kind::kNothing;
}

// Both names, and those with one dash that many know by heart.
std::vector<std::string> OfferedNames(const Flag& flag) {
  std::vector<std::string> names = {std::string(flag.name)};
  if (!flag.letter.empty()) {
    names.emplace_back(flag.letter);
  }
  if (!flag.turned_off_by.empty()) {
    names.emplace_back(flag.turned_off_by);
  }
  return names;
}

std::vector<std::string> PositionalWords(Command& command) {
  std::vector<std::string> words;
  for (const Positional& positional : command.positionals()) {
    words.insert(words.end(), positional.values.begin(), positional.values.end());
  }
  return words;
}

// For single quotes of the shells.
std::string Quoted(std::string_view text) {
  return "'" + base::ReplaceAll(text, "'", "'\\''") + "'";
}

// The cases of `case "$command $previous"` for one command.
std::string BashValueCases(const CommandPath& path) {
  std::string cases;
  for (const Flag& flag : ShownFlags(*path.back())) {
    if (flag.is_switch()) {
      continue;
    }
    std::vector<std::string> patterns;
    for (const std::string& spelling : Spellings(flag)) {
      patterns.push_back(Quoted(NameBelowProgram(path) + ":" + spelling));
    }
    const std::string pattern = base::Join(patterns, " | ");
    switch (KindOf(flag)) {
      case Kind::kWords:
        cases += fmt::format("    {}) {} {}; return ;;\n", pattern,
                             flag.separator != 0 ? "_msprobe_list" : "_msprobe_words",
                             Quoted(base::Join(flag.values, " ")));
        break;
      case Kind::kFolders:
        cases += fmt::format("    {}) _msprobe_paths -d; return ;;\n", pattern);
        break;
      case Kind::kFiles:
        cases += fmt::format("    {}) _msprobe_paths -f; return ;;\n", pattern);
        break;
      case Kind::kNothing:
        cases += fmt::format("    {}) return ;;\n", pattern);
        break;
    }
  }
  return cases;
}

constexpr std::string_view kBashHead =
    R"(# Completion of msprobe for bash: source <(msprobe completion bash)

_msprobe_words() { COMPREPLY=($(compgen -W "$1" -- "$current")); }

# Completes the last part of lists with commas.
_msprobe_list() {
  local before=""
  [[ $current == *,* ]] && before="${current%,*},"
  COMPREPLY=($(compgen -P "$before" -W "$1" -- "${current##*,}"))
  compopt -o nospace 2>/dev/null
}

_msprobe_paths() {
  compopt -o filenames 2>/dev/null
  local IFS=$'\n'
  COMPREPLY=($(compgen "$1" -- "$current"))
}

_msprobe() {
  local current="${COMP_WORDS[COMP_CWORD]}" previous="${COMP_WORDS[COMP_CWORD - 1]}"
  # Readline cuts --format=csv into three words.
  if [[ $current == "=" ]]; then
    current=""
  elif [[ $previous == "=" ]]; then
    previous="${COMP_WORDS[COMP_CWORD - 2]}"
  fi
  local command="" i
  for ((i = 1; i < COMP_CWORD; ++i)); do
    [[ ${COMP_WORDS[i]} == "--" ]] && { COMPREPLY=(); compopt -o default 2>/dev/null; return; }
    case "$command ${COMP_WORDS[i]}" in
)";

// ':' and brackets mean something in the specifications of _arguments.
std::string ZshText(std::string_view text) {
  std::string plain = base::ReplaceAll(text, "\\", "\\\\");
  for (const std::string_view special : {":", "[", "]"}) {
    plain = base::ReplaceAll(plain, special, "\\" + std::string(special));
  }
  return plain;
}

std::string ZshAction(const Flag& flag) {
  switch (KindOf(flag)) {
    case Kind::kWords:
      return flag.separator != 0
                 ? fmt::format("_values -s , value {}", base::Join(flag.values, " "))
                 : fmt::format("({})", base::Join(flag.values, " "));
    case Kind::kFolders:
      return "_files -/";
    case Kind::kFiles:
      return "_files";
    case Kind::kNothing:
      break;
  }
  return " ";
}

std::string ZshFlag(const Flag& flag, report::Language language) {
  std::string text;
  for (const std::string& name : OfferedNames(flag)) {
    std::string specification =
        fmt::format("*{}[{}]", name, ZshText(report::InLanguage(flag.help, language)));
    if (!flag.is_switch()) {
      specification += fmt::format(":{}:{}", ZshText(flag.type), ZshAction(flag));
    }
    text += fmt::format("    {} \\\n", Quoted(specification));
  }
  return text;
}

std::string ZshFunctionName(const CommandPath& path) {
  return "_" + base::ReplaceAll(TitleOf(path), " ", "_");
}

std::string ZshFunction(const CommandPath& path, report::Language language) {
  Command& command = *path.back();
  const std::vector<Command*> below = command.subcommands();
  std::string text = fmt::format(
      "{}() {{\n  local curcontext=\"$curcontext\" context line state state_descr\n  local -A "
      "opt_args\n  _arguments -C \\\n",
      ZshFunctionName(path));
  for (const Flag& flag : ShownFlags(command)) {
    text += ZshFlag(flag, language);
  }
  const std::vector<std::string> words = PositionalWords(command);
  if (below.empty()) {
    return text + (words.empty()
                       ? "    '*:file:_files'\n}\n\n"
                       : fmt::format("    '1:word:({})'\n}}\n\n", base::Join(words, " ")));
  }
  text +=
      "    '1:command:->command' \\\n    '*::argument:->argument'\n  case $state in\n"
      "    command)\n      local -a commands=(\n";
  for (const Command* const subcommand : below) {
    text += fmt::format("        {}\n",
                        Quoted(std::string(subcommand->name()) + ":" +
                               ZshText(report::InLanguage(subcommand->summary(), language))));
  }
  text += "      )\n      _describe command commands\n";
  text += command.is_group() ? "" : "      _files\n";
  text += "      ;;\n    argument)\n      case $line[1] in\n";
  for (Command* const subcommand : below) {
    CommandPath longer = path;
    longer.push_back(subcommand);
    text += fmt::format("        {}) {} ;;\n", subcommand->name(), ZshFunctionName(longer));
  }
  return text + "        *) _files ;;\n      esac\n      ;;\n  esac\n}\n\n";
}

// The condition of fish that this command is the one being typed.
std::string FishCondition(const CommandPath& path) {
  if (path.size() == 1) {
    return "__fish_use_subcommand";
  }
  std::string condition = "__fish_seen_subcommand_from " + std::string(path[1]->name());
  for (size_t i = 2; i < path.size(); ++i) {
    condition += "; and __fish_seen_subcommand_from " + std::string(path[i]->name());
  }
  if (const std::vector<std::string> below = SubcommandNames(*path.back()); !below.empty()) {
    condition += "; and not __fish_seen_subcommand_from " + base::Join(below, " ");
  }
  return condition;
}

// For single quotes of fish, which knows backslashes in them.
std::string FishQuoted(std::string_view text) {
  const std::string escaped = base::ReplaceAll(text, "\\", "\\\\");
  return "'" + base::ReplaceAll(escaped, "'", "\\'") + "'";
}

// fish completes the last part of a list with commas.
std::string FishWords(const Flag& flag) {
  const std::string words = base::Join(flag.values, " ");
  return flag.separator != 0 ? fmt::format("(__fish_append {} {})", flag.separator, words) : words;
}

std::string BashCompletion(Command& program) {
  std::string text(kBashHead);
  std::string values;
  std::string words;
  ForEachCommand({&program}, [&](const CommandPath& path) {
    Command& command = *path.back();
    const std::string key = NameBelowProgram(path);
    if (path.size() > 1) {
      const std::string before = NameBelowProgram({path.begin(), path.end() - 1});
      text += fmt::format("      {}) command={} ;;\n",
                          Quoted(before + " " + std::string(command.name())), Quoted(key));
      if (!command.alias().empty()) {
        text += fmt::format("      {}) command={} ;;\n",
                            Quoted(before + " " + std::string(command.alias())), Quoted(key));
      }
    }
    values += BashValueCases(path);
    std::vector<std::string> names;
    for (const Flag& flag : ShownFlags(command)) {
      for (const std::string& name : OfferedNames(flag)) {
        names.push_back(name);
      }
    }
    std::vector<std::string> first = SubcommandNames(command);
    for (const std::string& word : PositionalWords(command)) {
      first.push_back(word);
    }
    words += fmt::format("    {}) flags={} words={} paths={} ;;\n", Quoted(key),
                         Quoted(base::Join(names, " ")), Quoted(base::Join(first, " ")),
                         command.is_group() || !PositionalWords(command).empty() ? 0 : 1);
  });
  text += R"(    esac
  done
  case "$command:$previous" in
)";
  text += values;
  text += R"(  esac
  local flags="" words="" paths=0
  case "$command" in
)";
  text += words;
  text += R"(  esac
  if [[ $current == -* ]]; then
    _msprobe_words "$flags"
    return
  fi
  COMPREPLY=()
  ((paths)) && _msprobe_paths -f
  COMPREPLY+=($(compgen -W "$words" -- "$current"))
}

complete -F _msprobe msprobe
)";
  return text;
}

std::string ZshCompletion(Command& program, report::Language language) {
  std::string text =
      "#compdef msprobe\n# Completion of msprobe for zsh: source <(msprobe completion zsh), or as "
      "_msprobe in a folder of $fpath.\n\n";
  ForEachCommand({&program}, [&](const CommandPath& path) { text += ZshFunction(path, language); });
  return text +
         "if [ \"$funcstack[1]\" = _msprobe ]; then\n  _msprobe \"$@\"\nelse\n  compdef _msprobe "
         "msprobe\nfi\n";
}

std::string FishCompletion(Command& program, report::Language language) {
  std::string text =
      "# Completion of msprobe for fish: msprobe completion fish | source\n\ncomplete -c msprobe "
      "-e\n";
  ForEachCommand({&program}, [&](const CommandPath& path) {
    Command& command = *path.back();
    const std::string start =
        fmt::format("complete -c msprobe -n {}", FishQuoted(FishCondition(path)));
    if (command.is_group()) {
      text += start + " -f\n";
    }
    for (const Command* const below : command.subcommands()) {
      text += fmt::format("{} -a {} -d {}\n", start, below->name(),
                          FishQuoted(report::InLanguage(below->summary(), language)));
    }
    for (const std::string& word : PositionalWords(command)) {
      text += fmt::format("{} -f -a {}\n", start, word);
    }
    for (const Flag& flag : ShownFlags(command)) {
      text += start;
      for (const std::string& name : OfferedNames(flag)) {
        text += name.starts_with("--") ? " -l " + name.substr(2) : " -s " + name.substr(1);
      }
      switch (flag.is_switch() ? Kind::kNothing : KindOf(flag)) {
        case Kind::kWords:
          text += fmt::format(" -x -a {}", FishQuoted(FishWords(flag)));
          break;
        case Kind::kFolders:
          text += " -x -a '(__fish_complete_directories)'";
          break;
        case Kind::kFiles:
          text += " -r -F";
          break;
        case Kind::kNothing:
          text += flag.is_switch() ? "" : " -x";
          break;
      }
      text += fmt::format(" -d {}\n", FishQuoted(report::InLanguage(flag.help, language)));
    }
  });
  return text;
}

// msprobe completion: the script that lets a shell complete this program's command lines.
class CompletionCommand final : public Command {
 public:
  explicit CompletionCommand(Command& program)
      : Command("completion", "Print the completion script of a shell: bash, zsh or fish"),
        program_(program) {}

  std::vector<Positional> positionals() override {
    return {Argument("SHELL", &shell_, "The shell", std::vector<std::string>{"bash", "zsh", "fish"},
                     kRequired)};
  }

  std::vector<Example> examples() const override {
    return {
        {"source <(msprobe completion bash)", "in this shell; add it to ~/.bashrc for all shells"},
        {"source <(msprobe completion zsh)", "the same for zsh, in ~/.zshrc after compinit"},
        {"msprobe completion fish > ~/.config/fish/completions/msprobe.fish", "for fish"},
    };
  }

  Result<ExitCode> Run(const Context& context) override {
    MSP_RETURN_IF_ERROR(Print(shell_ == "bash"  ? BashCompletion(program_)
                              : shell_ == "zsh" ? ZshCompletion(program_, context.language)
                                                : FishCompletion(program_, context.language)));
    return ExitCode::kDone;
  }

 private:
  Command& program_;
  std::string shell_;
};

}  // namespace

std::unique_ptr<Command> MakeCompletion(Command& program) {
  return std::make_unique<CompletionCommand>(program);
}

}  // namespace msprobe::commands
