// A gradient as a row of grad_summary_<step>.csv, spelled as the Python tool spells it: RFC 4180,
// lines end with CRLF, numbers as Python's repr of a float.
#pragma once

#include <span>
#include <string>
#include <string_view>

#include "msprobe/tensor_view.h"

#include "src/grad_probe/measure.h"
#include "src/grad_probe/settings.h"

namespace msprobe::grad_probe {

// With the byte order mark. "param_name,MD5,max,min,norm,shape" (L0), without MD5 (L1), with the
// intervals and "=0" in its place (L2).
std::string HeaderLine(Level level, std::span<const Bound> bounds);

void AppendRow(std::string_view name, const Numbers& numbers, const Shape& shape, Level level,
               std::string& out);

}  // namespace msprobe::grad_probe
