// Which side of a comparison computed its first diverging call wrong: where both dumps hold
// tensors, that call is recomputed from what each side gave it.
#pragma once

#include "src/analysis/compare/compare_pair.h"
#include "src/base/threads.h"

namespace msprobe::analysis::compare {

// Fills `wrong_side` of the first computation that the pair diverges in. False where there is
// nothing to recompute: no such call, or no tensors. A call that cannot be recomputed is told as
// such; nothing fails. Memory: the tensors of that call as float64.
bool NameWrongSide(ComparedPair& pair, base::ThreadPool& pool);

}  // namespace msprobe::analysis::compare
