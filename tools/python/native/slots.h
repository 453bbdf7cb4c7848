// Many attributes replaced, or given back, in one go.
#pragma once

#include "tools/python/native/arguments.h"

namespace msprobe::python {

// exchange(rows, put) -> the indexes of the rows that were left as they are
//
// A row is (namespace, holder, name, replacement, original): the holder's own dictionary or a view
// of it, and what the attribute was, or None where the holder has none of its own and inherits it.
// To put is to set the replacement where the attribute still is the original; to take is the
// opposite, where it still is the replacement. A replacement that observes in place leaves the attribute
// as it is: it is taken in any case, and the row is named where somebody else changed the attribute.
PyObject* Exchange(List rows, bool put);

}  // namespace msprobe::python
