#include "src/json/stream_reader.h"

#include <algorithm>
#include <charconv>
#include <cstdint>
#include <cstdlib>
#include <optional>
#include <string>

#include <fmt/format.h>

#include "src/base/utf8.h"

// Sizes are held in our stream, not in RapidJSON's 32-bit ones; nothing it asserts depends on the
// input.
#define RAPIDJSON_ASSERT(x) static_cast<void>(0)
#include <rapidjson/error/en.h>
#include <rapidjson/reader.h>

namespace msprobe::json::internal {

TextPosition Locate(std::string_view text, size_t offset) {
  const std::string_view before = text.substr(0, offset);
  const size_t line_start =
      before.rfind('\n') == std::string_view::npos ? 0 : before.rfind('\n') + 1;
  const auto breaks = static_cast<size_t>(std::count(before.begin(), before.end(), '\n'));
  return {breaks + 1, before.size() - line_start + 1};
}

Status ErrorAt(std::string_view text, size_t offset, std::string_view what) {
  const TextPosition place = Locate(text, offset);
  return BadFormatError(
      fmt::format("line {} column {} (byte {}): {}", place.line, place.column, offset, what));
}

}  // namespace msprobe::json::internal

namespace msprobe::json {
namespace {

// RapidJSON recurses once per level: more than this is refused whatever the caller asks for.
constexpr int kDeepestAllowed = 4096;

// The four digits behind "\u".
std::optional<uint32_t> ReadHex4(const char* at, const char* end) {
  uint32_t value = 0;
  return end - at >= 4 && std::from_chars(at, at + 4, value, 16).ptr == at + 4
             ? std::optional(value)
             : std::nullopt;
}

// Decodes one escape at `at` (a backslash) into `out`; returns the place behind it, or null when it
// is invalid.
const char* DecodeEscape(const char* at, const char* end, std::string& out) {
  if (end - at < 2) {
    return nullptr;
  }
  constexpr std::string_view kLetters = "\"\\/bfnrt";
  constexpr std::string_view kMeanings = "\"\\/\b\f\n\r\t";
  if (const size_t known = kLetters.find(at[1]); known != std::string_view::npos) {
    out += kMeanings[known];
    return at + 2;
  }
  const std::optional<uint32_t> first = at[1] == 'u' ? ReadHex4(at + 2, end) : std::nullopt;
  if (!first) {
    return nullptr;
  }
  at += 6;
  uint32_t code = *first;
  if (code >= 0xD800 && code < 0xDC00 && end - at >= 6 && at[0] == '\\' && at[1] == 'u') {
    const std::optional<uint32_t> second = ReadHex4(at + 2, end);
    if (second && *second >= 0xDC00 && *second < 0xE000) {
      code = 0x10000 + ((code - 0xD800) << 10U) + (*second - 0xDC00);
      at += 6;
    }
  }
  // Lone surrogates are kept, as Python keeps them: the writer turns them back into \udXXX.
  base::AppendUtf8(code, out);
  return at;
}

// The text that was read last: a view into the input where it holds no escape, else of `scratch`.
struct LastText {
  std::string_view view;
  std::string scratch;
};

// RapidJSON's input stream over borrowed bytes that need no terminator. In its in-situ mode the
// parser tells a stream when a text begins (PutBegin): ours then finds the end of the text itself,
// sixteen bytes at a time, and leaves the parser at the closing quote. RapidJSON can work on a
// local copy of a stream inside of each token; we do not ask for it: copying costs more (measured:
// 460 against 660 MB/s).
class TextStream {
 public:
  using Ch = char;

  TextStream(std::string_view text, LastText& last_text)
      : begin_(text.data()),
        at_(text.data()),
        end_(text.data() + text.size()),
        last_text_(&last_text) {}

  char Peek() const { return at_ == end_ ? '\0' : *at_; }
  char Take() { return at_ == end_ ? '\0' : *at_++; }
  size_t Tell() const { return static_cast<size_t>(at_ - begin_); }

  char* PutBegin() {
    // Called for numbers too, where no quote stands in front.
    if (at_ != begin_ && at_[-1] == '"') {
      ReadText();
    }
    return nullptr;
  }
  void Put(char /*unused*/) {}
  size_t PutEnd(char* /*unused*/) { return 1; }
  void Flush() {}

  void SkipBlanks() { at_ = internal::SkipBlanks(at_, end_); }

  const char* at() const { return at_; }
  bool AtEnd() const { return at_ == end_; }
  std::string_view Before(size_t length) const { return {at_ - length, length}; }

 private:
  // Stops at the closing quote, or at what makes the text invalid: the parser finds it there and
  // says so.
  void ReadText() {
    const char* run = at_;
    at_ = internal::EndOfPlainRun(at_, end_);
    if (at_ == end_ || *at_ != '\\') {
      last_text_->view = {run, static_cast<size_t>(at_ - run)};
    } else {
      ReadEscapedText(run);
    }
  }

  void ReadEscapedText(const char* run) {
    std::string& scratch = last_text_->scratch;
    scratch.assign(run, at_);
    while (at_ != end_ && *at_ == '\\') {
      const char* next = DecodeEscape(at_, end_, scratch);
      if (next == nullptr) {
        break;
      }
      at_ = internal::EndOfPlainRun(next, end_);
      scratch.append(next, at_);
    }
    last_text_->view = scratch;
  }

  const char* begin_;
  const char* at_;
  const char* end_;
  LastText* last_text_;
};

// Found by argument-dependent lookup before RapidJSON's byte-wise template.
void SkipWhitespace(TextStream& stream) { stream.SkipBlanks(); }

// RapidJSON's events, turned into ours; the stream stands behind the token of the event.
class Bridge {
 public:
  Bridge(const TextStream& stream, const LastText& last_text, Handler& handler, int max_depth)
      : stream_(stream), last_text_(last_text), handler_(handler), max_depth_(max_depth) {}

  bool Null() { return Next().OnNull(); }
  bool Bool(bool value) { return Next().OnBool(value); }
  bool String(const char* /*unused*/, rapidjson::SizeType /*unused*/, bool /*unused*/) {
    return Next().OnText(last_text_.view);
  }
  bool Key(const char* /*unused*/, rapidjson::SizeType /*unused*/, bool /*unused*/) {
    return Next().OnKey(last_text_.view);
  }
  bool StartObject() { return Deeper() && Next().OnBeginObject(); }
  bool EndObject(rapidjson::SizeType /*unused*/) {
    --depth_;
    return Next().OnEndObject();
  }
  bool StartArray() { return Deeper() && Next().OnBeginArray(); }
  bool EndArray(rapidjson::SizeType /*unused*/) {
    --depth_;
    return Next().OnEndArray();
  }
  bool RawNumber(const char* /*unused*/, rapidjson::SizeType length, bool /*unused*/) {
    // A number at the very end of an unfinished document may have lost digits: the parser reports
    // the truncation next.
    if (depth_ > 0 && stream_.AtEnd()) {
      return true;
    }
    return Next().OnNumber(stream_.Before(length));
  }
  // Never called in the modes we use.
  bool Int(int /*unused*/) { return false; }
  bool Uint(unsigned /*unused*/) { return false; }
  bool Int64(int64_t /*unused*/) { return false; }
  bool Uint64(uint64_t /*unused*/) { return false; }
  bool Double(double /*unused*/) { return false; }

  bool too_deep() const { return too_deep_; }

 private:
  bool Deeper() {
    too_deep_ = ++depth_ > max_depth_;
    return !too_deep_;
  }

  // The handler, with the place of its next event.
  Handler& Next() {
    handler_.SetPlace(stream_.at());
    return handler_;
  }

  const TextStream& stream_;
  const LastText& last_text_;
  Handler& handler_;
  const int max_depth_;
  int depth_ = 0;
  bool too_deep_ = false;
};

std::string_view Describe(rapidjson::ParseErrorCode code) {
  switch (code) {
    case rapidjson::kParseErrorDocumentEmpty:
      return "the document is empty";
    case rapidjson::kParseErrorDocumentRootNotSingular:
      return "more text follows the end of the document";
    case rapidjson::kParseErrorObjectMissName:
      return "expected a key in double quotes";
    case rapidjson::kParseErrorObjectMissColon:
      return "expected ':' after a key";
    case rapidjson::kParseErrorObjectMissCommaOrCurlyBracket:
      return "expected ',' or '}'";
    case rapidjson::kParseErrorArrayMissCommaOrSquareBracket:
      return "expected ',' or ']'";
    case rapidjson::kParseErrorStringUnicodeEscapeInvalidHex:
      return "\\u needs four hexadecimal digits";
    case rapidjson::kParseErrorStringEscapeInvalid:
      return "a text holds an unknown escape or a raw control character";
    case rapidjson::kParseErrorStringMissQuotationMark:
      return "a text has no closing quote";
    case rapidjson::kParseErrorNumberTooBig:
      return "a number is too large";
    case rapidjson::kParseErrorNumberMissFraction:
      return "a digit must follow the decimal point";
    case rapidjson::kParseErrorNumberMissExponent:
      return "a number's exponent has no digits";
    case rapidjson::kParseErrorValueInvalid:
      return "expected a value";
    default:
      return "not valid JSON";
  }
}

}  // namespace

bool Handler::OnNumber(std::string_view digits) {
  const char* begin = digits.data();
  const char* end = begin + digits.size();
  const bool is_whole =
      std::all_of(begin, end, [](char c) { return c == '-' || (c >= '0' && c <= '9'); });
  int64_t integer = 0;
  if (is_whole && std::from_chars(begin, end, integer).ec == std::errc()) {
    return OnInt(integer);
  }
  double value = 0;
  const auto as_float = std::from_chars(begin, end, value);
  if (as_float.ec == std::errc::result_out_of_range) {
    value = std::strtod(std::string(digits).c_str(),
                        nullptr);  // zero or infinity, as Python reads it
  }
  return OnFloat(value, digits);
}

Status ParseStream(std::string_view text, Handler& handler, ParseOutcome* outcome, int max_depth) {
  constexpr unsigned kFlags = rapidjson::kParseInsituFlag | rapidjson::kParseNumbersAsStringsFlag |
                              rapidjson::kParseNanAndInfFlag;
  ParseOutcome ignored;
  ParseOutcome& result = outcome != nullptr ? *outcome : ignored;
  result = {};

  const size_t mark = text.starts_with(base::kByteOrderMark) ? base::kByteOrderMark.size() : 0;
  LastText last_text;
  TextStream stream(text.substr(mark), last_text);
  const int depth_limit = std::clamp(max_depth, 1, kDeepestAllowed);
  Bridge bridge(stream, last_text, handler, depth_limit);
  rapidjson::Reader reader;
  const rapidjson::ParseResult parsed = reader.Parse<kFlags>(stream, bridge);
  if (bridge.too_deep()) {
    result.error_offset = mark + stream.Tell();
    return internal::ErrorAt(text, result.error_offset,
                             fmt::format("more than {} nested levels", depth_limit));
  }
  if (parsed.IsError() && parsed.Code() == rapidjson::kParseErrorTermination) {
    return {};  // the handler has seen enough
  }
  if (parsed.IsError()) {
    result.truncated = stream.AtEnd();
    result.error_offset = mark + (result.truncated ? stream.Tell() : parsed.Offset());
    const bool empty = parsed.Code() == rapidjson::kParseErrorDocumentEmpty;
    return internal::ErrorAt(
        text, result.error_offset,
        result.truncated && !empty
            ? fmt::format("the document ends too early ({})", Describe(parsed.Code()))
            : std::string(Describe(parsed.Code())));
  }
  if (!stream.AtEnd()) {  // a NUL byte looks like the end to RapidJSON
    result.error_offset = mark + stream.Tell();
    return internal::ErrorAt(text, result.error_offset,
                             Describe(rapidjson::kParseErrorDocumentRootNotSingular));
  }
  return {};
}

}  // namespace msprobe::json
