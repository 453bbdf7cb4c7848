// Numbers for people, in one way everywhere.
#pragma once

#include <string>

namespace msprobe::report {

// `digits` significant ones; NaN, Infinity, -Infinity.
std::string NumberText(double value, int digits = 6);

}  // namespace msprobe::report
