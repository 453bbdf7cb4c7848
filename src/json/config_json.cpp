// JSON that people write. What the standard does not have is taken out of the text first, byte for
// byte, so that all places stay as they are: comments and trailing commas become blanks.
// ParseStream reads the rest, and the place behind each token tells the line of its value.
#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <string>
#include <utility>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "src/base/files.h"
#include "src/base/strings.h"
#include "src/base/utf8.h"
#include "src/json/config.h"
#include "src/json/stream_reader.h"
#include "src/json/tree_builder.h"

namespace msprobe::json::internal {
namespace {

// Where a text ends whose opening quote stands at `at`: behind its closing one.
size_t EndOfText(std::string_view text, size_t at) {
  ++at;
  while (at < text.size() && text[at] != '"') {
    at += text[at] == '\\' ? 2 : 1;
  }
  return std::min(at + 1, text.size());
}

}  // namespace

std::string StrictJson(std::string_view text) {
  constexpr size_t kNowhere = std::string_view::npos;
  constexpr std::string_view kNoValue = "[{,:";
  std::string strict(text);
  size_t comma = kNowhere;  // where one stands, if nothing but blanks and comments followed yet
  char last = ',';          // the last byte outside of texts that was neither blank nor comment
  bool no_comment_ends = false;  // from here on: a search for the end is not repeated
  size_t at = 0;
  while (at < text.size()) {
    const char c = text[at];
    const std::string_view rest = text.substr(at);
    size_t comment = 0;
    if (rest.starts_with("//")) {
      comment = std::min(rest.find('\n'), rest.size());
    } else if (rest.starts_with("/*") && !no_comment_ends) {
      const size_t end = rest.find("*/", 2);
      no_comment_ends = end == kNowhere;
      comment = no_comment_ends ? 0 : end + 2;
    }
    if (comment > 0) {
      const auto begin = strict.begin() + static_cast<std::ptrdiff_t>(at);
      std::replace_if(
          begin, begin + static_cast<std::ptrdiff_t>(comment),
          [](char byte) { return byte != '\n'; }, ' ');
      at += comment;
      continue;
    }
    if (c == ' ' || c == '\n' || c == '\r' || c == '\t') {
      ++at;
      continue;
    }
    // A comma is a trailing one if a value stands in front of it and a closing bracket behind it.
    if ((c == ']' || c == '}') && comma != kNowhere) {
      strict[comma] = ' ';
    }
    comma = c == ',' && kNoValue.find(last) == kNowhere ? at : kNowhere;
    last = c;
    if (c == '\0') {
      strict[at] = '\x01';
    }
    at = c == '"' ? EndOfText(text, at) : at + 1;
  }
  return strict;
}

}  // namespace msprobe::json::internal

namespace msprobe::json {
namespace {

constexpr std::string_view kBlanks = " \t\r\n";

// The events of ParseStream into the tree, with what it lets pass and a config may not hold.
class JsonTree final : public Handler {
 public:
  JsonTree(std::string_view text, internal::TreeUse use, std::string_view watched)
      : text_(text), use_(use), watched_(watched), builder_(use), counted_(text.data()) {}

  bool OnNull() override { return AddWord(nullptr); }
  bool OnBool(bool value) override { return AddWord(value); }
  bool OnInt(int64_t value) override { return builder_.Add(value, Line()); }
  bool OnFloat(double value, std::string_view digits) override {
    const char end = digits.back();
    if (end == 'f' || digits == "-NaN") {  // "Inf" instead of "Infinity"
      return Fail(Offset() - digits.size(), "expected a value");
    }
    if (std::isinf(value) && end != 'y') {
      return Fail(Offset() - digits.size(), "a number is too large");
    }
    const bool is_whole = digits.find_first_not_of("-0123456789") == std::string_view::npos;
    return builder_.Add(
        is_whole && use_ == internal::TreeUse::kData ? BigInteger(digits) : Json(value), Line(),
        digits);
  }
  bool OnText(std::string_view value) override {
    std::string text(value);
    return TakeText(text) && builder_.Add(std::move(text), Line());
  }
  bool OnKey(std::string_view key) override {
    std::string text(key);
    is_watched_ = builder_.depth() == 1 && key == watched_;
    return TakeText(text) && builder_.Key(std::move(text), Line());
  }
  bool OnBeginObject() override { return Begin(Json::value_t::object); }
  bool OnBeginArray() override { return Begin(Json::value_t::array); }
  bool OnEndObject() override { return builder_.End(); }
  bool OnEndArray() override { return builder_.End(); }

  Status status() const { return status_.ok() ? builder_.status() : status_; }
  internal::TreeBuilder& builder() { return builder_; }
  // Bytes up to behind the opening bracket of the root; and up to the end of the top member
  // `watched`, where it is true, false or null.
  size_t root_begin() const { return root_begin_; }
  size_t watched_end() const { return watched_end_; }

 private:
  size_t Offset() const { return static_cast<size_t>(place() - text_.data()); }

  // The line of the token's last byte. No token holds a line break.
  int Line() {
    line_ += static_cast<int>(std::count(counted_, place(), '\n'));
    counted_ = place();
    return line_;
  }

  bool AddWord(Json word) {
    if (is_watched_ && builder_.depth() == 1) {
      watched_end_ = Offset();
    }
    return builder_.Add(std::move(word), Line());
  }

  bool Begin(Json::value_t kind) {
    if (builder_.depth() >= internal::kConfigLimits.depth) {
      return Fail(Offset() - 1,
                  fmt::format("more than {} nested levels", internal::kConfigLimits.depth));
    }
    root_begin_ = builder_.open() ? root_begin_ : Offset();
    return builder_.Begin(kind, Line());
  }

  // Half a surrogate pair, which JSON can spell and no UTF-8 can hold, is an error in settings;
  // Python may have written one into data.
  bool TakeText(std::string& text) {
    constexpr std::string_view kReplacement = "\xEF\xBF\xBD";
    for (size_t at = text.find('\xED'); at != std::string::npos; at = text.find('\xED', at + 1)) {
      if (at + 1 == text.size() || static_cast<unsigned char>(text[at + 1]) < 0xA0) {
        continue;
      }
      if (use_ == internal::TreeUse::kSettings) {
        return Fail(Offset() - 1, "invalid string: half of a surrogate pair");
      }
      text.replace(at, kReplacement.size(), kReplacement);
    }
    return true;
  }

  bool Fail(size_t offset, std::string_view what) {
    status_ = internal::ErrorAt(text_, offset, what);
    return false;
  }

  const std::string_view text_;
  const internal::TreeUse use_;
  const std::string_view watched_;
  internal::TreeBuilder builder_;
  const char* counted_;  // so far line breaks were counted
  int line_ = 1;
  bool is_watched_ = false;
  size_t root_begin_ = 0;
  size_t watched_end_ = 0;
  Status status_;
};

// `strict` up to `offset` holds no error.
bool IsInText(std::string_view strict, size_t offset) {
  size_t at = 0;
  while (at < offset) {
    at = strict[at] == '"' ? internal::EndOfText(strict, at) : at + 1;
  }
  return at > offset;
}

bool IsLetter(char c) { return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z'); }

// ParseStream's error in the words of a config: it knows no comments, and names the end of a word
// that it does not know.
Status ConfigError(std::string_view strict, const Status& error, const ParseOutcome& outcome) {
  size_t begin = std::min<size_t>(outcome.error_offset, strict.size());
  if (IsInText(strict, begin)) {
    return error;
  }
  if (strict.substr(begin, 1) == "/") {
    return internal::ErrorAt(strict, begin, "a comment begins with // or /* and ends with */");
  }
  while (begin > 0 && IsLetter(strict[begin - 1])) {
    --begin;
  }
  const bool is_word = begin < outcome.error_offset && !outcome.truncated &&
                       (begin == 0 || !base::IsDigit(strict[begin - 1]));
  return is_word ? internal::ErrorAt(strict, begin, "expected a value") : error;
}

// Where a byte stands that belongs to no character; the size of the text: nowhere.
size_t FirstBadByte(std::string_view text) {
  size_t at = 0;
  while (at < text.size()) {
    const base::Utf8Char character = base::DecodeUtf8(text.substr(at));
    if (!character.valid || (character.code >= 0xD800 && character.code < 0xE000)) {
      break;
    }
    at += character.bytes;
  }
  return at;
}

// `tree` is of StrictJson's text.
Status ParseJson(std::string_view strict, JsonTree& tree) {
  if (const size_t bad = FirstBadByte(strict); bad < strict.size()) {
    return internal::ErrorAt(strict, bad, "invalid string: ill-formed UTF-8 byte");
  }
  ParseOutcome outcome;
  const Status parsed = ParseStream(strict, tree, &outcome);
  MSP_RETURN_IF_ERROR(tree.status());
  return parsed.ok() ? Status() : ConfigError(strict, parsed, outcome);
}

}  // namespace

Result<Config> ParseJsonConfig(std::string_view text, std::string file_name) {
  const std::string strict = internal::StrictJson(text);
  JsonTree tree(strict, internal::TreeUse::kSettings, {});
  MSP_RETURN_IF_ERROR(ParseJson(strict, tree), file_name);
  return Config(std::move(file_name), tree.builder().Take());
}

Result<Json> ParseJsonData(std::string_view text, std::string_view file_name) {
  const std::string strict = internal::StrictJson(text);
  JsonTree tree(strict, internal::TreeUse::kData, {});
  MSP_RETURN_IF_ERROR(ParseJson(strict, tree), file_name);
  return tree.builder().Take().root;
}

Result<std::string> WithFlag(std::string_view text, std::string file_name, std::string_view key,
                             bool value) {
  const std::string strict = internal::StrictJson(text);
  JsonTree tree(strict, internal::TreeUse::kSettings, key);
  MSP_RETURN_IF_ERROR(ParseJson(strict, tree), file_name);
  const Config config(std::move(file_name), tree.builder().Take());
  const Json& root = config.root();
  if (!root.is_object()) {
    return config.ErrorAt(root, "", fmt::format("must be an object, not {}", KindName(root)));
  }
  const std::string_view word = value ? "true" : "false";
  std::string changed;
  const Json* const member = Find(root, key);
  if (member == nullptr) {
    // As the member behind it is indented.
    const std::string_view rest = text.substr(tree.root_begin());
    const size_t blanks = std::min(rest.find_first_not_of(kBlanks), rest.size());
    changed = text.substr(0, tree.root_begin());
    changed += rest.substr(0, root.empty() ? 0 : blanks);
    changed += fmt::format("\"{}\": {}", key, word);
    changed += root.empty() ? "" : blanks == 0 ? ", " : ",";
    changed += rest;
  } else if (member->is_boolean() || member->is_null()) {
    const size_t length = member->is_boolean() && !BoolOf(*member) ? 5 : 4;  // false, true or null
    changed = text.substr(0, tree.watched_end() - length);
    changed += word;
    changed += text.substr(tree.watched_end());
  } else {
    return config.ErrorAt(*member, key,
                          fmt::format("must be true or false, not {}", KindName(*member)));
  }
  // Checks that nothing else changed: comments and blanks are not in the tree.
  MSP_ASSIGN_OR_RETURN(const Config after, ParseJsonConfig(changed, config.file));
  const Json* const set = Find(after.root(), key);
  if (set == nullptr || !set->is_boolean() || BoolOf(*set) != value ||
      after.root().size() != root.size() + (member == nullptr ? 1 : 0)) {
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
