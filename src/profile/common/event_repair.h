// Inside of the room: events whose text is no JSON, spelled as JSON wants it as far as one can tell
// what was meant: bare words such as inf, backslashes and control characters that are not escaped,
// commas too many, values that are missing.
#pragma once

#include <string>
#include <string_view>

namespace msprobe::profile {

// `by_what_follows`: quotes end a text where what follows looks like that, and nowhere else: that
// of "C:\work\" does, those inside of "operator "" _a" do not.
std::string RepairedEvent(std::string_view text, bool by_what_follows);

}  // namespace msprobe::profile
