// Inside of the room: a shell script as a tree of commands, and their words taken apart. Only
// reads: nothing is looked up, expanded or run.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "msprobe/status.h"

namespace msprobe::analysis::config_check::internal {

// A letter or an underscore: what names of variables and options begin with.
bool StartsName(char c);

struct ShellNode;
using ShellList = std::vector<ShellNode>;

enum class ShellPart : uint8_t {
  kText,        // stands for itself
  kVariable,    // $V, ${V}, ${V:-operand}, ${V[index]}, ${#V}
  kCommand,     // $(...), `...`
  kArithmetic,  // $((...))
  kOpaque,      // <(...), ${...} that cannot be read, <a placeholder>; kept as it is spelled
};

struct ShellSegment {
  ShellPart part = ShellPart::kText;
  bool quoted = false;  // what it stands for is not split at blanks
  int line = 0;
  std::string text;  // as spelled in the script
  // Of a variable.
  std::string name;
  std::string index;      // "@", "*", "0", "$I"; empty: none
  std::string operation;  // ":-", "=", ":+", "?", "%", "##", "/", ":", "^^"...; empty: none
  std::string operand;    // as spelled; of arithmetic: the expression
  char prefix = '\0';     // '#': its length; '!': the variable that it names
  // Of a command substitution.
  std::shared_ptr<const ShellList> commands;
};

struct ShellWord {
  std::vector<ShellSegment> segments;
  bool has_quotes = false;  // "" is a word, too
  int line = 0;             // 1-based, where it begins

  // The word as it stands when it is one unquoted text, "" otherwise.
  std::string_view Plain() const;
  // As spelled, without quotes.
  std::string Spelling() const;
};

// NAME=word, NAME[index]=word, NAME+=word, NAME=(word...).
struct ShellAssignment {
  std::string name;
  std::string index;
  bool appends = false;
  bool is_array = false;
  std::vector<ShellWord> words;      // one, unless an array
  std::vector<std::string> indices;  // of an array's words: [index]=word; empty: the next one
};

struct ShellRedirection {
  enum class Kind : uint8_t { kInput, kHere, kHereText, kOutput, kOther };
  Kind kind = Kind::kOther;
  int descriptor = -1;  // -1: none is named
  ShellWord word;       // the file, or the text of a here-document
};

enum class ShellKind : uint8_t {
  kCommand,      // assignments and words
  kPipeline,     // children: its commands
  kAndOr,        // children, joined by `text`: '&' for &&, '|' for ||
  kIf,           // children: condition, body, condition, body..., body of else
  kLoop,         // children: condition, body; `text`: "while", "until"
  kFor,          // children: body; `text`: its variable; no words: those of the script
  kCountingFor,  // children: body; `text`: (start; condition; step)
  kCase,         // words[0]; items
  kGroup,        // { ... }, or a list
  kSubshell,     // ( ... )
  kFunction,     // `text`: its name; children: body
  kCondition,    // [[ words ]]
  kArithmetic,   // (( text ))
};

struct ShellCaseItem {
  std::vector<ShellWord> patterns;
  ShellList body;
  char then = '\0';  // '&': the next body follows (;&), ';': further patterns are tried (;;&)
};

struct ShellNode {
  ShellKind kind = ShellKind::kCommand;
  int line = 0;
  bool negated = false;
  bool has_words = false;  // of a for: "in" stands there
  std::string text;
  std::vector<ShellAssignment> assignments;
  std::vector<ShellWord> words;
  std::vector<std::shared_ptr<const ShellRedirection>> redirections;
  ShellList children;
  std::vector<ShellCaseItem> items;
};

struct ShellScript {
  ShellList commands;
  // Nothing but assignments, commands and pipes, joined by lines, ";", "&&", "||".
  bool is_plain = true;
  std::vector<std::string> warnings;  // "line 3: ..."
};

// Fails where a quote or bracket is never closed, naming its line. What else a shell would refuse
// (a missing "fi", a "done" too many) is passed over with a warning. `depth`: of the script inside
// of others.
Result<ShellScript> ParseShell(std::string_view text, int depth = 0);

// The operand of a ${V:-operand} as a word: blanks do not end it.
Result<ShellWord> ParseOperand(std::string_view text, bool quoted);

// The declaring commands, whose arguments are assignments.
bool IsDeclaration(std::string_view command);

}  // namespace msprobe::analysis::config_check::internal
