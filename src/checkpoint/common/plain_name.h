// File names found inside of files: they may name what lies beside, nothing else.
// An index that says "../../etc/passwd" would otherwise open any file its reader may read.
#pragma once

#include <string_view>

namespace msprobe::checkpoint {

// Not empty, no folder in it, not "." or "..", no NUL.
inline bool IsPlainFileName(std::string_view name) {
  return !name.empty() && name != "." && name != ".." &&
         name.find_first_of(std::string_view("/\0", 2)) == std::string_view::npos;
}

}  // namespace msprobe::checkpoint
