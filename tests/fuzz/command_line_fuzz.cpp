// Arguments of the program, one a line: parsed, not run.
#include <cstdint>
#include <string>
#include <vector>

#include "src/base/strings.h"
#include "src/commands/commands.h"
#include "src/commands/flag_parser.h"
#include "tests/fuzz/input_folder.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace msprobe::commands;
  std::vector<std::string> arguments;
  for (const std::string_view line :
       msprobe::base::Split(msprobe::fuzz::TextOf(data, size), '\n')) {
    arguments.emplace_back(line.substr(0, line.find('\0')));
  }
  static Program program;  // what an earlier line filled stays: nothing is run
  const ParsedLine line = ParseArguments(program, arguments);
  static_cast<void>(TitleOf(line.path));
  return 0;
}
