// A shell script as a tree of commands, and their words taken apart. Only
// reads: nothing is looked up, expanded or run.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <fmt/format.h>

#include "msprobe/status.h"

#include "src/base/strings.h"

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
  // For a variable:
  std::string name;
  std::string index;      // "@", "*", "0", "$I"; empty: none
  std::string operation;  // ":-", "=", ":+", "?", "%", "##", "/", ":", "^^"...; empty: none
  std::string operand;    // as spelled; of arithmetic: the expression
  char prefix = '\0';     // '#': its length; '!': the variable that it names
  // For a command substitution:
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

// The parser of shell_syntax.h. shell_syntax.cpp has its commands,
// shell_words.cpp its words.

constexpr int kDeepestBrackets = 64;  // of brackets, commands and scripts inside of each other

inline bool IsShellBlank(char c) { return c == ' ' || c == '\t'; }
inline bool IsNameCharacter(char c) { return StartsName(c) || base::IsDigit(c); }
inline bool IsSpecialName(char c) {
  return std::string_view("@*#?$!-").find(c) != std::string_view::npos;
}
inline bool EndsWord(char c) {
  return std::string_view(" \t\n;&|()<>").find(c) != std::string_view::npos;
}

class ShellParser {
 public:
  explicit ShellParser(std::string_view text, int depth = 0, int line = 1)
      : text_(text), line_(line), depth_(depth) {}

  Result<ShellScript> Script();
  Result<ShellWord> Operand(bool quoted);
  // What stands in a here-document: as in double quotes, which mean nothing here.
  Result<ShellWord> HereText();

 private:
  struct HereDocument {
    std::shared_ptr<ShellRedirection> redirection;
    std::string end;
    bool strips_tabs = false;
    bool quoted = false;
  };
  // One more level for as long as it lives.
  struct Level {
    explicit Level(ShellParser& owner) : parser(owner) { ++parser.depth_; }
    Level(const Level&) = delete;
    Level& operator=(const Level&) = delete;
    ~Level() { --parser.depth_; }
    ShellParser& parser;
  };

  bool AtEnd() const { return at_ >= text_.size(); }
  char Peek(size_t ahead = 0) const {
    return at_ + ahead < text_.size() ? text_[at_ + ahead] : '\0';
  }
  bool StartsWith(std::string_view prefix) const { return text_.substr(at_).starts_with(prefix); }
  char Take() {
    const char c = text_[at_++];
    line_ += c == '\n' ? 1 : 0;
    return c;
  }
  void Skip(size_t count) {
    for (size_t i = 0; i < count && !AtEnd(); ++i) {
      Take();
    }
  }
  Status ErrorAt(int line, std::string_view message) const {
    return BadFormatError(fmt::format("line {}: {}", line, message));
  }
  Status CheckDepth() const {
    return depth_ <= kDeepestBrackets
               ? Status()
               : ErrorAt(line_, fmt::format("more than {} nested brackets", kDeepestBrackets));
  }
  void Warn(int line, std::string_view message) {
    script_.warnings.push_back(fmt::format("line {}: {}", line, message));
  }

  // Blanks and continued lines. True if there were any.
  bool SkipBlanks();
  bool SkipContinuation();
  void SkipComment();
  Status SkipLines();  // also newlines and comments
  Status NewLine();
  Status TakeHereDocuments();

  // The unquoted word that stands here, without taking it.
  std::string_view PeekPlain() const;
  bool TakeReserved(std::string_view word);

  Status List(ShellList& list);
  Status AndOr(ShellNode& node);
  Status Pipeline(ShellNode& node);
  Status Command(ShellNode& node);
  Status Body(ShellList& bodies);  // one list, as a group
  Status If(ShellNode& node);
  Status Loop(ShellNode& node);
  Status For(ShellNode& node);
  Status Case(ShellNode& node);
  Status Condition(ShellNode& node);
  Status Function(ShellNode& node);
  Status Close(std::string_view word, int line, std::string_view what);
  Status Simple(ShellNode& node);
  Status Redirections(ShellNode& node);

  Status Redirection(ShellNode& node);
  bool TakePlaceholder(ShellWord& word);
  bool TakeAssignmentStart(const ShellNode& command, ShellAssignment& assignment);
  Status Assignment(ShellNode& command, ShellAssignment assignment);
  Status ArrayElements(ShellAssignment& assignment);
  Status Word(ShellWord& word, bool whole_text = false);
  Status RegexWord(ShellWord& word);
  Status WordPart(ShellWord& word, bool& ended);
  Status SingleQuotes(ShellWord& word);
  Status AnsiQuotes(ShellWord& word);
  Status DoubleQuotes(ShellWord& word);
  Status ExpandedText(ShellWord& word, bool in_quotes);
  Status Dollar(ShellWord& word, bool quoted);
  Status Braces(ShellWord& word, bool quoted);
  Status CommandSubstitution(ShellWord& word, bool quoted);
  bool TakeArithmetic(std::string& expression, std::string& spelling);
  Status Backquotes(ShellWord& word, bool quoted);
  // Takes everything up to what closes the bracket that stands here, quotes respected.
  Status Bracketed(std::string& out);

  static void AddText(ShellWord& word, char c, bool quoted) {
    if (word.segments.empty() || word.segments.back().part != ShellPart::kText ||
        word.segments.back().quoted != quoted) {
      ShellSegment& segment = word.segments.emplace_back();
      segment.quoted = quoted;
    }
    word.segments.back().text += c;
  }
  ShellSegment& AddSegment(ShellWord& word, ShellPart part, std::string text, bool quoted) const {
    ShellSegment& segment = word.segments.emplace_back();
    segment.part = part;
    segment.quoted = quoted;
    segment.line = line_;
    segment.text = std::move(text);
    return segment;
  }

  std::string_view text_;
  size_t at_ = 0;
  int line_ = 1;
  int depth_ = 0;
  ShellScript script_;
  std::vector<HereDocument> here_documents_;
};

}  // namespace msprobe::analysis::config_check::internal
