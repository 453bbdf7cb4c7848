// A Python script that makes one captured call again.
#pragma once

#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "msprobe/status.h"

#include "src/analysis/repro/captured_call.h"

namespace msprobe::analysis::repro {

// The function of an entry's name, as an expression: "torch.nn.functional.gelu". kUnsupported with
// the reason: it is none of PyTorch's operators that are called by name.
Result<std::string> FunctionOf(std::string_view entry_name);

// A whole script for PyTorch, which reads the dump beside it. kUnsupported with the reason where
// there can be none: calls of other frameworks, functions that are none of PyTorch's operators,
// inputs that were not saved. What a dump says reaches the script as literals only, and no function
// is named in it that is not on our list of operators. Of a module the script knows frequent
// classes, and takes others from a file of its user.
Result<std::string> MakeScript(const CapturedCall& call);

// One for a communication of these ranks, by rank in the order of their group.
Result<std::string> MakeScriptOfRanks(const std::vector<std::pair<int64_t, CapturedCall>>& ranks);

}  // namespace msprobe::analysis::repro
