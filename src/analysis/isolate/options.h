// What is asked of an isolated run.
#pragma once

#include <filesystem>

namespace msprobe::analysis::isolate {

struct Options {
  std::filesystem::path output;  // where the training wrote step<N>/rank<M>/isolate.csv
};

}  // namespace msprobe::analysis::isolate
