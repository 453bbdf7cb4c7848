// Regular expressions of a configuration that may be anybody's.
#pragma once

#include <memory>
#include <string>
#include <string_view>

#include "msprobe/status.h"

namespace msprobe::base {

// A Perl-compatible expression, which reads text and classes such as \w as Python's re does. Each
// search may try a limited number of ways to match: there are expressions of a few characters that
// have more of them than anybody can wait for.
class BoundedExpression {
 public:
  // kUsage: broken (with the position), or longer than 2,000 bytes.
  static Result<BoundedExpression> Parse(std::string_view expression);
  BoundedExpression(BoundedExpression&&) noexcept;
  BoundedExpression& operator=(BoundedExpression&&) noexcept;
  ~BoundedExpression();

  enum class Outcome { kFound, kNotFound, kTakesTooLong };
  // Anywhere in the text. One thread at a time.
  Outcome Search(std::string_view text);

  const std::string& text() const { return text_; }

 private:
  struct Compiled;

  explicit BoundedExpression(std::string_view text);

  std::string text_;
  std::unique_ptr<Compiled> compiled_;
};

}  // namespace msprobe::base
