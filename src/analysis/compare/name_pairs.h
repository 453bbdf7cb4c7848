// Rows of two sides that no dump.json describes: they pair by name.
#pragma once

#include "src/analysis/compare/compare_pair.h"

namespace msprobe::analysis::compare {

// Fills pair.mapping: rows of one name pair whatever their dtypes, unless their shapes differ; such
// rows say so and stand alone. A row that could not be read, without a shape, pairs with the other
// one, so that it is told as unreadable.
void PairRowsByName(ComparedPair& pair);

}  // namespace msprobe::analysis::compare
