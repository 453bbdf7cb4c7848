#include "src/base/strings.h"

#include <algorithm>
#include <array>
#include <cstring>
#include <ctime>

#include <fmt/format.h>

#include "src/base/utf8.h"

namespace msprobe::base {

std::string_view TextArena::Keep(std::string_view text) {
  if (text.empty()) {
    return {};
  }
  if (text.size() > left_) {
    if (text.size() > kChunkBytes / 4) {
      // A chunk of its own; the open one goes on being filled.
      chunks_.push_back(std::make_unique_for_overwrite<char[]>(text.size()));
      std::memcpy(chunks_.back().get(), text.data(), text.size());
      return {chunks_.back().get(), text.size()};
    }
    // Not filled with zeros: what no text reaches takes no memory.
    chunks_.push_back(std::make_unique_for_overwrite<char[]>(kChunkBytes));
    next_ = chunks_.back().get();
    left_ = kChunkBytes;
  }
  char* const kept = next_;
  std::memcpy(kept, text.data(), text.size());
  next_ += text.size();
  left_ -= text.size();
  return {kept, text.size()};
}

std::vector<std::string_view> Split(std::string_view text, char separator) {
  std::vector<std::string_view> parts;
  size_t start = 0;
  while (true) {
    const size_t end = text.find(separator, start);
    if (end == std::string_view::npos) {
      parts.push_back(text.substr(start));
      return parts;
    }
    parts.push_back(text.substr(start, end - start));
    start = end + 1;
  }
}

std::string Join(std::span<const std::string> parts, std::string_view separator) {
  std::string joined;
  for (size_t i = 0; i < parts.size(); ++i) {
    if (i > 0) {
      joined += separator;
    }
    joined += parts[i];
  }
  return joined;
}

std::string_view Trim(std::string_view text) {
  constexpr std::string_view kBlanks = " \t\r\n\f\v";
  const size_t first = text.find_first_not_of(kBlanks);
  if (first == std::string_view::npos) {
    return {};
  }
  return text.substr(first, text.find_last_not_of(kBlanks) - first + 1);
}

bool NaturalLess(std::string_view a, std::string_view b) {
  const auto is_digit = [](char c) { return c >= '0' && c <= '9'; };
  size_t i = 0;
  size_t j = 0;
  while (i < a.size() && j < b.size()) {
    if (!is_digit(a[i]) || !is_digit(b[j])) {
      if (a[i] != b[j]) {
        return static_cast<unsigned char>(a[i]) < static_cast<unsigned char>(b[j]);
      }
      ++i;
      ++j;
      continue;
    }
    const auto digits = [&is_digit](std::string_view text, size_t& at) {
      while (at < text.size() && text[at] == '0') {
        ++at;
      }
      const size_t begin = at;
      while (at < text.size() && is_digit(text[at])) {
        ++at;
      }
      return text.substr(begin, at - begin);
    };
    const std::string_view x = digits(a, i);
    const std::string_view y = digits(b, j);
    if (x.size() != y.size()) {
      return x.size() < y.size();
    }
    if (x != y) {
      return x < y;
    }
  }
  if (i < a.size() || j < b.size()) {
    return j < b.size();
  }
  return a < b;  // equal but for leading zeros
}

bool ContainsAny(std::string_view text, std::initializer_list<std::string_view> words) {
  return std::any_of(words.begin(), words.end(), [text](std::string_view word) {
    return text.find(word) != std::string_view::npos;
  });
}

std::string AsciiLower(std::string_view text) {
  std::string lower(text);
  for (char& c : lower) {
    c = c >= 'A' && c <= 'Z' ? static_cast<char>(c | 0x20) : c;
  }
  return lower;
}

bool EqualsIgnoringCase(std::string_view a, std::string_view b) {
  return a.size() == b.size() && AsciiLower(a) == AsciiLower(b);
}

std::string ReplaceFirst(std::string_view text, std::string_view from, std::string_view to) {
  std::string result(text);
  if (const size_t at = text.find(from); at != std::string_view::npos && !from.empty()) {
    result.replace(at, from.size(), to);
  }
  return result;
}

std::string ReplaceAll(std::string_view text, std::string_view from, std::string_view to) {
  std::string result;
  size_t start = 0;
  while (!from.empty()) {
    const size_t at = text.find(from, start);
    if (at == std::string_view::npos) {
      break;
    }
    result += text.substr(start, at - start);
    result += to;
    start = at + from.size();
  }
  result += text.substr(start);
  return result;
}

bool GlobMatch(std::string_view pattern, std::string_view text) {
  size_t p = 0;
  size_t t = 0;
  size_t star = std::string_view::npos;
  size_t retry = 0;
  while (t < text.size()) {
    if (p < pattern.size() && pattern[p] == '*') {
      star = p++;
      retry = t;
    } else if (p < pattern.size() && (pattern[p] == '?' || pattern[p] == text[t])) {
      ++p;
      ++t;
    } else if (star != std::string_view::npos) {
      p = star + 1;
      t = ++retry;
    } else {
      return false;
    }
  }
  while (p < pattern.size() && pattern[p] == '*') {
    ++p;
  }
  return p == pattern.size();
}

namespace {

// How many letters must change, come or go between the two; `limit` where it is that or more. `row`
// is room to work in.
size_t EditDistance(std::string_view a, std::string_view b, size_t limit,
                    std::vector<size_t>& row) {
  if (std::max(a.size(), b.size()) - std::min(a.size(), b.size()) >= limit) {
    return limit;
  }
  while (!a.empty() && !b.empty() && a.front() == b.front()) {
    a.remove_prefix(1);
    b.remove_prefix(1);
  }
  while (!a.empty() && !b.empty() && a.back() == b.back()) {
    a.remove_suffix(1);
    b.remove_suffix(1);
  }
  row.resize(b.size() + 1);
  for (size_t j = 0; j <= b.size(); ++j) {
    row[j] = j;
  }
  for (size_t i = 1; i <= a.size(); ++i) {
    // Only places less than `limit` off the diagonal can come to less than it. What lies beside
    // them is taken for `limit`.
    const size_t first = i > limit ? i - limit : 1;
    const size_t last = std::min(b.size(), i + limit);
    size_t diagonal = row[first - 1];
    row[first - 1] = first == 1 ? i : limit;
    size_t least = row[first - 1];
    for (size_t j = first; j <= last; ++j) {
      const size_t substitution = diagonal + (a[i - 1] == b[j - 1] ? 0 : 1);
      diagonal = row[j];
      row[j] = std::min({row[j] + 1, row[j - 1] + 1, substitution});
      least = std::min(least, row[j]);
    }
    if (least >= limit) {
      return limit;
    }
  }
  return std::min(row[b.size()], limit);
}

}  // namespace

std::string Printable(std::string_view text, std::string_view kept) {
  std::string out;
  out.reserve(text.size());
  while (!text.empty()) {
    const Utf8Char character = DecodeUtf8(text);
    const std::string_view piece = text.substr(0, character.bytes);
    const bool keep = IsPrintable(character) || kept.find(text.front()) != std::string_view::npos;
    out += keep ? piece : "?";
    text.remove_prefix(character.bytes);
  }
  return out;
}

std::optional<std::string> NearestMatch(std::string_view word,
                                        std::span<const std::string> candidates) {
  // Typing errors are looked for in short words only; the work grows with the square of their
  // length.
  constexpr size_t kLongestWord = 1024;
  if (word.size() > kLongestWord) {
    return std::nullopt;
  }
  std::vector<size_t> row;
  const std::string* best = nullptr;
  size_t best_distance = std::max<size_t>(2, word.size() / 3) + 1;
  for (const std::string& candidate : candidates) {
    const size_t distance = EditDistance(word, candidate, best_distance, row);
    if (distance < best_distance) {
      best_distance = distance;
      best = &candidate;
    }
  }
  return best == nullptr ? std::nullopt : std::optional<std::string>(*best);
}

std::string FormatBytes(uint64_t bytes) {
  constexpr std::array<std::string_view, 5> kUnits = {"B", "kB", "MB", "GB", "TB"};
  double value = static_cast<double>(bytes);
  size_t unit = 0;
  while (value >= 999.5 && unit + 1 < kUnits.size()) {
    value /= 1000.0;
    ++unit;
  }
  return unit == 0 ? fmt::format("{} B", bytes) : fmt::format("{:.3g} {}", value, kUnits[unit]);
}

std::string FormatSeconds(double seconds) {
  if (seconds < 60.0) {
    return fmt::format("{:.2f} s", seconds);
  }
  const auto whole = static_cast<int64_t>(seconds);
  return fmt::format("{} min {:02d} s", whole / 60, whole % 60);
}

std::string FormatCount(uint64_t count) {
  std::string digits = std::to_string(count);
  for (size_t at = digits.size(); at > 3;) {
    at -= 3;
    digits.insert(at, 1, ',');
  }
  return digits;
}

std::string Plural(uint64_t count, std::string_view noun) {
  return fmt::format("{} {}{}", FormatCount(count), noun, count == 1 ? "" : "s");
}

std::string TimestampNow() {
  const std::time_t now = std::time(nullptr);
  std::tm local{};
  localtime_r(&now, &local);
  std::array<char, 16> text{};
  const size_t length = std::strftime(text.data(), text.size(), "%Y%m%d%H%M%S", &local);
  return {text.data(), length};
}

}  // namespace msprobe::base
