#include "src/analysis/config_check/literal_lines.h"

#include <algorithm>
#include <cctype>
#include <cmath>
#include <optional>
#include <utility>

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

// The end of a word that is no plain number or name: at the first comma or closing bracket outside
// of brackets and quotes of its own. npos where the line ends before.
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
    // Of words that end their line nobody knows whether they belong here.
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
