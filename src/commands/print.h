// Results on the standard output.
#pragma once

#include <string_view>

#include "msprobe/status.h"

namespace msprobe::commands {

// An error when the text cannot be written: a full disk behind a pipe, say.
Status Print(std::string_view text);

// The same of lines that hold what stood in files, such as csv. On a terminal, which such text must
// not steer, everything that is not printable becomes "?"; files and pipes get the bytes as they
// are.
Status PrintUntrusted(std::string_view text);

}  // namespace msprobe::commands
