#include "src/capture/name_pattern.h"

#include <utility>

#include <fmt/format.h>

#include "src/base/log.h"
#include "src/base/strings.h"

namespace msprobe::capture {
namespace {

constexpr std::string_view kExactMark = "name-exact(";
constexpr std::string_view kExpressionMark = "name-regex(";

}  // namespace

NamePattern::NamePattern(Kind kind, std::string_view text) : kind_(kind), text_(text) {}

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
  MSP_ASSIGN_OR_RETURN(base::BoundedExpression expression, base::BoundedExpression::Parse(element));
  NamePattern pattern(Kind::kExpression, element);
  pattern.expression_ = std::move(expression);
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
  if (!expression_) {
    return false;
  }
  const auto outcome = expression_->Search(name);
  if (outcome == base::BoundedExpression::Outcome::kTakesTooLong) {
    base::LogWarning(
        fmt::format("the expression \"{}\" takes too long for the name {}: it selects nothing from "
                    "here on",
                    base::Printable(text_), base::Printable(name)));
    expression_.reset();
  }
  return outcome == base::BoundedExpression::Outcome::kFound;
}

}  // namespace msprobe::capture
