#include <algorithm>
#include <array>
#include <charconv>
#include <exception>
#include <initializer_list>
#include <iterator>
#include <limits>
#include <map>
#include <new>
#include <optional>
#include <span>
#include <sstream>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <fmt/format.h>
#include <yaml-cpp/eventhandler.h>
#include <yaml-cpp/exceptions.h>
#include <yaml-cpp/mark.h>
#include <yaml-cpp/parser.h>

#include "src/base/files.h"
#include "src/base/numbers.h"
#include "src/base/strings.h"
#include "src/json/config.h"
#include "src/json/tree_builder.h"

namespace msprobe::json {
namespace {

using internal::Note;
using internal::TreeUse;

// An unquoted YAML word means what Python programs take it for, by the rules of YAML 1.1: null,
// yes/no/on/off/true/false, integers in base 2, 8, 10 and 16, floats, .inf, .nan. Everything else
// is text.

// The three spellings YAML 1.1 allows: lower, Capital, UPPER.
bool IsWord(std::string_view text, std::string_view lower) {
  if (text.size() != lower.size()) {
    return false;
  }
  const auto upper_at = [&](size_t at) { return static_cast<char>(lower[at] - 'a' + 'A'); };
  bool all_upper = true;
  bool tail_lower = true;
  for (size_t at = 0; at < text.size(); ++at) {
    all_upper &= text[at] == upper_at(at);
    tail_lower &= at == 0 || text[at] == lower[at];
  }
  return all_upper || (tail_lower && (text[0] == lower[0] || text[0] == upper_at(0)));
}

bool IsOneOf(std::string_view text, std::initializer_list<std::string_view> words) {
  return std::any_of(words.begin(), words.end(),
                     [text](std::string_view word) { return IsWord(text, word); });
}

struct Unsigned {
  bool negative = false;
  std::string digits;  // without sign and underscores
};

Unsigned StripSign(std::string_view text) {
  Unsigned number;
  if (text.starts_with('-') || text.starts_with('+')) {
    number.negative = text.front() == '-';
    text.remove_prefix(1);
  }
  // An underscore may stand between digits, never in front.
  if (text.empty() || text.front() == '_') {
    return number;
  }
  std::copy_if(text.begin(), text.end(), std::back_inserter(number.digits),
               [](char c) { return c != '_'; });
  return number;
}

// The base that the digits announce, with their prefix removed; 0 when they are not an integer.
int TakeBase(std::string& digits) {
  int base = 10;
  if (digits.starts_with("0b")) {
    base = 2;
    digits.erase(0, 2);
  } else if (digits.starts_with("0x")) {
    base = 16;
    digits.erase(0, 2);
  } else if (digits.size() > 1 && digits.front() == '0') {
    base = 8;
    digits.erase(0, 1);
  }
  const auto fits = [base](char c) {
    return base == 16 ? std::string_view("0123456789abcdefABCDEF").find(c) != std::string_view::npos
                      : c >= '0' && c < '0' + base;
  };
  return !digits.empty() && std::all_of(digits.begin(), digits.end(), fits) ? base : 0;
}

// Integers beyond int64 are floats; in data decimal ones keep their digits.
std::optional<Json> AsInteger(std::string_view text, TreeUse use) {
  Unsigned number = StripSign(text);
  const int radix = TakeBase(number.digits);
  if (radix == 0) {
    return std::nullopt;
  }
  const std::string signed_digits = (number.negative ? "-" : "") + number.digits;
  const char* end = signed_digits.data() + signed_digits.size();
  int64_t integer = 0;
  if (std::from_chars(signed_digits.data(), end, integer, radix).ec == std::errc()) {
    return integer;
  }
  if (radix == 10) {
    return use == TreeUse::kData ? BigInteger(signed_digits)
                                 : Json(base::ParseDouble(signed_digits).value_or(0));
  }
  double value = 0;
  for (const char digit : number.digits) {
    const int place = base::IsDigit(digit) ? digit - '0' : (digit | 0x20) - 'a' + 10;
    value = value * radix + place;
  }
  return number.negative ? -value : value;
}

std::optional<Json> AsFloat(std::string_view text) {
  const Unsigned number = StripSign(text);
  const std::string_view digits = number.digits;
  double value = 0;
  if (digits == ".inf" || digits == ".Inf" || digits == ".INF") {
    value = std::numeric_limits<double>::infinity();
  } else if (text == ".nan" || text == ".NaN" || text == ".NAN") {
    value = std::numeric_limits<double>::quiet_NaN();
  } else {
    // YAML 1.1 wants a point ("1e5" is text there); "1.e5" without a sign in the exponent is taken
    // as Python would.
    const bool is_number = !digits.empty() && (base::IsDigit(digits[0]) || digits[0] == '.') &&
                           digits.find('.') != std::string_view::npos &&
                           digits.find_first_of("0123456789") != std::string_view::npos &&
                           digits.find_first_not_of("0123456789.eE+-") == std::string_view::npos;
    const std::optional<double> parsed = is_number ? base::ParseDouble(digits) : std::nullopt;
    if (!parsed) {
      return std::nullopt;
    }
    value = *parsed;
  }
  return number.negative ? -value : value;
}

// The digits between colons of "12:30:45.5", all but the first below 60; empty: nothing of the
// kind.
std::vector<std::string_view> Base60Parts(std::string_view text) {
  if (text.starts_with('-') || text.starts_with('+')) {
    text.remove_prefix(1);
  }
  std::vector<std::string_view> parts = base::Split(text, ':');
  for (size_t i = 0; i < parts.size(); ++i) {
    const std::string_view part = parts[i];
    const std::string_view digits = i + 1 == parts.size() ? part.substr(0, part.find('.')) : part;
    const bool numeric = !digits.empty() && base::IsDigit(digits[0]) &&
                         std::all_of(digits.begin(), digits.end(), [i](char c) {
                           return base::IsDigit(c) || (i == 0 && c == '_');
                         });
    const bool fits = i == 0 || digits.size() == 1 || (digits.size() == 2 && digits[0] < '6');
    if (!numeric || !fits) {
      return {};
    }
  }
  return parts.size() > 1 ? parts : std::vector<std::string_view>();
}

// "12:30" is 750.
std::optional<Json> AsBase60(std::string_view text) {
  const std::vector<std::string_view> parts = Base60Parts(text);
  const bool is_float = !parts.empty() && parts.back().find('.') != std::string_view::npos;
  if (parts.empty() || (!is_float && parts[0][0] == '0')) {
    return std::nullopt;
  }
  double number = 0;
  for (const std::string_view part : parts) {
    const std::optional<double> parsed = base::ParseDouble(StripSign(part).digits);
    if (!parsed) {
      return std::nullopt;
    }
    number = number * 60 + *parsed;
  }
  constexpr double kExact = 9007199254740992.0;
  const double value = text.starts_with('-') ? -number : number;
  return is_float || number > kExact ? Json(value) : Json(static_cast<int64_t>(value));
}

// 2024-01-31, or with a time behind it.
bool IsTimestamp(std::string_view text) {
  const auto takes_digits = [&text](size_t least, size_t most) {
    size_t count = 0;
    while (count < most && count < text.size() && base::IsDigit(text[count])) {
      ++count;
    }
    text.remove_prefix(count);
    return count >= least;
  };
  const auto takes = [&text](char c) {
    const bool there = text.starts_with(c);
    text.remove_prefix(there ? 1 : 0);
    return there;
  };
  const bool full_date = text.size() == 10;
  if (!takes_digits(4, 4) || !takes('-') || !takes_digits(full_date ? 2 : 1, 2) || !takes('-') ||
      !takes_digits(full_date ? 2 : 1, 2)) {
    return false;
  }
  if (text.empty()) {
    return full_date;
  }
  const size_t gap = text.find_first_not_of(" \t");
  if (gap == 0 && !takes('T') && !takes('t')) {
    return false;
  }
  text.remove_prefix(std::min(text.find_first_not_of(" \t"), text.size()));
  if (!takes_digits(1, 2) || !takes(':') || !takes_digits(2, 2) || !takes(':') ||
      !takes_digits(2, 2)) {
    return false;
  }
  if (takes('.')) {
    takes_digits(0, text.size());
  }
  text.remove_prefix(std::min(text.find_first_not_of(" \t"), text.size()));
  if (text.empty() || text == "Z") {
    return true;
  }
  return (takes('-') || takes('+')) && takes_digits(1, 2) &&
         (text.empty() || (takes(':') && takes_digits(2, 2) && text.empty()));
}

Json ResolvePlainScalar(std::string_view text, TreeUse use) {
  if (text.empty() || text == "~" || IsWord(text, "null")) {
    return nullptr;
  }
  const bool is_true = IsOneOf(text, {"true", "yes", "on"});
  if (is_true || IsOneOf(text, {"false", "no", "off"})) {
    return is_true;
  }
  // PyYAML also knows base 60, and an exponent wants its sign.
  if (std::optional<Json> number = use == TreeUse::kData ? AsBase60(text) : std::nullopt) {
    return *std::move(number);
  }
  if (std::optional<Json> integer = AsInteger(text, use)) {
    return *std::move(integer);
  }
  const size_t exponent =
      use == TreeUse::kData ? std::min(text.find_first_of("eE"), text.size()) : text.size();
  const bool is_unsigned =
      exponent + 1 < text.size() && text.find('.') < exponent && base::IsDigit(text[exponent + 1]);
  const std::optional<Json> number = is_unsigned ? std::nullopt : AsFloat(text);
  return number ? *number : Json(text);
}

// No tag, and the standard ones that say what the spelling says anyway.
constexpr std::array<std::string_view, 6> kPlainTags = {"",
                                                        "?",
                                                        "tag:yaml.org,2002:null",
                                                        "tag:yaml.org,2002:bool",
                                                        "tag:yaml.org,2002:int",
                                                        "tag:yaml.org,2002:float"};

constexpr std::string_view kBinaryTag = "tag:yaml.org,2002:binary";
constexpr std::string_view kTimestampTag = "tag:yaml.org,2002:timestamp";

// Values that aliases repeat in one document: far more than people write, few enough to hold.
constexpr size_t kMostCopied = 100'000;
// The bytes of the texts that anchors and aliases repeat: one long text may be named very often.
constexpr size_t kMostCopiedBytes = size_t{64} << 20U;

int LineOf(const YAML::Mark& mark) { return mark.line + 1; }

struct TreeSize {
  size_t nodes = 0;
  size_t bytes = 0;  // of texts and keys
  size_t depth = 0;
};

// Nested as deep as the parser allows.
void AddSize(const Json& value, size_t depth, TreeSize& size) {
  ++size.nodes;
  size.bytes += TextOf(value).size();
  size.depth = std::max(size.depth, depth);
  if (!value.is_structured()) {
    return;
  }
  for (const auto& [key, child] : value.items()) {
    size.bytes += value.is_object() ? key.size() : 0;
    AddSize(child, depth + 1, size);
  }
}

// yaml-cpp's events into the tree. They cannot be stopped, so after a failure they are only
// ignored. An alias becomes a copy of what its anchor named; copies count against the limits of
// values and of bytes, so that nested aliases and long texts cannot blow up.
class YamlTree final : public YAML::EventHandler {
 public:
  YamlTree(TreeUse use, YamlKeys keys) : use_(use), keys_(keys), builder_(use) {}

  void OnDocumentStart(const YAML::Mark& /*mark*/) override {}
  void OnDocumentEnd() override {}

  void OnNull(const YAML::Mark& mark, YAML::anchor_t anchor) override {
    if (use_ == TreeUse::kData && builder_.expects_key()) {
      AddKey("null", nullptr, LineOf(mark));
      return;
    }
    AddScalar(nullptr, {}, mark, anchor);
  }

  void OnScalar(const YAML::Mark& mark, const std::string& tag, YAML::anchor_t anchor,
                const std::string& text) override {
    const int line = LineOf(mark);
    if (builder_.expects_key()) {
      Remember(anchor, text, {}, line);
      const bool is_plain = use_ == TreeUse::kData && (tag.empty() || tag == "?");
      if (is_plain && text == "<<") {
        builder_.MergeKey(line);
      } else {
        AddKey(text, is_plain ? ResolvePlainScalar(text, use_) : Json(text), line);
      }
      return;
    }
    if (tag == "!" || tag == "tag:yaml.org,2002:str") {
      AddScalar(text, {}, mark, anchor);
    } else if (std::find(kPlainTags.begin(), kPlainTags.end(), tag) != kPlainTags.end()) {
      Json value = ResolvePlainScalar(text, use_);
      const bool is_date = keys_ == YamlKeys::kTexts && value.is_string() && IsTimestamp(text);
      AddScalar(is_date ? Json() : std::move(value), text, mark, anchor);
    } else if (use_ == TreeUse::kData && (tag == kBinaryTag || tag == kTimestampTag)) {
      AddScalar(keys_ == YamlKeys::kTexts ? Json() : Json(text), {}, mark, anchor);
    } else {
      builder_.Fail(line, fmt::format("tag {} is not supported", tag));
    }
  }

  void OnAlias(const YAML::Mark& mark, YAML::anchor_t anchor) override {
    const int line = LineOf(mark);
    const auto known = anchors_.find(anchor);
    if (known == anchors_.end()) {
      builder_.Fail(line, "an alias refers to a node that contains it");
      return;
    }
    const Anchored& named = known->second;
    if (builder_.expects_key()) {
      if (!named.value.is_string()) {
        builder_.Fail(line, "a key must be text");
      } else if (CountBytes(named.size.bytes, line)) {
        builder_.Key(TextOf(named.value), line);
      }
      return;
    }
    CheckKey(named.line);
    if (builder_.depth() + named.size.depth > internal::kConfigLimits.depth) {
      builder_.Fail(line, fmt::format("more than {} nested levels", internal::kConfigLimits.depth));
      return;
    }
    copied_ += named.size.nodes;
    if (copied_ > kMostCopied) {
      builder_.Fail(line, fmt::format("its aliases come to more than {} values", kMostCopied));
      return;
    }
    if (builder_.Count(named.size.nodes, line) && CountBytes(named.size.bytes, line)) {
      builder_.AddCopy(named.value, named.notes);
    }
  }

  void OnSequenceStart(const YAML::Mark& mark, const std::string& /*tag*/, YAML::anchor_t anchor,
                       YAML::EmitterStyle::value /*style*/) override {
    Begin(Json::value_t::array, mark, anchor);
  }
  void OnSequenceEnd() override { End(); }
  void OnMapStart(const YAML::Mark& mark, const std::string& /*tag*/, YAML::anchor_t anchor,
                  YAML::EmitterStyle::value /*style*/) override {
    Begin(Json::value_t::object, mark, anchor);
  }
  void OnMapEnd() override { End(); }

  internal::TreeBuilder& builder() { return builder_; }

 private:
  struct Anchored {
    Json value;
    std::vector<Note> notes;
    TreeSize size;
    int line = 0;
  };

  bool CountBytes(size_t bytes, int line) {
    copied_bytes_ += bytes;
    if (copied_bytes_ > kMostCopiedBytes) {
      return builder_.Fail(
          line, fmt::format("its anchors and aliases repeat more than {} bytes", kMostCopiedBytes));
    }
    return true;
  }

  // `meaning`: what the key would be if it were a value.
  void AddKey(const std::string& text, const Json& meaning, int line) {
    const bool must_be_text = keys_ == YamlKeys::kTexts && !meaning.is_string();
    const bool is_top = builder_.depth() == 1;
    bad_key_ = must_be_text && !is_top ? std::optional(text) : std::nullopt;
    builder_.Key(must_be_text && meaning.is_boolean() ? BoolOf(meaning) ? "true" : "false" : text,
                 line);
  }

  // A key is complained of with the line of its value.
  void CheckKey(int line) {
    if (bad_key_) {
      builder_.Fail(line, fmt::format("the key {} is not a string", *bad_key_));
    }
  }

  void AddScalar(Json value, std::string_view spelling, const YAML::Mark& mark,
                 YAML::anchor_t anchor) {
    const int line = LineOf(mark);
    if (builder_.expects_key()) {
      builder_.Fail(line, "a key must be text");
      return;
    }
    CheckKey(line);
    const std::string_view kept = value.is_string() ? std::string_view() : spelling;
    if (builder_.Add(std::move(value), line, kept) && builder_.last() != nullptr) {
      Remember(anchor, *builder_.last(), builder_.last_notes(), line);
    }
  }

  void Begin(Json::value_t kind, const YAML::Mark& mark, YAML::anchor_t anchor) {
    const int line = LineOf(mark);
    if (builder_.expects_key()) {
      builder_.Fail(line, "a key must be text");
      return;
    }
    CheckKey(line);
    bad_key_.reset();
    open_.emplace_back(anchor, line);
    builder_.Begin(kind, line);
  }

  void End() {
    if (builder_.failed() || !builder_.End()) {
      return;
    }
    const auto [anchor, line] = open_.back();
    open_.pop_back();
    if (builder_.last() != nullptr) {
      Remember(anchor, *builder_.last(), builder_.last_notes(), line);
    }
  }

  void Remember(YAML::anchor_t anchor, const Json& value, std::span<const Note> notes, int line) {
    if (anchor == YAML::NullAnchor || builder_.failed()) {
      return;
    }
    TreeSize size;
    AddSize(value, 0, size);
    if (builder_.Count(size.nodes, line) && CountBytes(size.bytes, line)) {
      anchors_[anchor] = {value, {notes.begin(), notes.end()}, size, line};
    }
  }

  const TreeUse use_;
  const YamlKeys keys_;
  size_t copied_ = 0;
  size_t copied_bytes_ = 0;
  internal::TreeBuilder builder_;
  std::optional<std::string> bad_key_;  // the key at hand, where it may not be one
  std::map<YAML::anchor_t, Anchored> anchors_;
  std::vector<std::pair<YAML::anchor_t, int>> open_;  // with the lines where they begin
};

Result<internal::Tree> ParseYaml(std::string_view text, std::string_view file_name, TreeUse use,
                                 YamlKeys keys) {
  YamlTree tree(use, keys);
  try {
    std::istringstream input{std::string(text)};
    YAML::Parser parser(input);
    parser.HandleNextDocument(tree);
    if (!tree.builder().failed()) {
      YamlTree second(use, keys);
      if (parser.HandleNextDocument(second)) {
        return BadFormatError(fmt::format("{}: holds more than one document", file_name));
      }
    }
  } catch (const YAML::Exception& error) {
    return BadFormatError(fmt::format("{}: line {} column {}: {}", file_name, error.mark.line + 1,
                                      error.mark.column + 1, error.msg));
  } catch (const std::bad_alloc&) {  // not the file's fault
    throw;
  } catch (const std::exception& error) {
    return BadFormatError(fmt::format("{}: not valid YAML ({})", file_name, error.what()));
  }
  MSP_RETURN_IF_ERROR(Status(tree.builder().status()), file_name);
  return tree.builder().Take();
}

}  // namespace

Result<Config> ParseYamlConfig(std::string_view text, std::string file_name) {
  MSP_ASSIGN_OR_RETURN(internal::Tree tree,
                       ParseYaml(text, file_name, TreeUse::kSettings, YamlKeys::kAny));
  return Config(std::move(file_name), std::move(tree));
}

Result<Json> ParseYamlData(std::string_view text, std::string_view file_name, YamlKeys keys) {
  MSP_ASSIGN_OR_RETURN(internal::Tree tree, ParseYaml(text, file_name, TreeUse::kData, keys));
  return std::move(tree.root);
}

Result<Config> LoadYamlConfig(const std::filesystem::path& path) {
  MSP_ASSIGN_OR_RETURN(const std::string text,
                       base::ReadTextFile(path, internal::kConfigLimitBytes));
  return ParseYamlConfig(text, path.string());
}

}  // namespace msprobe::json
