// In which order the entries of a dump happened, and which of them belong together.
#pragma once

#include <cstdint>
#include <vector>

#include "src/analysis/compare/side.h"
#include "src/dump/names.h"

namespace msprobe::analysis::compare {

inline constexpr uint32_t kNoEntry = UINT32_MAX;

// All vectors but `order` are indexed by entry.
struct ExecutionPlan {
  std::vector<uint32_t> order;         // entries as they happened
  std::vector<dump::EntryName> names;  // views into the side's names
  // Of a backward entry: the forward entry of the same call; of a parameters_grad entry: the
  // module's last backward.
  std::vector<uint32_t> partner;
  // Forward, backward and parameters_grad entries of one module share a number; kNoEntry for
  // everything else.
  std::vector<uint32_t> module_of;
  uint32_t module_count = 0;
};

// A dump lists entries in the order in which they first appeared. Only parameters_grad entries
// stand elsewhere: beside the module's forward, though gradients arrive with the backward pass.
// They are moved behind the module's last backward, else behind the last backward of all, else to
// the end.
ExecutionPlan PlanExecution(const Side& side);

}  // namespace msprobe::analysis::compare
