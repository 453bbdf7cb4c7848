// What is asked of a search for the first NaN or infinity.
#pragma once

#include <cstddef>
#include <filesystem>
#include <limits>

namespace msprobe::analysis::nan {

struct Options {
  std::filesystem::path input;  // a step's folder; with `all_steps` the folder of the steps
  std::filesystem::path output = "./output";
  bool all_steps = false;
  bool mask_aware = true;
  double threshold = std::numeric_limits<double>::infinity();
  size_t top = 1;       // origins to describe, beyond those that are reported together
  bool graph = false;   // also write the propagation as a graph
  bool levels = false;  // also judge every operator by itself
  size_t threads = 0;
  bool quiet = false;
};

}  // namespace msprobe::analysis::nan
