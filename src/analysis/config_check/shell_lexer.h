// Inside of the room: a shell script taken apart into simple commands and their words. Only reads:
// nothing is looked up, expanded or run.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "msprobe/status.h"

namespace msprobe::analysis::config_check::internal {

// A letter or an underscore: what names of variables and options begin with.
bool StartsName(char c);

enum class ShellPart : uint8_t {
  kText,      // stands for itself
  kVariable,  // $V, ${V}, ${V:-operand}, ${V[index]}
  kOpaque,    // $(...), `...`, $((...)) and what else only a shell can tell; kept as it is spelled
};

struct ShellSegment {
  ShellPart part = ShellPart::kText;
  bool quoted = false;    // what it stands for is not split at blanks
  std::string text;       // of a variable: its spelling in the script
  std::string name;       // the rest is for variables only
  std::string index;      // "@", "*", "0"; empty: none
  std::string operation;  // ":-", "=", ":+", "?"...; empty: none
  std::string operand;    // as spelled
};

struct ShellWord {
  std::vector<ShellSegment> segments;
  bool has_quotes = false;  // "" is a word, too
  int line = 0;             // 1-based, where it begins

  // The word as it stands when it is one unquoted text, "" otherwise.
  std::string_view Plain() const;
};

// NAME=word, NAME+=word, NAME=(word...).
struct ShellAssignment {
  std::string name;
  bool appends = false;
  bool is_array = false;
  std::vector<ShellWord> words;  // one, unless an array
};

struct ShellCommand {
  std::vector<ShellAssignment> assignments;
  std::vector<ShellWord> words;  // without redirections and words such as "then"
  int line = 0;
};

struct ShellScript {
  std::vector<ShellCommand> commands;  // in the order of the text, whatever loops and branches
  // Nothing but assignments, commands and pipes, joined by lines, ";", "&&", "||".
  bool is_plain = true;
  std::vector<std::string> warnings;  // "line 3: ..."
};

// Fails where a quote or bracket is never closed, naming its line.
Result<ShellScript> LexShell(std::string_view text);

// The operand of a ${V:-operand} as a word: blanks do not end it.
Result<ShellWord> LexOperand(std::string_view text, bool quoted);

// The declaring commands, whose arguments are assignments.
bool IsDeclaration(std::string_view command);

}  // namespace msprobe::analysis::config_check::internal
