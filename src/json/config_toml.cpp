// TOML, read by toml++ into the tree that the other configurations have. The library walks tables
// and lists recursively, also when it frees them, so what may nest is limited before it looks:
// brackets by its own limit, and dotted names, which it does not count, by the dots in a line.
#define TOML_EXCEPTIONS 0
#define TOML_HEADER_ONLY 1
#define TOML_ENABLE_FORMATTERS 0
#define TOML_MAX_NESTED_VALUES 64

#include "src/json/config_toml.h"

#include <algorithm>
#include <string>
#include <string_view>
#include <utility>

#include <fmt/format.h>
#include <toml++/impl/preprocessor.h>
// In a release the library tells the compiler that its assertions hold, which is not so for a few
// broken files ("[" in front of a control character); it has an error for what they ask, too.
#undef TOML_ASSERT
#undef TOML_ASSERT_ASSUME
#define TOML_ASSERT(expression) static_cast<void>(0)
#define TOML_ASSERT_ASSUME(expression) static_cast<void>(0)
#include <toml++/toml.h>

#include "src/base/files.h"
#include "src/base/strings.h"
#include "src/base/utf8.h"
#include "src/json/config.h"
#include "src/json/tree_builder.h"

namespace msprobe::json {
namespace {

using internal::TreeBuilder;
using internal::TreeUse;

constexpr uint64_t kTomlLimitBytes = uint64_t{256} << 10U;  // people write some hundred
constexpr std::ptrdiff_t kMostDots = 200;                   // of a line

int NodeLine(const toml::node& node) { return static_cast<int>(node.source().begin.line); }

// Also control characters, which TOML does not allow, are found before the library sees them.
Status CheckLines(std::string_view text, const std::string& file_name) {
  int number = 0;
  for (size_t at = 0; at < text.size();) {
    const size_t end = std::min(text.find('\n', at), text.size());
    const std::string_view line = text.substr(at, end - at);
    ++number;
    if (std::any_of(line.begin(), line.end(),
                    [](char c) { return c >= 0 && c < ' ' && c != '\t' && c != '\r'; })) {
      return BadFormatError(fmt::format("{} line {}: a control character", file_name, number));
    }
    if (std::count(line.begin(), line.end(), '.') > kMostDots) {
      return BadFormatError(
          fmt::format("{} line {}: more than {} dots", file_name, number, kMostDots));
    }
    at = end + 1;
  }
  return {};
}

bool AddNode(const toml::node& node, TreeBuilder& builder) {
  const int line = NodeLine(node);
  if (const toml::table* const table = node.as_table()) {
    if (!builder.Begin(Json::value_t::object, line)) {
      return false;
    }
    for (const auto& [key, value] : *table) {
      if (!builder.Key(std::string(key.str()), NodeLine(value)) || !AddNode(value, builder)) {
        return false;
      }
    }
    return builder.End();
  }
  if (const toml::array* const list = node.as_array()) {
    if (!builder.Begin(Json::value_t::array, line)) {
      return false;
    }
    for (const toml::node& item : *list) {
      if (!AddNode(item, builder)) {
        return false;
      }
    }
    return builder.End();
  }
  if (const auto* const text = node.as_string()) {
    return builder.Add(text->get(), line);
  }
  if (const auto* const number = node.as_integer()) {
    return builder.Add(number->get(), line);
  }
  if (const auto* const number = node.as_floating_point()) {
    return builder.Add(number->get(), line);
  }
  if (const auto* const flag = node.as_boolean()) {
    return builder.Add(flag->get(), line);
  }
  return builder.Fail(line, "dates and times are not known here");
}

}  // namespace

Result<Config> ParseTomlConfig(std::string_view text, std::string file_name) {
  MSP_RETURN_IF_ERROR(CheckLines(text, file_name));
  const toml::parse_result parsed = toml::parse(text);
  if (!parsed) {
    const toml::parse_error& error = parsed.error();
    return BadFormatError(fmt::format("{} line {}: {}", file_name, error.source().begin.line,
                                      base::Printable(error.description())));
  }
  TreeBuilder builder(TreeUse::kSettings);
  if (!AddNode(parsed.table(), builder)) {
    return Status(builder.status()).AddContext(file_name);
  }
  return Config(std::move(file_name), builder.Take());
}

Result<Config> LoadTomlConfig(const std::filesystem::path& path) {
  MSP_ASSIGN_OR_RETURN(const std::string text, base::ReadTextFile(path, kTomlLimitBytes));
  return ParseTomlConfig(text, path.string());
}

}  // namespace msprobe::json
