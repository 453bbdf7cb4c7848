// Inside of the room: one element of `list` or `tensor_list`.
#pragma once

#include <optional>
#include <string>
#include <string_view>

#include "msprobe/status.h"

#include "src/base/bounded_expression.h"

namespace msprobe::capture {

// "linear": any name that holds the text. "name-exact(Functional.linear.1)": this name and what
// begins with it and a dot, so not Functional.linear.10. "name-regex(attn.*proj)": a
// Perl-compatible expression, searched anywhere in the name.
class NamePattern {
 public:
  static Result<NamePattern> Parse(std::string_view element);

  // An expression that takes unreasonably long for a name is given up with a warning and matches
  // nothing from then on. One thread at a time.
  bool Matches(std::string_view name);

 private:
  enum class Kind { kSubstring, kExact, kExpression };

  NamePattern(Kind kind, std::string_view text);

  Kind kind_;
  std::string text_;
  std::optional<base::BoundedExpression> expression_;
};

}  // namespace msprobe::capture
