// [ ... ], test and [[ ... ]], where what cannot be known makes a condition undecided.
#include <algorithm>
#include <array>
#include <string_view>
#include <utility>

#include <fmt/format.h>

#include "src/analysis/config_check/shell_patterns.h"
#include "src/analysis/config_check/shell_run.h"
#include "src/base/strings.h"

namespace msprobe::analysis::config_check::internal {
enum class ShellTruth : uint8_t { kFalse, kTrue, kUnknown };

static ShellTruth Not(ShellTruth truth) {
  return truth == ShellTruth::kUnknown ? truth
         : truth == ShellTruth::kTrue  ? ShellTruth::kFalse
                                       : ShellTruth::kTrue;
}
static ShellTruth TruthOf(bool value) { return value ? ShellTruth::kTrue : ShellTruth::kFalse; }

// A condition over words: what [ and [[ have in common.
class ShellCondition {
 public:
  using Outcome = ShellRun::Outcome;

  explicit ShellCondition(ShellRun& run) : run_(run) {}

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

 protected:
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

  ShellRun& run_;
};

namespace {

// [ ... ] and test.
class TestWords : public ShellCondition {
 public:
  TestWords(ShellRun& run, const std::vector<std::string>& words)
      : ShellCondition(run), words_(words) {}

  Value All() {
    if (words_.empty()) {
      return Of(false);
    }
    Value value = Or();
    return at_ == words_.size() ? value : Unknown();
  }

 private:
  bool Is(std::string_view word) const { return at_ < words_.size() && words_[at_] == word; }
  size_t left() const { return words_.size() - at_; }
  Value Or() {
    Value value = And();
    while (Is("-o")) {
      ++at_;
      value = Either(value, And());
    }
    return value;
  }
  Value And() {
    Value value = Term();
    while (Is("-a")) {
      ++at_;
      value = Both(value, Term());
    }
    return value;
  }
  Value Term() {
    if (left() == 0 || ++depth_ > 100) {
      return Unknown();
    }
    if (left() >= 3 && IsBinary(words_[at_ + 1])) {
      at_ += 3;
      return Binary(words_[at_ - 3], words_[at_ - 2], words_[at_ - 1], false);
    }
    if (Is("!") && left() > 1) {
      ++at_;
      return Inverted(Term());
    }
    if (Is("(") && left() > 2) {
      ++at_;
      Value value = Or();
      at_ += Is(")") ? 1 : 0;
      return value;
    }
    if (left() >= 2 && IsUnary(words_[at_])) {
      at_ += 2;
      return Unary(words_[at_ - 2], words_[at_ - 1]);
    }
    ++at_;
    return Unary("-n", words_[at_ - 1]);
  }

  const std::vector<std::string>& words_;
  size_t at_ = 0;
  int depth_ = 0;
};

}  // namespace

// [[ ... ]]: what stands unquoted behind == is a pattern.
class ShellConditionWords : public ShellCondition {
 public:
  struct Word {
    std::string sign;  // unquoted text as it stands
    std::string text;
    std::string pattern;
  };
  ShellConditionWords(ShellRun& run, std::vector<Word> words)
      : ShellCondition(run), words_(std::move(words)) {}

  Value All() {
    Value value = Or();
    return at_ == words_.size() ? value : Unknown();
  }

 private:
  bool Is(std::string_view sign) const { return at_ < words_.size() && words_[at_].sign == sign; }
  Value Or() {
    Value value = And();
    while (Is("||")) {
      ++at_;
      value = Either(value, And());
    }
    return value;
  }
  Value And() {
    Value value = Term();
    while (Is("&&")) {
      ++at_;
      value = Both(value, Term());
    }
    return value;
  }
  Value Term() {
    if (at_ >= words_.size() || ++depth_ > 100) {
      return Unknown();
    }
    if (Is("!")) {
      ++at_;
      return Inverted(Term());
    }
    if (Is("(")) {
      ++at_;
      Value value = Or();
      at_ += Is(")") ? 1 : 0;
      return value;
    }
    if (at_ + 2 < words_.size() && IsBinary(words_[at_ + 1].sign)) {
      at_ += 3;
      const std::string& sign = words_[at_ - 2].sign;
      const bool compares = sign == "=" || sign == "==" || sign == "!=";
      return Binary(words_[at_ - 3].text, sign,
                    compares || sign == "=~" ? words_[at_ - 1].pattern : words_[at_ - 1].text,
                    compares);
    }
    if (at_ + 1 < words_.size() && IsUnary(words_[at_].sign)) {
      at_ += 2;
      return Unary(words_[at_ - 2].sign, words_[at_ - 1].text);
    }
    ++at_;
    return Unary("-n", words_[at_ - 1].text);
  }

  std::vector<Word> words_;
  size_t at_ = 0;
  int depth_ = 0;
};

Status ShellRun::EvaluateCondition(const ShellNode& node) {
  std::vector<ShellConditionWords::Word> words;
  std::string key = "[[";
  for (const ShellWord& word : node.words) {
    ShellConditionWords::Word& made = words.emplace_back();
    made.sign = word.Plain();
    MSP_ASSIGN_OR_RETURN(made.text, Text(word));
    MSP_ASSIGN_OR_RETURN(made.pattern, Pattern(word));
    key += " " + made.text;
  }
  ShellConditionWords condition(*this, std::move(words));
  condition.Finish(condition.All(), Spelled(key));
  return {};
}

void ShellRun::Test(const std::vector<std::string>& words) {
  TestWords condition(*this, words);
  condition.Finish(condition.All(), Spelled("[[ " + base::Join(words, " ")));
}

}  // namespace msprobe::analysis::config_check::internal
