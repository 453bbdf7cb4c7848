// Whether a dump can be the reference of an isolated run.
#pragma once

#include <filesystem>

#include "msprobe/status.h"

namespace msprobe::analysis::isolate {

// `path`: the dump_path of a good run. An error with the remedy where it has no steps, no modules,
// or statistics without tensors: modules cannot run on those.
Status CheckReference(const std::filesystem::path& path);

}  // namespace msprobe::analysis::isolate
