#include "src/profile/common/step_marker.h"

#include "src/base/strings.h"

namespace msprobe::profile {

bool IsStepMarker(std::string_view operator_name) {
  constexpr std::string_view kMarker = "profilerstep#";
  for (size_t at = operator_name.find('#'); at != std::string_view::npos;
       at = operator_name.find('#', at + 1)) {
    if (at + 1 >= kMarker.size() &&
        base::EqualsIgnoringCase(operator_name.substr(at + 1 - kMarker.size(), kMarker.size()),
                                 kMarker)) {
      return true;
    }
  }
  return false;
}

}  // namespace msprobe::profile
