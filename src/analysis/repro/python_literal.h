// Values of a dump as Python spells them.
#pragma once

#include <string>
#include <string_view>

#include "msprobe/status.h"

#include "src/analysis/repro/entry_json.h"

namespace msprobe::analysis::repro {

// A text in quotes; everything that is not printable ASCII is escaped.
std::string PythonText(std::string_view text);

// A value as it stands in the dump: records become dicts.
std::string PythonValue(const Json& value);

// An argument as an expression: of a tensor `load(...)` of its file, of a device `device`.
// kUnsupported: a type that has no literal, a tensor whose values were not saved.
Result<std::string> PythonArgument(const Json& argument, bool with_gradients);

}  // namespace msprobe::analysis::repro
