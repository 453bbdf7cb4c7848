// What the shell's patterns match, and the words that braces stand for.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "src/analysis/config_check/shell_syntax.h"

namespace msprobe::analysis::config_check::internal {

// Around the number of a ShellUnknown inside of a text.
inline constexpr char kOpenUnknown = '\x01';
inline constexpr char kCloseUnknown = '\x02';
// Something in it is a ShellUnknown.
bool HasUnknown(std::string_view text);

// Matches a pattern of the shell against a text; nullopt: undecidable.
std::optional<bool> MatchesPattern(std::string_view pattern, std::string_view text);
// The pattern that matches nothing but the text.
std::string EscapedPattern(std::string_view text);
// A regular expression of single characters, classes and their repetitions, possibly several
// between bars; nullopt: one that has more.
std::optional<bool> MatchesRegex(std::string_view regex, std::string_view text);

// {a,b} and {1..4}: the words that bash makes of one; the word itself when it has no such braces.
std::vector<ShellWord> WordsOfBraces(const ShellWord& word);

}  // namespace msprobe::analysis::config_check::internal
