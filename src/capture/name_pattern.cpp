#include "src/capture/name_pattern.h"

#include <array>

#define PCRE2_CODE_UNIT_WIDTH 8
#include <fmt/format.h>
#include <pcre2.h>

#include "src/base/log.h"
#include "src/base/strings.h"

namespace msprobe::capture {
namespace {

constexpr std::string_view kExactMark = "name-exact(";
constexpr std::string_view kExpressionMark = "name-regex(";
constexpr size_t kLongestExpression = 2000;
// Names are short: whatever needs more steps or memory than this is a runaway expression.
constexpr uint32_t kMatchSteps = 200'000;
constexpr uint32_t kMatchDepth = 2'000;
constexpr uint32_t kMatchHeapKibibytes = 1024;

template <auto kFree>
struct Freeing {
  template <typename Handle>
  void operator()(Handle* handle) const {
    kFree(handle);
  }
};

using MatchContext = std::unique_ptr<pcre2_match_context, Freeing<pcre2_match_context_free>>;

}  // namespace

struct NamePattern::Expression {
  std::unique_ptr<pcre2_code, Freeing<pcre2_code_free>> code;
  std::unique_ptr<pcre2_match_data, Freeing<pcre2_match_data_free>> scratch;
  MatchContext limits;
  bool given_up = false;
};

NamePattern::NamePattern(Kind kind, std::string_view text) : kind_(kind), text_(text) {}
NamePattern::NamePattern(NamePattern&&) noexcept = default;
NamePattern& NamePattern::operator=(NamePattern&&) noexcept = default;
NamePattern::~NamePattern() = default;

Result<NamePattern> NamePattern::Parse(std::string_view element) {
  const bool exact = element.starts_with(kExactMark);
  if (!exact && !element.starts_with(kExpressionMark)) {
    return NamePattern(Kind::kSubstring, element);
  }
  if (!element.ends_with(')')) {
    return UsageError(fmt::format("\"{}\" lacks its closing bracket", base::Printable(element)));
  }
  element.remove_prefix(exact ? kExactMark.size() : kExpressionMark.size());
  element.remove_suffix(1);
  if (exact) {
    return NamePattern(Kind::kExact, element);
  }
  if (element.size() > kLongestExpression) {
    return UsageError(fmt::format("an expression of {} bytes; allowed: at most {}", element.size(),
                                  kLongestExpression));
  }

  NamePattern pattern(Kind::kExpression, element);
  pattern.expression_ = std::make_unique<Expression>();
  Expression& expression = *pattern.expression_;
  int error = 0;
  PCRE2_SIZE offset = 0;
  expression.code.reset(pcre2_compile(reinterpret_cast<PCRE2_SPTR>(element.data()), element.size(),
                                      PCRE2_NEVER_BACKSLASH_C, &error, &offset, nullptr));
  if (expression.code == nullptr) {
    std::array<PCRE2_UCHAR, 256> text{};
    pcre2_get_error_message(error, text.data(), text.size());
    return UsageError(fmt::format("the expression \"{}\" is broken at character {}: {}",
                                  base::Printable(element), offset + 1,
                                  reinterpret_cast<const char*>(text.data())));
  }
  expression.scratch.reset(pcre2_match_data_create(1, nullptr));
  expression.limits.reset(pcre2_match_context_create(nullptr));
  if (expression.scratch == nullptr || expression.limits == nullptr) {
    return InternalError("no memory for an expression");
  }
  pcre2_set_match_limit(expression.limits.get(), kMatchSteps);
  pcre2_set_depth_limit(expression.limits.get(), kMatchDepth);
  pcre2_set_heap_limit(expression.limits.get(), kMatchHeapKibibytes);
  return pattern;
}

bool NamePattern::Matches(std::string_view name) {
  switch (kind_) {
    case Kind::kSubstring:
      return name.find(text_) != std::string_view::npos;
    case Kind::kExact:
      return name.starts_with(text_) && (name.size() == text_.size() || name[text_.size()] == '.');
    case Kind::kExpression:
      break;
  }
  if (expression_->given_up) {
    return false;
  }
  const int outcome =
      pcre2_match(expression_->code.get(), reinterpret_cast<PCRE2_SPTR>(name.data()), name.size(),
                  0, 0, expression_->scratch.get(), expression_->limits.get());
  if (outcome < 0 && outcome != PCRE2_ERROR_NOMATCH) {
    expression_->given_up = true;
    base::LogWarning(
        fmt::format("the expression \"{}\" takes too long for the name {}: it selects nothing from "
                    "here on",
                    base::Printable(text_), base::Printable(name)));
  }
  return outcome >= 0;
}

}  // namespace msprobe::capture
