// The rows that describe a command line. Parsing, help, completion, man pages and the tables of the
// documentation are made from them, so that none of these can say anything else than the others.
#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <limits>
#include <optional>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>
#include <variant>
#include <vector>

#include "msprobe/status.h"

namespace msprobe::commands {

// A variable that one of several words chooses the value of, by the place of the word among
// Flag::values: an enumeration, say. Made by Choice().
struct Chosen {
  std::function<void(size_t)> choose;
  std::function<size_t()> chosen;
};

// The variable that a value goes to. When the flag is absent it keeps what it holds, the default. A
// switch may have none: Context::Given knows about it. Of a list of bools each says whether the
// word at its place among Flag::values is in the list that was given; one may be null.
using Target = std::variant<bool*, int64_t*, uint64_t*, double*, std::optional<int64_t>*,
                            std::optional<double>*, std::string*, std::filesystem::path*,
                            std::vector<int64_t>*, std::vector<std::string>*,
                            std::vector<std::filesystem::path>*, Chosen, std::vector<bool*>>;

// Subjects of flags. Help shows the groups in this order, in every command.
enum class Group : uint8_t {
  kInput,      // what is read
  kSelection,  // which part of it
  kMethod,     // how it is looked at
  kOutput,     // what is written and shown
  kGate,       // for CI systems
  kV26,        // of compare's newer command line alone
  kGeneral,    // the same everywhere
};
std::string_view GroupTitle(Group group);

struct Bounds {
  double least = -std::numeric_limits<double>::infinity();
  double most = std::numeric_limits<double>::infinity();
};

// How many arguments follow the flag each time that it is given.
struct Arguments {
  size_t least = 1;
  size_t most = 1;
};
inline constexpr size_t kUnlimited = 1'000'000;

inline constexpr std::string_view kFirstRelease = "0.1";

// A row. Dashes and underscores inside of long names mean the same when they are typed.
struct Flag {
  std::string_view name = {};             // the long name, "--output"
  std::string_view letter = {};           // the short one, "-o"; may be absent
  std::vector<std::string> aliases = {};  // further spellings, with one dash or two: "-cm"
  std::string type = {};  // what stands for the value in help, "FILE"; empty: a switch
  Target fills = static_cast<bool*>(nullptr);
  std::vector<std::string> values = {};  // the only ones allowed; of a list each; empty: any
  Bounds bounds = {};                    // of numbers
  Arguments arguments = {};
  char separator = 0;  // of a list in one argument, ','; 0: the argument is one value
  Group group = Group::kMethod;
  std::string help = {};                   // a phrase without a full stop
  std::string default_text = {};           // when the variable does not tell it, "all cores"
  std::string_view since = kFirstRelease;  // of the Python tools whose spelling it has, or of this
  bool required = false;
  bool hidden = false;                  // works, but is not shown: of old scripts
  bool streams = false;                 // "-" is read while it comes, by the command itself
  std::string_view turned_off_by = {};  // a second switch that sets false, "--no-mask-aware"
  std::string_view needs = {};          // the name of a flag without which this one says nothing
  std::string_view excludes = {};       // the name of a flag that contradicts it
  std::string_view project_key = {};    // of .msprobe.toml, where it may be given, too
  bool only_own_table = false;          // ... below the command's name, not for all commands

  bool is_switch() const { return type.empty(); }
  // Whether the texts that it takes are paths.
  bool takes_paths() const;
};

// In place of a path for results, of commands that judge: no files stay.
inline constexpr std::string_view kNoFiles = "none";

// An argument without a flag. They are filled in their order.
struct Positional {
  std::string_view name = {};  // as help shows it, "REFERENCE"
  Target fills = static_cast<bool*>(nullptr);
  std::vector<std::string> values = {};  // the only ones allowed; empty: any
  std::string help = {};
  bool required = false;
  bool takes_rest = false;  // all arguments that follow
  bool streams = false;     // as of a flag
  // A path that may be given by a flag instead, which fills the same variable: the flag as messages
  // name it. One of the two is needed unless `or_neither`, both are an error.
  std::string_view or_flag = {};
  bool or_neither = false;
  std::string_view project_key = {};  // as of a flag
  bool only_own_table = false;
  // Needed, unless one of these flags says where the input is, or asks for something else: names of
  // rows, with blanks between them.
  std::string_view needed_unless = {};
};

// Properties of rows, in any order behind the help text.
struct Since {
  std::string_view version;
};
inline constexpr Since kPython811{"Python 8.1.1"};
inline constexpr Since kPython26{"Python 26"};
inline constexpr Bounds kNotNegative = {.least = 0};
inline constexpr Bounds kPositive = {.least = 1};
constexpr Bounds Between(double least, double most) { return {least, most}; }
inline constexpr Arguments kOneOrNone = {.least = 0, .most = 1};
struct Default {
  std::string text;
};
struct Needs {
  std::string_view flag;
};
struct Excludes {
  std::string_view flag;
};
struct TurnedOffBy {
  std::string_view flag;
};
struct OrFlag {
  std::string_view flag;
};
// A key of .msprobe.toml that may stand for the value (project_file.h). kOwnTable: only below the
// name of the command, because the same value would mean something else to others.
enum class ProjectScope : uint8_t { kEverywhere, kOwnTable };
struct FromProject {
  std::string_view key;
  ProjectScope scope = ProjectScope::kEverywhere;
};
struct NeededUnless {
  std::string_view flags;
};
enum class Trait : uint8_t { kRequired, kHidden, kSeparatedByCommas, kRest, kOrNeither, kStreams };
using enum Trait;

inline void Set(Flag& flag, Group group) { flag.group = group; }
inline void Set(Flag& flag, Since since) { flag.since = since.version; }
inline void Set(Flag& flag, const Bounds& bounds) { flag.bounds = bounds; }
inline void Set(Flag& flag, const Arguments& arguments) { flag.arguments = arguments; }
inline void Set(Flag& flag, const Default& value) { flag.default_text = value.text; }
inline void Set(Flag& flag, Needs other) { flag.needs = other.flag; }
inline void Set(Flag& flag, Excludes other) { flag.excludes = other.flag; }
inline void Set(Flag& flag, TurnedOffBy second) { flag.turned_off_by = second.flag; }
inline void Set(Flag& flag, FromProject project) {
  flag.project_key = project.key;
  flag.only_own_table = project.scope == ProjectScope::kOwnTable;
}
inline void Set(Flag& flag, Trait trait) {
  flag.required |= trait == kRequired;
  flag.hidden |= trait == kHidden;
  flag.streams |= trait == kStreams;
  flag.separator = trait == kSeparatedByCommas ? ',' : flag.separator;
}
inline void Set(Positional& argument, FromProject project) {
  argument.project_key = project.key;
  argument.only_own_table = project.scope == ProjectScope::kOwnTable;
}
inline void Set(Positional& argument, OrFlag instead) { argument.or_flag = instead.flag; }
inline void Set(Positional& argument, NeededUnless other) { argument.needed_unless = other.flags; }
inline void Set(Positional& argument, Trait trait) {
  argument.required |= trait == kRequired;
  argument.takes_rest |= trait == kRest;
  argument.or_neither |= trait == kOrNeither;
  argument.streams |= trait == kStreams;
}
inline void Set(Positional& argument, std::vector<std::string> values) {
  argument.values = std::move(values);
}

// A row of any kind. `names`: the long name, then the letter and further spellings, "--output -o
// --dump_path". `value` stands for the value in help, "FILE"; empty: a switch.
Flag NewRow(std::string_view names, std::string_view value, Target fills, std::string help);
template <typename... More>
Flag Row(std::string_view names, std::string_view value, Target fills, std::string help,
         const More&... more) {
  Flag flag = NewRow(names, value, std::move(fills), std::move(help));
  (Set(flag, more), ...);
  return flag;
}

// Variables that a row of a kind may fill.
using PathTarget = std::variant<std::filesystem::path*, std::vector<std::filesystem::path>*,
                                std::string*, std::vector<std::string>*>;
using NumberTarget = std::variant<int64_t*, uint64_t*, double*, std::optional<int64_t>*,
                                  std::optional<double>*, std::vector<int64_t>*>;
using TextTarget = std::variant<std::string*, std::vector<std::string>*, bool*>;
template <typename Narrow>
Target AnyTarget(const Narrow& fills) {
  return std::visit([](auto* variable) { return Target(variable); }, fills);
}

// Tables of flags are written with these.
template <typename... More>
Flag Switch(std::string_view names, bool* fills, std::string help, const More&... more) {
  return Row(names, "", fills, std::move(help), more...);
}
template <typename... More>
Flag Path(std::string_view names, std::string_view value, PathTarget fills, std::string help,
          const More&... more) {
  return Row(names, value, AnyTarget(fills), std::move(help), more...);
}
template <typename... More>
Flag Number(std::string_view names, std::string_view value, NumberTarget fills, std::string help,
            const More&... more) {
  return Row(names, value, AnyTarget(fills), std::move(help), more...);
}
template <typename... More>
Flag Text(std::string_view names, std::string_view value, TextTarget fills, std::string help,
          const More&... more) {
  return Row(names, value, AnyTarget(fills), std::move(help), more...);
}
template <typename... More>
Flag Choice(std::string_view names, std::string_view value, TextTarget fills,
            std::vector<std::string> words, std::string help, const More&... more) {
  Flag flag = Row(names, value, AnyTarget(fills), std::move(help), more...);
  flag.values = std::move(words);
  return flag;
}
// Each word with what it means to the variable.
template <typename Value>
using Meanings = std::vector<std::pair<std::string, Value>>;
template <typename Value, typename... More>
requires std::is_enum_v<Value> || std::is_same_v<Value, bool> Flag
Choice(std::string_view names, std::string_view value, Value* fills, Meanings<Value> meanings,
       std::string help, const More&... more) {
  std::vector<std::string> words;
  for (const auto& [word, meaning] : meanings) {
    words.push_back(word);
  }
  Chosen target{[fills, meanings](size_t word) { *fills = meanings[word].second; },
                [fills, meanings] {
                  size_t word = 0;
                  while (word + 1 < meanings.size() && meanings[word].second != *fills) {
                    ++word;
                  }
                  return word;
                }};
  Flag flag = Row(names, value, std::move(target), std::move(help), more...);
  flag.values = std::move(words);
  return flag;
}
// A list with commas: each variable says whether its word is in the list. Null: nothing depends on
// it.
template <typename... More>
Flag Choices(std::string_view names, std::string_view value, Meanings<bool*> meanings,
             std::string help, const More&... more) {
  std::vector<std::string> words;
  std::vector<bool*> listed;
  for (auto& [word, variable] : meanings) {
    words.push_back(std::move(word));
    listed.push_back(variable);
  }
  Flag flag = Row(names, value, std::move(listed), std::move(help), kSeparatedByCommas, more...);
  flag.values = std::move(words);
  return flag;
}
template <typename... More>
Positional Argument(std::string_view name, Target fills, std::string help, const More&... more) {
  Positional argument{.name = name, .fills = std::move(fills), .help = std::move(help)};
  (Set(argument, more), ...);
  return argument;
}

// The script that a command runs, behind --. kRequired, where nothing else can be asked for.
template <typename... More>
Positional ProgramArgument(std::vector<std::string>& program, const More&... more) {
  return Argument("PROGRAM", &program, "The script to run and its arguments, after --", kRest,
                  more...);
}

// A table: rows under headings. A heading holds for the rows below it, up to the next one, that
// have no group of their own (other than Group::kMethod).
using FlagTable = std::vector<std::variant<Group, Flag, std::vector<Flag>>>;
// Its rows, in the order of their groups.
std::vector<Flag> RowsOf(const FlagTable& table);

// Rows that mean the same in every command that has them.

// --threads N
Flag ThreadsFlag(uint64_t& threads);

// -o/--output DIR. `aliases` are what the Python tools call it.
Flag OutputFolderFlag(std::filesystem::path& folder, std::string help,
                      std::vector<std::string> aliases);

// The same under every name that the tools for kernel dumps have for it. `since`: which of them
// brought the flag.
Flag ResultsFlag(std::filesystem::path& folder, std::string help, std::string default_text,
                 Since since = kPython811);

// `folder`, or `otherwise` where none was given, must be a folder that can be written to.
Status PrepareResults(std::filesystem::path& folder, std::string_view otherwise);

// --force: results take the place of files that exist. Without it nothing that exists is replaced
// (base/output_files.h), by any command. The command line sees to it.
Flag ForceFlag();

// --format a,b,c: the variables say which are written.
Flag FormatsFlag(Meanings<bool*> formats, std::string default_text);
// The same as the words of the list.
Flag FormatsFlag(std::vector<std::string>& formats, std::vector<std::string> known,
                 std::string default_text);

// A command line worth showing, and what it does.
struct Example {
  std::string command;
  std::string meaning;
};

// Puts `texts` into the variable of a row. `name` is the flag as typed, for the message. Numbers
// must be numbers within their bounds, values one of those allowed.
Status FillFlag(const Flag& flag, std::string_view name, std::vector<std::string> texts);
Status FillPositional(const Positional& positional, const std::vector<std::string>& texts);
// The same of a path that a flag may have given, too; `texts` may be empty. An error when there are
// two, or none. `title`: of the command.
Status FillEither(std::string_view title, const Positional& positional,
                  const std::vector<std::string>& texts);

// "msprobe recheck needs DUMP": what every command says when an argument or a flag is missing.
Status MissingArgument(std::string_view title, std::string_view name);

// The default for help: the text of the row, or the value of the variable now; empty where there is
// none.
std::string DefaultText(const Flag& flag);

// "xlsx, csv or json"
std::string AnyOf(const std::vector<std::string>& values);

// The spellings of a flag that may be typed: both names, the aliases, with dashes and with
// underscores.
std::vector<std::string> Spellings(const Flag& flag);

// `name` with dashes for the underscores behind its leading dashes.
std::string WithDashes(std::string_view name);

}  // namespace msprobe::commands
