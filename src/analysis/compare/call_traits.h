// What is known of calls by their names: which arguments are a layer's own state, which results are
// random, uninitialised or come from another rank.
#pragma once

#include <string_view>

#include "src/dump/names.h"

namespace msprobe::analysis::compare {

// A row's name below its entry's: "Functional.linear.0.forward",
// "Functional.linear.0.forward.input.1" -> "input.1". Empty when the row is named otherwise.
std::string_view ArgumentOf(std::string_view entry_name, std::string_view row_name);

// `argument` is the row's name below the entry, "input.1" or "input.weight": true when a functional
// call of this name takes a weight, bias or running statistic there ("Functional.linear" at 1 and
// 2).
bool IsLayerStateArgument(const dump::EntryName& call, std::string_view argument);

// Of these arguments, the running mean and variance, which each forward call in training mode
// updates.
bool IsRunningStatistic(const dump::EntryName& call, std::string_view argument);

// Changes the dtype of a tensor, or may.
bool IsCast(const dump::EntryName& call);

// Draws from a random generator: equal inputs give different outputs when the generators' states
// differ.
bool IsRandomCall(const dump::EntryName& call);

// Its output is memory as found.
bool IsUninitialisedCall(const dump::EntryName& call);

// Its outputs are parts of its input, with the same memory: nothing is computed or copied.
bool IsPartingCall(const dump::EntryName& call);

// Tells a tensor's shape, layout or place and looks at none of its values.
bool IsDescribingCall(const dump::EntryName& call);

// Exchanges data with other ranks.
bool IsCommunicationCall(const dump::EntryName& call);

// The argument is a buffer that the call fills (one that receives, `out=`, the tensor of `copy_`):
// what it held before does not matter.
bool IsReceiveBuffer(const dump::EntryName& call, std::string_view argument);

}  // namespace msprobe::analysis::compare
