// Recognises values that nobody has computed: memory that a call such as torch.empty found, and
// what was cut or copied from it, until something is written there. Frameworks that share out a
// model (FSDP, DeepSpeed, Megatron) cut such memory into parts while a collective fills it: what a
// dump saw of it is chance.
#pragma once

#include <cstdint>
#include <unordered_set>

#include "src/analysis/compare/differing_rows.h"

namespace msprobe::analysis::compare {

class MemoryAsFound {
 public:
  // Both sides' values of this row are memory as found.
  void Note(const RowView& row);

  // One of the sides has such a value here: the other side's may have been filled meanwhile.
  bool Holds(const RowView& row) const;

 private:
  std::unordered_set<uint64_t> npu_;
  std::unordered_set<uint64_t> bench_;
};

}  // namespace msprobe::analysis::compare
