#include "src/commands/print.h"

#include <cstdio>

#include <unistd.h>

#include "src/base/strings.h"

namespace msprobe::commands {

Status Print(std::string_view text) {
  if (std::fwrite(text.data(), 1, text.size(), stdout) != text.size()) {
    return IoError("cannot write to the standard output");
  }
  return {};
}

Status PrintUntrusted(std::string_view text) {
  return ::isatty(STDOUT_FILENO) == 1
             ? Print(base::Printable(base::ReplaceAll(text, "\r\n", "\n"), "\n\t"))
             : Print(text);
}

}  // namespace msprobe::commands
