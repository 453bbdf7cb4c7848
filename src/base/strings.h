// Small text helpers that the standard library lacks.
#pragma once

#include <algorithm>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <cstring>
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

// Texts looked at eight bytes at a time.

// In the order in which they lie in memory.
static_assert(std::endian::native == std::endian::little);
inline constexpr uint64_t kLowBits = 0x0101010101010101U;
inline constexpr uint64_t kHighBits = 0x8080808080808080U;

// The high bit of the first byte of `word` that is `character`; of bytes behind it bits may be set
// by mistake.
constexpr uint64_t MatchesOf(uint64_t word, char character) {
  const uint64_t difference = word ^ (kLowBits * static_cast<unsigned char>(character));
  return (difference - kLowBits) & ~difference & kHighBits;
}

// Not zero where one of the bytes is a control character or none of ASCII.
constexpr uint64_t UnprintableOf(uint64_t word) {
  return ((word | (word - kLowBits * 0x20U)) & kHighBits) | MatchesOf(word, '\x7F');
}

// Whether has_any(word) is zero for all words of the text; the last one is filled with blanks.
template <typename HasAny>
bool NoWordHas(std::string_view text, const HasAny& has_any) {
  const char* at = text.data();
  size_t left = text.size();
  uint64_t word = 0;
  for (; left >= sizeof(word); left -= sizeof(word), at += sizeof(word)) {
    std::memcpy(&word, at, sizeof(word));
    if (has_any(word) != 0) {
      return false;
    }
  }
  word = kLowBits * ' ';
  for (size_t i = 0; i < left; ++i) {
    word ^= static_cast<uint64_t>(static_cast<unsigned char>(at[i]) ^ 0x20U) << (8 * i);
  }
  return has_any(word) == 0;
}

}  // namespace msprobe::base
