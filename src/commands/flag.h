// The rows that describe a command line. Parsing, help, completion, man pages and the tables of the
// documentation are made from them, so that none of these can say anything else than the others.
#pragma once

#include <cstdint>
#include <filesystem>
#include <limits>
#include <optional>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "msprobe/status.h"

namespace msprobe::commands {

// The variable that a value goes to. When the flag is absent it keeps what it holds, the default. A
// switch may have none: Context::Given tells about it.
using Target = std::variant<bool*, int64_t*, uint64_t*, double*, std::optional<int64_t>*,
                            std::optional<double>*, std::string*, std::filesystem::path*,
                            std::vector<int64_t>*, std::vector<std::string>*,
                            std::vector<std::filesystem::path>*>;

// What a flag is about. Help shows the groups in this order, in every command.
enum class Group : uint8_t {
  kInput,      // what is read
  kSelection,  // which part of it
  kMethod,     // how it is looked at
  kOutput,     // what is written and shown
  kGate,       // for CI systems
  kLine26,     // of compare's newer command line alone
  kGeneral,    // the same everywhere
};
std::string_view GroupTitle(Group group);

// Since which version a flag is known: of the Python tools whose spelling it has, or of this one.
inline constexpr std::string_view kPython811 = "Python 8.1.1";
inline constexpr std::string_view kPython26 = "Python 26";
inline constexpr std::string_view kFirstRelease = "0.1";

struct Bounds {
  double least = -std::numeric_limits<double>::infinity();
  double most = std::numeric_limits<double>::infinity();
};
inline constexpr Bounds kNotNegative = {.least = 0};
inline constexpr Bounds kPositive = {.least = 1};

inline constexpr size_t kUnlimited = 1'000'000;
// How many arguments follow the flag each time that it is given.
struct Arguments {
  size_t least = 1;
  size_t most = 1;
};

inline constexpr Arguments kOneOrNone = {.least = 0, .most = 1};

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
  std::string help = {};          // a phrase without a full stop
  std::string default_text = {};  // when the variable does not tell it, "all cores"
  std::string_view since = kFirstRelease;
  bool required = false;
  bool hidden = false;                  // works, but is not shown: of old scripts
  std::string_view turned_off_by = {};  // a second switch that sets false, "--no-mask-aware"
  std::string_view needs = {};          // the name of a flag without which this one says nothing
  std::string_view excludes = {};       // the name of a flag that contradicts it

  bool is_switch() const { return type.empty(); }
};

// An argument without a flag. They are filled in their order.
struct Positional {
  std::string_view name = {};  // as help shows it, "BENCH_PATH"
  Target fills = static_cast<bool*>(nullptr);
  std::vector<std::string> values = {};  // the only ones allowed; empty: any
  std::string help = {};
  bool required = false;
  bool takes_rest = false;  // all arguments that follow
};

// A command line worth showing, and what it does.
struct Example {
  std::string command;
  std::string meaning;
};

// Puts `texts` into the variable of a row. `name` is the flag as typed, for the message. Numbers
// must be numbers within their bounds, values one of those allowed.
Status FillFlag(const Flag& flag, std::string_view name, std::vector<std::string> texts);
Status FillPositional(const Positional& positional, std::vector<std::string> texts);

// What help says of the default: the text of the row, or what the variable holds now; empty where
// there is nothing to say.
std::string DefaultText(const Flag& flag);

// "xlsx, csv or json"
std::string AnyOf(const std::vector<std::string>& values);

// The spellings of a flag that may be typed: both names, the aliases, with dashes and with
// underscores.
std::vector<std::string> Spellings(const Flag& flag);

// `name` with dashes for the underscores behind its leading dashes.
std::string WithDashes(std::string_view name);

}  // namespace msprobe::commands
