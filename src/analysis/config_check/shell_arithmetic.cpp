// Numbers of $((...)), ((...)), let and of indices.
#include <algorithm>
#include <cctype>
#include <limits>

#include "src/analysis/config_check/shell_patterns.h"
#include "src/analysis/config_check/shell_run.h"
#include "src/base/numbers.h"
#include "src/base/strings.h"

namespace msprobe::analysis::config_check::internal {

// Numbers as the shell computes them: 64 bits that wrap.
class ShellArithmetic {
 public:
  ShellArithmetic(ShellRun& run, std::string_view text, int depth)
      : run_(run), text_(text), depth_(depth) {}

  // nullopt: it cannot be told.
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
