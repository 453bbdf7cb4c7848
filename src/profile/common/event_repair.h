// Inside of the room: events whose text is no JSON, spelled as JSON wants it as far as one can tell
// what was meant: bare words such as inf, backslashes and control characters that are not escaped,
// commas too many, values that are missing.
#pragma once

#include <string>
#include <string_view>

namespace msprobe::profile {

// `quote_ends`: a quote behind a backslash ends a text where what follows looks like that, as
// behind "C:\work\".
std::string RepairedEvent(std::string_view text, bool quote_ends);

}  // namespace msprobe::profile
