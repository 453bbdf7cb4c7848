#include "src/analysis/config_check/shell_patterns.h"

#include <algorithm>
#include <array>
#include <bitset>
#include <cctype>
#include <cstdint>
#include <cstdlib>
#include <limits>
#include <string_view>
#include <utility>

#include <fmt/format.h>

#include "src/analysis/config_check/shell_run.h"
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

namespace {

enum class ShellTruth : uint8_t { kFalse, kTrue, kUnknown };

static ShellTruth Not(ShellTruth truth) {
  return truth == ShellTruth::kUnknown ? truth
         : truth == ShellTruth::kTrue  ? ShellTruth::kFalse
                                       : ShellTruth::kTrue;
}

static ShellTruth TruthOf(bool value) { return value ? ShellTruth::kTrue : ShellTruth::kFalse; }

}  // namespace

// The condition of [ ... ], test and [[ ... ]]. They read their words by the same grammar, but for
// their signs, and that [ takes three words around a comparison before it looks for other signs.
class ShellCondition {
 public:
  struct Word {
    std::string sign;  // unquoted text as it stands; of [ the text
    std::string text;
    std::string pattern;  // of [[: what stands unquoted behind == is a pattern
  };

  using Outcome = ShellRun::Outcome;

  ShellCondition(ShellRun& run, bool is_test, std::vector<Word> words)
      : run_(run), is_test_(is_test), words_(std::move(words)) {}

  // Evaluates all words, and tells the run what came of it. `key` names the condition.
  void Run(std::string key) {
    Value value = is_test_ && words_.empty() ? Of(false) : Or();
    Finish(at_ == words_.size() ? value : Unknown(), std::move(key));
  }

 private:
  // Outcomes of a single test remember what they are about, so that a decision binds it.
  struct Value {
    ShellTruth truth = ShellTruth::kFalse;
    int unknown = -1;
    Outcome::Is is = Outcome::Is::kText;
    std::string text = {};
    bool inverted = false;
  };

  static Value Of(bool value) { return {TruthOf(value)}; }
  static Value Unknown() { return {ShellTruth::kUnknown}; }

  Value Unary(std::string_view sign, const std::string& text) {
    if (sign == "-z" || sign == "-n") {
      Value value;
      const std::vector<const ShellUnknown*> unknowns = run_.UnknownsIn(text);
      bool has_text = !text.empty();
      if (!unknowns.empty()) {
        // Anything known in it is a text already.
        size_t in_marks = 0;
        bool open = false;
        for (const char c : text) {
          open = open || c == '\x01';
          in_marks += open ? 1 : 0;
          open = open && c != '\x02';
        }
        const bool surely = in_marks < text.size() || std::any_of(unknowns.begin(), unknowns.end(),
                                                                  [](const ShellUnknown* unknown) {
                                                                    return unknown->assumed_set;
                                                                  });
        if (!surely) {
          value.truth = ShellTruth::kUnknown;
          value.is = Outcome::Is::kEmpty;
          value.inverted = sign == "-n";
          if (unknowns.size() == 1) {
            value.unknown = static_cast<int>(unknowns[0] - run_.unknowns_.data());
          }
          return value;
        }
        has_text = true;
      }
      value.truth = TruthOf(sign == "-z" ? !has_text : has_text);
      return value;
    }
    if (sign == "-v") {
      const auto found = run_.variables_.find(text);
      return found != run_.variables_.end() ? Of(found->second->is_set) : Unknown();
    }
    return Unknown();  // of files
  }

  Value Binary(const std::string& left, std::string_view sign, const std::string& right,
               bool right_is_pattern) {
    const bool compares = sign == "=" || sign == "==" || sign == "!=";
    const bool known = !HasUnknown(left) && !HasUnknown(right);
    if (compares) {
      Value value;
      std::optional<bool> same;
      if (known) {
        same = right_is_pattern ? MatchesPattern(right, left) : std::optional(left == right);
      } else if (left == right) {
        same = true;
      }
      value.truth = !same ? ShellTruth::kUnknown : TruthOf(*same != (sign == "!="));
      value.inverted = sign == "!=";
      const std::string& open = HasUnknown(left) ? left : right;
      const std::string& text = HasUnknown(left) ? right : left;
      const bool plain = !right_is_pattern || right.find_first_of("*?[\\(") == std::string::npos;
      // x$A = x7B is a way to write it, too.
      if (!same && plain && !HasUnknown(text)) {
        const size_t begin = open.find('\x01');
        const size_t end = open.find('\x02');
        const std::string_view front = std::string_view(open).substr(0, begin);
        const std::string_view back = std::string_view(open).substr(end + 1);
        if (!HasUnknown(back)) {
          const bool fits = text.size() >= front.size() + back.size() && text.starts_with(front) &&
                            text.ends_with(back);
          if (!fits) {
            value.truth = TruthOf(sign == "!=");
            return value;
          }
          value.unknown = static_cast<int>(run_.UnknownsIn(open)[0] - run_.unknowns_.data());
          value.text = text.substr(front.size(), text.size() - front.size() - back.size());
          value.is = value.text.empty() ? Outcome::Is::kEmpty : Outcome::Is::kText;
        }
      }
      return value;
    }
    if (!known) {
      return Unknown();
    }
    if (sign == "<" || sign == ">") {
      return Of(sign == "<" ? left < right : left > right);
    }
    if (sign == "=~") {
      const std::optional<bool> matches = MatchesRegex(right, left);
      return matches ? Of(*matches) : Unknown();
    }
    const auto number = [this](const std::string& text) -> std::optional<int64_t> {
      Result<std::optional<int64_t>> value = run_.Arithmetic(text);
      return value.ok() ? *value : std::nullopt;
    };
    const bool is_number = sign == "-eq" || sign == "-ne" || sign == "-lt" || sign == "-le" ||
                           sign == "-gt" || sign == "-ge";
    if (!is_number) {
      return Unknown();
    }
    const std::optional<int64_t> a = number(left);
    const std::optional<int64_t> b = number(right);
    if (!a || !b) {
      return Unknown();
    }
    return Of(sign == "-eq"   ? *a == *b
              : sign == "-ne" ? *a != *b
              : sign == "-lt" ? *a < *b
              : sign == "-le" ? *a <= *b
              : sign == "-gt" ? *a > *b
                              : *a >= *b);
  }

  static bool IsUnary(std::string_view sign) {
    return sign.size() == 2 && sign[0] == '-' &&
           std::string_view("abcdefghknoprstuvwxzGLNORS").find(sign[1]) != std::string_view::npos;
  }
  static bool IsBinary(std::string_view sign) {
    constexpr std::array<std::string_view, 15> kSigns = {"=",   "==",  "!=",  "<",   ">",
                                                         "=~",  "-eq", "-ne", "-lt", "-le",
                                                         "-gt", "-ge", "-nt", "-ot", "-ef"};
    return base::IsOneOf(sign, kSigns);
  }

  void Finish(const Value& value, std::string key) {
    if (value.truth != ShellTruth::kUnknown) {
      run_.Done(value.truth == ShellTruth::kTrue ? 0 : 1);
      return;
    }
    Outcome outcome;
    outcome.code = std::nullopt;
    outcome.inverted = value.inverted;
    outcome.key = std::move(key);
    outcome.unknown = value.unknown;
    outcome.is = value.is;
    outcome.text = value.text;
    if (value.unknown >= 0) {
      // One key for all ways to ask the same.
      outcome.key =
          fmt::format("{} is {}", run_.unknowns_[static_cast<size_t>(value.unknown)].spelling,
                      value.is == Outcome::Is::kEmpty ? "empty" : value.text);
    }
    run_.outcome_ = std::move(outcome);
  }

  static Value Both(const Value& a, const Value& b) {
    if (a.truth == ShellTruth::kFalse || b.truth == ShellTruth::kFalse) {
      return {ShellTruth::kFalse};
    }
    return a.truth == ShellTruth::kTrue ? b : b.truth == ShellTruth::kTrue ? a : Unknown();
  }
  static Value Either(const Value& a, const Value& b) {
    if (a.truth == ShellTruth::kTrue || b.truth == ShellTruth::kTrue) {
      return {ShellTruth::kTrue};
    }
    return a.truth == ShellTruth::kFalse ? b : b.truth == ShellTruth::kFalse ? a : Unknown();
  }
  static Value Inverted(Value value) {
    value.truth = Not(value.truth);
    value.inverted = !value.inverted;
    return value;
  }

  bool Is(std::string_view sign) const { return at_ < words_.size() && words_[at_].sign == sign; }
  Value Or() {
    Value value = And();
    while (Is(is_test_ ? "-o" : "||")) {
      ++at_;
      value = Either(value, And());
    }
    return value;
  }
  Value And() {
    Value value = Term();
    while (Is(is_test_ ? "-a" : "&&")) {
      ++at_;
      value = Both(value, Term());
    }
    return value;
  }
  Value Term() {
    const size_t left = words_.size() - at_;
    if (left == 0 || ++depth_ > 100) {
      return Unknown();
    }
    const bool is_binary = left >= 3 && IsBinary(words_[at_ + 1].sign);
    if (is_test_ && is_binary) {
      return Comparison();
    }
    if (Is("!") && (!is_test_ || left > 1)) {
      ++at_;
      return Inverted(Term());
    }
    if (Is("(") && (!is_test_ || left > 2)) {
      ++at_;
      Value value = Or();
      at_ += Is(")") ? 1 : 0;
      return value;
    }
    if (is_binary) {
      return Comparison();
    }
    const bool is_unary = left >= 2 && IsUnary(words_[at_].sign);
    at_ += is_unary ? 2 : 1;
    return Unary(is_unary ? words_[at_ - 2].sign : "-n", words_[at_ - 1].text);
  }
  Value Comparison() {
    at_ += 3;
    const Word& right = words_[at_ - 1];
    const std::string& sign = words_[at_ - 2].sign;
    const bool compares = !is_test_ && (sign == "=" || sign == "==" || sign == "!=");
    const bool takes_pattern = compares || (!is_test_ && sign == "=~");
    return Binary(words_[at_ - 3].text, sign, takes_pattern ? right.pattern : right.text, compares);
  }

  ShellRun& run_;
  const bool is_test_;
  const std::vector<Word> words_;
  size_t at_ = 0;
  int depth_ = 0;
};

Status ShellRun::EvaluateCondition(const ShellNode& node) {
  std::vector<ShellCondition::Word> words;
  std::string key = "[[";
  for (const ShellWord& word : node.words) {
    ShellCondition::Word& made = words.emplace_back();
    made.sign = word.Plain();
    MSP_ASSIGN_OR_RETURN(made.text, Text(word));
    MSP_ASSIGN_OR_RETURN(made.pattern, Pattern(word));
    key += " " + made.text;
  }
  ShellCondition(*this, false, std::move(words)).Run(Spelled(key));
  return {};
}

void ShellRun::Test(const std::vector<std::string>& words) {
  std::vector<ShellCondition::Word> made;
  for (const std::string& word : words) {
    made.push_back({word, word, {}});
  }
  ShellCondition(*this, true, std::move(made)).Run(Spelled("[[ " + base::Join(words, " ")));
}

// Numbers as the shell computes them: 64 bits that wrap.
class ShellArithmetic {
 public:
  ShellArithmetic(ShellRun& run, std::string_view text, int depth)
      : run_(run), text_(text), depth_(depth) {}

  // nullopt: undecidable.
  std::optional<int64_t> Value() {
    const std::optional<int64_t> value = Comma();
    SkipBlanks();
    return at_ == text_.size() && valid_ ? value : std::nullopt;
  }

 private:
  using Number = std::optional<int64_t>;
  static constexpr int kDeepest = 40;

  void SkipBlanks() {
    while (at_ < text_.size() && std::isspace(static_cast<unsigned char>(text_[at_])) != 0) {
      ++at_;
    }
  }
  bool Take(std::string_view sign) {
    SkipBlanks();
    if (!text_.substr(at_).starts_with(sign)) {
      return false;
    }
    at_ += sign.size();
    return true;
  }
  Number Comma() {
    Number value = Assignment();
    while (Take(",")) {
      value = Assignment();
    }
    return value;
  }
  Number Assignment() {
    SkipBlanks();
    const size_t begin = at_;
    const std::string name = Name();
    if (!name.empty()) {
      for (const std::string_view sign : {"=", "+=", "-=", "*=", "/=", "%=", "<<=", ">>="}) {
        SkipBlanks();
        const std::string_view rest = text_.substr(at_);
        if (!rest.starts_with(sign) || (sign == "=" && rest.starts_with("=="))) {
          continue;
        }
        at_ += sign.size();
        Number value = Assignment();
        if (sign != "=") {
          value = Binary(sign.substr(0, sign.size() - 1), Variable(name), value);
        }
        Set(name, value);
        return value;
      }
    }
    at_ = begin;
    return Ternary();
  }
  Number Ternary() {
    if (++nesting_ > kDeepest) {
      valid_ = false;
      --nesting_;
      return std::nullopt;
    }
    Number condition = Level(0);
    if (Take("?")) {
      const Number yes = Assignment();
      if (!Take(":")) {
        valid_ = false;
      }
      const Number no = Assignment();
      condition = condition ? (*condition != 0 ? yes : no) : std::nullopt;
    }
    --nesting_;
    return condition;
  }
  // From the weakest to the strongest.
  Number Level(size_t level) {
    static const std::vector<std::vector<std::string_view>> kLevels = {{"||"},
                                                                       {"&&"},
                                                                       {"|"},
                                                                       {"^"},
                                                                       {"&"},
                                                                       {"==", "!="},
                                                                       {"<=", ">=", "<", ">"},
                                                                       {"<<", ">>"},
                                                                       {"+", "-"},
                                                                       {"*", "/", "%"}};
    if (level == kLevels.size()) {
      return Power();
    }
    Number left = Level(level + 1);
    while (true) {
      SkipBlanks();
      const std::string_view rest = text_.substr(at_);
      std::string_view found;
      for (const std::string_view sign : kLevels[level]) {
        const char next = rest.size() > sign.size() ? rest[sign.size()] : '\0';
        const bool other = (next == '=' && sign != "==" && sign != "!=" && sign != "<=" &&
                            sign != ">=" && sign != "&&" && sign != "||") ||
                           (sign.size() == 1 && next == sign[0] && (sign != "+" && sign != "-")) ||
                           (sign == "*" && next == '*');
        if (rest.starts_with(sign) && !other) {
          found = sign;
          break;
        }
      }
      if (found.empty()) {
        return left;
      }
      at_ += found.size();
      left = Binary(found, left, Level(level + 1));
    }
  }
  Number Power() {
    const Number base = Unary();
    if (!Take("**")) {
      return base;
    }
    if (++nesting_ > kDeepest) {
      valid_ = false;
    }
    const Number exponent = valid_ ? Power() : std::nullopt;
    --nesting_;
    if (!base || !exponent || *exponent < 0) {
      return std::nullopt;
    }
    uint64_t result = 1;
    for (int64_t i = 0; i < std::min<int64_t>(*exponent, 64); ++i) {
      result *= static_cast<uint64_t>(*base);
    }
    if (*exponent > 64 && *base != 0 && *base != 1) {
      return std::nullopt;
    }
    return static_cast<int64_t>(result);
  }
  Number Unary() {
    if (++nesting_ > kDeepest) {
      valid_ = false;
      --nesting_;
      return std::nullopt;
    }
    Number value;
    if (Take("++") || Take("--")) {
      const bool plus = text_[at_ - 1] == '+';
      const std::string name = Name();
      value = name.empty() ? std::nullopt : Binary(plus ? "+" : "-", Variable(name), 1);
      Set(name, value);
    } else if (Take("!")) {
      value = Unary();
      value = value ? Number(*value == 0 ? 1 : 0) : std::nullopt;
    } else if (Take("~")) {
      value = Unary();
      value = value ? Number(~*value) : std::nullopt;
    } else if (Take("-")) {
      value = Binary("-", 0, Unary());
    } else if (Take("+")) {
      value = Unary();
    } else {
      value = Primary();
    }
    --nesting_;
    return value;
  }
  Number Primary() {
    if (Take("(")) {
      const Number value = Comma();
      if (!Take(")")) {
        valid_ = false;
      }
      return value;
    }
    SkipBlanks();
    if (at_ < text_.size() && base::IsDigit(text_[at_])) {
      return Literal();
    }
    const std::string name = Name();
    if (name.empty()) {
      valid_ = false;
      return std::nullopt;
    }
    const Number value = Variable(name);
    if (Take("++")) {
      Set(name, Binary("+", value, 1));
    } else if (Take("--")) {
      Set(name, Binary("-", value, 1));
    }
    return value;
  }
  Number Literal() {
    const size_t begin = at_;
    while (at_ < text_.size() && (std::isalnum(static_cast<unsigned char>(text_[at_])) != 0)) {
      ++at_;
    }
    std::string_view digits = text_.substr(begin, at_ - begin);
    uint64_t radix = 10;
    if (digits.starts_with("0x") || digits.starts_with("0X")) {
      radix = 16;
      digits.remove_prefix(2);
    } else if (digits.size() > 1 && digits[0] == '0') {
      radix = 8;
    }
    uint64_t value = 0;
    for (const char c : digits) {
      const uint64_t digit =
          base::IsDigit(c)
              ? static_cast<uint64_t>(c - '0')
              : static_cast<uint64_t>(std::tolower(static_cast<unsigned char>(c)) - 'a' + 10);
      if (digit >= radix) {
        valid_ = false;
        return std::nullopt;
      }
      value = value * radix + digit;
    }
    return static_cast<int64_t>(value);
  }
  std::string Name() {
    SkipBlanks();
    const size_t begin = at_;
    if (at_ < text_.size() && StartsName(text_[at_])) {
      while (at_ < text_.size() && (StartsName(text_[at_]) || base::IsDigit(text_[at_]))) {
        ++at_;
      }
      if (at_ < text_.size() && text_[at_] == '[') {
        const size_t close = text_.find(']', at_);
        at_ = close == std::string_view::npos ? text_.size() : close + 1;
      }
    }
    return std::string(text_.substr(begin, at_ - begin));
  }
  Number Variable(const std::string& name) {
    const size_t bracket = name.find('[');
    const std::string index = bracket == std::string::npos
                                  ? std::string()
                                  : name.substr(bracket + 1, name.size() - bracket - 2);
    const Result<ShellRun::Reference> found =
        run_.LookUp(name.substr(0, bracket), index, "$" + name);
    if (!found.ok() || (*found).unknown || (*found).many) {
      return std::nullopt;
    }
    const std::string text = (*found).values.empty() ? std::string() : (*found).values[0];
    if (!(*found).is_set || base::Trim(text).empty()) {
      return 0;
    }
    if (HasUnknown(text) || depth_ > 8) {
      return std::nullopt;
    }
    return ShellArithmetic(run_, text, depth_ + 1).Value();
  }
  void Set(const std::string& name, Number value) {
    if (name.empty() || name.find('[') != std::string::npos) {
      valid_ = false;
      return;
    }
    run_.SetText(name, value ? std::to_string(*value)
                             : run_.UnknownText("$" + name, ShellUnknown::Kind::kOther));
  }
  static Number Binary(std::string_view sign, Number left, Number right) {
    if (!left || !right) {
      return std::nullopt;
    }
    const int64_t a = *left;
    const int64_t b = *right;
    const auto ua = static_cast<uint64_t>(a);
    const auto ub = static_cast<uint64_t>(b);
    if (sign == "+") {
      return static_cast<int64_t>(ua + ub);
    }
    if (sign == "-") {
      return static_cast<int64_t>(ua - ub);
    }
    if (sign == "*") {
      return static_cast<int64_t>(ua * ub);
    }
    if (sign == "/" || sign == "%") {
      if (b == 0 || (b == -1 && a == std::numeric_limits<int64_t>::min())) {
        return std::nullopt;
      }
      return sign == "/" ? a / b : a % b;
    }
    if (sign == "<<") {
      return static_cast<int64_t>(ua << (ub & 63U));
    }
    if (sign == ">>") {
      return a >> (ub & 63U);
    }
    if (sign == "&") {
      return a & b;
    }
    if (sign == "|") {
      return a | b;
    }
    if (sign == "^") {
      return a ^ b;
    }
    const bool truth = sign == "=="   ? a == b
                       : sign == "!=" ? a != b
                       : sign == "<"  ? a < b
                       : sign == ">"  ? a > b
                       : sign == "<=" ? a <= b
                       : sign == ">=" ? a >= b
                       : sign == "&&" ? a != 0 && b != 0
                                      : a != 0 || b != 0;
    return truth ? 1 : 0;
  }

  ShellRun& run_;
  std::string_view text_;
  size_t at_ = 0;
  const int depth_;
  int nesting_ = 0;
  bool valid_ = true;
};

Result<std::optional<int64_t>> ShellRun::Arithmetic(std::string_view text) {
  MSP_ASSIGN_OR_RETURN(const std::string expanded, OperandText(text));
  if (HasUnknown(expanded)) {
    return std::optional<int64_t>();
  }
  if (base::Trim(expanded).empty()) {
    return std::optional<int64_t>(0);
  }
  return ShellArithmetic(*this, expanded, 0).Value();
}

}  // namespace msprobe::analysis::config_check::internal
