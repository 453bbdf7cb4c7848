// Results on the standard output.
#pragma once

#include <string_view>

#include "msprobe/status.h"

namespace msprobe::commands {

// An error when the text cannot be written: a full disk behind a pipe, say.
Status Print(std::string_view text);

}  // namespace msprobe::commands
