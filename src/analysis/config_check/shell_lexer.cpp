#include "src/analysis/config_check/shell_lexer.h"

#include <algorithm>
#include <array>
#include <cctype>
#include <utility>

#include <fmt/format.h>

#include "src/base/strings.h"

namespace msprobe::analysis::config_check::internal {
namespace {

constexpr std::array<std::string_view, 9> kCommandFollows = {"if",    "then",  "else", "elif", "do",
                                                             "while", "until", "!",    "{"};
constexpr std::array<std::string_view, 14> kCompoundWords = {
    "if",    "then",  "else", "elif", "fi",   "do",       "done",
    "while", "until", "for",  "case", "esac", "function", "{"};
constexpr std::array<std::string_view, 5> kDeclarations = {"export", "local", "declare", "readonly",
                                                           "typeset"};
constexpr std::array<std::string_view, 8> kOperations = {":-", ":=", ":+", ":?",
                                                         "-",  "=",  "+",  "?"};
constexpr size_t kDeepestBrackets = 64;  // of brackets inside of each other

bool IsShellBlank(char c) { return c == ' ' || c == '\t'; }
bool IsNameCharacter(char c) { return StartsName(c) || base::IsDigit(c); }
bool IsSpecialName(char c) { return std::string_view("@*#?$!-").find(c) != std::string_view::npos; }
bool EndsWord(char c) { return std::string_view(" \t\n;&|()<>").find(c) != std::string_view::npos; }

class Lexer {
 public:
  explicit Lexer(std::string_view text) : text_(text) {}

  Result<ShellScript> Script();
  Result<ShellWord> Operand(bool quoted);

 private:
  struct HereDocument {
    std::string end;
    bool strips_tabs = false;
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
    for (size_t i = 0; i < count; ++i) {
      Take();
    }
  }
  Status ErrorAt(int line, std::string_view message) const {
    return BadFormatError(fmt::format("line {}: {}", line, message));
  }

  // Blanks and continued lines. True if there were any.
  bool SkipBlanks();
  bool SkipContinuation();
  void SkipComment();
  void SkipHereDocuments();
  Status Operator();
  Status Redirection();
  bool TakeAssignmentStart(ShellAssignment& assignment);
  Status Assignment(ShellAssignment assignment);
  Status ArrayElements(ShellAssignment& assignment);
  Status Word(ShellWord& word, bool whole_text = false);
  Status SingleQuotes(ShellWord& word);
  Status AnsiQuotes(ShellWord& word);
  Status DoubleQuotes(ShellWord& word);
  Status Dollar(ShellWord& word, bool quoted);
  Status Braces(ShellWord& word, bool quoted);
  // Takes everything up to what closes the bracket that stands here, quotes respected.
  Status Bracketed(std::string& out);
  Status Backquotes(std::string& out);
  void EndCommand();

  static void AddText(ShellWord& word, char c, bool quoted) {
    if (word.segments.empty() || word.segments.back().part != ShellPart::kText ||
        word.segments.back().quoted != quoted) {
      ShellSegment& segment = word.segments.emplace_back();
      segment.quoted = quoted;
    }
    word.segments.back().text += c;
  }
  static void AddOpaque(ShellWord& word, std::string text, bool quoted) {
    ShellSegment& segment = word.segments.emplace_back();
    segment.part = ShellPart::kOpaque;
    segment.quoted = quoted;
    segment.text = std::move(text);
  }

  std::string_view text_;
  size_t at_ = 0;
  int line_ = 1;
  ShellScript script_;
  ShellCommand command_;
  std::vector<HereDocument> here_documents_;
};

void Lexer::EndCommand() {
  if (!command_.words.empty() || !command_.assignments.empty()) {
    script_.commands.push_back(std::move(command_));
  }
  command_ = {};
}

// A backslash at the end of a line. Blanks or a comment behind it are forgiven, as they are in the
// Python tool: the shell would end the command there, which nobody means.
bool Lexer::SkipContinuation() {
  size_t ahead = 1;
  while (IsShellBlank(Peek(ahead))) {
    ++ahead;
  }
  const bool comment = ahead > 1 && Peek(ahead) == '#';
  while (comment && at_ + ahead < text_.size() && Peek(ahead) != '\n') {
    ++ahead;
  }
  if (at_ + ahead < text_.size() && Peek(ahead) != '\n') {
    return false;
  }
  if (ahead > 1) {
    script_.warnings.push_back(
        fmt::format("line {}: text after the backslash; read as a continued line, although a shell "
                    "ends the command here",
                    line_));
  }
  Skip(std::min(ahead + 1, text_.size() - at_));
  return true;
}

bool Lexer::SkipBlanks() {
  bool any = false;
  while (!AtEnd()) {
    if (IsShellBlank(Peek())) {
      Take();
    } else if (Peek() != '\\' || !SkipContinuation()) {
      break;
    }
    any = true;
  }
  return any;
}

void Lexer::SkipComment() {
  while (!AtEnd() && Peek() != '\n') {
    Take();
  }
}

// Stands behind the end of the line that announced them.
void Lexer::SkipHereDocuments() {
  for (const HereDocument& document : std::exchange(here_documents_, {})) {
    while (!AtEnd()) {
      const size_t end = std::min(text_.find('\n', at_), text_.size());
      std::string_view line = text_.substr(at_, end - at_);
      Skip(std::min(end + 1, text_.size()) - at_);
      while (document.strips_tabs && line.starts_with('\t')) {
        line.remove_prefix(1);
      }
      if (line == document.end) {
        break;
      }
    }
  }
}

Status Lexer::Operator() {
  const char c = Take();
  if (c == '(' || c == ')') {
    script_.is_plain = false;
  }
  EndCommand();
  if (c == '\n') {
    SkipHereDocuments();
  }
  return {};
}

Status Lexer::Redirection() {
  // The number in front of it belongs to it.
  if (!command_.words.empty() && at_ > 0 && base::IsDigit(text_[at_ - 1])) {
    // Not looked at where it is too long for one: many redirections may stand behind one word.
    constexpr size_t kMostDigits = 20;
    const std::string_view number = command_.words.back().Plain();
    if (!number.empty() && number.size() <= kMostDigits &&
        std::all_of(number.begin(), number.end(), base::IsDigit)) {
      command_.words.pop_back();
    }
  }
  if (StartsWith("<(") || StartsWith(">(")) {
    Take();
    std::string ignored;
    script_.is_plain = false;
    return Bracketed(ignored);
  }
  const bool here = StartsWith("<<") && !StartsWith("<<<");
  HereDocument document;
  document.strips_tabs = StartsWith("<<-");
  while (std::string_view("<>&|-").find(Peek()) != std::string_view::npos && !AtEnd()) {
    const bool closes = Peek() == '-';
    Take();
    if (closes) {
      break;
    }
  }
  SkipBlanks();
  if (AtEnd() || Peek() == '\n') {
    return {};
  }
  if (StartsWith("<(") || StartsWith(">(")) {
    return Redirection();
  }
  ShellWord target;
  MSP_RETURN_IF_ERROR(Word(target));
  if (here) {
    for (const ShellSegment& segment : target.segments) {
      document.end += segment.text;
    }
    script_.is_plain = false;
    here_documents_.push_back(std::move(document));
  }
  return {};
}

// NAME= or NAME+= at the place of a command's name.
bool Lexer::TakeAssignmentStart(ShellAssignment& assignment) {
  const bool possible = command_.words.empty() || IsDeclaration(command_.words.front().Plain());
  if (!possible || !StartsName(Peek())) {
    return false;
  }
  size_t ahead = 0;
  while (IsNameCharacter(Peek(ahead))) {
    ++ahead;
  }
  const size_t name = ahead;
  assignment.appends = Peek(ahead) == '+';
  ahead += assignment.appends ? 1 : 0;
  if (Peek(ahead) != '=') {
    return false;
  }
  assignment.name = text_.substr(at_, name);
  Skip(ahead + 1);
  return true;
}

Status Lexer::Assignment(ShellAssignment assignment) {
  if (Peek() == '(') {
    MSP_RETURN_IF_ERROR(ArrayElements(assignment));
  } else {
    ShellWord& word = assignment.words.emplace_back();
    word.line = line_;
    MSP_RETURN_IF_ERROR(Word(word));
  }
  command_.assignments.push_back(std::move(assignment));
  return {};
}

Status Lexer::ArrayElements(ShellAssignment& assignment) {
  const int line = line_;
  script_.is_plain = false;
  assignment.is_array = true;
  Take();
  while (!AtEnd()) {
    if (SkipBlanks()) {
      continue;
    }
    const char c = Peek();
    if (c == ')') {
      Take();
      return {};
    }
    if (c == '#') {
      SkipComment();
    } else if (EndsWord(c)) {
      Take();
    } else {
      ShellWord& word = assignment.words.emplace_back();
      word.line = line_;
      MSP_RETURN_IF_ERROR(Word(word));
    }
  }
  return ErrorAt(line, fmt::format("the ( of {} is never closed", assignment.name));
}

Status Lexer::SingleQuotes(ShellWord& word) {
  const int line = line_;
  const size_t end = text_.find('\'', at_ + 1);
  if (end == std::string_view::npos) {
    return ErrorAt(line, "the quote ' is never closed");
  }
  Take();
  while (at_ < end) {
    AddText(word, Take(), true);
  }
  Take();
  word.has_quotes = true;
  return {};
}

Status Lexer::AnsiQuotes(ShellWord& word) {
  const int line = line_;
  Skip(2);
  word.has_quotes = true;
  while (!AtEnd()) {
    const char c = Take();
    if (c == '\'') {
      return {};
    }
    if (c != '\\' || AtEnd()) {
      AddText(word, c, true);
      continue;
    }
    const char escaped = Take();
    AddText(word, escaped == 'n' ? '\n' : escaped == 't' ? '\t' : escaped, true);
  }
  return ErrorAt(line, "the quote $' is never closed");
}

Status Lexer::DoubleQuotes(ShellWord& word) {
  const int line = line_;
  Take();
  word.has_quotes = true;
  while (!AtEnd()) {
    const char c = Peek();
    if (c == '"') {
      Take();
      return {};
    }
    if (c == '$') {
      MSP_RETURN_IF_ERROR(Dollar(word, true));
    } else if (c == '`') {
      std::string opaque;
      MSP_RETURN_IF_ERROR(Backquotes(opaque));
      AddOpaque(word, std::move(opaque), true);
    } else if (StartsWith("\\\n")) {
      Skip(2);
    } else if (c == '\\' && SkipContinuation()) {
      AddText(word, ' ', true);  // what stands on both sides are words of their own
    } else if (c == '\\' && std::string_view("$`\"\\").find(Peek(1)) != std::string_view::npos &&
               Peek(1) != '\0') {
      Take();
      AddText(word, Take(), true);
    } else {
      AddText(word, Take(), true);
    }
  }
  return ErrorAt(line, "the quote \" is never closed");
}

Status Lexer::Backquotes(std::string& out) {
  const int line = line_;
  out += Take();
  while (!AtEnd()) {
    const char c = Take();
    out += c;
    if (c == '`') {
      return {};
    }
    if (c == '\\' && !AtEnd()) {
      out += Take();
    }
  }
  return ErrorAt(line, "the ` is never closed");
}

Status Lexer::Bracketed(std::string& out) {
  const int line = line_;
  std::string closing;  // what is still open
  do {
    const char c = Take();
    out += c;
    const bool in_quotes = !closing.empty() && closing.back() == '"';
    if (c == '\\' && !AtEnd()) {
      out += Take();
    } else if (!closing.empty() && c == closing.back()) {
      closing.pop_back();
    } else if (c == '\'' && !in_quotes) {
      while (!AtEnd() && Peek() != '\'') {
        out += Take();
      }
      if (!AtEnd()) {
        out += Take();
      }
    } else if (c == '"' || c == '`') {
      closing += c;
    } else if (c == '(' && (!in_quotes || out.ends_with("$("))) {
      closing += ')';
    } else if (c == '{' && (!in_quotes || out.ends_with("${"))) {
      closing += '}';
    }
    if (closing.size() > kDeepestBrackets) {
      return ErrorAt(line, fmt::format("more than {} nested brackets", kDeepestBrackets));
    }
  } while (!closing.empty() && !AtEnd());
  if (!closing.empty()) {
    return ErrorAt(line, fmt::format("{} is missing", closing.back()));
  }
  return {};
}

Status Lexer::Braces(ShellWord& word, bool quoted) {
  ShellSegment segment;
  segment.quoted = quoted;
  segment.text = "$";
  Take();
  MSP_RETURN_IF_ERROR(Bracketed(segment.text));
  const std::string_view inner = std::string_view(segment.text).substr(2, segment.text.size() - 3);
  size_t end = 0;
  while (end < inner.size() && IsNameCharacter(inner[end])) {
    ++end;
  }
  if (end == 0 && !inner.empty() && IsSpecialName(inner[0])) {
    end = 1;
  }
  std::string_view rest = inner.substr(end);
  segment.name = inner.substr(0, end);
  if (rest.starts_with('[')) {
    const size_t close = std::min(rest.find(']'), rest.size() - 1);
    segment.index = rest.substr(1, close - 1);
    rest.remove_prefix(close + 1);
  }
  const auto* operation =
      std::find_if(kOperations.begin(), kOperations.end(),
                   [rest](std::string_view candidate) { return rest.starts_with(candidate); });
  if (operation != kOperations.end()) {
    segment.operation = *operation;
    segment.operand = rest.substr(operation->size());
    rest = {};
  }
  // ${#V}, ${V%x}, ${!V} and the like: only a shell can tell.
  segment.part = rest.empty() && !segment.name.empty() ? ShellPart::kVariable : ShellPart::kOpaque;
  if (segment.name == "@" || segment.name == "*") {
    segment.part = ShellPart::kVariable;
  }
  word.segments.push_back(std::move(segment));
  return {};
}

Status Lexer::Dollar(ShellWord& word, bool quoted) {
  const char next = Peek(1);
  if (next == '{') {
    return Braces(word, quoted);
  }
  if (next == '(') {
    std::string opaque(1, Take());
    MSP_RETURN_IF_ERROR(Bracketed(opaque));
    AddOpaque(word, std::move(opaque), quoted);
    return {};
  }
  if (!quoted && next == '\'') {
    return AnsiQuotes(word);
  }
  if (!quoted && next == '"') {
    Take();
    return DoubleQuotes(word);
  }
  size_t size = 1;
  if (StartsName(next)) {
    while (IsNameCharacter(Peek(1 + size))) {
      ++size;
    }
  } else if (!base::IsDigit(next) && (next == '\0' || !IsSpecialName(next))) {
    AddText(word, Take(), quoted);
    return {};
  }
  ShellSegment segment;
  segment.part = ShellPart::kVariable;
  segment.quoted = quoted;
  segment.text = text_.substr(at_, 1 + size);
  segment.name = segment.text.substr(1);
  Skip(1 + size);
  word.segments.push_back(std::move(segment));
  return {};
}

Status Lexer::Word(ShellWord& word, bool whole_text) {
  while (!AtEnd()) {
    const char c = Peek();
    if (!whole_text && EndsWord(c)) {
      break;
    }
    if (c == '\'') {
      MSP_RETURN_IF_ERROR(SingleQuotes(word));
    } else if (c == '"') {
      MSP_RETURN_IF_ERROR(DoubleQuotes(word));
    } else if (c == '$') {
      MSP_RETURN_IF_ERROR(Dollar(word, false));
    } else if (c == '`') {
      std::string opaque;
      MSP_RETURN_IF_ERROR(Backquotes(opaque));
      AddOpaque(word, std::move(opaque), false);
    } else if (c == '\\') {
      if (StartsWith("\\\n")) {
        Skip(2);
      } else if (SkipContinuation()) {
        break;
      } else {
        Take();
        AddText(word, Take(), true);
      }
    } else {
      AddText(word, Take(), false);
    }
  }
  return {};
}

Result<ShellScript> Lexer::Script() {
  while (!AtEnd()) {
    if (SkipBlanks()) {
      continue;
    }
    const char c = Peek();
    if (c == '#') {
      SkipComment();
      continue;
    }
    if (c == '<' || c == '>' || StartsWith("&>")) {
      MSP_RETURN_IF_ERROR(Redirection());
      continue;
    }
    if (EndsWord(c)) {
      MSP_RETURN_IF_ERROR(Operator());
      continue;
    }
    if (command_.line == 0) {
      command_.line = line_;
    }
    ShellAssignment assignment;
    if (TakeAssignmentStart(assignment)) {
      MSP_RETURN_IF_ERROR(Assignment(std::move(assignment)));
      continue;
    }
    ShellWord word;
    word.line = line_;
    MSP_RETURN_IF_ERROR(Word(word));
    const bool first = command_.words.empty() && command_.assignments.empty();
    if (first && base::IsOneOf(word.Plain(), kCompoundWords)) {
      script_.is_plain = false;
    }
    if (first && base::IsOneOf(word.Plain(), kCommandFollows)) {
      command_ = {};
    } else if (!word.segments.empty() || word.has_quotes) {
      command_.words.push_back(std::move(word));
    }
  }
  EndCommand();
  return std::move(script_);
}

Result<ShellWord> Lexer::Operand(bool quoted) {
  ShellWord word;
  MSP_RETURN_IF_ERROR(Word(word, true));
  for (ShellSegment& segment : word.segments) {
    segment.quoted |= quoted;
  }
  return word;
}

}  // namespace

bool StartsName(char c) { return std::isalpha(static_cast<unsigned char>(c)) != 0 || c == '_'; }

std::string_view ShellWord::Plain() const {
  return segments.size() == 1 && segments[0].part == ShellPart::kText && !segments[0].quoted
             ? std::string_view(segments[0].text)
             : std::string_view();
}

Result<ShellScript> LexShell(std::string_view text) { return Lexer(text).Script(); }

Result<ShellWord> LexOperand(std::string_view text, bool quoted) {
  return Lexer(text).Operand(quoted);
}

bool IsDeclaration(std::string_view command) { return base::IsOneOf(command, kDeclarations); }

}  // namespace msprobe::analysis::config_check::internal
