// A Python script that makes one captured call again.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "msprobe/status.h"

#include "src/analysis/repro/captured_call.h"
#include "src/analysis/repro/entry_json.h"

namespace msprobe::analysis::repro {

// Values of a dump as Python spells them.

// A text in quotes; everything that is not printable ASCII is escaped.
std::string PythonText(std::string_view text);

// A value as it is in the dump: records become dicts.
std::string PythonValue(const Json& value);

// An argument as an expression: of a tensor `load(...)` of its file, of a device `device`.
// kUnsupported: a type that has no literal, a tensor whose values were not saved.
Result<std::string> PythonArgument(const Json& argument, bool with_gradients);

// The check of names of a dump in scripts: lists, and functions that look up in them.
std::string ClosedWorld();

// The function of an entry's name, as an expression: "torch.nn.functional.gelu". kUnsupported with
// the reason: it is none of PyTorch's operators that are called by name.
Result<std::string> FunctionOf(std::string_view entry_name);

// The element that is wrong in a capture, and what it should be: a script says by its exit code
// whether the device that runs it computes it wrong as well.
struct Fault {
  std::string data_name;  // of its tensor
  uint64_t element = 0;
  double exact = 0;
  double bound = 0;
};

// Nothing where no element of the call is known to be wrong.
std::optional<Fault> FaultOf(const CapturedCall& call, const recheck::CallVerdict& verdict);

// A whole script for PyTorch, which reads the dump beside it. kUnsupported with the reason where
// there can be none: calls of other frameworks, functions that are none of PyTorch's operators,
// inputs that were not saved. What a dump says reaches the script as literals only, and no function
// is named in it that is not on our list of operators. Of a module the script knows frequent
// classes, and takes others from a file of its user.
Result<std::string> MakeScript(const CapturedCall& call, const std::optional<Fault>& fault = {});

// One for a communication of these ranks, by rank in the order of their group. The fault is one of
// `faulty_rank`.
Result<std::string> MakeScriptOfRanks(const std::vector<std::pair<int64_t, CapturedCall>>& ranks,
                                      const std::optional<Fault>& fault = {},
                                      int64_t faulty_rank = 0);

}  // namespace msprobe::analysis::repro
