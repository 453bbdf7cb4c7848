#include "src/commands/print.h"

#include <cstdio>

namespace msprobe::commands {

Status Print(std::string_view text) {
  if (std::fwrite(text.data(), 1, text.size(), stdout) != text.size()) {
    return IoError("cannot write to the standard output");
  }
  return {};
}

}  // namespace msprobe::commands
