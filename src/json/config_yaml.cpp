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

namespace msprobe::json::internal {
namespace {

// What an unquoted YAML word means.

// By the rules of YAML 1.1 that Python programs use (null, yes/no/on/off/true/false, integers in
// base 2, 8, 10 and 16, floats, .inf, .nan), without base 60. Everything else is text. Integers
// beyond int64 become floats.
ConfigValue ResolvePlainScalar(std::string_view text);

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

std::optional<ConfigValue> AsInteger(std::string_view text) {
  Unsigned number = StripSign(text);
  const int radix = TakeBase(number.digits);
  if (radix == 0) {
    return std::nullopt;
  }
  ConfigValue value;
  value.text = text;
  const std::string signed_digits = (number.negative ? "-" : "") + number.digits;
  const char* end = signed_digits.data() + signed_digits.size();
  if (std::from_chars(signed_digits.data(), end, value.integer, radix).ec == std::errc()) {
    value.kind = ConfigKind::kInt;
    value.number = static_cast<double>(value.integer);
    return value;
  }
  value.kind = ConfigKind::kFloat;
  value.integer = 0;
  if (radix == 10) {
    value.number = base::ParseDouble(number.digits).value_or(0);
  } else {
    for (const char digit : number.digits) {
      const int place = base::IsDigit(digit) ? digit - '0' : (digit | 0x20) - 'a' + 10;
      value.number = value.number * radix + place;
    }
  }
  value.number = number.negative ? -value.number : value.number;
  return value;
}

std::optional<ConfigValue> AsFloat(std::string_view text) {
  const Unsigned number = StripSign(text);
  std::string_view digits = number.digits;
  ConfigValue value;
  value.kind = ConfigKind::kFloat;
  value.text = text;
  if (digits == ".inf" || digits == ".Inf" || digits == ".INF") {
    value.number = std::numeric_limits<double>::infinity();
  } else if (text == ".nan" || text == ".NaN" || text == ".NAN") {
    value.number = std::numeric_limits<double>::quiet_NaN();
  } else {
    // YAML 1.1 wants a point ("1e5" is text there); "1.e5" without a sign in the exponent is taken
    // as Python would.
    const bool numeric = std::all_of(digits.begin(), digits.end(), [](char c) {
      return base::IsDigit(c) || c == '.' || c == 'e' || c == 'E' || c == '-' || c == '+';
    });
    const bool has_digit = std::any_of(digits.begin(), digits.end(), base::IsDigit);
    if (!numeric || !has_digit || digits.find('.') == std::string_view::npos ||
        !(base::IsDigit(digits.front()) || digits.front() == '.')) {
      return std::nullopt;
    }
    const std::optional<double> parsed = base::ParseDouble(digits);
    if (!parsed) {
      return std::nullopt;
    }
    value.number = *parsed;
  }
  value.number = number.negative ? -value.number : value.number;
  return value;
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
std::optional<ConfigValue> AsBase60(std::string_view text) {
  const std::vector<std::string_view> parts = Base60Parts(text);
  if (parts.empty()) {
    return std::nullopt;
  }
  ConfigValue value;
  value.text = text;
  const std::string_view last = parts.back();
  const bool is_float = last.find('.') != std::string_view::npos;
  if (!is_float && parts[0][0] == '0') {
    return std::nullopt;
  }
  double number = 0;
  for (const std::string_view part : parts) {
    const Unsigned digits = StripSign(part);
    const std::optional<double> parsed = base::ParseDouble(digits.digits);
    if (!parsed) {
      return std::nullopt;
    }
    number = number * 60 + *parsed;
  }
  value.number = text.starts_with('-') ? -number : number;
  constexpr double kExact = 9007199254740992.0;
  value.kind = is_float || number > kExact ? ConfigKind::kFloat : ConfigKind::kInt;
  value.integer = value.kind == ConfigKind::kInt ? static_cast<int64_t>(value.number) : 0;
  return value;
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

// The same as PyYAML does it: with base 60, an exponent wants its sign, and dates are typed text.
ConfigValue ResolvePlainData(std::string_view text) {
  if (std::optional<ConfigValue> number = AsBase60(text)) {
    return *std::move(number);
  }
  ConfigValue value = ResolvePlainScalar(text);
  const size_t exponent = text.find_first_of("eE");
  const bool unsigned_exponent = value.kind == ConfigKind::kFloat &&
                                 exponent != std::string_view::npos && text.find('.') < exponent &&
                                 exponent + 1 < text.size() && base::IsDigit(text[exponent + 1]);
  if (unsigned_exponent) {
    value = ConfigValue();
    value.kind = ConfigKind::kText;
    value.text = text;
  }
  value.is_typed_text = value.kind == ConfigKind::kText && IsTimestamp(text);
  return value;
}

ConfigValue ResolvePlainScalar(std::string_view text) {
  ConfigValue value;
  value.text = text;
  if (text.empty() || text == "~" || IsWord(text, "null")) {
    return value;
  }
  if (IsOneOf(text, {"true", "yes", "on"}) || IsOneOf(text, {"false", "no", "off"})) {
    value.kind = ConfigKind::kBool;
    value.boolean = IsOneOf(text, {"true", "yes", "on"});
    return value;
  }
  if (std::optional<ConfigValue> integer = AsInteger(text)) {
    return *std::move(integer);
  }
  if (std::optional<ConfigValue> number = AsFloat(text)) {
    return *std::move(number);
  }
  value.kind = ConfigKind::kText;
  return value;
}

}  // namespace

}  // namespace msprobe::json::internal

namespace msprobe::json {
namespace {

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
};

TreeSize SizeOf(const ConfigValue& root) {
  TreeSize size;
  std::vector<const ConfigValue*> pending = {&root};
  while (!pending.empty()) {
    const ConfigValue* value = pending.back();
    pending.pop_back();
    ++size.nodes;
    size.bytes += value->text.size();
    for (const ConfigValue& item : value->items) {
      pending.push_back(&item);
    }
    for (const auto& [key, member] : value->members) {
      size.bytes += key.size();
      pending.push_back(&member);
    }
  }
  return size;
}

size_t Depth(const ConfigValue& root) {
  size_t deepest = 0;
  std::vector<std::pair<const ConfigValue*, size_t>> pending = {{&root, 0}};
  while (!pending.empty()) {
    const auto [value, depth] = pending.back();
    pending.pop_back();
    deepest = std::max(deepest, depth);
    for (const ConfigValue& item : value->items) {
      pending.emplace_back(&item, depth + 1);
    }
    for (const auto& [key, member] : value->members) {
      pending.emplace_back(&member, depth + 1);
    }
  }
  return deepest;
}

// yaml-cpp's events into the tree. They cannot be stopped, so after a failure they are only
// ignored. An alias becomes a copy of what its anchor named; copies count against the limits of
// values and of bytes, so that nested aliases and long texts cannot blow up.
class YamlTree final : public YAML::EventHandler {
 public:
  explicit YamlTree(internal::TreeUse use)
      : is_data_(use == internal::TreeUse::kData), builder_(use) {}

  void OnDocumentStart(const YAML::Mark& /*mark*/) override {}
  void OnDocumentEnd() override {}

  void OnNull(const YAML::Mark& mark, YAML::anchor_t anchor) override {
    if (is_data_ && builder_.expects_key()) {
      builder_.Key("null", LineOf(mark), ConfigKind::kNull);
      return;
    }
    AddScalar(ConfigValue{}, mark, anchor);
  }

  void OnScalar(const YAML::Mark& mark, const std::string& tag, YAML::anchor_t anchor,
                const std::string& text) override {
    if (builder_.expects_key()) {
      Remember(anchor, TextValue(text, LineOf(mark)));
      AddKey(text, tag, LineOf(mark));
      return;
    }
    if (tag == "!" || tag == "tag:yaml.org,2002:str") {
      AddScalar(TextValue(text, LineOf(mark)), mark, anchor);
    } else if (std::find(kPlainTags.begin(), kPlainTags.end(), tag) != kPlainTags.end()) {
      AddScalar(Resolve(text), mark, anchor);
    } else if (is_data_ && (tag == kBinaryTag || tag == kTimestampTag)) {
      ConfigValue value = TextValue(text, LineOf(mark));
      value.is_typed_text = true;
      AddScalar(std::move(value), mark, anchor);
    } else {
      builder_.Fail(LineOf(mark), fmt::format("tag {} is not supported", tag));
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
      if (named.value.kind != ConfigKind::kText) {
        builder_.Fail(line, "a key must be text");
      } else if (CountBytes(named.size.bytes, line)) {
        builder_.Key(named.value.text, line);
      }
      return;
    }
    if (builder_.depth() + named.depth > static_cast<size_t>(internal::kConfigDepth)) {
      builder_.Fail(line, fmt::format("more than {} nested levels", internal::kConfigDepth));
      return;
    }
    copied_ += named.size.nodes;
    if (copied_ > kMostCopied) {
      builder_.Fail(line, fmt::format("its aliases come to more than {} values", kMostCopied));
      return;
    }
    if (builder_.Count(named.size.nodes, line) && CountBytes(named.size.bytes, line)) {
      builder_.Add(named.value);
    }
  }

  void OnSequenceStart(const YAML::Mark& mark, const std::string& /*tag*/, YAML::anchor_t anchor,
                       YAML::EmitterStyle::value /*style*/) override {
    Begin(ConfigKind::kList, mark, anchor);
  }
  void OnSequenceEnd() override { End(); }
  void OnMapStart(const YAML::Mark& mark, const std::string& /*tag*/, YAML::anchor_t anchor,
                  YAML::EmitterStyle::value /*style*/) override {
    Begin(ConfigKind::kObject, mark, anchor);
  }
  void OnMapEnd() override { End(); }

  internal::TreeBuilder& builder() { return builder_; }

 private:
  struct Anchored {
    ConfigValue value;
    TreeSize size;
    size_t depth = 0;
  };

  bool CountBytes(size_t bytes, int line) {
    copied_bytes_ += bytes;
    if (copied_bytes_ > kMostCopiedBytes) {
      return builder_.Fail(
          line, fmt::format("its anchors and aliases repeat more than {} bytes", kMostCopiedBytes));
    }
    return true;
  }

  static ConfigValue TextValue(const std::string& text, int line) {
    ConfigValue value;
    value.kind = ConfigKind::kText;
    value.text = text;
    value.line = line;
    return value;
  }

  ConfigValue Resolve(const std::string& text) const {
    return is_data_ ? internal::ResolvePlainData(text) : internal::ResolvePlainScalar(text);
  }

  void AddKey(const std::string& text, const std::string& tag, int line) {
    const bool plain = is_data_ && (tag.empty() || tag == "?");
    if (plain && text == "<<") {
      builder_.MergeKey(line);
    } else {
      builder_.Key(text, line, plain ? Resolve(text).kind : ConfigKind::kText);
    }
  }

  void AddScalar(ConfigValue value, const YAML::Mark& mark, YAML::anchor_t anchor) {
    value.line = LineOf(mark);
    if (builder_.expects_key()) {
      builder_.Fail(value.line, "a key must be text");
      return;
    }
    if (builder_.Add(std::move(value)) && builder_.last() != nullptr) {
      Remember(anchor, *builder_.last());
    }
  }

  void Begin(ConfigKind kind, const YAML::Mark& mark, YAML::anchor_t anchor) {
    if (builder_.expects_key()) {
      builder_.Fail(LineOf(mark), "a key must be text");
      return;
    }
    open_anchors_.push_back(anchor);
    builder_.Begin(kind, LineOf(mark));
  }

  void End() {
    if (builder_.failed() || !builder_.End()) {
      return;
    }
    const YAML::anchor_t anchor = open_anchors_.back();
    open_anchors_.pop_back();
    if (builder_.last() != nullptr) {
      Remember(anchor, *builder_.last());
    }
  }

  void Remember(YAML::anchor_t anchor, const ConfigValue& value) {
    if (anchor == YAML::NullAnchor || builder_.failed()) {
      return;
    }
    const TreeSize size = SizeOf(value);
    if (builder_.Count(size.nodes, value.line) && CountBytes(size.bytes, value.line)) {
      anchors_[anchor] = {value, size, Depth(value)};
    }
  }

  const bool is_data_;
  size_t copied_ = 0;
  size_t copied_bytes_ = 0;
  internal::TreeBuilder builder_;
  std::map<YAML::anchor_t, Anchored> anchors_;
  std::vector<YAML::anchor_t> open_anchors_;
};

Result<Config> ParseYaml(std::string_view text, std::string file_name, internal::TreeUse use) {
  YamlTree tree(use);
  try {
    std::istringstream input{std::string(text)};
    YAML::Parser parser(input);
    parser.HandleNextDocument(tree);
    if (!tree.builder().failed()) {
      YamlTree second(use);
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
  return Config{std::move(file_name), tree.builder().TakeRoot()};
}

}  // namespace

Result<Config> ParseYamlConfig(std::string_view text, std::string file_name) {
  return ParseYaml(text, std::move(file_name), internal::TreeUse::kSettings);
}

Result<Config> ParseYamlData(std::string_view text, std::string file_name) {
  return ParseYaml(text, std::move(file_name), internal::TreeUse::kData);
}

Result<Config> LoadYamlConfig(const std::filesystem::path& path) {
  MSP_ASSIGN_OR_RETURN(const std::string text,
                       base::ReadTextFile(path, internal::kConfigLimitBytes));
  return ParseYamlConfig(text, path.string());
}

}  // namespace msprobe::json
