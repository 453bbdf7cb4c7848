#include "src/analysis/perf/name_map.h"

#include <algorithm>
#include <cstddef>
#include <optional>
#include <utility>

#include <fmt/format.h>

namespace msprobe::analysis::perf {
namespace {

constexpr size_t kMaxCharacters = 200;
constexpr const char* kExample = "for example: --op_name_map=\"{'name1':'name2'}\"";

class DictReader {
 public:
  explicit DictReader(std::string_view text) : text_(text) {}

  Result<std::map<std::string, std::string>> Read() {
    std::map<std::string, std::string> names;
    if (!Skip('{')) {
      return NotADict("it does not begin with {");
    }
    while (!Skip('}')) {
      MSP_ASSIGN_OR_RETURN(std::string key, ReadText());
      if (!Skip(':')) {
        return NotADict("a ':' is missing");
      }
      MSP_ASSIGN_OR_RETURN(names[std::move(key)], ReadText());
      if (!Skip(',') && !Next('}')) {
        return NotADict("a ',' or '}' is missing");
      }
    }
    SkipBlanks();
    if (at_ != text_.size()) {
      return NotADict("unexpected text after the }");
    }
    return names;
  }

 private:
  void SkipBlanks() { at_ = std::min(text_.find_first_not_of(" \t\r\n", at_), text_.size()); }
  bool Next(char wanted) {
    SkipBlanks();
    return at_ < text_.size() && text_[at_] == wanted;
  }
  bool Skip(char wanted) {
    const bool there = Next(wanted);
    at_ += there ? 1 : 0;
    return there;
  }

  Status NotADict(std::string_view why) const {
    return UsageError(
               fmt::format("--op_name_map must be a dict; at character {}: {}", at_ + 1, why))
        .WithHint(kExample);
  }

  Result<std::string> ReadText() {
    if (!Next('\'') && !Next('"')) {
      return UsageError(fmt::format("--op_name_map: keys and values must be quoted strings; "
                                    "character {} does not start one",
                                    at_ + 1))
          .WithHint(kExample);
    }
    const char quote = text_[at_++];
    std::string value;
    while (at_ < text_.size() && text_[at_] != quote) {
      const char c = text_[at_++];
      if (c != '\\') {
        value += c;
      } else if (!AppendEscape(value)) {
        return NotADict("this escape is not known");
      }
    }
    if (at_ == text_.size()) {
      return NotADict("unterminated string");
    }
    ++at_;
    const auto characters = std::count_if(value.begin(), value.end(), [](char c) {
      return (static_cast<unsigned char>(c) & 0xC0U) != 0x80U;
    });
    if (static_cast<size_t>(characters) > kMaxCharacters) {
      return UsageError(
          fmt::format("--op_name_map: a key or value has {} characters, at most {} "
                      "are allowed",
                      characters, kMaxCharacters));
    }
    return value;
  }

  bool AppendEscape(std::string& value) {
    constexpr std::string_view kEscapes = "\\'\"ntr";
    constexpr std::string_view kMeanings = "\\'\"\n\t\r";
    const size_t known = at_ < text_.size() ? kEscapes.find(text_[at_]) : std::string_view::npos;
    if (known == std::string_view::npos) {
      return false;
    }
    value += kMeanings[known];
    ++at_;
    return true;
  }

  std::string_view text_;
  size_t at_ = 0;
};

}  // namespace

Result<std::map<std::string, std::string>> ParseNameMap(std::string_view text) {
  return DictReader(text).Read();
}

}  // namespace msprobe::analysis::perf
