#include "src/analysis/config_check/shell_patterns.h"

#include <algorithm>
#include <bitset>
#include <cctype>
#include <cstdint>
#include <cstdlib>
#include <utility>

#include <fmt/format.h>

#include "src/base/numbers.h"
#include "src/base/strings.h"

namespace msprobe::analysis::config_check::internal {
namespace {

constexpr size_t kMostBraceWords = 1000;  // {1..1000}

// One unquoted character of a word, or one segment that is more.
struct Atom {
  char c = '\0';
  bool active = false;                    // unquoted text
  const ShellSegment* segment = nullptr;  // of quoted text: where it came from
};
using Atoms = std::vector<Atom>;

bool Is(const Atom& atom, char c) { return atom.active && atom.c == c; }

// {a,b} and {1..4}: the words that bash makes of one.
bool ExpandBraces(const Atoms& atoms, std::vector<Atoms>& out) {
  for (size_t open = 0; open < atoms.size(); ++open) {
    if (!Is(atoms[open], '{') || (open > 0 && Is(atoms[open - 1], '$'))) {
      continue;
    }
    int depth = 0;
    size_t close = open;
    std::vector<size_t> commas;
    for (; close < atoms.size(); ++close) {
      depth += Is(atoms[close], '{') ? 1 : Is(atoms[close], '}') ? -1 : 0;
      if (depth == 0) {
        break;
      }
      if (depth == 1 && Is(atoms[close], ',')) {
        commas.push_back(close);
      }
    }
    if (depth != 0) {
      continue;
    }
    std::vector<Atoms> choices;
    if (!commas.empty()) {
      commas.push_back(close);
      size_t begin = open + 1;
      for (const size_t comma : commas) {
        choices.emplace_back(atoms.begin() + static_cast<std::ptrdiff_t>(begin),
                             atoms.begin() + static_cast<std::ptrdiff_t>(comma));
        begin = comma + 1;
      }
    } else {
      std::string inner;
      for (size_t i = open + 1; i < close; ++i) {
        inner += atoms[i].active ? atoms[i].c : '\0';
      }
      const size_t dots = inner.find("..");
      if (dots == std::string::npos) {
        continue;
      }
      const size_t more = inner.find("..", dots + 2);
      const std::string first = inner.substr(0, dots);
      const std::string last =
          inner.substr(dots + 2, more == std::string::npos ? std::string::npos : more - dots - 2);
      const std::optional<int64_t> from = base::ParseInt(first);
      const std::optional<int64_t> to = base::ParseInt(last);
      const bool letters =
          first.size() == 1 && last.size() == 1 && StartsName(first[0]) && StartsName(last[0]);
      constexpr int64_t kFar = 1'000'000'000;
      if (!letters && (!from || !to || std::max(std::abs(*from), std::abs(*to)) > kFar)) {
        continue;
      }
      int64_t step = 1;
      if (more != std::string::npos) {
        const std::optional<int64_t> given = base::ParseInt(inner.substr(more + 2));
        if (!given || std::abs(*given) > kFar) {
          continue;
        }
        step = std::max<int64_t>(1, std::abs(*given));
      }
      const int64_t begin = letters ? first[0] : *from;
      const int64_t end = letters ? last[0] : *to;
      if (static_cast<size_t>(std::abs(end - begin) / step) > kMostBraceWords) {
        return false;
      }
      const auto padded = [](const std::string& text) {
        const size_t sign = text.starts_with('-') ? 1 : 0;
        return text.size() > sign + 1 && text[sign] == '0';
      };
      const size_t width =
          !letters && (padded(first) || padded(last)) ? std::max(first.size(), last.size()) : 0;
      for (int64_t value = begin; begin <= end ? value <= end : value >= end;
           value += begin <= end ? step : -step) {
        const std::string text = letters ? std::string(1, static_cast<char>(value))
                                         : fmt::format("{:0{}}", value, width);
        Atoms& choice = choices.emplace_back();
        for (const char c : text) {
          choice.push_back({c, true, nullptr});
        }
      }
    }
    for (const Atoms& choice : choices) {
      Atoms word(atoms.begin(), atoms.begin() + static_cast<std::ptrdiff_t>(open));
      // What stands in front holds no more braces; the choice and what follows may.
      Atoms rest = choice;
      rest.insert(rest.end(), atoms.begin() + static_cast<std::ptrdiff_t>(close) + 1, atoms.end());
      std::vector<Atoms> expanded;
      if (!ExpandBraces(rest, expanded)) {
        return false;
      }
      for (const Atoms& tail : expanded) {
        Atoms whole = word;
        whole.insert(whole.end(), tail.begin(), tail.end());
        out.push_back(std::move(whole));
        if (out.size() > kMostBraceWords) {
          return false;
        }
      }
    }
    return true;
  }
  out.push_back(atoms);
  return true;
}

// One character of a class: [a-z], [!0-9], [[:digit:]]. `at` stands behind the [.
bool InClass(std::string_view pattern, size_t& at, char c, bool& valid) {
  const bool negated = at < pattern.size() && (pattern[at] == '!' || pattern[at] == '^');
  at += negated ? 1 : 0;
  bool found = false;
  bool first = true;
  while (at < pattern.size() && (first || pattern[at] != ']')) {
    first = false;
    if (pattern.substr(at).starts_with("[:")) {
      const size_t end = pattern.find(":]", at);
      if (end == std::string_view::npos) {
        break;
      }
      const std::string_view name = pattern.substr(at + 2, end - at - 2);
      const auto byte = static_cast<unsigned char>(c);
      found = found || (name == "digit" && std::isdigit(byte) != 0) ||
              (name == "alpha" && std::isalpha(byte) != 0) ||
              (name == "alnum" && std::isalnum(byte) != 0) ||
              (name == "upper" && std::isupper(byte) != 0) ||
              (name == "lower" && std::islower(byte) != 0) ||
              (name == "space" && std::isspace(byte) != 0) ||
              (name == "punct" && std::ispunct(byte) != 0);
      at = end + 2;
      continue;
    }
    at += pattern[at] == '\\' && at + 1 < pattern.size() ? 1 : 0;
    const char low = pattern[at++];
    if (at + 1 < pattern.size() && pattern[at] == '-' && pattern[at + 1] != ']') {
      found = found || (low <= c && c <= pattern[at + 1]);
      at += 2;
    } else {
      found = found || low == c;
    }
  }
  valid = at < pattern.size();
  ++at;
  return found != negated;
}

// Without alternatives. Linear in both per '*'.
bool MatchesGlob(std::string_view pattern, std::string_view text) {
  size_t p = 0;
  size_t t = 0;
  size_t star = std::string_view::npos;
  size_t mark = 0;
  while (t < text.size()) {
    size_t next = p;
    bool fits = false;
    if (p < pattern.size()) {
      if (pattern[p] == '*') {
        star = p++;
        mark = t;
        continue;
      }
      bool valid = true;
      next = p + 1;
      if (pattern[p] == '?') {
        fits = true;
      } else if (pattern[p] == '[') {
        fits = InClass(pattern, next, text[t], valid);
        if (!valid) {
          next = p + 1;
          fits = text[t] == '[';
        }
      } else if (pattern[p] == '\\' && p + 1 < pattern.size()) {
        fits = pattern[p + 1] == text[t];
        next = p + 2;
      } else {
        fits = pattern[p] == text[t];
      }
    }
    if (fits) {
      p = next;
      ++t;
    } else if (star != std::string_view::npos) {
      p = star + 1;
      t = ++mark;
    } else {
      return false;
    }
  }
  while (p < pattern.size() && pattern[p] == '*') {
    ++p;
  }
  return p == pattern.size();
}

}  // namespace

bool HasUnknown(std::string_view text) { return text.find(kOpenUnknown) != std::string_view::npos; }

std::optional<bool> MatchesPattern(std::string_view pattern, std::string_view text) {
  // @(a|b) and ?(a|b): one pattern for each alternative.
  for (size_t at = 0; at + 1 < pattern.size(); ++at) {
    if (pattern[at] == '\\') {
      ++at;
      continue;
    }
    if (pattern[at + 1] != '(' ||
        std::string_view("@?*+!").find(pattern[at]) == std::string_view::npos) {
      continue;
    }
    const size_t close = pattern.find(')', at);
    if ((pattern[at] != '@' && pattern[at] != '?') || close == std::string_view::npos ||
        pattern.find('(', at + 2) < close) {
      return std::nullopt;
    }
    std::vector<std::string_view> choices =
        base::Split(pattern.substr(at + 2, close - at - 2), '|');
    if (pattern[at] == '?') {
      choices.emplace_back();
    }
    if (choices.size() > 50 || pattern.find('(', close) != std::string_view::npos) {
      return std::nullopt;
    }
    bool any = false;
    for (const std::string_view choice : choices) {
      any = any || MatchesGlob(fmt::format("{}{}{}", pattern.substr(0, at), choice,
                                           pattern.substr(close + 1)),
                               text);
    }
    return any;
  }
  return MatchesGlob(pattern, text);
}

std::string EscapedPattern(std::string_view text) {
  std::string escaped;
  for (const char c : text) {
    if (std::string_view("*?[]\\()|+@!").find(c) != std::string_view::npos) {
      escaped += '\\';
    }
    escaped += c;
  }
  return escaped;
}

std::optional<bool> MatchesRegex(std::string_view regex, std::string_view text) {
  struct Atom {
    std::bitset<256> set;
    bool skips = false;
    bool repeats = false;
  };
  bool any = false;
  for (const std::string_view whole : base::Split(regex, '|')) {
    std::string_view part = whole;
    const bool at_front = part.starts_with('^');
    part.remove_prefix(at_front ? 1 : 0);
    const bool at_end = part.ends_with('$') && !part.ends_with("\\$");
    part.remove_suffix(at_end ? 1 : 0);
    std::vector<Atom> atoms;
    for (size_t i = 0; i < part.size();) {
      Atom atom;
      const char c = part[i++];
      if (c == '(' || c == ')' || c == '{' || c == '^' || c == '$' || c == '*' || c == '+' ||
          c == '?') {
        return std::nullopt;
      }
      if (c == '.') {
        atom.set.set();
      } else if (c == '[') {
        const size_t end = part.find(']', i + (i < part.size() && part[i] == '^' ? 2 : 1));
        if (end == std::string_view::npos ||
            part.substr(i, end - i).find('[') != std::string_view::npos) {
          return std::nullopt;
        }
        std::string_view inner = part.substr(i, end - i);
        const bool negated = inner.starts_with('^');
        inner.remove_prefix(negated ? 1 : 0);
        for (size_t k = 0; k < inner.size(); ++k) {
          const auto low = static_cast<unsigned char>(inner[k]);
          auto high = low;
          if (k + 2 < inner.size() && inner[k + 1] == '-') {
            high = static_cast<unsigned char>(inner[k + 2]);
            k += 2;
          }
          for (int byte = low; byte <= high; ++byte) {
            atom.set.set(static_cast<size_t>(byte));
          }
        }
        if (negated) {
          atom.set.flip();
        }
        i = end + 1;
      } else if (c == '\\') {
        if (i == part.size() || std::isalnum(static_cast<unsigned char>(part[i])) != 0) {
          return std::nullopt;
        }
        atom.set.set(static_cast<unsigned char>(part[i++]));
      } else {
        atom.set.set(static_cast<unsigned char>(c));
      }
      if (i < part.size() && (part[i] == '*' || part[i] == '+' || part[i] == '?')) {
        atom.skips = part[i] != '+';
        atom.repeats = part[i] != '?';
        ++i;
      }
      atoms.push_back(atom);
    }
    if (atoms.size() > 200) {
      return std::nullopt;
    }
    // All places of the expression that the text so far may have led to.
    std::vector<bool> places(atoms.size() + 1, false);
    const auto spread = [&](std::vector<bool>& of) {
      for (size_t i = 0; i < atoms.size(); ++i) {
        if (of[i] && atoms[i].skips) {
          of[i + 1] = true;
        }
      }
    };
    bool found = false;
    for (size_t t = 0; t <= text.size(); ++t) {
      places[0] = places[0] || t == 0 || !at_front;
      spread(places);
      found = found || (places[atoms.size()] && (!at_end || t == text.size()));
      if (t == text.size()) {
        break;
      }
      std::vector<bool> next(atoms.size() + 1, false);
      for (size_t i = 0; i < atoms.size(); ++i) {
        if (places[i] && atoms[i].set.test(static_cast<unsigned char>(text[t]))) {
          next[i + 1] = true;
          next[i] = next[i] || atoms[i].repeats;
        }
      }
      places = std::move(next);
    }
    any = any || found;
  }
  return any;
}

std::vector<ShellWord> WordsOfBraces(const ShellWord& word) {
  constexpr size_t kLongest = 4096;
  bool opens = false;
  bool divides = false;
  size_t size = 0;
  for (const ShellSegment& segment : word.segments) {
    size += segment.text.size();
    if (segment.part == ShellPart::kText && !segment.quoted) {
      opens = opens || segment.text.find('{') != std::string::npos;
      divides = divides || segment.text.find(',') != std::string::npos ||
                segment.text.find("..") != std::string::npos;
    }
  }
  if (!opens || !divides || size > kLongest) {
    return {word};
  }
  Atoms atoms;
  for (const ShellSegment& segment : word.segments) {
    if (segment.part != ShellPart::kText || segment.quoted) {
      atoms.push_back({'\0', false, &segment});
      continue;
    }
    for (const char c : segment.text) {
      atoms.push_back({c, true, nullptr});
    }
  }
  std::vector<Atoms> expanded;
  if (!ExpandBraces(atoms, expanded) || expanded.size() < 2) {
    return {word};
  }
  std::vector<ShellWord> words;
  for (const Atoms& one : expanded) {
    ShellWord& made = words.emplace_back();
    made.line = word.line;
    for (const Atom& atom : one) {
      if (atom.segment != nullptr) {
        made.segments.push_back(*atom.segment);
        made.has_quotes = made.has_quotes || atom.segment->quoted;
      } else {
        if (made.segments.empty() || made.segments.back().part != ShellPart::kText ||
            made.segments.back().quoted) {
          made.segments.emplace_back();
        }
        made.segments.back().text += atom.c;
      }
    }
  }
  return words;
}

}  // namespace msprobe::analysis::config_check::internal
