// Names with placeholders, as the mapping rules write them: "layers.{n}.mlp.{p}". A placeholder
// stands for text without a dot, one whose name ends in '*' ("{path*}") for any text; never for
// nothing, and always for as little as fits.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "msprobe/status.h"

namespace msprobe::analysis::ckpt {

// What each placeholder stands for, in order of first appearance.
using Bindings = std::vector<std::pair<std::string_view, std::string_view>>;

class NamePattern {
 public:
  // Errors are sentences without a place: the caller knows the line.
  static Result<NamePattern> Parse(std::string text);

  // True where the whole name fits; `bindings` then holds views of the pattern and the name. One
  // pass over the name, without trying again.
  bool Match(std::string_view name, Bindings& bindings) const;
  // The name that the pattern stands for; every placeholder must be bound.
  std::string Format(const Bindings& bindings) const;
  size_t FormattedBytes(const Bindings& bindings) const;

  // Without placeholders: a name.
  bool is_literal() const { return tokens_.size() == 1 && !tokens_.front().placeholder; }

  const std::string& text() const { return text_; }
  std::vector<std::string> Placeholders() const;  // sorted, each once

 private:
  struct Token {
    size_t begin = 0;  // of the literal or of the placeholder's name, in text_
    size_t size = 0;
    bool placeholder = false;
    bool spans_dots = false;
  };
  std::string_view Text(const Token& token) const {
    return std::string_view(text_).substr(token.begin, token.size);
  }

  std::string text_;
  std::vector<Token> tokens_;
};

}  // namespace msprobe::analysis::ckpt
