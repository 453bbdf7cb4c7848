// What becomes a trend store, and under which names.
#pragma once

#include <cstddef>
#include <filesystem>
#include <string>
#include <utility>
#include <vector>

#include "msprobe/status.h"

namespace msprobe::analysis::monitor {

// Texts in names and what replaces them, one pair after the other.
using NameMapping = std::vector<std::pair<std::string, std::string>>;

struct StoreOptions {
  std::filesystem::path data;    // a monitored run, or a dump
  std::filesystem::path output;  // folder for the store; a file that is there is replaced
  // Steps become a running number with as many places per step as its largest micro step asks for.
  // Otherwise they stay, and names keep their micro step. Dumps have no micro steps.
  bool number_micro_steps = true;
  NameMapping mapping;
  size_t threads = 0;  // to read tables with; 0: one per core
};

// {"old": "new", ...}, in the order of the file.
Result<NameMapping> ReadMapping(const std::filesystem::path& path);
std::string Mapped(std::string name, const NameMapping& mapping);

}  // namespace msprobe::analysis::monitor
