// The calls that old dumps record as lines of JSON lists (.pkl, which are not pickles): `pk` of the
// interactive tool.
#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include "msprobe/status.h"

namespace msprobe::analysis::kernel_dump {

// Text lines about all calls whose names begin with `name`: the stack, innermost frame first, and
// per tensor name, dtype, shape, maximum, minimum and mean. kNotFound when there is none.
Result<std::vector<std::string>> DescribeCalls(const std::filesystem::path& file,
                                               const std::string& name);

}  // namespace msprobe::analysis::kernel_dump
