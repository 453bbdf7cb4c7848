// Folders that names can be put behind. libstdc++ 12 destroys a component of a path that ends with
// a slash twice where memory ends while something is put behind it, which ends the process.
#pragma once

#include "src/base/files.h"

namespace msprobe::base {

// "runs" for "runs/"; "/" stays.
inline Path WithoutLastSlash(Path folder) {
  return folder.has_filename() || !folder.has_parent_path() ? folder : folder.parent_path();
}

// `below` in `folder`: the folder itself where it is empty, not "folder/".
inline Path Below(const Path& folder, const Path& below) {
  return below.empty() ? folder : folder / below;
}

}  // namespace msprobe::base
