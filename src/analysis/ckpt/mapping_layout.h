// Taking joined parameters apart and putting parts together, as a rule's layout says. Only views
// move.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "msprobe/status.h"

#include "src/analysis/ckpt/mapping_rules.h"
#include "src/checkpoint/checkpoint.h"

namespace msprobe::analysis::ckpt {

struct HeadCounts {
  std::optional<int64_t> attention_heads;
  std::optional<int64_t> query_groups;  // key/value heads
};

// How many slices the parameters of a checkpoint may be cut into. The number of heads is written in
// a file; each slice takes some hundred bytes of memory.
class SliceBudget {
 public:
  explicit SliceBudget(uint64_t file_bytes = 0);

  // Ok where `parts` slices per group, of a parameter in `pieces` pieces, are still in proportion.
  Status Take(int64_t groups, size_t parts, size_t pieces);

 private:
  uint64_t slices_left_;
  uint64_t looks_left_;
};

// The whole, turned if `transpose`, cut into `count` parts. A parameter that cannot be read gives
// parts that say so. Errors: lengths that do not divide, unknown heads.
Result<std::vector<checkpoint::Parameter>> SplitParameter(const checkpoint::Parameter& whole,
                                                          const Rule& rule, bool transpose,
                                                          size_t count, const HeadCounts& heads,
                                                          SliceBudget& budget);

// The other way: the parts in the rule's order, turned at the end if `transpose`.
Result<checkpoint::Parameter> JoinParameters(std::span<const checkpoint::Parameter> parts,
                                             const Rule& rule, bool transpose,
                                             const HeadCounts& heads, SliceBudget& budget);

}  // namespace msprobe::analysis::ckpt
