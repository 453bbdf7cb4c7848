#include "src/base/secrets.h"

#include <algorithm>
#include <cstddef>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace msprobe::base::internal {
namespace {

constexpr std::string_view kQueryWords[] = {
    // in the query of a URL: signatures
    "sig", "signature", "sign", "hmac",
    // and what stands for a login
    "ticket", "code", "auth", "x-amz-credential", "x-goog-credential", "ossaccesskeyid",
    "client_secret", "state_token"};
constexpr std::string_view kSentenceWords[] = {
    // behind an option in a sentence, and behind "Bearer"
    "to", "is", "or", "and", "the", "for", "with", "in", "from", "of", "if", "flag", "option", "as",
    "must", "needs", "requires", "when", "not",
    // words about secrets
    "token", "tokens", "auth", "authentication", "authorization", "scheme", "format", "error",
    "header", "a", "an", "was", "credentials", "value", "cannot", "can", "may", "could", "should",
    "has", "have", "are", "were", "will"};

}  // namespace

std::vector<Span> SecretScanner::Run() {
  for (at_ = 0; at_ < text_.size();) {
    const size_t before = at_;
    CountTo(at_);
    Look();
    at_ = std::max(at_, before + 1);
  }
  return std::move(spans_);
}

size_t SecretScanner::LineEnd(size_t place) const {
  return std::min(text_.find_first_of("\r\n", place), text_.size());
}

size_t SecretScanner::SkipBlanks(size_t place) const {
  while (place < text_.size() && IsBlank(text_[place])) {
    ++place;
  }
  return place;
}

void SecretScanner::Mask(size_t begin, size_t end, std::string quote) {
  CountTo(begin);
  for (size_t i = begin; double_open_ && i < end; ++i) {
    if (ClosesString(i)) {
      end = i;
    }
  }
  if (end > begin) {
    spans_.push_back({begin, end, std::move(quote)});
    at_ = std::max(at_, end);
  }
}

void SecretScanner::CountTo(size_t place) {
  for (; counted_ < std::min(place, text_.size()); ++counted_) {
    const char c = text_[counted_];
    if (c == '\n') {
      line_begin_ = counted_ + 1;
      double_open_ = single_open_ = false;
      program_ = Program::kOther;
    } else if (c == '"' && slashes_ % 2 == 0) {
      double_open_ = !double_open_;
    } else if (c == '\'' && !double_open_) {
      single_open_ = !single_open_;
    }
    slashes_ = c == '\\' ? slashes_ + 1 : 0;
  }
}

bool SecretScanner::ClosesString(size_t place) const {
  size_t begin = place;
  while (begin > 0 && text_[begin - 1] == '\\' && place - begin < 64) {
    --begin;
  }
  const char next = At(place + 1);
  return text_[place] == '"' && (place - begin) % 2 == 0 &&
         (next == ',' || next == '}' || next == ']' || next == ':' || IsSpace(next));
}

void SecretScanner::Look() {
  const char c = text_[at_];
  if (c == '=' || c == ':') {
    const size_t here = at_;
    if (c == ':' && text_.compare(here, 3, "://") == 0) {
      Url();
    } else if (c == ':' && Telegram()) {
    } else {
      Separator(1);
    }
  } else if (text_.compare(at_, 3, "\xEF\xBC\x9A") == 0) {  // a full-width colon
    Separator(3);
  } else if (c == '-') {
    if (text_.compare(at_, kPem.size(), kPem) == 0) {
      Pem();
    } else {
      Option();
    }
  } else if (c == '>') {
    Element();
  } else if (IsAlnum(c) && (at_ == 0 || !(IsAlnum(text_[at_ - 1]) || text_[at_ - 1] == '_' ||
                                          text_[at_ - 1] == '-' || BehindEscape()))) {
    Word();
  } else if (IsAlnum(c) && BehindEscape()) {
    Word();
  }
}

bool SecretScanner::BehindEscape() const {
  return at_ >= 2 && text_[at_ - 2] == '\\' &&
         (text_[at_ - 1] == 'n' || text_[at_ - 1] == 't' || text_[at_ - 1] == 'r');
}

void SecretScanner::Word() {
  if (const std::optional<size_t> end = EndOfLook(text_, at_)) {
    Mask(at_, *end);
    return;
  }
  size_t end = at_;
  while (end < text_.size() && IsAlnum(text_[end]) && end - at_ < 16) {
    ++end;
  }
  const std::string word = AsciiLower(Part(at_, end));
  if (word == "bearer" || word == "basic") {
    Scheme(end, word == "basic");
  } else if (word == "sshpass" || word == "mysql" || word == "mysqldump" || word == "login") {
    program_ = Program::kPassword;
  } else if (word == "curl" || word == "wget" || word == "http") {
    program_ = Program::kTransfer;
  } else if ((word == "setenv" || word == "env") && IsBlank(At(end))) {
    SetVariable(end);
  } else if (word == "password" && IsBlank(At(end)) && program_ == Program::kPassword) {
    MaskWord(SkipBlanks(end), Secrecy::kSure);  // of a netrc: login NAME password VALUE
  }
}

void SecretScanner::SetVariable(size_t place) {
  const size_t begin = SkipBlanks(place);
  size_t end = begin;
  while (end < text_.size() && IsNameChar(text_[end])) {
    ++end;
  }
  const size_t value = SkipBlanks(end);
  if (end > begin && end - begin < kLongestName && value > end && At(value) != '=' &&
      At(value) != ':') {
    MaskWord(value, SecrecyOf(Part(begin, end)));
  }
}

void SecretScanner::Scheme(size_t place, bool is_basic) {
  const size_t begin = SkipBlanks(place);
  if (begin == place || At(begin) == '*') {
    return;
  }
  size_t end = begin;
  while (end < text_.size() &&
         (IsAlnum(text_[end]) || std::string_view("-._~+/=").find(text_[end]) != kNone)) {
    ++end;
  }
  const std::string_view value = Part(begin, end);
  const bool digit = std::any_of(value.begin(), value.end(), IsDigit);
  const bool capital = std::any_of(value.begin() + (value.empty() ? 0 : 1), value.end(),
                                   [](char c) { return c >= 'A' && c <= 'Z'; });
  const bool secret = is_basic ? value.size() >= 8 && (digit || capital || value.ends_with("="))
                               : value.size() >= 4 && !IsOneOf(AsciiLower(value), kSentenceWords);
  if (secret) {
    Mask(begin, end);
  }
}

size_t SecretScanner::SkipQuote(size_t place) const {
  while (At(place) == '\\') {
    ++place;
  }
  return IsQuote(At(place)) ? place + 1 : place;
}

std::optional<SecretScanner::Name> SecretScanner::NameBefore(size_t separator) const {
  constexpr size_t kMostBlanks = 64;
  const size_t least = Free();
  size_t end = separator;
  while (end > least && IsBlank(text_[end - 1]) && separator - end < kMostBlanks) {
    --end;
  }
  if (end > least && text_[end - 1] == ']') {
    --end;
  }
  Name name;
  size_t closing = 0;
  const char closing_quote = end > least ? text_[end - 1] : ' ';
  if (IsQuote(closing_quote)) {
    closing = 1;
    --end;
    while (end > least && text_[end - 1] == '\\') {
      ++closing;
      --end;
    }
  }
  name.end = end;
  while (end > least && IsNameChar(text_[end - 1]) && name.end - end < kLongestName) {
    --end;
  }
  while (end < name.end && (text_[end] == '-' || text_[end] == '.')) {
    ++end;
  }
  // "\nTOKEN" inside of a text: the letter belongs to the escape.
  if (end > least && text_[end - 1] == '\\' && end + 1 < name.end &&
      (text_[end] == 'n' || text_[end] == 't' || text_[end] == 'r')) {
    ++end;
  }
  name.begin = end;
  if (name.begin == name.end) {
    return std::nullopt;
  }
  size_t quote = name.begin;
  while (quote > least && text_[quote - 1] == '-') {
    --quote;
  }
  if (quote > least && IsQuote(text_[quote - 1])) {
    name.quote = 1;
    --quote;
    while (quote > least && text_[quote - 1] == '\\') {
      ++name.quote;
      --quote;
    }
  }
  name.closed = closing > 0;
  // "access token": a key of several words.
  while (name.closed && name.quote == 0 && quote > least && name.end - quote < kLongestName &&
         (IsNameChar(text_[quote - 1]) || IsBlank(text_[quote - 1]))) {
    --quote;
    if (quote > least && text_[quote - 1] == closing_quote) {
      name.begin = quote;
      name.quote = 1;
      --quote;
      while (quote > least && text_[quote - 1] == '\\') {
        ++name.quote;
        --quote;
      }
    }
  }
  if (closing > 0 && (closing != name.quote || text_[quote + name.quote - 1] != closing_quote)) {
    return std::nullopt;
  }
  return name;
}

std::string SecretScanner::NameText(const Name& name) const {
  std::string text(Part(name.begin, name.end));
  if (name.quote == 0 && name.begin > line_begin_ + 1 && IsBlank(text_[name.begin - 1])) {
    const size_t end = name.begin - 1;
    size_t begin = end;
    while (begin > line_begin_ && IsLetter(text_[begin - 1]) && end - begin < 16) {
      --begin;
    }
    const std::string before = AsciiLower(Part(begin, end));
    if (!before.empty() && before != "export" && before != "set" && before != "declare" &&
        before != "local") {
      return before + " " + text;
    }
  }
  return text;
}

bool SecretScanner::BeginsLine(const Name& name) const {
  size_t place = name.begin - name.quote;
  while (place > line_begin_ && (IsBlank(text_[place - 1]) ||
                                 std::string_view("-><#+*").find(text_[place - 1]) != kNone)) {
    --place;
  }
  return place == line_begin_;
}

void SecretScanner::Separator(size_t length) {
  const char c = text_[at_];
  const char next = At(at_ + length);
  const bool matches = next == '~' && at_ > 0 && IsBlank(text_[at_ - 1]) && IsBlank(At(at_ + 2));
  if ((c == '=' && (next == '=' || matches)) || (c == ':' && (next == ':' || next == '='))) {
    at_ += length + 1;
    return;
  }
  const std::optional<Name> name = NameBefore(at_);
  if (!name) {
    return;
  }
  const char before = name->begin > name->quote ? text_[name->begin - name->quote - 1] : '\n';
  const bool in_query = c == '=' && (before == '?' || before == '&' || before == '#');
  const size_t first = SkipQuote(SkipBlanks(at_ + length));
  Secrecy secrecy = SecrecyOf(NameText(*name));
  // A folder, as in every environment; but "UID=sa;PWD=..." of a database is none.
  if (Part(name->begin, name->end) == "PWD" && At(first) != '/' && At(first) != '~') {
    secrecy = Secrecy::kSure;
  }
  const std::string lower = AsciiLower(Part(name->begin, name->end));
  if (in_query && (IsOneOf(lower, kQueryWords) || lower.ends_with("signature"))) {
    secrecy = Secrecy::kLikely;
  }
  if (secrecy == Secrecy::kNone) {
    return;
  }
  const bool blank_before = IsBlank(text_[at_ - 1]);
  const bool begins_line = BeginsLine(*name);
  size_t value = SkipBlanks(at_ + length);
  const bool blank_behind = value > at_ + length;
  if (value == text_.size() || IsLineEnd(text_[value])) {
    if (c != '=' && begins_line) {
      Block(*name, value, secrecy);
    }
    return;
  }
  // "KEY= command": the variable is empty.
  if (c == '=' && blank_behind && !blank_before && !(begins_line && secrecy == Secrecy::kSure)) {
    return;
  }
  Context context;
  context.secrecy = secrecy;
  context.is_colon = c != '=';
  context.is_cookie =
      context.is_colon && (lower == "cookie" || lower == "cookies" || lower == "set-cookie");
  context.to_line_end =
      name->quote == 0 && begins_line && (c != '=' ? true : blank_before || blank_behind);
  if (name->closed) {
    context.quote = std::string(Part(name->begin - name->quote, name->begin));
  } else if (name->quote > 0 && c != '=') {
    context.opened = name->quote;
    context.opening = text_[name->begin - 1];
    // The dashes of an option are between the quote and the name.
    for (size_t i = name->begin; i > 0 && !IsQuote(context.opening); --i) {
      context.opening = text_[i - 1];
    }
  }
  Value(value, context);
}

size_t SecretScanner::SkipSpaces(size_t place) const {
  while (place < text_.size() && IsSpace(text_[place])) {
    ++place;
  }
  return place;
}

void SecretScanner::Element() {
  size_t begin = at_;
  while (begin > Free() && IsNameChar(text_[begin - 1]) && at_ - begin < kLongestName) {
    --begin;
  }
  if (begin == at_ || begin == 0 || text_[begin - 1] != '<') {
    return;
  }
  const std::string_view name = Part(begin, at_);
  if (SecrecyOf(name) == Secrecy::kNone) {
    return;
  }
  const size_t end = text_.find_first_of("<\r\n", at_);
  if (end != kNone && text_.compare(end, 2 + name.size(), "</" + std::string(name)) == 0 &&
      IsSecretValue(SecrecyOf(name), Part(at_ + 1, end))) {
    Mask(at_ + 1, end);
  }
}

void SecretScanner::Option() {
  if (at_ > 0 && (IsNameChar(text_[at_ - 1]) || text_[at_ - 1] == '/')) {
    return;
  }
  size_t begin = at_;
  while (begin < text_.size() && text_[begin] == '-' && begin - at_ < 2) {
    ++begin;
  }
  size_t end = begin;
  while (end < text_.size() && IsNameChar(text_[end]) && end - begin < kLongestName) {
    ++end;
  }
  if (begin == end || !IsLetter(text_[begin])) {
    at_ = begin;
    return;
  }
  const std::string_view name = Part(begin, end);
  if (begin - at_ == 1 && ShortOption(name, begin, end)) {
    return;
  }
  const Secrecy secrecy = SecrecyOf(name);
  const bool user = program_ == Program::kTransfer && (name == "user" || name == "proxy-user");
  if (secrecy == Secrecy::kNone && !user) {
    return;
  }
  const size_t value = BehindOption(end);
  if (value == kNone) {
    return;
  }
  if (user) {
    MaskPassword(value);
  } else {
    MaskOptionValue(value, secrecy);
  }
}

size_t SecretScanner::BehindOption(size_t end) {
  size_t place = end;
  while (At(place) == '\\') {
    ++place;
  }
  bool in_list = false;
  if (IsQuote(At(place))) {
    ++place;
    in_list = At(place) == ',';
    place += in_list ? 1 : 0;
  } else {
    place = end;
  }
  size_t value = in_list ? SkipSpaces(place) : SkipBlanks(place);
  if (!in_list && At(value) == '\\' && IsLineEnd(At(value + 1))) {  // a line that goes on
    value = SkipSpaces(value + 1);
  }
  if (value == place || value >= text_.size() || IsLineEnd(text_[value])) {
    return kNone;
  }
  CountTo(value);
  const bool fits =
      in_list ? IsQuote(At(SkipQuote(value) - 1)) : !(double_open_ && ClosesString(value));
  return fits ? value : kNone;
}

void SecretScanner::MaskOptionValue(size_t value, Secrecy secrecy) {
  const char next = At(value + 1);
  if ((text_[value] == '-' && (next == '-' || (IsLetter(next) && IsSpace(At(value + 2))))) ||
      text_[value] == '|' || text_[value] == '&' || text_[value] == ';' || text_[value] == '>') {
    return;  // another option, or the end of the command
  }
  size_t end = value;
  while (end < text_.size() && IsLetter(text_[end]) && end - value < 16) {
    ++end;
  }
  if ((IsSpace(At(end)) || At(end) == ',') && IsOneOf(Part(value, end), kSentenceWords)) {
    return;
  }
  MaskWord(value, secrecy);
}

bool SecretScanner::ShortOption(std::string_view name, size_t begin, size_t end) {
  if (program_ == Program::kPassword && name[0] == 'p' && name != "port" && name != "print") {
    if (name.size() > 1) {
      Mask(begin + 1, EndOfWord(begin + 1));
      return true;
    }
    const size_t value = BehindOption(end);
    if (value != kNone) {
      MaskOptionValue(value, Secrecy::kSure);
    }
    return true;
  }
  if (program_ == Program::kTransfer && name == "u") {
    const size_t value = BehindOption(end);
    if (value != kNone) {
      MaskPassword(value);
    }
    return true;
  }
  return false;
}

void SecretScanner::MaskPassword(size_t value) {
  const char first = text_[value];
  const bool quoted = IsQuote(first);
  const size_t end = quoted ? Closing(value + 1, first, 1) : EndOfWord(value);
  const size_t colon = end == kNone ? kNone : Part(value, end).find(':');
  if (colon != kNone) {
    Mask(value + colon + 1, end);
  }
}

void SecretScanner::Url() {
  const size_t begin = at_ + 3;
  const bool web = Part(0, at_).ends_with("http") || Part(0, at_).ends_with("https");
  const auto find = [this](std::string_view characters, size_t place) {
    return std::min(text_.find_first_of(characters, place), text_.size());
  };
  const size_t authority = find("/?# \t\r\n\"'<>,;\\", begin);
  size_t sign = Part(begin, authority).rfind('@');
  if (sign == kNone) {
    // A password with an unescaped slash or comma: the text after the first colon is not a port.
    const size_t colon = Part(begin, authority).find(':');
    if (colon != kNone && text_.find_first_not_of("0123456789", begin + colon + 1) < authority) {
      const size_t end = UrlEnd(begin, " \t\r\n\"'<>");
      sign = text_.substr(begin, end - begin).rfind('@');
    }
  }
  at_ = begin;
  size_t host = begin;
  if (sign != kNone) {
    host = begin + sign;
    if (web || Part(begin, host).find(':') != kNone) {
      Mask(begin, host);
    }
  }
  Hook(host, UrlEnd(host, " \t\r\n\"'<>?#,;\\)"));
}

size_t SecretScanner::UrlEnd(size_t place, std::string_view ends) const {
  while (place < text_.size() && ends.find(text_[place]) == kNone &&
         text_.compare(place, 3, "://") != 0) {
    ++place;
  }
  return place;
}

void SecretScanner::Hook(size_t begin, size_t end) {
  constexpr size_t kShortest = 6;
  const std::string_view url = Part(begin, end);
  for (const std::string_view folder : {"/services/T", "/hook/", "/hooks/", "/webhook/",
                                        "/webhooks/", "/webhookb2/", "/workflows/"}) {
    const size_t found = url.find(folder);
    if (found == kNone ||
        (folder == "/services/T" && url.find("/B", found + folder.size()) == kNone)) {
      continue;
    }
    const size_t path = begin + found + folder.size() - (folder.ends_with("/T") ? 1 : 0);
    if (end - path >= kShortest) {
      Mask(path, end);
    }
    return;
  }
}

bool SecretScanner::Telegram() {
  size_t digits = at_;
  while (digits > Free() && IsDigit(text_[digits - 1]) && at_ - digits < 12) {
    --digits;
  }
  if (at_ - digits < 6 || text_.compare(at_ + 1, 2, "AA") != 0) {
    return false;
  }
  size_t end = at_ + 1;
  while (end < text_.size() && IsWordChar(text_[end])) {
    ++end;
  }
  if (end - at_ < 30) {
    return false;
  }
  Mask(at_ + 1, end);
  return true;
}

}  // namespace msprobe::base::internal

namespace msprobe::base {
namespace {

using internal::kNone;

// Rounds until nothing changes: what one replaces may uncover a value to the next. Ordinary texts
// need one and one to see it; a text that needs more was made to and is masked as a whole.
constexpr int kMostRounds = 8;

bool OnlyStars(std::string_view text) { return text.find_first_not_of('*') == kNone; }

Masked MaskOnce(std::string_view text) {
  Masked result;
  size_t copied = 0;
  for (const internal::Span& span : internal::SecretScanner(text).Run()) {
    if (span.begin < copied || OnlyStars(text.substr(span.begin, span.end - span.begin))) {
      continue;
    }
    result.text += text.substr(copied, span.begin - copied);
    result.text += span.quote;
    result.text += kMaskedText;
    result.text += span.quote;
    copied = span.end;
    ++result.count;
  }
  result.text += text.substr(copied);
  return result;
}

}  // namespace

Masked MaskText(std::string_view text) {
  Masked result{std::string(text), 0};
  for (int round = 0; round < kMostRounds; ++round) {
    Masked next = MaskOnce(result.text);
    if (next.count == 0) {
      return result;
    }
    result = {std::move(next.text), result.count + next.count};
  }
  return {std::string(kMaskedText), result.count};
}

Masked MaskValue(std::string_view name, std::string_view value) {
  return IsSecretValue(SecrecyOf(name), value) ? Masked{std::string(kMaskedText), 1}
                                               : MaskText(value);
}

std::vector<std::string> MaskArguments(std::span<const std::string> arguments, size_t* count) {
  std::vector<std::string> result;
  Secrecy next = Secrecy::kNone;
  for (const std::string& argument : arguments) {
    const size_t dashes = std::min(argument.find_first_not_of('-'), argument.size());
    const size_t sign = argument.find('=');
    const std::string_view name = std::string_view(argument).substr(dashes, sign - dashes);
    const bool is_option = dashes > 0 && !name.empty() && internal::IsLetter(name[0]);
    Masked masked;
    if (next != Secrecy::kNone && !is_option && IsSecretValue(next, argument)) {
      masked = {std::string(kMaskedText), 1};
    } else if (sign != kNone && std::all_of(name.begin(), name.end(), internal::IsNameChar)) {
      masked = MaskValue(name, std::string_view(argument).substr(sign + 1));
      masked.text.insert(0, argument.substr(0, sign + 1));
    } else {
      masked = MaskText(argument);
    }
    next = is_option && sign == kNone ? SecrecyOf(name) : Secrecy::kNone;
    if (count != nullptr) {
      *count += masked.count;
    }
    result.push_back(std::move(masked.text));
  }
  return result;
}

}  // namespace msprobe::base
