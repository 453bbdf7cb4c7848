// Operator names that stand for others, as they are typed: {'aten::mm':'npu::mm'}.
#pragma once

#include <map>
#include <string>
#include <string_view>

#include "msprobe/status.h"

namespace msprobe::analysis::perf {

// A dict of texts as Python writes it, and nothing else: it is read, not executed. Texts in single
// or double quotes with the usual escapes; at most 200 characters each. Of equal keys the last.
Result<std::map<std::string, std::string>> ParseNameMap(std::string_view text);

}  // namespace msprobe::analysis::perf
