// An element of a capture's list, a regular expression among them, and a name behind the first line
// end.
#include <cstdint>

#include "src/capture/filters.h"
#include "tests/fuzz/input_folder.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using msprobe::capture::NamePattern;
  const std::string_view text = msprobe::fuzz::TextOf(data, size);
  const size_t end = std::min(text.find('\n'), text.size());
  msprobe::Result<NamePattern> pattern = NamePattern::Parse(text.substr(0, end));
  if (pattern.ok()) {
    static_cast<void>(pattern->Matches("Functional.linear.0.forward"));
    static_cast<void>(pattern->Matches(text.substr(end)));
  }
  return 0;
}
