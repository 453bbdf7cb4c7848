#include "src/analysis/config_check/printed_config.h"

#include <algorithm>
#include <cctype>
#include <cmath>
#include <map>
#include <optional>
#include <utility>

#include <fmt/format.h>

#include "src/base/numbers.h"
#include "src/base/strings.h"
#include "src/base/utf8.h"
#include "src/json/writer.h"

namespace msprobe::analysis::config_check::internal {
namespace {

constexpr size_t kMostLevels = 100;
constexpr std::string_view kBlanks = " \t\r";

bool IsWord(char c) { return std::isalnum(static_cast<unsigned char>(c)) != 0 || c == '_'; }

std::optional<uint32_t> Hex(std::string_view digits) {
  uint32_t code = 0;
  for (const char c : digits) {
    const auto lower = static_cast<char>(std::tolower(static_cast<unsigned char>(c)));
    if (std::isxdigit(static_cast<unsigned char>(c)) == 0) {
      return std::nullopt;
    }
    code = code * 16 + static_cast<uint32_t>(lower <= '9' ? lower - '0' : lower - 'a' + 10);
  }
  return code;
}

// What stands behind a backslash at `at`, appended; moves behind it. False where the line ends.
bool TakeEscape(std::string_view line, size_t* at, std::string& out) {
  if (*at >= line.size()) {
    return false;
  }
  const char c = line[(*at)++];
  constexpr std::string_view kLetters = "abfnrtv0";
  constexpr std::string_view kMeanings("\a\b\f\n\r\t\v\0", 8);
  const size_t digits = c == 'x' ? 2 : c == 'u' ? 4 : c == 'U' ? 8 : 0;
  if (digits > 0) {
    std::optional<uint32_t> code = Hex(line.substr(std::min(*at, line.size()), digits));
    if (!code || line.size() - *at < digits) {
      return false;
    }
    *at += digits;
    // JSON spells characters beyond 16 bits as two.
    if (c == 'u' && *code >= 0xD800 && *code < 0xDC00 && line.substr(*at).starts_with("\\u") &&
        line.size() - *at >= 6) {
      if (const auto low = Hex(line.substr(*at + 2, 4)); low && *low >= 0xDC00 && *low < 0xE000) {
        code = 0x10000 + ((*code - 0xD800) << 10U) + (*low - 0xDC00);
        *at += 6;
      }
    }
    const bool is_character = *code <= 0x10FFFF && (*code < 0xD800 || *code >= 0xE000);
    base::AppendUtf8(is_character ? *code : 0xFFFD, out);
  } else if (const size_t letter = kLetters.find(c); letter != std::string_view::npos) {
    out += kMeanings[letter];
  } else {
    if (c != '\\' && c != '\'' && c != '"' && c != '/') {
      out += '\\';
    }
    out += c;
  }
  return true;
}

// The end of a word that is not a plain number or name: at the first comma or closing bracket
// outside of brackets and quotes of its own. npos where the line ends before.
size_t EndOfWord(std::string_view line, size_t at) {
  int open = 0;
  char quote = '\0';
  for (; at < line.size(); ++at) {
    const char c = line[at];
    if (quote != '\0') {
      quote = c == quote ? '\0' : quote;
    } else if (c == '\'' || c == '"') {
      quote = c;
    } else if (c == '(' || c == '[' || c == '{' || c == '<') {
      ++open;
    } else if (open > 0 && (c == ')' || c == ']' || c == '}' || c == '>')) {
      --open;
    } else if (open == 0 && (c == ',' || c == ')' || c == ']' || c == '}')) {
      return at;
    }
  }
  return std::string_view::npos;
}

// A number as JSON spells it; empty when the word is none.
std::string NumberJson(std::string_view word) {
  const std::string digits = base::ReplaceAll(word, "_", "");
  if (base::ParseInt(digits)) {
    return std::to_string(*base::ParseInt(digits));
  }
  const bool negative = digits.starts_with('-');
  if (digits.size() > 18 &&
      digits.find_first_not_of("0123456789", negative ? 1 : 0) == std::string::npos) {
    return digits;
  }
  const std::optional<double> number = base::ParseDouble(digits);
  if (!number) {
    return {};
  }
  std::string json;
  json::Writer(json, -1).Float(*number);
  return json;
}

}  // namespace

void LiteralLines::Restore(const State& state) {
  levels_ = state.levels;
  json_.resize(state.json_size);
  text_.resize(state.text_size);
  text_begin_ = state.text_begin;
  has_text_ = state.has_text;
  for (const Level& level : levels_) {
    json_[level.opened_at] =
        level.container == Container::kDict || level.container == Container::kCall ? '{' : '[';
  }
}

void LiteralLines::DropTakenText() {
  if (!has_text_) {
    text_.clear();
    text_begin_ = 0;
  }
}

LiteralLines::Fed LiteralLines::FeedWhole(std::string_view line) {
  DropTakenText();
  const State before = Save();
  const Fed fed = Feed(line);
  if (fed == Fed::kCut) {
    Restore(before);
  }
  return fed;
}

LiteralLines::Fed LiteralLines::Feed(std::string_view line) {
  DropTakenText();
  const State before = Save();
  std::optional<State> behind_comma;
  size_t at = 0;
  while (!done_) {
    at = line.find_first_not_of(kBlanks, at);
    if (at == std::string_view::npos) {
      return Fed::kTaken;
    }
    const bool comma = line[at] == ',';
    if (!Step(line, &at)) {
      done_ = false;
      Restore(behind_comma ? *behind_comma : before);
      return behind_comma ? Fed::kCut : Fed::kIgnored;
    }
    if (comma) {
      behind_comma = Save();
    }
  }
  return Fed::kDone;
}

bool LiteralLines::Step(std::string_view line, size_t* at) {
  const char c = line[*at];
  if (c == '\'' || c == '"') {
    return StepText(line, at);
  }
  if (!levels_.empty() && has_text_ && !FlushText()) {
    return false;
  }
  switch (c) {
    case '{':
    case '[':
    case '(':
      ++*at;
      return Open(c == '{' ? Container::kDict : c == '[' ? Container::kList : Container::kTuple);
    case '}':
    case ']':
    case ')':
      ++*at;
      return Close(c);
    case ',':
      ++*at;
      if (levels_.empty() || levels_.back().next != Next::kComma) {
        return false;
      }
      levels_.back().next = Next::kItem;
      levels_.back().has_comma = true;
      return true;
    case ':':
      ++*at;
      if (levels_.empty() || levels_.back().next != Next::kColon ||
          levels_.back().container != Container::kDict) {
        return false;
      }
      levels_.back().next = Next::kValue;
      return true;
    default:
      return StepWord(line, at);
  }
}

bool LiteralLines::StepText(std::string_view line, size_t* at) {
  const char quote = line[(*at)++];
  std::string text;
  while (true) {
    if (*at >= line.size()) {
      return false;  // no quoted text goes over the end of a line
    }
    const char c = line[(*at)++];
    if (c == quote) {
      break;
    }
    if (c == '\\') {
      if (!TakeEscape(line, at, text)) {
        return false;
      }
    } else {
      text += c;
    }
  }
  if (levels_.empty()) {
    return false;
  }
  const Level& level = levels_.back();
  const bool is_item = level.next == Next::kFirst || level.next == Next::kItem;
  if (level.next != Next::kValue && (!is_item || level.container == Container::kCall)) {
    return false;
  }
  text_ += text;
  has_text_ = true;
  return true;
}

bool LiteralLines::FlushText() {
  has_text_ = false;
  const size_t begin = std::exchange(text_begin_, text_.size());
  const std::string_view text = std::string_view(text_).substr(begin);
  Level& level = levels_.back();
  if (level.container == Container::kDict && level.next != Next::kValue) {
    return PutKey(text);
  }
  if (!BeginValue()) {
    return false;
  }
  json::Writer(json_, -1).Text(text);
  EndValue();
  return true;
}

bool LiteralLines::StepWord(std::string_view line, size_t* at) {
  if (levels_.empty()) {
    constexpr std::string_view kNamespace = "Namespace(";
    if (!line.substr(*at).starts_with(kNamespace)) {
      return false;
    }
    *at += kNamespace.size();
    return Open(Container::kCall);
  }
  Level& level = levels_.back();
  const bool wants_item = level.next == Next::kFirst || level.next == Next::kItem;
  if (level.container == Container::kCall && wants_item) {
    size_t end = *at;
    while (end < line.size() && IsWord(line[end])) {
      ++end;
    }
    if (end == *at || end >= line.size() || line[end] != '=') {
      return false;
    }
    const std::string_view key = line.substr(*at, end - *at);
    *at = end + 1;
    if (!PutKey(key)) {
      return false;
    }
    levels_.back().next = Next::kValue;
    return true;
  }
  constexpr std::string_view kNamespace = "Namespace(";
  if (line.substr(*at).starts_with(kNamespace)) {
    *at += kNamespace.size();
    return Open(Container::kCall);
  }
  if (level.container == Container::kDict && wants_item) {
    // A key that is a number: its text, as JSON has it.
    const size_t end = std::min(line.find(':', *at), line.size());
    const std::string key = NumberJson(base::Trim(line.substr(*at, end - *at)));
    if (end == line.size() || key.empty()) {
      return false;
    }
    *at = end;
    return PutKey(key);
  }
  const size_t end = EndOfWord(line, *at);
  const std::string_view word =
      base::Trim(line.substr(*at, end == std::string_view::npos ? end : end - *at));
  std::string json = word == "None" || word == "null"     ? "null"
                     : word == "True" || word == "true"   ? "true"
                     : word == "False" || word == "false" ? "false"
                                                          : NumberJson(word);
  if (json.empty()) {
    // Whether words at the end of their line belong here is unknown.
    if (end == std::string_view::npos || word.empty()) {
      return false;
    }
    json::Writer(json, -1).Text(word);
  }
  if (!BeginValue()) {
    return false;
  }
  *at = end == std::string_view::npos ? line.size() : end;
  json_ += json;
  EndValue();
  return true;
}

bool LiteralLines::Open(Container container) {
  if (levels_.size() >= kMostLevels || (levels_.empty() && !json_.empty())) {
    return false;
  }
  if (!levels_.empty() && !BeginValue()) {
    return false;
  }
  levels_.push_back({container, Next::kFirst, json_.size()});
  json_ += container == Container::kDict || container == Container::kCall ? '{' : '[';
  return true;
}

bool LiteralLines::Close(char bracket) {
  if (levels_.empty()) {
    return false;
  }
  const Level level = levels_.back();
  const char wanted = level.container == Container::kDict   ? '}'
                      : level.container == Container::kList ? ']'
                                                            : ')';
  if (bracket != wanted || level.next == Next::kColon || level.next == Next::kValue) {
    return false;
  }
  levels_.pop_back();
  if (level.container == Container::kTuple && !level.has_comma && level.written) {
    json_[level.opened_at] = ' ';
  } else {
    json_ += level.container == Container::kDict || level.container == Container::kCall ? '}' : ']';
  }
  if (levels_.empty()) {
    done_ = true;
  } else {
    EndValue();
  }
  return true;
}

bool LiteralLines::BeginValue() {
  Level& level = levels_.back();
  if (level.container == Container::kDict || level.container == Container::kCall) {
    return level.next == Next::kValue;
  }
  if (level.next != Next::kFirst && level.next != Next::kItem) {
    return false;
  }
  if (level.written) {
    json_ += ", ";
  }
  level.written = true;
  return true;
}

void LiteralLines::EndValue() { levels_.back().next = Next::kComma; }

bool LiteralLines::PutKey(std::string_view key) {
  Level& level = levels_.back();
  if (level.next != Next::kFirst && level.next != Next::kItem) {
    return false;
  }
  if (level.written) {
    json_ += ", ";
  }
  level.written = true;
  json::Writer(json_, -1).Text(key);
  json_ += ": ";
  level.next = Next::kColon;
  return true;
}

}  // namespace msprobe::analysis::config_check::internal

namespace msprobe::analysis::config_check {
namespace {

using internal::LiteralLines;

// Behind its first line a configuration has this many at most, lines of others included: a log that
// never closes its dict must not be read to its end once per candidate.
constexpr size_t kMostLines = 100'000;
constexpr size_t kMostCandidates = 20;
// Bytes of lines that are read for all candidates together, in addition to the log's own.
constexpr size_t kMostReadBytes = size_t{256} << 20U;

// Without colours and other control sequences, and without Ray's mark of repeated lines.
std::string CleanLine(std::string_view line) {
  std::string clean;
  clean.reserve(line.size());
  for (size_t i = 0; i < line.size(); ++i) {
    if (line[i] != '\x1b') {
      clean += line[i];
      continue;
    }
    if (i + 1 < line.size() && line[i + 1] == '[') {
      i += 2;
      while (i < line.size() && (line[i] < '@' || line[i] > '~')) {
        ++i;
      }
    }
  }
  while (clean.ends_with('\r') || clean.ends_with(' ')) {
    clean.pop_back();
  }
  constexpr std::string_view kRepeated = " [repeated ";
  if (const size_t mark = clean.rfind(kRepeated);
      mark != std::string::npos && clean.ends_with(']') &&
      clean.find("across cluster", mark) != std::string::npos) {
    clean.resize(mark);
  }
  return clean;
}

// The lines of a log, cleaned when asked for.
class Lines {
 public:
  explicit Lines(std::string_view log)
      : lines_(base::Split(log, '\n')), limit_(kMostReadBytes + log.size()) {}
  size_t size() const { return lines_.size(); }
  std::string_view raw(size_t index) const { return lines_[index]; }
  std::string operator[](size_t index) const { return CleanLine(lines_[index]); }
  // The same for a candidate's literal; nullopt when candidates have read too much.
  std::optional<std::string> Read(size_t index) {
    read_ += lines_[index].size();
    return too_much() ? std::nullopt : std::optional(CleanLine(lines_[index]));
  }
  bool too_much() const { return read_ > limit_; }
  size_t limit() const { return limit_; }

 private:
  std::vector<std::string_view> lines_;
  size_t limit_;
  size_t read_ = 0;
};

// Digits all alike: a time of day changes from line to line, its form does not.
bool SameForm(std::string_view line, std::string_view prefix) {
  if (line.size() < prefix.size()) {
    return false;
  }
  const auto is_digit = [](char c) { return std::isdigit(static_cast<unsigned char>(c)) != 0; };
  return std::equal(prefix.begin(), prefix.end(), line.begin(),
                    [&](char a, char b) { return a == b || (is_digit(a) && is_digit(b)); });
}

// How lines behind the first one are recognised.
enum class Prefix : uint8_t {
  kExact,  // the text in front of the literal repeats; other lines are of somebody else
  kForm,   // it repeats apart from its digits
  kNone,   // only the first line has it
};

struct Start {
  size_t line;
  size_t column;  // of the cleaned line
};

// Every part of a line that the prefix begins: several may have been written into one.
LiteralLines::Fed FeedParts(LiteralLines& literal, std::string_view rest, std::string_view prefix) {
  if (prefix.size() < 3 || rest.find(prefix) == std::string_view::npos) {
    return literal.Feed(rest);
  }
  // The prefix may also be part of a text.
  LiteralLines::Fed fed = literal.FeedWhole(rest);
  if (fed == LiteralLines::Fed::kTaken || fed == LiteralLines::Fed::kDone) {
    return fed;
  }
  fed = LiteralLines::Fed::kIgnored;
  while (true) {
    const size_t next = rest.find(prefix);
    if (const LiteralLines::Fed part = literal.Feed(rest.substr(0, next));
        part != LiteralLines::Fed::kIgnored) {
      fed = part;
    }
    if (fed == LiteralLines::Fed::kDone || next == std::string_view::npos) {
      return fed;
    }
    rest.remove_prefix(next + prefix.size());
  }
}

// The JSON of the literal that begins there; nullopt when it does not end.
std::optional<std::string> ReadLiteral(Lines& lines, const Start& start, Prefix how) {
  const std::string first = lines[start.line];
  const std::string prefix = first.substr(0, start.column);
  LiteralLines literal;
  LiteralLines::Fed fed = FeedParts(literal, std::string_view(first).substr(start.column), prefix);
  if (fed == LiteralLines::Fed::kIgnored) {
    return std::nullopt;
  }
  const size_t end = std::min(lines.size(), start.line + kMostLines);
  for (size_t i = start.line + 1; i < end && !literal.done(); ++i) {
    const std::optional<std::string> line = lines.Read(i);
    if (!line) {
      return std::nullopt;
    }
    std::string_view rest = *line;
    if (how != Prefix::kNone) {
      const bool fits = how == Prefix::kExact ? rest.starts_with(prefix) : SameForm(rest, prefix);
      if (!fits) {
        continue;
      }
      rest.remove_prefix(prefix.size());
    }
    FeedParts(literal, rest, how == Prefix::kNone ? std::string_view() : prefix);
  }
  return literal.done() ? std::optional(literal.json()) : std::nullopt;
}

std::optional<std::string> ReadLiteral(Lines& lines, const Start& start) {
  for (const Prefix how : {Prefix::kExact, Prefix::kForm, Prefix::kNone}) {
    if (std::optional<std::string> json = ReadLiteral(lines, start, how)) {
      return json;
    }
  }
  return std::nullopt;
}

// Where a dict with this key as its first one opens in the line; npos: nowhere.
size_t DictWithFirstKey(std::string_view line, std::string_view key) {
  for (size_t at = line.find(key); at != std::string_view::npos; at = line.find(key, at + 1)) {
    const char quote = at > 0 ? line[at - 1] : '\0';
    if ((quote != '\'' && quote != '"') ||
        line.substr(at + key.size(), 1) != std::string(1, quote)) {
      continue;
    }
    const size_t open = at < 2 ? std::string_view::npos : line.find_last_not_of(" \t", at - 2);
    const size_t colon = line.find_first_not_of(" \t", at + key.size() + 1);
    if (open != std::string_view::npos && line[open] == '{' && colon != std::string_view::npos &&
        line[colon] == ':') {
      return open;
    }
  }
  return std::string_view::npos;
}

constexpr std::string_view kVerlKey = "actor_rollout_ref";

// Places where a configuration may begin, the last one first.
std::vector<Start> VerlStarts(const Lines& lines) {
  std::vector<Start> starts;
  for (size_t i = lines.size(); i-- > 0 && starts.size() < kMostCandidates;) {
    if (lines.raw(i).find(kVerlKey) == std::string_view::npos) {
      continue;
    }
    if (const size_t column = DictWithFirstKey(lines[i], kVerlKey);
        column != std::string_view::npos) {
      starts.push_back({i, column});
    }
  }
  return starts;
}

// A dict of which the key is not the first, or that opens a line before it: the first line above it
// that ends with a bracket behind nothing else, or holds one.
std::vector<Start> OtherDictStarts(const Lines& lines) {
  constexpr size_t kLinesAbove = 2000;
  std::vector<Start> starts;
  size_t looked_at = lines.size();  // from here on no line has a bracket
  for (size_t i = lines.size(); i-- > 0 && starts.empty();) {
    if (lines.raw(i).find(kVerlKey) == std::string_view::npos) {
      continue;
    }
    for (size_t above = std::min(i + 1, looked_at);
         above-- > 0 && i - above < kLinesAbove && starts.size() < kMostCandidates;) {
      const size_t column = lines[above].find('{');
      if (column != std::string::npos) {
        starts.push_back({above, column});
      }
      looked_at = above;
    }
  }
  return starts;
}

std::vector<Start> NamespaceStarts(const Lines& lines) {
  constexpr std::string_view kNamespace = "Namespace(";
  std::vector<Start> starts;
  for (size_t i = lines.size(); i-- > 0 && starts.size() < kMostCandidates;) {
    if (lines.raw(i).find(kNamespace) == std::string_view::npos) {
      continue;
    }
    // What colours a terminal may take a letter of it along.
    if (const size_t column = lines[i].find(kNamespace); column != std::string::npos) {
      starts.push_back({i, column});
    }
  }
  return starts;
}

struct PrintedArgument {
  std::string_view name;
  std::string_view value;
};

// "  lr ........................ 1e-06": the name, as many dots as 48 characters leave, the value.
// A name of 47 has one dot, a longer one none: two blanks.
std::optional<PrintedArgument> ParseArgument(std::string_view line) {
  constexpr std::string_view kDots = " ..";
  constexpr size_t kWidth = 48;
  const size_t dots = line.find(kDots);
  for (size_t begin = line.find_first_not_of(" \t)"); begin < std::min(dots, line.size());) {
    const size_t end = std::min(line.find_first_of(" \t)", begin), line.size());
    const size_t size = end - begin;
    const std::string_view rest = line.substr(end);
    const bool is_long = (size == kWidth - 1 && (rest == " ." || rest.starts_with(" . "))) ||
                         (size >= kWidth && (rest.empty() || rest.starts_with("  ")));
    if (is_long) {
      return PrintedArgument{
          line.substr(begin, size),
          base::Trim(rest.substr(std::min<size_t>(rest.size(), size == kWidth - 1 ? 2 : 0)))};
    }
    begin = line.find_first_not_of(" \t)", end);
  }
  if (dots == std::string_view::npos || dots == 0) {
    return std::nullopt;
  }
  const size_t blank = line.find_last_of(" \t)", dots - 1);
  const size_t first = blank == std::string_view::npos ? 0 : blank + 1;
  if (first >= dots) {
    return std::nullopt;
  }
  const size_t value = line.find_first_not_of('.', dots + 1);
  return PrintedArgument{line.substr(first, dots - first), value == std::string_view::npos
                                                               ? std::string_view()
                                                               : base::Trim(line.substr(value))};
}

// Megatron's way, between two headings.
std::optional<std::pair<std::string, size_t>> ReadArgumentDump(const Lines& lines) {
  const auto holds = [&](size_t line, std::string_view text) {
    return lines.raw(line).find(text) != std::string_view::npos;
  };
  size_t end = lines.size();
  while (end > 0 && !holds(end - 1, "- end of arguments ---") &&
         !holds(end - 1, "- end of Arguments ---")) {
    --end;
  }
  size_t begin = end;
  while (begin > 0 && !holds(begin - 1, "- arguments ---") &&
         !holds(begin - 1, "- Arguments ---")) {
    --begin;
  }
  if (begin == 0 || end == 0) {
    return std::nullopt;
  }
  std::string json = "{";
  for (size_t i = begin; i + 1 < end; ++i) {
    const std::string line = lines[i];
    const std::optional<PrintedArgument> argument = ParseArgument(line);
    if (!argument) {
      continue;
    }
    const std::string_view text = argument->value;
    json += json.size() > 1 ? ", " : "";
    json::Writer(json, -1).Text(argument->name);
    json += ": ";
    // As an item of a list, so that every literal and every word is understood.
    LiteralLines literal;
    if (!text.empty() && literal.Feed(fmt::format("[{}]", text)) == LiteralLines::Fed::kDone) {
      json += std::string_view(literal.json()).substr(1, literal.json().size() - 2);
    } else {
      json::Writer(json, -1).Text(text);
    }
  }
  return std::pair(json + "}", begin - 1);
}

// A value of slime's list of arguments: what its readers take for a bool, an integer or a decimal
// number; anything else, also None, a list or 1_000, is text.
std::string SlimeValueJson(std::string_view text) {
  if (text == "True" || text == "False") {
    return text == "True" ? "true" : "false";
  }
  constexpr std::string_view kDigits = "0123456789";
  const auto skip_digits = [&](size_t at) {
    return std::min(text.find_first_not_of(kDigits, at), text.size());
  };
  const size_t sign = text.starts_with('-') || text.starts_with('+') ? 1 : 0;
  const size_t whole = skip_digits(sign);
  if (whole == text.size() && whole > sign && !text.starts_with('+')) {
    const size_t first = std::min(text.find_first_not_of('0', sign), text.size() - 1);
    const std::string_view digits = text.substr(first);
    return sign != 0 && digits != "0" ? fmt::format("-{}", digits) : std::string(digits);
  }
  size_t end = whole;
  size_t digits = whole - sign;
  if (end < text.size() && text[end] == '.') {
    const size_t fraction = skip_digits(end + 1);
    digits += fraction - end - 1;
    end = fraction;
  }
  if (digits > 0 && end < text.size() && (text[end] == 'e' || text[end] == 'E')) {
    const size_t power =
        end + 1 +
        (text.substr(end + 1).starts_with('-') || text.substr(end + 1).starts_with('+') ? 1 : 0);
    const size_t last = skip_digits(power);
    end = last > power ? last : end;
  }
  std::string json;
  const std::optional<double> number =
      digits > 0 && end == text.size() && end > whole
          ? base::ParseDouble(text.substr(text.starts_with('+') ? 1 : 0))
          : std::nullopt;
  if (number) {
    json::Writer(json, -1).Float(*number);
  } else {
    json::Writer(json, -1).Text(text);
  }
  return json;
}

// "  lr ..... 1e-06": behind white space the shortest name that white space, dots and white space
// follow. The name may hold blanks and dots, and be empty.
std::optional<PrintedArgument> ParseSlimeArgument(std::string_view line) {
  constexpr std::string_view kSpaces = " \t\v\f";
  const size_t begin = line.find_first_not_of(kSpaces);
  if (begin == std::string_view::npos || begin == 0) {
    return std::nullopt;
  }
  // The value behind white space, dots and white space at `at`.
  const auto value_behind = [&](size_t at) -> std::optional<std::string_view> {
    const size_t dots = std::min(line.find_first_not_of(kSpaces, at), line.size());
    const size_t behind = std::min(line.find_first_not_of('.', dots), line.size());
    if (dots == at || behind == dots || behind == line.size() ||
        kSpaces.find(line[behind]) == std::string_view::npos) {
      return std::nullopt;
    }
    return base::Trim(line.substr(behind));
  };
  for (size_t end = line.find_first_of(kSpaces, begin); end != std::string_view::npos;
       end = line.find_first_of(kSpaces, end + 1)) {
    if (const auto value = value_behind(end)) {
      return PrintedArgument{line.substr(begin, end - begin), *value};
    }
  }
  if (begin >= 2) {
    if (const auto value = value_behind(begin - 1)) {
      return PrintedArgument{{}, *value};
    }
  }
  return std::nullopt;
}

}  // namespace

// The first block counts, as in the Python tool. Unlike there, what stands before the heading on
// its line (Ray's actor, a time) is taken from every line that begins like it.
Result<PrintedConfig> FindSlimeArguments(std::string_view log, std::string_view file_name) {
  const std::string begin_mark = fmt::format("{0} arguments {0}", std::string(24, '-'));
  const std::string end_mark =
      fmt::format("{} end of arguments {}", std::string(20, '-'), std::string(21, '-'));
  const Lines lines(log);
  const auto find = [&](std::string_view mark, std::string_view word, size_t from) {
    while (from < lines.size() && (lines.raw(from).find(word) == std::string_view::npos ||
                                   lines[from].find(mark) == std::string::npos)) {
      ++from;
    }
    return from;
  };
  const size_t begin = find(begin_mark, " arguments ", 0);
  const size_t end = begin == lines.size() ? begin : find(end_mark, " end of ", begin + 1);
  if (end == lines.size()) {
    return BadFormatError(begin == end
                              ? fmt::format("{}: no list of arguments found", file_name)
                              : fmt::format("{} line {}: the list of arguments does not end",
                                            file_name, begin + 1))
        .WithHint(
            "a training with slime or Megatron prints it between \"---- arguments ----\" and "
            "\"---- end of arguments ----\"; is the log complete?");
  }
  const std::string heading = lines[begin];
  const std::string prefix = heading.substr(0, heading.find(begin_mark));
  std::vector<std::pair<std::string, std::string>> values;
  std::map<std::string, size_t, std::less<>> places;
  size_t not_understood = 0;
  for (size_t i = begin + 1; i < end; ++i) {
    const std::string line = lines[i];
    if (!SameForm(line, prefix)) {
      continue;  // of somebody else
    }
    const std::string_view rest = std::string_view(line).substr(prefix.size());
    const std::optional<PrintedArgument> argument = ParseSlimeArgument(rest);
    if (!argument) {
      not_understood += base::Trim(rest).empty() ? 0 : 1;
      continue;
    }
    const auto [place, is_new] = places.emplace(argument->name, values.size());
    if (is_new) {
      values.emplace_back(argument->name, std::string());
    }
    values[place->second].second = SlimeValueJson(argument->value);
  }
  if (values.empty()) {
    return BadFormatError(fmt::format("{} line {}: no argument is read from the list that begins "
                                      "here",
                                      file_name, begin + 1))
        .WithHint("a line is: white space, the name, dots, the value");
  }
  std::string json = "{";
  for (const auto& [name, value] : values) {
    json += json.size() > 1 ? ", " : "";
    json::Writer(json, -1).Text(name);
    json += ": " + value;
  }
  PrintedConfig config;
  MSP_ASSIGN_OR_RETURN(config.tree, json::ParseDocument(json + "}"), file_name);
  config.line = begin + 1;
  if (not_understood > 0) {
    config.warnings.push_back(fmt::format("{}: {} in the list of arguments not understood",
                                          file_name, base::Plural(not_understood, "line")));
  }
  if (find(begin_mark, " arguments ", end + 1) < lines.size()) {
    config.warnings.push_back(
        fmt::format("{}: several lists of arguments are printed; the one of line {} is used",
                    file_name, config.line));
  }
  return config;
}

Result<PrintedConfig> FindPrintedConfig(std::string_view log, std::string_view file_name) {
  Lines lines(log);
  PrintedConfig config;
  std::optional<size_t> unclosed;
  const auto take = [&](const std::vector<Start>& starts, bool verl) -> Result<bool> {
    for (const Start& start : starts) {
      const std::optional<std::string> json = ReadLiteral(lines, start);
      if (!json) {
        unclosed = unclosed.value_or(start.line + 1);
        continue;
      }
      MSP_ASSIGN_OR_RETURN(json::Json tree, json::ParseDocument(*json), file_name, " line ",
                           std::to_string(start.line + 1));
      if (verl && json::Find(tree, kVerlKey) == nullptr) {
        continue;
      }
      config.tree = std::move(tree);
      config.line = start.line + 1;
      return true;
    }
    return false;
  };
  const std::vector<Start> verl = VerlStarts(lines);
  MSP_ASSIGN_OR_RETURN(bool found, take(verl, true));
  if (found && verl.size() > 1) {
    config.warnings.push_back(
        fmt::format("{}: {} configurations are printed; the one of line {} is used", file_name,
                    verl.size(), config.line));
  }
  if (!found) {
    MSP_ASSIGN_OR_RETURN(found, take(OtherDictStarts(lines), true));
  }
  if (!found) {
    MSP_ASSIGN_OR_RETURN(found, take(NamespaceStarts(lines), false));
  }
  if (!found) {
    if (const auto dump = ReadArgumentDump(lines)) {
      MSP_ASSIGN_OR_RETURN(config.tree, json::ParseDocument(dump->first), file_name);
      config.line = dump->second + 1;
      found = true;
    }
  }
  if (!found && lines.too_much()) {
    return UnsupportedError(
               fmt::format("{}: more than {} bytes read for configurations that do not end",
                           file_name, lines.limit()))
        .WithHint("cut the log: only the lines of the configuration are needed");
  }
  if (!found && unclosed) {
    return BadFormatError(
               fmt::format("{} line {}: Unclosed dictionary: the configuration that begins here "
                           "does not end",
                           file_name, *unclosed))
        .WithHint("is the log complete?");
  }
  if (!found) {
    return BadFormatError(fmt::format("{}: no printed configuration found", file_name))
        .WithHint(
            "looked for {'actor_rollout_ref': ...} (verl), Namespace(...) and an argument "
            "dump between \"---- arguments ----\" lines");
  }
  if (unclosed && config.line < *unclosed) {
    config.warnings.push_back(
        fmt::format("{}: the configuration of line {} is not complete; the one of line {} is used",
                    file_name, *unclosed, config.line));
  }
  return config;
}

}  // namespace msprobe::analysis::config_check
