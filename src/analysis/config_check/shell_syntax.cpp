#include "src/analysis/config_check/shell_syntax.h"

#include <algorithm>
#include <array>
#include <cctype>
#include <utility>

#include <fmt/format.h>

#include "src/base/numbers.h"
#include "src/base/strings.h"

namespace msprobe::analysis::config_check::internal {
namespace {

// Where a list of commands ends.
constexpr std::array<std::string_view, 8> kListEnds = {"then", "else", "elif", "fi",
                                                       "do",   "done", "esac", "}"};
constexpr std::array<std::string_view, 5> kDeclarations = {"export", "local", "declare", "readonly",
                                                           "typeset"};

}  // namespace

// A backslash at the end of a line. Blanks or a comment behind it are forgiven, as they are in the
// Python tool: the shell would end the command there, which is not intended.
bool ShellParser::SkipContinuation() {
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
    Warn(line_,
         "text after the backslash; read as a continued line, although a shell ends the command "
         "here");
  }
  Skip(std::min(ahead + 1, text_.size() - at_));
  return true;
}

bool ShellParser::SkipBlanks() {
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

void ShellParser::SkipComment() {
  while (!AtEnd() && Peek() != '\n') {
    Take();
  }
}

Status ShellParser::NewLine() {
  Take();
  return here_documents_.empty() ? Status() : TakeHereDocuments();
}

Status ShellParser::SkipLines() {
  while (!AtEnd()) {
    if (Peek() == '\n') {
      MSP_RETURN_IF_ERROR(NewLine());
    } else if (Peek() == '#') {
      SkipComment();
    } else if (!SkipBlanks()) {
      break;
    }
  }
  return {};
}

// They stand behind the end of the line that announced them.
Status ShellParser::TakeHereDocuments() {
  for (const HereDocument& document : std::exchange(here_documents_, {})) {
    const int line = line_;
    std::string body;
    while (!AtEnd()) {
      const size_t end = std::min(text_.find('\n', at_), text_.size());
      std::string_view content = text_.substr(at_, end - at_);
      Skip(std::min(end + 1, text_.size()) - at_);
      while (document.strips_tabs && content.starts_with('\t')) {
        content.remove_prefix(1);
      }
      if (content == document.end) {
        break;
      }
      body += content;
      body += '\n';
    }
    ShellWord& word = document.redirection->word;
    word = {};
    word.has_quotes = true;
    word.line = line;
    if (document.quoted) {
      AddSegment(word, ShellPart::kText, std::move(body), true);
      continue;
    }
    ShellParser parser(body, depth_ + 1, line);
    MSP_RETURN_IF_ERROR(parser.CheckDepth());
    MSP_ASSIGN_OR_RETURN(word, parser.HereText());
    word.line = line;
  }
  return {};
}

std::string_view ShellParser::PeekPlain() const {
  size_t size = 0;
  while (at_ + size < text_.size() && !EndsWord(text_[at_ + size])) {
    if (std::string_view("'\"$`\\").find(text_[at_ + size]) != std::string_view::npos) {
      return {};
    }
    ++size;
    if (size > 8) {  // no reserved word is longer
      return {};
    }
  }
  return text_.substr(at_, size);
}

bool ShellParser::TakeReserved(std::string_view word) {
  if (PeekPlain() != word) {
    return false;
  }
  Skip(word.size());
  return true;
}

Status ShellParser::List(ShellList& list) {
  while (true) {
    MSP_RETURN_IF_ERROR(SkipLines());
    if (AtEnd() || Peek() == ')' || StartsWith(";;") || StartsWith(";&") ||
        base::IsOneOf(PeekPlain(), kListEnds)) {
      return {};
    }
    const char c = Peek();
    if (c == ';' || c == '&' || c == '|') {  // of nothing
      Take();
      continue;
    }
    ShellNode node;
    MSP_RETURN_IF_ERROR(AndOr(node));
    list.push_back(std::move(node));
    SkipBlanks();
    if (Peek() == ';' && Peek(1) != ';' && Peek(1) != '&') {
      Take();
    } else if (Peek() == '&' && Peek(1) != '&') {
      Take();
    }
  }
}

Status ShellParser::AndOr(ShellNode& node) {
  MSP_RETURN_IF_ERROR(Pipeline(node));
  while (true) {
    SkipBlanks();
    if (!StartsWith("&&") && !StartsWith("||")) {
      return {};
    }
    if (node.kind != ShellKind::kAndOr || node.negated) {
      ShellNode first = std::move(node);
      node = {};
      node.kind = ShellKind::kAndOr;
      node.line = first.line;
      node.children.push_back(std::move(first));
    }
    node.text += Peek();
    Skip(2);
    MSP_RETURN_IF_ERROR(SkipLines());
    node.children.emplace_back();
    MSP_RETURN_IF_ERROR(Pipeline(node.children.back()));
  }
}

Status ShellParser::Pipeline(ShellNode& node) {
  bool negated = false;
  while (true) {
    SkipBlanks();
    if (TakeReserved("!")) {
      negated = !negated;
    } else if (PeekPlain() == "time") {
      Skip(4);
      SkipBlanks();
      TakeReserved("-p");
    } else {
      break;
    }
  }
  MSP_RETURN_IF_ERROR(Command(node));
  while (true) {
    SkipBlanks();
    if (Peek() != '|' || Peek(1) == '|') {
      break;
    }
    Skip(Peek(1) == '&' ? 2 : 1);
    MSP_RETURN_IF_ERROR(SkipLines());
    if (node.kind != ShellKind::kPipeline) {
      ShellNode first = std::move(node);
      node = {};
      node.kind = ShellKind::kPipeline;
      node.line = first.line;
      node.children.push_back(std::move(first));
    }
    node.children.emplace_back();
    MSP_RETURN_IF_ERROR(Command(node.children.back()));
  }
  if (negated) {
    // A group, which keeps its own negation apart from that of the command in it.
    ShellNode inner = std::move(node);
    node = {};
    node.kind = ShellKind::kGroup;
    node.line = inner.line;
    node.negated = true;
    node.children.push_back(std::move(inner));
  }
  return {};
}

Status ShellParser::Redirections(ShellNode& node) {
  while (true) {
    SkipBlanks();
    size_t digits = 0;
    while (base::IsDigit(Peek(digits))) {
      ++digits;
    }
    const char c = Peek(digits);
    if (c != '<' && c != '>' && !StartsWith("&>")) {
      return {};
    }
    Skip(digits);
    MSP_RETURN_IF_ERROR(Redirection(node));
  }
}

Status ShellParser::Command(ShellNode& node) {
  const Level level(*this);
  MSP_RETURN_IF_ERROR(CheckDepth());
  SkipBlanks();
  node.line = line_;
  std::string arithmetic;
  std::string spelling;
  if (StartsWith("((") && TakeArithmetic(arithmetic, spelling)) {
    node.kind = ShellKind::kArithmetic;
    node.text = std::move(arithmetic);
  } else if (Peek() == '(') {
    Take();
    node.kind = ShellKind::kSubshell;
    MSP_RETURN_IF_ERROR(Body(node.children));
    if (Peek() != ')') {
      // The text after an unclosed bracket is kept.
      Warn(node.line, "the ( is never closed");
    } else {
      Take();
    }
  } else if (const std::string_view word = PeekPlain(); word == "{") {
    Take();
    node.kind = ShellKind::kGroup;
    MSP_RETURN_IF_ERROR(Body(node.children));
    MSP_RETURN_IF_ERROR(Close("}", node.line, "{"));
  } else if (word == "if") {
    Skip(2);
    MSP_RETURN_IF_ERROR(If(node));
  } else if (word == "while" || word == "until") {
    node.text = word;
    Skip(5);
    MSP_RETURN_IF_ERROR(Loop(node));
  } else if (word == "for" || word == "select") {
    Skip(word.size());
    MSP_RETURN_IF_ERROR(For(node));
  } else if (word == "case") {
    Skip(4);
    MSP_RETURN_IF_ERROR(Case(node));
  } else if (word == "[[") {
    Skip(2);
    MSP_RETURN_IF_ERROR(Condition(node));
  } else if (word == "function") {
    Skip(8);
    SkipBlanks();
    while (!AtEnd() && !EndsWord(Peek())) {
      node.text += Take();
    }
    SkipBlanks();
    if (Peek() == '(' && Peek(1) == ')') {
      Skip(2);
    }
    script_.is_plain = false;
    return Function(node);
  } else {
    return Simple(node);
  }
  script_.is_plain = false;
  return Redirections(node);
}

Status ShellParser::Simple(ShellNode& node) {
  while (!AtEnd()) {
    if (SkipBlanks()) {
      continue;
    }
    const char c = Peek();
    if (c == '#') {
      SkipComment();
      return {};
    }
    if ((c == '<' || c == '>') && Peek(1) != '(') {
      ShellWord placeholder;
      placeholder.line = line_;
      if (c == '<' && !node.words.empty() && TakePlaceholder(placeholder)) {
        node.words.push_back(std::move(placeholder));
        continue;
      }
      MSP_RETURN_IF_ERROR(Redirection(node));
      continue;
    }
    if (StartsWith("&>")) {
      MSP_RETURN_IF_ERROR(Redirection(node));
      continue;
    }
    if (c == '(' && node.words.size() == 1 && node.assignments.empty()) {
      size_t ahead = 1;
      while (IsShellBlank(Peek(ahead))) {
        ++ahead;
      }
      if (Peek(ahead) == ')') {
        node.text = node.words[0].Plain();
        node.words.clear();
        Skip(ahead + 1);
        script_.is_plain = false;
        return Function(node);
      }
    }
    if (c == '(') {  // no shell takes it
      script_.is_plain = false;
      Take();
      return {};
    }
    if (EndsWord(c) && c != '<' && c != '>') {
      return {};
    }
    ShellAssignment assignment;
    if (TakeAssignmentStart(node, assignment)) {
      MSP_RETURN_IF_ERROR(Assignment(node, std::move(assignment)));
      continue;
    }
    ShellWord word;
    word.line = line_;
    MSP_RETURN_IF_ERROR(Word(word));
    if (!word.segments.empty() || word.has_quotes) {
      node.words.push_back(std::move(word));
    }
  }
  return {};
}

// "<Specify path>", left to be filled in: a shell would refuse it.
bool ShellParser::TakePlaceholder(ShellWord& word) {
  constexpr size_t kLongest = 200;
  if (!StartsName(Peek(1))) {
    return false;
  }
  size_t end = 1;
  while (end < kLongest && at_ + end < text_.size() &&
         std::string_view("\n<>;&|\\\"'$`").find(Peek(end)) == std::string_view::npos) {
    ++end;
  }
  if (Peek(end) != '>' || IsShellBlank(Peek(end - 1))) {
    return false;
  }
  size_t behind = end + 1;
  while (IsShellBlank(Peek(behind))) {
    ++behind;
  }
  if (at_ + behind < text_.size() && Peek(behind) != '\n' && Peek(behind) != '#' &&
      !(Peek(behind) == '\\' && Peek(behind + 1) == '\n')) {
    return false;
  }
  const std::string text(text_.substr(at_, end + 1));
  Warn(line_, fmt::format("{} is a placeholder: fill it in", text));
  AddSegment(word, ShellPart::kOpaque, text, true);
  Skip(end + 1);
  return true;
}

Status ShellParser::Redirection(ShellNode& node) {
  auto redirection = std::make_shared<ShellRedirection>();
  // The number in front of it belongs to it.
  if (at_ > 0 && base::IsDigit(text_[at_ - 1])) {
    size_t first = at_;
    constexpr size_t kMostDigits = 20;
    while (first > 0 && at_ - first < kMostDigits && base::IsDigit(text_[first - 1])) {
      --first;
    }
    const std::string_view number = text_.substr(first, at_ - first);
    const bool is_compound = node.words.empty();
    if (is_compound || (number.size() < kMostDigits && node.words.back().Plain() == number)) {
      redirection->descriptor = static_cast<int>(base::ParseInt(number).value_or(0));
      if (!is_compound && node.kind == ShellKind::kCommand) {
        node.words.pop_back();
      }
    }
  }
  using Kind = ShellRedirection::Kind;
  HereDocument document;
  document.redirection = redirection;
  const bool here = StartsWith("<<") && !StartsWith("<<<");
  document.strips_tabs = StartsWith("<<-");
  redirection->kind = here                ? Kind::kHere
                      : StartsWith("<<<") ? Kind::kHereText
                      : StartsWith("<&")  ? Kind::kOther
                      : Peek() == '<'     ? Kind::kInput
                                          : Kind::kOutput;
  while (!AtEnd() && std::string_view("<>&|-").find(Peek()) != std::string_view::npos) {
    const bool closes = Peek() == '-';
    if ((Peek() == '<' || Peek() == '>') && Peek(1) == '(') {
      break;
    }
    Take();
    if (closes) {
      break;
    }
  }
  SkipBlanks();
  if (AtEnd() || Peek() == '\n') {
    return {};
  }
  MSP_RETURN_IF_ERROR(Word(redirection->word));
  redirection->word.line = line_;
  if (here) {
    for (const ShellSegment& segment : redirection->word.segments) {
      document.end += segment.text;
      document.quoted = document.quoted || segment.quoted;
    }
    document.quoted = document.quoted || redirection->word.has_quotes;
    script_.is_plain = false;
    here_documents_.push_back(std::move(document));
  }
  node.redirections.push_back(std::move(redirection));
  return {};
}

// NAME=, NAME+= or NAME[index]= at the place of a command's name.
bool ShellParser::TakeAssignmentStart(const ShellNode& command, ShellAssignment& assignment) {
  const bool possible = command.words.empty() || IsDeclaration(command.words.front().Plain());
  if (!possible || !StartsName(Peek())) {
    return false;
  }
  size_t ahead = 0;
  while (IsNameCharacter(Peek(ahead))) {
    ++ahead;
  }
  const size_t name = ahead;
  if (Peek(ahead) == '[') {
    constexpr size_t kLongest = 500;
    int open = 0;
    while (ahead < name + kLongest && at_ + ahead < text_.size() && Peek(ahead) != '\n') {
      open += Peek(ahead) == '[' ? 1 : Peek(ahead) == ']' ? -1 : 0;
      ++ahead;
      if (open == 0) {
        break;
      }
    }
    if (open != 0) {
      return false;
    }
    assignment.index = text_.substr(at_ + name + 1, ahead - name - 2);
  }
  assignment.appends = Peek(ahead) == '+';
  ahead += assignment.appends ? 1 : 0;
  if (Peek(ahead) != '=') {
    return false;
  }
  assignment.name = text_.substr(at_, name);
  Skip(ahead + 1);
  return true;
}

Status ShellParser::Assignment(ShellNode& command, ShellAssignment assignment) {
  if (Peek() == '(') {
    MSP_RETURN_IF_ERROR(ArrayElements(assignment));
  } else {
    ShellWord& word = assignment.words.emplace_back();
    word.line = line_;
    if (Peek() != '<' || Peek(1) == '(' || !TakePlaceholder(word)) {
      MSP_RETURN_IF_ERROR(Word(word));
    }
  }
  command.assignments.push_back(std::move(assignment));
  return {};
}

Status ShellParser::ArrayElements(ShellAssignment& assignment) {
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
    } else if (c == '\n') {
      MSP_RETURN_IF_ERROR(NewLine());
    } else if (EndsWord(c) && !((c == '<' || c == '>') && Peek(1) == '(')) {
      Take();
    } else {
      std::string index;
      if (c == '[') {
        const size_t close = text_.find("]=", at_);
        const size_t stop = text_.find('\n', at_);
        if (close != std::string_view::npos && close < stop) {
          index = text_.substr(at_ + 1, close - at_ - 1);
          Skip(close + 2 - at_);
        }
      }
      assignment.indices.push_back(std::move(index));
      ShellWord& word = assignment.words.emplace_back();
      word.line = line_;
      MSP_RETURN_IF_ERROR(Word(word));
    }
  }
  return ErrorAt(line, fmt::format("the ( of {} is never closed", assignment.name));
}

Result<ShellScript> ShellParser::Script() {
  while (true) {
    MSP_RETURN_IF_ERROR(List(script_.commands));
    if (AtEnd()) {
      break;
    }
    // What closes nothing.
    const std::string_view word = PeekPlain();
    script_.is_plain = false;
    if (base::IsOneOf(word, kListEnds)) {
      Warn(line_, fmt::format("{} closes nothing", word));
      Skip(word.size());
    } else {
      Take();
    }
  }
  return std::move(script_);
}

bool StartsName(char c) { return std::isalpha(static_cast<unsigned char>(c)) != 0 || c == '_'; }

std::string_view ShellWord::Plain() const {
  return segments.size() == 1 && segments[0].part == ShellPart::kText && !segments[0].quoted
             ? std::string_view(segments[0].text)
             : std::string_view();
}

std::string ShellWord::Spelling() const {
  std::string text;
  for (const ShellSegment& segment : segments) {
    text += segment.text;
  }
  return text;
}

Result<ShellScript> ParseShell(std::string_view text, int depth) {
  return ShellParser(text, depth).Script();
}

Result<ShellWord> ParseOperand(std::string_view text, bool quoted) {
  return ShellParser(text).Operand(quoted);
}

bool IsDeclaration(std::string_view command) { return base::IsOneOf(command, kDeclarations); }

}  // namespace msprobe::analysis::config_check::internal
