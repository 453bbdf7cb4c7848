// What a check of operators while their training ran answers.
#pragma once

#include <string_view>

#include "src/analysis/accuracy/online/result.h"
#include "src/report/document.h"

namespace msprobe::analysis::accuracy {

// The levels are kCheckGateLevels. `command`: under which name the check was asked for.
report::Document MakeDocument(const OnlineCheck& check, std::string_view command);

}  // namespace msprobe::analysis::accuracy
