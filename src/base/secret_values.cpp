// Where values end: quoted, bare, in lists, over several lines.
#include <algorithm>
#include <string>
#include <string_view>

#include "src/base/secrets.h"

namespace msprobe::base::internal {
namespace {

// In front of the credentials themselves.
constexpr std::string_view kSchemes[] = {"bearer",  "basic",     "digest", "token", "apikey",
                                         "api-key", "negotiate", "ntlm",   "bot",   "key",
                                         "jwt",     "oauth",     "mac"};

}  // namespace

size_t SecretScanner::Closing(size_t begin, char quote, size_t length) {
  const size_t slot = (quote == '"' ? 0 : quote == '\'' ? 8 : 16) + std::min<size_t>(length, 8) - 1;
  if (begin >= none_from_[slot]) {
    return kNone;
  }
  const bool stays_inside = quote != '"' && double_open_ && length == 1;
  size_t slashes = 0;
  for (size_t i = begin; i < text_.size(); ++i) {
    const char c = text_[i];
    if (c == '\\') {
      ++slashes;
      continue;
    }
    const bool free = length == 1 ? slashes % 2 == 0 : slashes < length;
    if (c == quote && free) {
      // '' and "" inside of a value stand for one quote.
      if (length == 1 && i > begin && At(i + 1) == quote && At(i + 2) != quote) {
        ++i;
        slashes = 0;
        continue;
      }
      return i - (length == 1 ? 0 : slashes);
    }
    if (stays_inside && ((c == '"' && slashes == 0) || IsLineEnd(c))) {
      return kNone;
    }
    if (length > 1 && (IsLineEnd(c) || (c == '"' && slashes == 0))) {
      return kNone;
    }
    slashes = 0;
  }
  none_from_[slot] = begin;
  return kNone;
}

void SecretScanner::Value(size_t value, const Context& context) {
  const char first = text_[value];
  CountTo(value);
  if (double_open_ && ClosesString(value)) {
    return;
  }
  if (text_.compare(value, kPem.size(), kPem) == 0) {
    at_ = value;
    Pem();
    return;
  }
  if (context.is_colon || At(value) == '[' || At(value) == '{' || At(value) == '(') {
    if (first == '|' || (first == '>' && context.is_colon)) {
      if (context.to_line_end && BlockScalar(value)) {
        return;
      }
    }
    if ((first == '[' || first == '(' || first == '{') && Collection(value, context.secrecy)) {
      return;
    }
  }
  // b'..', r"..", f"..", $'..'
  size_t quote = value;
  if ((IsLetter(first) || first == '$' || first == '@') && IsQuote(At(value + 1))) {
    ++quote;
  }
  size_t slashes = 0;
  while (At(quote + slashes) == '\\') {
    ++slashes;
  }
  if (IsQuote(At(quote + slashes)) && !(double_open_ && ClosesString(quote + slashes))) {
    Quoted(quote, slashes + 1, context);
    return;
  }
  const size_t end = context.opened > 0 ? EndOfOpened(value, context) : EndOfBare(value, context);
  if (IsSecretValue(context.secrecy, WithoutComment(value, end, context))) {
    Mask(value, end, context.quote.empty() ? QuoteFor(value, end, context) : context.quote);
  }
}

std::string_view SecretScanner::WithoutComment(size_t begin, size_t end,
                                               const Context& context) const {
  constexpr size_t kFar = 256;
  const std::string_view value = Part(begin, end);
  const size_t comment = context.to_line_end && value.size() < kFar ? value.find(" #") : kNone;
  return Trim(value.substr(0, comment));
}

std::string SecretScanner::QuoteFor(size_t begin, size_t end, const Context& context) const {
  const bool number = std::all_of(text_.begin() + static_cast<ptrdiff_t>(begin),
                                  text_.begin() + static_cast<ptrdiff_t>(std::min(end, begin + 40)),
                                  [](char c) { return IsDigit(c) || c == '.'; });
  const bool in_flow =
      context.is_colon && context.opened == 0 && (At(end) == ',' || At(end) == '}');
  if (!(context.to_line_end && (context.is_colon || number)) && !in_flow) {
    return {};
  }
  return !double_open_ ? "\"" : !single_open_ ? "'" : "";
}

void SecretScanner::Quoted(size_t quote, size_t length, const Context& context) {
  const char kind = text_[quote + length - 1];
  size_t begin = quote + length;
  size_t close = kNone;
  if (length == 1 && At(begin) == kind && At(begin + 1) == kind) {  // """ ... """
    begin += 2;
    close = text_.find(std::string(3, kind), begin);
    if (close == kNone) {
      close = LineEnd(begin);
    }
  } else if (length == 1 && At(begin) == kind) {
    return;
  } else {
    close = Closing(begin, kind, length);
    while (close != kNone && kind == '\'' && text_.compare(close, 4, "'\\''") == 0) {
      close = Closing(close + 4, kind, length);  // how a shell spells a quote in quotes
    }
    if (close == kNone) {
      close = std::min(LineEnd(begin), EndOfBare(begin, context));
    }
  }
  if (!IsSecretValue(context.secrecy, Part(begin, std::min(close, text_.size())))) {
    return;
  }
  // 'a'"b" and 'a'b are one word of a shell.
  size_t behind = close + length;
  if (length == 1 && !context.is_colon && At(close) == kind &&
      (IsAlnum(At(behind)) || IsQuote(At(behind)))) {
    Context word = context;
    word.to_line_end = false;
    behind = EndOfBare(behind, word);
    Mask(begin - 1, behind);
    return;
  }
  Mask(begin, close);
}

size_t SecretScanner::EndOfOpened(size_t begin, const Context& context) {
  const size_t close = Closing(begin, context.opening, context.opened);
  if (close == kNone || text_.substr(begin, close - begin).find('\n') != kNone) {
    Context bare = context;
    bare.opened = 0;
    return EndOfBare(begin, bare);
  }
  return close;
}

bool SecretScanner::NameFollows(size_t place) const {
  place = SkipBlanks(place);
  size_t end = place;
  while (end < text_.size() && IsNameChar(text_[end]) && end - place < kLongestName) {
    ++end;
  }
  return end > place && (text_[end < text_.size() ? end : place] == '=' || At(end) == ':');
}

size_t SecretScanner::EndOfBare(size_t begin, const Context& context) {
  if (context.to_line_end) {
    size_t end = LineEnd(begin);
    if (!context.quote.empty()) {
      end = std::min(end, EndOfWord(begin));
    }
    while (end > begin && IsBlank(text_[end - 1])) {
      --end;
    }
    return end;
  }
  size_t end = EndOfWord(begin);
  if (context.is_cookie) {
    end = std::max(end, std::min(text_.find_first_of("\"'\r\n", begin), text_.size()));
    return WithoutSlash(begin, end);
  }
  const std::string word = AsciiLower(Part(begin, std::min(end, begin + 12)));
  if (end - begin < 12 && IsOneOf(word, kSchemes) && IsBlank(At(end))) {
    const size_t credentials = SkipBlanks(end);
    if (!IsLineEnd(At(credentials)) && !IsQuote(At(credentials)) && At(credentials) != '-') {
      end = EndOfWord(credentials);
    }
  }
  return end;
}

size_t SecretScanner::WithoutSlash(size_t begin, size_t end) const {
  size_t slashes = 0;
  while (end - slashes > begin && text_[end - slashes - 1] == '\\') {
    ++slashes;
  }
  return IsQuote(At(end)) && slashes % 2 == 1 ? end - 1 : end;
}

size_t SecretScanner::EndOfWord(size_t begin) const {
  size_t i = begin;
  for (; i < text_.size(); ++i) {
    const char c = text_[i];
    if (IsSpace(c)) {
      break;
    }
    const char next = At(i + 1);
    if (c == '\\') {
      if (next == 'n' || next == 'r' || next == 't' ||
          IsLineEnd(next)) {  // the end of a line in a text
        break;
      }
      if (!IsQuote(next)) {
        ++i;
      }
      continue;
    }
    if (c == '$' && next == '{') {  // the name of a variable
      const size_t brace = text_.substr(i, kLongestName).find_first_of("}\"'\\ \n");
      i += brace != kNone && At(i + brace) == '}' ? brace : 0;
      continue;
    }
    const bool at_end = IsSpace(next) || i + 1 == text_.size();
    if ((c == ',' || c == ';' || c == '&' || c == '|') &&
        (at_end || next == c || IsQuote(next) || NameFollows(i + 1))) {
      break;
    }
    if ((c == ')' || c == ']' || c == '}' || c == '>') &&
        (at_end || IsQuote(next) || std::string_view(",;)]}\\<").find(next) != kNone)) {
      break;
    }
    if (c == '<') {
      break;
    }
    if (IsQuote(c)) {
      if (i > begin && text_[i - 1] == '\\' && !at_end && IsAlnum(next)) {
        continue;
      }
      if (at_end || !IsAlnum(next) || double_open_) {
        break;
      }
      // A quoted part of a word: to its end, if that is on this line and holds no other quote.
      const size_t close = text_.find_first_of("\"'`\r\n", i + 1);
      if (close != kNone && text_[close] == c) {
        i = close;
      }
    }
  }
  return WithoutSlash(begin, std::min(i, text_.size()));
}

void SecretScanner::MaskWord(size_t value, Secrecy secrecy) {
  if (value >= text_.size() || secrecy == Secrecy::kNone) {
    return;
  }
  Context context;
  context.secrecy = secrecy;
  Value(value, context);
}

void SecretScanner::Block(const Name& name, size_t line_end, Secrecy secrecy) {
  const size_t indent = name.begin - name.quote - line_begin_;
  size_t place = line_end;
  while (place < text_.size()) {
    place += text_.compare(place, 2, "\r\n") == 0 ? 2 : 1;
    const size_t begin = SkipBlanks(place);
    size_t value = begin;
    const bool item = At(value) == '-' && IsBlank(At(value + 1));
    if (begin >= text_.size() || IsLineEnd(At(begin)) ||
        (begin - place <= indent && !(item && begin - place == indent))) {
      return;
    }
    if (item) {
      value = SkipBlanks(value + 1);
    }
    const size_t end = LineEnd(begin);
    const size_t inner = Part(value, end).find(": ");
    if (inner != kNone || Part(value, end).ends_with(":")) {
      if (secrecy != Secrecy::kSure) {
        return;  // names of its own
      }
      value = inner == kNone ? end : SkipBlanks(value + inner + 1);
    }
    if (value < end) {
      Context context;
      context.secrecy = secrecy;
      context.is_colon = context.to_line_end = true;
      Value(value, context);
    }
    place = LineEnd(std::max(end, Free()));
  }
}

bool SecretScanner::BlockScalar(size_t value) {
  size_t end = LineEnd(value);
  if (text_.find_first_not_of("|>+-0123456789 \t", value) < end) {
    return false;
  }
  size_t indent = 0;
  while (IsBlank(At(line_begin_ + indent)) || At(line_begin_ + indent) == '-') {
    ++indent;
  }
  size_t first = kNone;
  size_t last = kNone;
  while (end < text_.size()) {
    const size_t line = end + (text_.compare(end, 2, "\r\n") == 0 ? 2 : 1);
    const size_t begin = SkipBlanks(line);
    const size_t next = LineEnd(begin);
    if (begin < next) {
      if (begin - line <= indent) {
        break;
      }
      first = first == kNone ? begin : first;
      last = next;
    }
    end = next;
    if (begin >= text_.size()) {
      break;
    }
  }
  if (first != kNone) {
    Mask(first, last);
  }
  return true;
}

bool SecretScanner::Collection(size_t begin, Secrecy secrecy) {
  if (text_[begin] == '{' && secrecy != Secrecy::kSure) {
    return false;
  }
  int depth = 0;
  bool found = false;
  size_t i = begin;
  while (i < text_.size()) {
    const char c = text_[i];
    if (c == '[' || c == '{' || c == '(') {
      if (c == '{' && secrecy != Secrecy::kSure) {
        break;
      }
      ++depth;
      ++i;
    } else if (c == ']' || c == '}' || c == ')') {
      ++i;
      if (--depth == 0) {
        break;
      }
    } else if (IsQuote(c) || c == '\\') {
      size_t length = 1;
      while (At(i + length - 1) == '\\') {
        ++length;
      }
      const char kind = At(i + length - 1);
      CountTo(i);
      if (!IsQuote(kind) || (double_open_ && ClosesString(i))) {
        break;
      }
      const size_t text = i + length;
      const size_t close = At(text) == kind && length == 1 ? text : Closing(text, kind, length);
      if (close == kNone) {
        break;
      }
      i = close + length;
      const bool is_key = At(SkipSpaces(i)) == ':';
      if (!is_key && IsSecretValue(secrecy, Part(text, close))) {
        Mask(text, close);
      }
      found = true;
    } else if (c == ',' || c == ':' || IsSpace(c) || IsAlnum(c) || c == '.' || c == '-' ||
               c == '+' || c == '_') {
      if (!found && IsLetter(c)) {
        return false;  // bare words: {password: abc}
      }
      ++i;
    } else {
      break;
    }
  }
  at_ = std::max(at_, i);
  return true;
}

void SecretScanner::Pem() {
  const size_t label = at_ + kPem.size();
  const size_t dashes = text_.find_first_of("-\r\n\"'", label);
  if (dashes == kNone || text_.compare(dashes, 5, "-----") != 0 ||
      Part(label, dashes).find("PRIVATE KEY") == kNone) {
    return;
  }
  const size_t begin = dashes + 5;
  size_t end = begin;
  while (end < text_.size() && !IsQuote(text_[end]) && text_.compare(end, 5, "-----") != 0) {
    ++end;
  }
  if (text_.compare(end, 8, "-----END") != 0 && !IsQuote(At(end))) {
    // Cut off: as far as base64 goes.
    end = begin;
    while (end < text_.size() &&
           (IsAlnum(text_[end]) || std::string_view("+/=\r\n\\").find(text_[end]) != kNone)) {
      ++end;
    }
    while (end > begin && IsSpace(text_[end - 1])) {
      --end;
    }
  }
  Mask(begin, WithoutSlash(begin, end));
  at_ = std::max(at_, end);
}

}  // namespace msprobe::base::internal
