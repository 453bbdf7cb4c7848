#include <algorithm>
#include <array>
#include <cctype>
#include <utility>

#include <fmt/format.h>

#include "src/analysis/config_check/shell_syntax.h"

namespace msprobe::analysis::config_check::internal {
namespace {

// The longer ones first.
constexpr std::array<std::string_view, 20> kOperations = {":-", ":=", ":+", ":?", "##", "%%", "//",
                                                          "/#", "/%", "^^", ",,", "-",  "=",  "+",
                                                          "?",  "#",  "%",  "/",  "^",  ","};

}  // namespace

Status ShellParser::SingleQuotes(ShellWord& word) {
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

Status ShellParser::AnsiQuotes(ShellWord& word) {
  constexpr std::string_view kLetters = "abefnrtvE";
  constexpr std::string_view kMeanings = "\a\b\x1b\f\n\r\t\v\x1b";
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
    if (const size_t letter = kLetters.find(escaped); letter != std::string_view::npos) {
      AddText(word, kMeanings[letter], true);
      continue;
    }
    const bool hex = escaped == 'x';
    if (!hex && (escaped < '0' || escaped > '7')) {
      AddText(word, escaped, true);
      continue;
    }
    int code = hex ? 0 : escaped - '0';
    for (int digit = 0; digit < 2 && !AtEnd(); ++digit) {
      const char next = Peek();
      const bool fits =
          hex ? std::isxdigit(static_cast<unsigned char>(next)) != 0 : next >= '0' && next <= '7';
      if (!fits) {
        break;
      }
      const int value = base::IsDigit(next)
                            ? next - '0'
                            : std::tolower(static_cast<unsigned char>(next)) - 'a' + 10;
      code = code * (hex ? 16 : 8) + value;
      Take();
    }
    AddText(word, static_cast<char>(code), true);
  }
  return ErrorAt(line, "the quote $' is never closed");
}

// Text in which only $, ` and \ are special: of double quotes, whose end is left to the caller, or
// of a here-document.
Status ShellParser::ExpandedText(ShellWord& word, bool in_quotes) {
  const std::string_view escapable = in_quotes ? "$`\"\\" : "$`\\";
  word.has_quotes = true;
  while (!AtEnd() && !(in_quotes && Peek() == '"')) {
    const char c = Peek();
    if (c == '$') {
      MSP_RETURN_IF_ERROR(Dollar(word, true));
    } else if (c == '`') {
      MSP_RETURN_IF_ERROR(Backquotes(word, true));
    } else if (StartsWith("\\\n")) {
      Skip(2);
    } else if (in_quotes && c == '\\' && SkipContinuation()) {
      AddText(word, ' ', true);  // the text before and after it are words of their own
    } else if (c == '\\' && Peek(1) != '\0' && escapable.find(Peek(1)) != escapable.npos) {
      Take();
      AddText(word, Take(), true);
    } else {
      AddText(word, Take(), true);
    }
  }
  return {};
}

Status ShellParser::DoubleQuotes(ShellWord& word) {
  const int line = line_;
  Take();
  MSP_RETURN_IF_ERROR(ExpandedText(word, true));
  if (AtEnd()) {
    return ErrorAt(line, "the quote \" is never closed");
  }
  Take();
  return {};
}

Result<ShellWord> ShellParser::HereText() {
  ShellWord word;
  MSP_RETURN_IF_ERROR(ExpandedText(word, false));
  return word;
}

Status ShellParser::Backquotes(ShellWord& word, bool quoted) {
  const int line = line_;
  std::string spelling(1, Take());
  std::string inner;
  while (true) {
    if (AtEnd()) {
      return ErrorAt(line, "the ` is never closed");
    }
    const char c = Take();
    spelling += c;
    if (c == '`') {
      break;
    }
    if (c == '\\' && !AtEnd()) {
      const char next = Take();
      spelling += next;
      const bool escapes = next == '`' || next == '$' || next == '\\' || (quoted && next == '"');
      inner += escapes ? "" : "\\";
      inner += next;
    } else {
      inner += c;
    }
  }
  ShellParser parser(inner, depth_ + 1, line);
  MSP_RETURN_IF_ERROR(parser.CheckDepth());
  Result<ShellScript> script = parser.Script();
  ShellSegment& segment = AddSegment(word, ShellPart::kOpaque, std::move(spelling), quoted);
  if (script.ok()) {
    segment.part = ShellPart::kCommand;
    segment.commands = std::make_shared<const ShellList>(std::move((*script).commands));
  }
  return {};
}

Status ShellParser::Bracketed(std::string& out) {
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
    if (closing.size() > size_t{kDeepestBrackets}) {
      return ErrorAt(line, fmt::format("more than {} nested brackets", kDeepestBrackets));
    }
  } while (!closing.empty() && !AtEnd());
  if (!closing.empty()) {
    return ErrorAt(line, fmt::format("{} is missing", closing.back()));
  }
  return {};
}

Status ShellParser::Braces(ShellWord& word, bool quoted) {
  ShellSegment segment;
  segment.quoted = quoted;
  segment.line = line_;
  segment.text = "$";
  Take();
  MSP_RETURN_IF_ERROR(Bracketed(segment.text));
  std::string_view inner = std::string_view(segment.text).substr(2, segment.text.size() - 3);
  if (inner.size() > 1 && (inner[0] == '#' || inner[0] == '!') &&
      (IsNameCharacter(inner[1]) || inner[1] == '@' || inner[1] == '*')) {
    segment.prefix = inner[0];
    inner.remove_prefix(1);
  }
  size_t end = 0;
  if (!inner.empty() && base::IsDigit(inner[0])) {
    while (end < inner.size() && base::IsDigit(inner[end])) {
      ++end;
    }
  } else {
    while (end < inner.size() && IsNameCharacter(inner[end])) {
      ++end;
    }
  }
  if (end == 0 && !inner.empty() && IsSpecialName(inner[0])) {
    end = 1;
  }
  std::string_view rest = inner.substr(end);
  segment.name = inner.substr(0, end);
  if (rest.starts_with('[')) {
    int open = 0;
    size_t close = 0;
    while (close < rest.size()) {
      open += rest[close] == '[' ? 1 : rest[close] == ']' ? -1 : 0;
      if (open == 0) {
        break;
      }
      ++close;
    }
    segment.index = rest.substr(1, close - 1);
    rest.remove_prefix(std::min(close + 1, rest.size()));
  }
  const auto* operation =
      std::find_if(kOperations.begin(), kOperations.end(),
                   [rest](std::string_view candidate) { return rest.starts_with(candidate); });
  if (operation != kOperations.end()) {
    segment.operation = *operation;
    segment.operand = rest.substr(operation->size());
    rest = {};
  } else if (rest.starts_with(':')) {
    segment.operation = ":";
    segment.operand = rest.substr(1);
    rest = {};
  }
  segment.part = rest.empty() && !segment.name.empty() ? ShellPart::kVariable : ShellPart::kOpaque;
  word.segments.push_back(std::move(segment));
  return {};
}

// (( ... )) or what follows the $ of $(( ... )); false: no arithmetic, nothing is taken.
bool ShellParser::TakeArithmetic(std::string& expression, std::string& spelling) {
  size_t end = at_;
  int open = 0;
  while (end < text_.size()) {
    open += text_[end] == '(' ? 1 : text_[end] == ')' ? -1 : 0;
    ++end;
    if (open == 1 && text_[end - 1] == ')') {
      break;
    }
    if (open > kDeepestBrackets) {
      return false;
    }
  }
  // The two brackets that close must be neighbours.
  if (end >= text_.size() || text_[end] != ')') {
    return false;
  }
  expression = text_.substr(at_ + 2, end - at_ - 3);
  spelling = text_.substr(at_, end + 1 - at_);
  Skip(end + 1 - at_);
  return true;
}

Status ShellParser::CommandSubstitution(ShellWord& word, bool quoted) {
  const Level level(*this);
  MSP_RETURN_IF_ERROR(CheckDepth());
  const size_t begin = at_;
  const int line = line_;
  Take();
  if (StartsWith("((")) {
    std::string expression;
    std::string spelling;
    if (TakeArithmetic(expression, spelling)) {
      AddSegment(word, ShellPart::kArithmetic, "$" + spelling, quoted).operand =
          std::move(expression);
      return {};
    }
  }
  Take();
  std::vector<HereDocument> outer = std::exchange(here_documents_, {});
  ShellList commands;
  const bool was_plain = script_.is_plain;
  while (true) {
    MSP_RETURN_IF_ERROR(List(commands));
    if (AtEnd()) {
      return ErrorAt(line, ") is missing");
    }
    if (Take() == ')') {
      break;
    }
  }
  // Options that a command may print are none of the plain ones.
  script_.is_plain =
      was_plain && text_.substr(begin, at_ - begin).find("--") == std::string_view::npos;
  here_documents_ = std::move(outer);
  ShellSegment& segment =
      AddSegment(word, ShellPart::kCommand, std::string(text_.substr(begin, at_ - begin)), quoted);
  segment.line = line;
  segment.commands = std::make_shared<const ShellList>(std::move(commands));
  return {};
}

Status ShellParser::Dollar(ShellWord& word, bool quoted) {
  const char next = Peek(1);
  if (next == '{') {
    return Braces(word, quoted);
  }
  if (next == '(') {
    return CommandSubstitution(word, quoted);
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
  ShellSegment& segment =
      AddSegment(word, ShellPart::kVariable, std::string(text_.substr(at_, 1 + size)), quoted);
  segment.name = segment.text.substr(1);
  Skip(1 + size);
  return {};
}

Status ShellParser::WordPart(ShellWord& word, bool& ended) {
  const char c = Peek();
  if (c == '\'') {
    return SingleQuotes(word);
  }
  if (c == '"') {
    return DoubleQuotes(word);
  }
  if (c == '$') {
    return Dollar(word, false);
  }
  if (c == '`') {
    return Backquotes(word, false);
  }
  if (c != '\\') {
    AddText(word, Take(), false);
    return {};
  }
  if (StartsWith("\\\n")) {
    Skip(2);
  } else if (SkipContinuation()) {
    ended = true;
  } else {
    Take();
    AddText(word, Take(), true);
  }
  return {};
}

Status ShellParser::Word(ShellWord& word, bool whole_text) {
  bool ended = false;
  while (!AtEnd() && !ended) {
    const char c = Peek();
    if (!whole_text && (c == '<' || c == '>') && Peek(1) == '(') {
      std::string spelling(1, Take());
      script_.is_plain = false;
      MSP_RETURN_IF_ERROR(Bracketed(spelling));
      AddSegment(word, ShellPart::kOpaque, std::move(spelling), true);
      continue;
    }
    if (!whole_text && EndsWord(c)) {
      // ?(a|b) and the like: patterns of the shell.
      const bool pattern = c == '(' && !word.segments.empty() && !word.segments.back().quoted &&
                           word.segments.back().part == ShellPart::kText &&
                           !word.segments.back().text.empty() &&
                           std::string_view("?*+@!").find(word.segments.back().text.back()) !=
                               std::string_view::npos;
      if (!pattern) {
        break;
      }
      std::string spelling;
      MSP_RETURN_IF_ERROR(Bracketed(spelling));
      AddSegment(word, ShellPart::kOpaque, std::move(spelling), false);
      continue;
    }
    MSP_RETURN_IF_ERROR(WordPart(word, ended));
  }
  return {};
}

// What follows =~: brackets and bars are part of it.
Status ShellParser::RegexWord(ShellWord& word) {
  bool ended = false;
  int open = 0;
  while (!AtEnd() && !ended) {
    const char c = Peek();
    if (c == '\n' || (open <= 0 && (IsShellBlank(c) || c == ';' || c == '&'))) {
      break;
    }
    open += c == '(' ? 1 : c == ')' ? -1 : 0;
    MSP_RETURN_IF_ERROR(WordPart(word, ended));
  }
  return {};
}

Result<ShellWord> ShellParser::Operand(bool quoted) {
  ShellWord word;
  MSP_RETURN_IF_ERROR(Word(word, true));
  for (ShellSegment& segment : word.segments) {
    segment.quoted |= quoted;
  }
  return word;
}

Status ShellParser::Body(ShellList& bodies) {
  const Level level(*this);
  MSP_RETURN_IF_ERROR(CheckDepth());
  ShellNode& group = bodies.emplace_back();
  group.kind = ShellKind::kGroup;
  group.line = line_;
  return List(group.children);
}

Status ShellParser::Close(std::string_view word, int line, std::string_view what) {
  if (!TakeReserved(word)) {
    Warn(line, fmt::format("the {} is never closed by {}", what, word));
  }
  return {};
}

Status ShellParser::If(ShellNode& node) {
  node.kind = ShellKind::kIf;
  while (true) {
    MSP_RETURN_IF_ERROR(Body(node.children));
    MSP_RETURN_IF_ERROR(Close("then", node.line, "condition of if"));
    MSP_RETURN_IF_ERROR(Body(node.children));
    if (TakeReserved("elif")) {
      continue;
    }
    if (TakeReserved("else")) {
      MSP_RETURN_IF_ERROR(Body(node.children));
    }
    return Close("fi", node.line, "if");
  }
}

Status ShellParser::Loop(ShellNode& node) {
  node.kind = ShellKind::kLoop;
  MSP_RETURN_IF_ERROR(Body(node.children));
  MSP_RETURN_IF_ERROR(Close("do", node.line, "condition of " + node.text));
  MSP_RETURN_IF_ERROR(Body(node.children));
  return Close("done", node.line, node.text);
}

Status ShellParser::For(ShellNode& node) {
  node.kind = ShellKind::kFor;
  SkipBlanks();
  if (StartsWith("((")) {
    node.kind = ShellKind::kCountingFor;
    std::string spelling;
    if (!TakeArithmetic(node.text, spelling)) {
      return ErrorAt(node.line, ")) is missing");
    }
  } else {
    while (IsNameCharacter(Peek())) {
      node.text += Take();
    }
    MSP_RETURN_IF_ERROR(SkipLines());
    if (TakeReserved("in")) {
      node.has_words = true;
      while (true) {
        SkipBlanks();
        if (AtEnd() || Peek() == '\n' || Peek() == ';' || Peek() == '#') {
          break;
        }
        if (EndsWord(Peek()) && !StartsWith("<(")) {
          Take();
          continue;
        }
        ShellWord& word = node.words.emplace_back();
        word.line = line_;
        MSP_RETURN_IF_ERROR(Word(word));
      }
    }
  }
  SkipBlanks();
  if (Peek() == ';') {
    Take();
  }
  MSP_RETURN_IF_ERROR(SkipLines());
  if (TakeReserved("{")) {
    MSP_RETURN_IF_ERROR(Body(node.children));
    return Close("}", node.line, "for");
  }
  MSP_RETURN_IF_ERROR(Close("do", node.line, "head of for"));
  MSP_RETURN_IF_ERROR(Body(node.children));
  return Close("done", node.line, "for");
}

Status ShellParser::Case(ShellNode& node) {
  const Level level(*this);
  MSP_RETURN_IF_ERROR(CheckDepth());
  node.kind = ShellKind::kCase;
  SkipBlanks();
  node.words.emplace_back().line = line_;
  MSP_RETURN_IF_ERROR(Word(node.words.back()));
  MSP_RETURN_IF_ERROR(SkipLines());
  if (!TakeReserved("in")) {
    Warn(node.line, "the case has no in");
  }
  while (true) {
    MSP_RETURN_IF_ERROR(SkipLines());
    if (AtEnd() || PeekPlain() == "esac" || Peek() == '&') {
      break;
    }
    if (Peek() == '(') {
      Take();
    }
    ShellCaseItem& item = node.items.emplace_back();
    while (!AtEnd() && Peek() != ')') {
      if (SkipBlanks()) {
        continue;
      }
      if (EndsWord(Peek())) {
        if (Peek() == '\n') {
          break;
        }
        Take();
        continue;
      }
      item.patterns.emplace_back().line = line_;
      MSP_RETURN_IF_ERROR(Word(item.patterns.back()));
    }
    if (!AtEnd()) {
      Take();
    }
    MSP_RETURN_IF_ERROR(List(item.body));
    if (StartsWith(";;&")) {
      item.then = ';';
      Skip(3);
    } else if (StartsWith(";&")) {
      item.then = '&';
      Skip(2);
    } else if (StartsWith(";;")) {
      Skip(2);
    } else if (!AtEnd() && PeekPlain() != "esac") {
      Take();  // what no list may end with
    }
  }
  return Close("esac", node.line, "case");
}

// As words, the operators among them.
Status ShellParser::Condition(ShellNode& node) {
  node.kind = ShellKind::kCondition;
  bool regex = false;
  while (!AtEnd()) {
    MSP_RETURN_IF_ERROR(SkipLines());
    if (TakeReserved("]]")) {
      return {};
    }
    if (AtEnd()) {
      break;
    }
    ShellWord& word = node.words.emplace_back();
    word.line = line_;
    if (regex) {
      regex = false;
      MSP_RETURN_IF_ERROR(RegexWord(word));
    } else if (StartsWith("&&") || StartsWith("||")) {
      AddText(word, Take(), false);
      AddText(word, Take(), false);
    } else if (EndsWord(Peek())) {
      AddText(word, Take(), false);
    } else {
      MSP_RETURN_IF_ERROR(Word(word));
      regex = word.Plain() == "=~";
    }
  }
  return ErrorAt(node.line, "]] is missing");
}

Status ShellParser::Function(ShellNode& node) {
  node.kind = ShellKind::kFunction;
  MSP_RETURN_IF_ERROR(SkipLines());
  const Level level(*this);
  MSP_RETURN_IF_ERROR(CheckDepth());
  node.children.emplace_back();
  return Command(node.children.back());
}

}  // namespace msprobe::analysis::config_check::internal
