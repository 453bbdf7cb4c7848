// What people may write in JSON, taken out for a parser that knows the standard
// only.
#pragma once

#include <string>
#include <string_view>

#include "src/json/config.h"

namespace msprobe::json::internal {

// A text of the same length with everything else in the same place: comments (// and /* */, all but
// their line breaks) and trailing commas become blanks; NaN, Infinity and -Infinity become the
// number 0.0, as long as they; NUL bytes outside of texts become U+0001, because some parsers take
// them for the end. In data (TreeUse::kData), which Python may have written, half a surrogate pair,
// "\ud800", becomes "\ufffd": no UTF-8 can hold it. A comment without an end stays.
std::string StrictJson(std::string_view text, TreeUse use);

}  // namespace msprobe::json::internal
