// The marks that a profiler sets around every training step.
#pragma once

#include <string_view>

namespace msprobe::profile {

// "ProfilerStep#5", in any case, alone or inside a longer name.
bool IsStepMarker(std::string_view operator_name);

}  // namespace msprobe::profile
