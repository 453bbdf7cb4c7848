// Inside of the room: what a script's variables hold, and words with the variables filled in.
// Everything comes from the script itself: this process's environment is not looked at, commands
// are not run, and what cannot be known stays as it is spelled.
#pragma once

#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "msprobe/status.h"

#include "src/analysis/config_check/shell_lexer.h"

namespace msprobe::analysis::config_check::internal {

// One argument of a command after expansion.
struct ShellField {
  std::string text;
  // Nothing but one reference whose value the script does not tell: "$UNDEFINED", "$(date)".
  bool is_unknown = false;
  int line = 0;
};

class ShellVariables {
 public:
  Status Assign(const ShellAssignment& assignment);
  // The fields that the words become: quotes gone, variables filled in, split at blanks where
  // they were not quoted. Fails when variables made of each other grow beyond all measure.
  Result<std::vector<ShellField>> Expand(const std::vector<ShellWord>& words);

 private:
  class Builder;
  Status ExpandWord(const ShellWord& word, int depth, Builder& out);
  Status ExpandVariable(const ShellSegment& segment, int depth, Builder& out);
  Status Count(size_t bytes);

  std::unordered_map<std::string, std::vector<std::string>> values_;  // a plain variable has one
  size_t expanded_bytes_ = 0;
};

}  // namespace msprobe::analysis::config_check::internal
