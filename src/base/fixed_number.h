// Numbers with a fixed count of decimals, in a hurry: files of graphs hold millions of them.
#pragma once

#include <string>

namespace msprobe::base {

// printf's %.{decimals}f: ties go to the even digit. At most 20 decimals.
void AppendFixed(double value, int decimals, std::string& out);

}  // namespace msprobe::base
