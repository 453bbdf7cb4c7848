// Lets tests/python/number_text_test.py hold our spellings against Python's. The first argument
// says what the lines of stdin are and what is answered for each:
//   repr     a double's 64 bits in hex -> PythonFloatRepr
//   general  a double's 64 bits in hex -> %.16g
//   parse    any text                  -> the 64 bits in hex, or "none"
//   text     bytes in hex              -> AppendPythonTextRepr
#include <bit>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <iostream>
#include <string>
#include <string_view>

#include "src/base/numbers.h"

namespace {

double FromHex(const std::string& line) {
  return std::bit_cast<double>(static_cast<uint64_t>(std::strtoull(line.c_str(), nullptr, 16)));
}

std::string Answer(std::string_view mode, const std::string& line) {
  std::string out;
  if (mode == "repr") {
    msprobe::base::AppendPythonFloatRepr(FromHex(line), out);
  } else if (mode == "general") {
    msprobe::base::AppendGeneral(FromHex(line), 16, out);
  } else if (mode == "parse") {
    const std::optional<double> value = msprobe::base::ParseDouble(line);
    char text[20] = "none";
    if (value.has_value()) {
      std::snprintf(text, sizeof(text), "%016llx",
                    static_cast<unsigned long long>(std::bit_cast<uint64_t>(*value)));
    }
    out = text;
  } else {
    std::string bytes;
    for (size_t at = 0; at + 1 < line.size(); at += 2) {
      bytes += static_cast<char>(std::strtoul(line.substr(at, 2).c_str(), nullptr, 16));
    }
    msprobe::base::AppendPythonTextRepr(bytes, out);
  }
  return out;
}

}  // namespace

int main(int argc, char** argv) {
  const std::string_view mode = argc > 1 ? argv[1] : "";
  if (mode != "repr" && mode != "general" && mode != "parse" && mode != "text") {
    return 2;
  }
  std::string line;
  while (std::getline(std::cin, line)) {
    std::cout << Answer(mode, line) << '\n';
  }
  return 0;
}
