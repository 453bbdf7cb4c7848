// Small text helpers that the standard library lacks.
#pragma once

#include <algorithm>
#include <cstddef>
#include <deque>
#include <initializer_list>
#include <iterator>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace msprobe::base {

// Many small texts at stable addresses, allocated in chunks.

class TextArena {
 public:
  std::string_view Keep(std::string_view text);

 private:
  static constexpr size_t kChunkBytes = size_t{1} << 18U;
  std::deque<std::unique_ptr<char[]>> chunks_;
  char* next_ = nullptr;
  size_t left_ = 0;
};

constexpr bool IsDigit(char c) { return c >= '0' && c <= '9'; }  // ASCII
std::vector<std::string_view> Split(std::string_view text, char separator);
std::string Join(std::span<const std::string> parts, std::string_view separator);
std::string_view Trim(std::string_view text);
// Order in which runs of digits count as numbers: "layers.2" before "layers.10".
bool NaturalLess(std::string_view a, std::string_view b);
// Letters A to Z only: names and keys of files, in no language.
// One of `list`, a container or array of texts, is `text`.
template <typename List>
bool IsOneOf(std::string_view text, const List& list) {
  return std::find(std::begin(list), std::end(list), text) != std::end(list);
}
// One of the words stands somewhere in the text; as spelled.
bool ContainsAny(std::string_view text, std::initializer_list<std::string_view> words);
std::string AsciiLower(std::string_view text);
bool EqualsIgnoringCase(std::string_view a, std::string_view b);
std::string ReplaceFirst(std::string_view text, std::string_view from, std::string_view to);
std::string ReplaceAll(std::string_view text, std::string_view from, std::string_view to);

// Shell-like patterns: '*' any run, '?' any one character, everything else literal. Linear in both
// lengths per '*'.
bool GlobMatch(std::string_view pattern, std::string_view text);

// The text with '?' for everything that is not printable: what stands in a file must not steer the
// terminal it is shown on. Characters of `kept` stay.
std::string Printable(std::string_view text, std::string_view kept = {});

// The candidate with the smallest edit distance, if it is near enough to be a typing mistake.
std::optional<std::string> NearestMatch(std::string_view word,
                                        std::span<const std::string> candidates);

std::string FormatBytes(uint64_t bytes);                    // "1.5 MB", decimal units
std::string FormatSeconds(double seconds);                  // "0.42 s", "3 min 05 s"
std::string FormatCount(uint64_t count);                    // "1,048,576"
std::string Plural(uint64_t count, std::string_view noun);  // "1 row", "1,024 rows"

// Local time as YYYYmmddHHMMSS, the stamp in result file names.
std::string TimestampNow();

}  // namespace msprobe::base
