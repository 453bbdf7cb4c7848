#include "src/json/config_json.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <optional>
#include <string>
#include <utility>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "src/base/files.h"
#include "src/base/strings.h"
#include "src/base/utf8.h"
#include "src/json/config.h"
#include "src/json/stream_reader.h"

namespace msprobe::json::internal {
namespace {

// A bare word, and a number that is as long.
struct Word {
  std::string_view name;
  std::string_view number;
};
constexpr std::array<Word, 3> kNonFinite = {Word{"NaN", "0.0"}, Word{"Infinity", "0.000000"},
                                            Word{"-Infinity", "-0.000000"}};

constexpr size_t kEscapeLength = 6;  // of "\u0041"

class StrictWalk {
 public:
  StrictWalk(std::string_view text, TreeUse use) : text_(text), use_(use), strict_(text) {}

  std::string Run() && {
    while (at_ < text_.size()) {
      Step();
    }
    return std::move(strict_);
  }

 private:
  static constexpr size_t kNowhere = std::string_view::npos;

  void Step() {
    const char c = text_[at_];
    if (c == ' ' || c == '\n' || c == '\r' || c == '\t') {
      ++at_;
      return;
    }
    if (c == '/' && Comment()) {
      return;
    }
    // A comma is a trailing one if a value stands in front of it and a closing bracket behind it.
    constexpr std::string_view kNoValue = "[{,:";
    if ((c == ']' || c == '}') && comma_ != kNowhere) {
      strict_[comma_] = ' ';
    }
    comma_ = c == ',' && kNoValue.find(last_) == std::string_view::npos ? at_ : kNowhere;
    last_ = c;
    if (c == '"') {
      Text();
    } else if (c == '\0') {
      strict_[at_++] = '\x01';
    } else if (!NonFinite()) {
      ++at_;
    }
  }

  // False: none begins here, or it has no end.
  bool Comment() {
    const std::string_view rest = text_.substr(at_);
    size_t length = 0;
    if (rest.starts_with("//")) {
      length = std::min(rest.find('\n'), rest.size());
    } else if (rest.starts_with("/*") && !no_comment_ends_) {
      const size_t end = rest.find("*/", 2);
      length = end == kNowhere ? 0 : end + 2;
      no_comment_ends_ = end == kNowhere;
    }
    const auto begin = strict_.begin() + static_cast<std::ptrdiff_t>(at_);
    std::replace_if(
        begin, begin + static_cast<std::ptrdiff_t>(length), [](char c) { return c != '\n'; }, ' ');
    at_ += length;
    return length > 0;
  }

  bool NonFinite() {
    for (const Word& word : kNonFinite) {
      if (text_.substr(at_).starts_with(word.name)) {
        strict_.replace(at_, word.number.size(), word.number);
        at_ += word.name.size();
        return true;
      }
    }
    return false;
  }

  // From the opening quote to behind the closing one.
  void Text() {
    ++at_;
    while (at_ < text_.size() && text_[at_] != '"') {
      if (text_[at_] != '\\') {
        ++at_;
      } else if (const std::optional<uint32_t> unit = Unit(at_)) {
        Escape(*unit);
      } else {
        at_ += 2;
      }
    }
    at_ = std::min(at_ + 1, text_.size());
  }

  // What "\uXXXX" at this place stands for, if it stands there.
  std::optional<uint32_t> Unit(size_t place) const {
    const std::string_view escape = text_.substr(std::min(place, text_.size()), kEscapeLength);
    uint32_t unit = 0;
    if (escape.size() < kEscapeLength || !escape.starts_with("\\u") ||
        std::from_chars(escape.data() + 2, escape.data() + kEscapeLength, unit, 16).ptr !=
            escape.data() + kEscapeLength) {
      return std::nullopt;
    }
    return unit;
  }

  void Escape(uint32_t unit) {
    const bool is_half = unit >= 0xD800 && unit < 0xE000;
    const std::optional<uint32_t> next = Unit(at_ + kEscapeLength);
    const bool is_pair = is_half && unit < 0xDC00 && next && *next >= 0xDC00 && *next < 0xE000;
    if (is_half && !is_pair && use_ == TreeUse::kData) {
      strict_.replace(at_, kEscapeLength, "\\ufffd");
    }
    at_ += is_pair ? 2 * kEscapeLength : kEscapeLength;
  }

  const std::string_view text_;
  const TreeUse use_;
  std::string strict_;
  bool no_comment_ends_ = false;  // from here on: a search for the end is not made again
  size_t at_ = 0;
  size_t comma_ = kNowhere;  // where one stands, if nothing but blanks and comments followed yet
  char last_ = ',';          // the last byte outside of texts that was neither blank nor comment
};

}  // namespace

std::string StrictJson(std::string_view text, TreeUse use) { return StrictWalk(text, use).Run(); }

}  // namespace msprobe::json::internal

namespace msprobe::json {
namespace {

constexpr std::string_view kBlanks = " \t\r\n";
constexpr int kNumberOverflow = 406;  // nlohmann's number of "number overflow parsing"

// The parser's own words about a token that is wrong in itself, out of "[...] parse error at line
// 1, column 5: syntax error while parsing value - invalid string: ...; last read: '...'"; empty
// where it met a whole token that it did not expect.
std::string_view TokenComplaint(std::string_view what) {
  constexpr std::string_view kBefore = " - ";
  const size_t begin = what.find(kBefore);
  if (begin == std::string_view::npos) {
    return {};
  }
  what.remove_prefix(begin + kBefore.size());
  what = what.substr(0, what.find("; last read: "));
  return what.starts_with("invalid ") ? what : std::string_view();
}

constexpr std::string_view kBrokenWord = "invalid literal";  // neither true, false nor null

bool IsEscaped(std::string_view text, size_t at) {
  size_t backslashes = 0;
  while (backslashes < at && text[at - 1 - backslashes] == '\\') {
    ++backslashes;
  }
  return backslashes % 2 == 1;
}

// Where the token begins that ends in front of `end`; of a broken word the last byte may be one
// that does not belong to it.
size_t TokenBegin(std::string_view strict, size_t end, bool is_broken_word) {
  constexpr std::string_view kBrackets = "[]{},:";
  constexpr std::string_view kBetweenWords = " \t\r\n[]{},:\"";
  size_t at = end == 0 ? 0 : end - 1;
  if (!is_broken_word && kBrackets.find(strict[at]) != std::string_view::npos) {
    return at;
  }
  if (!is_broken_word && at > 0 && strict[at] == '"') {
    do {
      --at;
    } while (at > 0 && (strict[at] != '"' || IsEscaped(strict, at)));
    return at;
  }
  while (at > 0 && kBetweenWords.find(strict[at - 1]) == std::string_view::npos) {
    --at;
  }
  return at;
}

// Turns nlohmann's events into the tree. Its functions are spelled as that library asks for; false
// ends the parse, and status() tells why.
class JsonTree {
 public:
  using Json = nlohmann::json;

  JsonTree(std::string_view text, std::string_view strict, internal::TreeUse use)
      : text_(text), strict_(strict), builder_(use) {}

  bool null() {
    ConfigValue scalar;
    scalar.end = counter_.taken;
    return Add(std::move(scalar));
  }
  bool boolean(bool value) {
    ConfigValue scalar;
    scalar.kind = ConfigKind::kBool;
    scalar.boolean = value;
    scalar.end = counter_.taken;
    return Add(std::move(scalar));
  }
  bool number_integer(Json::number_integer_t value) {
    ConfigValue scalar;
    scalar.kind = ConfigKind::kInt;
    scalar.integer = value;
    scalar.number = static_cast<double>(value);
    return Add(std::move(scalar));
  }
  bool number_unsigned(Json::number_unsigned_t value) {
    return value <= static_cast<uint64_t>(std::numeric_limits<int64_t>::max())
               ? number_integer(static_cast<int64_t>(value))
               : AddFloat(static_cast<double>(value), std::to_string(value));
  }
  // `spelled` is as long as the number in the text, but has the decimal point of the process's
  // language, and stands for NaN and infinities, too.
  bool number_float(Json::number_float_t value, const Json::string_t& spelled) {
    // The parser has taken one byte more, except at the end of the text.
    const size_t end = counter_.taken - (base::IsDigit(strict_[counter_.taken - 1]) ? 0 : 1);
    const std::string_view digits = text_.substr(end - spelled.size(), spelled.size());
    if (digits == "NaN") {
      value = std::numeric_limits<double>::quiet_NaN();
    } else if (digits.ends_with("Infinity")) {
      value = digits.front() == '-' ? -std::numeric_limits<double>::infinity()
                                    : std::numeric_limits<double>::infinity();
    }
    return AddFloat(value, std::string(digits));
  }
  bool string(Json::string_t& value) {
    ConfigValue scalar;
    scalar.kind = ConfigKind::kText;
    scalar.text = std::move(value);
    return Add(std::move(scalar));
  }
  bool binary(Json::binary_t& /*value*/) { return false; }  // not in texts
  bool start_object(size_t /*unknown*/) { return Begin(ConfigKind::kObject); }
  bool key(Json::string_t& name) {
    is_behind_key_ = true;
    return builder_.Key(std::move(name), counter_.line);
  }
  bool end_object() { return builder_.End(); }
  bool start_array(size_t /*unknown*/) { return Begin(ConfigKind::kList); }
  bool end_array() { return builder_.End(); }

  // `position`: bytes up to the end of the token, one more where the text ended.
  bool parse_error(size_t position, const std::string& /*token*/, const Json::exception& error) {
    const size_t mark = strict_.starts_with(base::kByteOrderMark) ? base::kByteOrderMark.size() : 0;
    if (strict_.find_first_not_of(kBlanks, mark) == std::string_view::npos) {
      return Fail(text_.size(), "the document is empty");
    }
    const std::string_view complaint = TokenComplaint(error.what());
    const bool ended = position > strict_.size();
    const bool is_broken_word = complaint == kBrokenWord;
    if (!complaint.empty() && !is_broken_word) {
      return ended ? FailAtEnd(complaint) : Fail(position - 1, complaint);
    }
    if (ended) {
      return FailAtEnd(
          Expected(is_broken_word ? TokenBegin(strict_, strict_.size(), true) : strict_.size()));
    }
    const size_t begin = TokenBegin(strict_, position, is_broken_word);
    return Fail(begin, error.id == kNumberOverflow ? "a number is too large" : Expected(begin));
  }

  internal::LineCounter* counter() { return &counter_; }
  Status status() const { return status_.ok() ? builder_.status() : status_; }
  ConfigValue TakeRoot() { return builder_.TakeRoot(); }

 private:
  bool Add(ConfigValue scalar) {
    is_behind_key_ = false;
    scalar.line = counter_.line;
    return builder_.Add(std::move(scalar));
  }

  bool AddFloat(double value, std::string digits) {
    ConfigValue scalar;
    scalar.kind = ConfigKind::kFloat;
    scalar.number = value;
    scalar.text = std::move(digits);
    return Add(std::move(scalar));
  }

  bool Begin(ConfigKind kind) {
    is_behind_key_ = false;
    if (builder_.depth() >= static_cast<size_t>(internal::kConfigDepth)) {
      return Fail(counter_.taken - 1,
                  fmt::format("more than {} nested levels", internal::kConfigDepth));
    }
    return builder_.Begin(kind, counter_.line, counter_.taken);
  }

  bool Fail(size_t offset, std::string_view what) {
    status_ = internal::ErrorAt(text_, offset, what);
    return false;
  }

  bool FailAtEnd(std::string_view what) {
    return Fail(text_.size(), fmt::format("the document ends too early ({})", what));
  }

  // What should stand at `offset`, where something else does.
  std::string_view Expected(size_t offset) const {
    if (strict_.substr(offset, 1) == "/") {
      return "a comment begins with // or /* and ends with */";
    }
    const size_t last =
        offset == 0 ? std::string_view::npos : strict_.find_last_not_of(kBlanks, offset - 1);
    const char before = last == std::string_view::npos ? '\0' : strict_[last];
    if (!builder_.open()) {
      return builder_.last() == nullptr ? "expected a value"
                                        : "more text follows the end of the document";
    }
    if (before == ':' || before == '[' || (before == ',' && !builder_.expects_key())) {
      return "expected a value";
    }
    if (is_behind_key_) {
      return "expected ':' after a key";
    }
    if (builder_.expects_key()) {
      return before == '{' || before == ',' ? "expected a key in double quotes"
                                            : "expected ',' or '}'";
    }
    return "expected ',' or ']'";
  }

  const std::string_view text_;
  const std::string_view strict_;
  internal::LineCounter counter_;
  internal::TreeBuilder builder_;
  bool is_behind_key_ = false;
  Status status_;
};

Result<Config> ParseJson(std::string_view text, std::string file_name, internal::TreeUse use) {
  const std::string strict = internal::StrictJson(text, use);
  JsonTree tree(text, strict, use);
  const char* const begin = strict.data();
  const bool parsed = nlohmann::json::sax_parse(
      internal::CountingIterator(begin, tree.counter()),
      internal::CountingIterator(begin + strict.size(), tree.counter()), &tree);
  if (!parsed) {
    MSP_RETURN_IF_ERROR(tree.status(), file_name);
    return InternalError(file_name + ": the parser failed without a reason");
  }
  return Config{std::move(file_name), tree.TakeRoot()};
}

}  // namespace

Result<Config> ParseJsonConfig(std::string_view text, std::string file_name) {
  return ParseJson(text, std::move(file_name), internal::TreeUse::kSettings);
}

Result<Config> ParseJsonData(std::string_view text, std::string file_name) {
  return ParseJson(text, std::move(file_name), internal::TreeUse::kData);
}

Result<std::string> WithFlag(std::string_view text, std::string file_name, std::string_view key,
                             bool value) {
  MSP_ASSIGN_OR_RETURN(const Config config, ParseJsonConfig(text, std::move(file_name)));
  if (config.root.kind != ConfigKind::kObject) {
    return config.ErrorAt(
        config.root, "",
        fmt::format("must be an object, not {}", ConfigKindName(config.root.kind)));
  }
  const std::string_view word = value ? "true" : "false";
  std::string changed(text.substr(0, config.root.end));
  const ConfigValue* const member = config.root.Find(key);
  if (member == nullptr) {
    // As the member behind it is indented.
    const std::string_view rest = text.substr(config.root.end);
    const size_t blanks = std::min(rest.find_first_not_of(kBlanks), rest.size());
    changed += rest.substr(0, config.root.members.empty() ? 0 : blanks);
    changed += fmt::format("\"{}\": {}", key, word);
    changed += config.root.members.empty() ? "" : blanks == 0 ? ", " : ",";
    changed += rest;
  } else if (member->kind == ConfigKind::kBool || member->kind == ConfigKind::kNull) {
    const std::string_view before = member->kind == ConfigKind::kNull ? "null"
                                    : member->boolean                 ? "true"
                                                                      : "false";
    changed = text.substr(0, member->end - before.size());
    changed += word;
    changed += text.substr(member->end);
  } else {
    return config.ErrorAt(
        *member, key, fmt::format("must be true or false, not {}", ConfigKindName(member->kind)));
  }
  // What was not meant to change must not: comments and blanks are not in the tree.
  MSP_ASSIGN_OR_RETURN(const Config after, ParseJsonConfig(changed, config.file));
  const ConfigValue* const set = after.root.Find(key);
  if (set == nullptr || set->kind != ConfigKind::kBool || set->boolean != value ||
      after.root.members.size() != config.root.members.size() + (member == nullptr ? 1 : 0)) {
    return InternalError(fmt::format("{}: key {} cannot be set in it", config.file, key));
  }
  return changed;
}

Result<Config> LoadJsonConfig(const std::filesystem::path& path) {
  MSP_ASSIGN_OR_RETURN(const std::string text,
                       base::ReadTextFile(path, internal::kConfigLimitBytes));
  return ParseJsonConfig(text, path.string());
}

}  // namespace msprobe::json
