// Inside of the room: the parser of shell_syntax.h. shell_syntax.cpp has its commands,
// shell_words.cpp its words.
#pragma once

#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <fmt/format.h>

#include "src/analysis/config_check/shell_syntax.h"
#include "src/base/strings.h"

namespace msprobe::analysis::config_check::internal {

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
