// The results of one call whose tensors lie in memory: what online_dispatch holds a device's
// results against, without a second run in the framework.
#pragma once

#include <string_view>
#include <vector>

#include "msprobe/status.h"

#include "src/base/threads.h"
#include "src/dump/json_source.h"
#include "src/reference/call.h"

namespace msprobe::reference {

// Whether the list of functions (operators/operators.h) has this one: "mm", "softmax", "add_".
bool IsKnownFunction(std::string_view function);

// Every output in order, as exact arithmetic on the call's inputs gives it, rounded to double.
// `call`: {"input_args": [...], "input_kwargs": {...}, "output": [...]} as in a dump.json, with the
// data_names that `tensors` knows.
//
// kUnsupported, with the reason, wherever something is not certain: a function or arguments that
// are not known, an output without a result or with another shape, numbers that are not finite,
// integers that rounding decides.
Result<std::vector<Value>> ExactResults(std::string_view function, const dump::EntryTree& call,
                                        const TensorSource& tensors, base::ThreadPool& pool);

}  // namespace msprobe::reference
