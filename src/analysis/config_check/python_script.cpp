// A scanner cuts the text into statements: a statement ends at a line end outside of brackets and
// texts; comments are dropped. Of a statement without indentation the form NAME = LITERAL counts,
// and in any statement calls of add_argument with a default. Everything else is skipped, so that a
// file with errors, or of a newer Python, still gives what can be read. One pass; the memory of one
// statement.
#include "src/analysis/config_check/python_script.h"

#include <algorithm>
#include <cctype>
#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "src/analysis/config_check/printed_config.h"
#include "src/base/numbers.h"
#include "src/base/strings.h"

namespace msprobe::analysis::config_check::internal {
namespace {

constexpr size_t kLongestStatement = size_t{64} << 10U;  // longer ones hold data, not settings
constexpr size_t kMostParameters = 10'000;

bool IsNameChar(char c) { return std::isalnum(static_cast<unsigned char>(c)) != 0 || c == '_'; }

bool IsName(std::string_view text) {
  return !text.empty() && !base::IsDigit(text[0]) &&
         std::all_of(text.begin(), text.end(), &IsNameChar);
}

// Behind the text that begins at `at` with a quote: the place after its end. A text of one line
// that is not closed ends with the line.
size_t EndOfText(std::string_view text, size_t at) {
  const char quote = text[at];
  const std::string three(3, quote);
  const bool is_long = text.substr(at, 3) == three;
  for (size_t i = at + (is_long ? 3 : 1); i < text.size(); ++i) {
    if (text[i] == '\\') {
      ++i;
    } else if (is_long && text.substr(i, 3) == three) {
      return i + 3;
    } else if (!is_long && (text[i] == quote || text[i] == '\n')) {
      return text[i] == quote ? i + 1 : i;
    }
  }
  return text.size();
}

// The next statement from `at` on, without comments and with blanks for the line ends in it.
std::string NextStatement(std::string_view text, size_t& at) {
  std::string statement;
  int depth = 0;
  while (at < text.size()) {
    const char c = text[at];
    if (c == '#') {
      at = std::min(text.find('\n', at), text.size());
    } else if (c == '"' || c == '\'') {
      const size_t end = EndOfText(text, at);
      statement += text.substr(at, end - at);
      at = end;
    } else if (c == '\\' && text.substr(at + 1, 1) == "\n") {
      at += 2;
    } else if (c == '\n' && depth <= 0) {
      ++at;
      break;
    } else {
      depth += c == '(' || c == '[' || c == '{' ? 1 : c == ')' || c == ']' || c == '}' ? -1 : 0;
      statement += c == '\n' ? ' ' : c;
      ++at;
    }
  }
  return statement;
}

std::optional<json::Json> TextLiteral(std::string_view text) {
  if (text.size() < 2 || (text[0] != '"' && text[0] != '\'') || text.back() != text[0]) {
    return std::nullopt;
  }
  const std::string_view inner = text.substr(1, text.size() - 2);
  return inner.find(text[0]) == std::string_view::npos && inner.find('\\') == std::string_view::npos
             ? std::optional<json::Json>(std::string(inner))
             : std::nullopt;
}

std::optional<json::Json> NumberLiteral(std::string_view text) {
  std::string digits(text);
  std::erase(digits, '_');
  const size_t sign = !digits.empty() && (digits[0] == '-' || digits[0] == '+') ? 1 : 0;
  if (digits.size() == sign || !(base::IsDigit(digits[sign]) || digits[sign] == '.')) {
    return std::nullopt;
  }
  if (const auto whole = base::ParseInt(digits[0] == '+' ? digits.substr(1) : digits)) {
    return json::Json(*whole);
  }
  const std::optional<double> number = base::ParseDouble(digits);
  return number ? std::optional<json::Json>(*number) : std::nullopt;
}

std::optional<json::Json> Literal(std::string_view text) {
  text = base::Trim(text);
  if (text == "True" || text == "False") {
    return json::Json(text == "True");
  }
  if (text == "None") {
    return json::Json();
  }
  if (std::optional<json::Json> value = TextLiteral(text)) {
    return value;
  }
  if (!text.empty() && (text[0] == '[' || text[0] == '{' || text[0] == '(')) {
    LiteralLines lines;
    if (lines.FeedWhole(text) != LiteralLines::Fed::kDone) {
      return std::nullopt;
    }
    Result<json::Json> value = json::ParseDocument(lines.json());
    return value.ok() ? std::optional<json::Json>(*std::move(value)) : std::nullopt;
  }
  return NumberLiteral(text);
}

// The arguments of the call whose opening bracket is in front of `at`, cut at its commas; `at`
// becomes the place of its closing one.
std::vector<std::string_view> ArgumentsFrom(std::string_view text, size_t& at) {
  std::vector<std::string_view> arguments;
  int depth = 0;
  size_t begin = at;
  while (at < text.size()) {
    const char c = text[at];
    if (c == '"' || c == '\'') {
      at = EndOfText(text, at);
      continue;
    }
    if (c == ',' && depth == 0) {
      arguments.push_back(base::Trim(text.substr(begin, at - begin)));
      begin = at + 1;
    } else if (c == '(' || c == '[' || c == '{') {
      ++depth;
    } else if ((c == ')' || c == ']' || c == '}') && --depth < 0) {
      break;
    }
    ++at;
  }
  arguments.push_back(base::Trim(text.substr(begin, at - begin)));
  return arguments;
}

void ReadOptions(std::string_view statement, Parameters& parameters) {
  constexpr std::string_view kCall = "add_argument(";
  constexpr std::string_view kDefault = "default";
  for (size_t at = statement.find(kCall); at != std::string_view::npos;
       at = statement.find(kCall, at)) {
    std::string option;
    std::optional<json::Json> value;
    at += kCall.size();
    for (const std::string_view argument : ArgumentsFrom(statement, at)) {
      const std::optional<json::Json> text = TextLiteral(argument);
      if (text && json::TextOf(*text).starts_with("--") &&
          json::TextOf(*text).size() > option.size()) {
        option = json::TextOf(*text);
      } else if (argument.starts_with(kDefault)) {
        const std::string_view rest = base::Trim(argument.substr(kDefault.size()));
        value = rest.starts_with('=') ? Literal(rest.substr(1)) : std::nullopt;
      }
    }
    if (!option.empty() && value && parameters.size() < kMostParameters) {
      parameters.Set(fmt::format("{} (default)", option.substr(2)), *std::move(value));
    }
  }
}

void ReadAssignment(std::string_view statement, Parameters& parameters) {
  const size_t sign = statement.find('=');
  if (sign == std::string_view::npos || statement.empty() || !IsNameChar(statement[0])) {
    return;
  }
  // "LR: float = 1e-3"
  const std::string_view left = statement.substr(0, sign);
  const std::string_view name = base::Trim(left.substr(0, left.find(':')));
  if (!IsName(name) || parameters.size() >= kMostParameters) {
    return;
  }
  if (std::optional<json::Json> value = Literal(statement.substr(sign + 1))) {
    parameters.Set(std::string(name), *std::move(value));
  }
}

}  // namespace

Parameters ReadPythonScript(std::string_view text) {
  Parameters parameters;
  for (size_t at = 0; at < text.size();) {
    const std::string statement = NextStatement(text, at);
    if (statement.size() <= kLongestStatement) {
      ReadAssignment(statement, parameters);
      ReadOptions(statement, parameters);
    }
  }
  return parameters;
}

}  // namespace msprobe::analysis::config_check::internal
