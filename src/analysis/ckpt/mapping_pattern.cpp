#include "src/analysis/ckpt/mapping_pattern.h"

#include <algorithm>

#include <fmt/format.h>

namespace msprobe::analysis::ckpt {
namespace {

// Of one name, which has a few: each is looked for among the others.
constexpr size_t kMostPlaceholders = 64;

const std::string_view* Bound(const Bindings& bindings, std::string_view placeholder) {
  const auto found =
      std::find_if(bindings.begin(), bindings.end(),
                   [placeholder](const auto& binding) { return binding.first == placeholder; });
  return found == bindings.end() ? nullptr : &found->second;
}

bool IsPlaceholderName(std::string_view name) {
  return !name.empty() && std::all_of(name.begin(), name.end(), [](char c) {
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '_';
  });
}

}  // namespace

Result<NamePattern> NamePattern::Parse(std::string text) {
  NamePattern pattern;
  pattern.text_ = std::move(text);
  const std::string_view all = pattern.text_;
  if (all.empty()) {
    return UsageError("a name must not be empty");
  }
  size_t at = 0;
  size_t placeholders = 0;
  while (at < all.size()) {
    if (all[at] != '{') {
      const size_t end = std::min(all.find('{', at), all.size());
      if (all.substr(at, end - at).find('}') != std::string_view::npos) {
        return UsageError(fmt::format("\"{}\": a '}}' without its '{{'", all));
      }
      pattern.tokens_.push_back({at, end - at});
      at = end;
      continue;
    }
    const size_t close = all.find('}', at);
    if (close == std::string_view::npos) {
      return UsageError(fmt::format("\"{}\": a '{{' without its '}}'", all));
    }
    Token token{at + 1, close - at - 1, true, false};
    if (token.size > 0 && all[close - 1] == '*') {
      token.spans_dots = true;
      --token.size;
    }
    if (!IsPlaceholderName(pattern.Text(token))) {
      return UsageError(
          fmt::format("\"{}\": a placeholder is a word in braces such as {{n}}, or {{path*}} for "
                      "text with dots",
                      all));
    }
    if (!pattern.tokens_.empty() && pattern.tokens_.back().placeholder) {
      return UsageError(fmt::format("\"{}\": two placeholders need some text between them", all));
    }
    if (++placeholders > kMostPlaceholders) {
      return UsageError(
          fmt::format("\"{}\": more than {} placeholders", all.substr(0, 200), kMostPlaceholders));
    }
    pattern.tokens_.push_back(token);
    at = close + 1;
  }
  return pattern;
}

bool NamePattern::Match(std::string_view name, Bindings& bindings) const {
  bindings.clear();
  size_t at = 0;
  for (size_t i = 0; i < tokens_.size(); ++i) {
    const Token& token = tokens_[i];
    if (!token.placeholder) {
      if (name.substr(at, token.size) != Text(token)) {
        return false;
      }
      at += token.size;
      continue;
    }
    size_t end = name.size();
    if (const std::string_view* known = Bound(bindings, Text(token))) {
      if (name.substr(at, known->size()) != *known) {
        return false;
      }
      at += known->size();
      continue;
    }
    if (i + 1 < tokens_.size()) {
      const std::string_view next = Text(tokens_[i + 1]);
      if (i + 2 == tokens_.size()) {
        // The last literal ends the name, so that "{path*}.gamma" fits "a.gamma.b.gamma".
        if (!name.ends_with(next) || name.size() < at + next.size()) {
          return false;
        }
        end = name.size() - next.size();
      } else {
        end = at < name.size() ? name.find(next, at + 1) : std::string_view::npos;
      }
    }
    if (end == std::string_view::npos || end <= at) {
      return false;
    }
    const std::string_view value = name.substr(at, end - at);
    if (!token.spans_dots && value.find('.') != std::string_view::npos) {
      return false;
    }
    bindings.emplace_back(Text(token), value);
    at = end;
  }
  return at == name.size();
}

std::string NamePattern::Format(const Bindings& bindings) const {
  std::string name;
  for (const Token& token : tokens_) {
    if (!token.placeholder) {
      name += Text(token);
    } else if (const std::string_view* value = Bound(bindings, Text(token))) {
      name += *value;
    }
  }
  return name;
}

size_t NamePattern::FormattedBytes(const Bindings& bindings) const {
  size_t bytes = 0;
  for (const Token& token : tokens_) {
    const std::string_view* value = token.placeholder ? Bound(bindings, Text(token)) : nullptr;
    bytes += !token.placeholder ? token.size : value != nullptr ? value->size() : 0;
  }
  return bytes;
}

std::vector<std::string> NamePattern::Placeholders() const {
  std::vector<std::string> names;
  for (const Token& token : tokens_) {
    if (token.placeholder) {
      names.emplace_back(Text(token));
    }
  }
  std::sort(names.begin(), names.end());
  names.erase(std::unique(names.begin(), names.end()), names.end());
  return names;
}

}  // namespace msprobe::analysis::ckpt
