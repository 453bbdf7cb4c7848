#include "src/base/secrets.h"

#include <algorithm>
#include <cstddef>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "src/base/secret_scanner.h"

namespace msprobe::base {
namespace {

using internal::kNone;

// Rounds until nothing changes: what one replaces may uncover a value to the next. Ordinary texts
// need one and one to see it; a text that needs more was made to and is masked as a whole.
constexpr int kMostRounds = 8;

bool OnlyStars(std::string_view text) { return text.find_first_not_of('*') == kNone; }

Masked MaskOnce(std::string_view text) {
  Masked result;
  size_t copied = 0;
  for (const internal::Span& span : internal::SecretScanner(text).Run()) {
    if (span.begin < copied || OnlyStars(text.substr(span.begin, span.end - span.begin))) {
      continue;
    }
    result.text += text.substr(copied, span.begin - copied);
    result.text += span.quote;
    result.text += kMaskedText;
    result.text += span.quote;
    copied = span.end;
    ++result.count;
  }
  result.text += text.substr(copied);
  return result;
}

}  // namespace

Masked MaskText(std::string_view text) {
  Masked result{std::string(text), 0};
  for (int round = 0; round < kMostRounds; ++round) {
    Masked next = MaskOnce(result.text);
    if (next.count == 0) {
      return result;
    }
    result = {std::move(next.text), result.count + next.count};
  }
  return {std::string(kMaskedText), result.count};
}

Masked MaskValue(std::string_view name, std::string_view value) {
  return IsSecretValue(SecrecyOf(name), value) ? Masked{std::string(kMaskedText), 1}
                                               : MaskText(value);
}

std::vector<std::string> MaskArguments(std::span<const std::string> arguments, size_t* count) {
  std::vector<std::string> result;
  Secrecy next = Secrecy::kNone;
  for (const std::string& argument : arguments) {
    const size_t dashes = std::min(argument.find_first_not_of('-'), argument.size());
    const size_t sign = argument.find('=');
    const std::string_view name = std::string_view(argument).substr(dashes, sign - dashes);
    const bool is_option = dashes > 0 && !name.empty() && internal::IsLetter(name[0]);
    Masked masked;
    if (next != Secrecy::kNone && !is_option && IsSecretValue(next, argument)) {
      masked = {std::string(kMaskedText), 1};
    } else if (sign != kNone && std::all_of(name.begin(), name.end(), internal::IsNameChar)) {
      masked = MaskValue(name, std::string_view(argument).substr(sign + 1));
      masked.text.insert(0, argument.substr(0, sign + 1));
    } else {
      masked = MaskText(argument);
    }
    next = is_option && sign == kNone ? SecrecyOf(name) : Secrecy::kNone;
    if (count != nullptr) {
      *count += masked.count;
    }
    result.push_back(std::move(masked.text));
  }
  return result;
}

}  // namespace msprobe::base
