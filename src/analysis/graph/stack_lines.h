// What the lines of a call stack say.
#pragma once

#include <span>
#include <string>
#include <string_view>

namespace msprobe::analysis::graph {

using StackLines = std::span<const std::string>;

// Of a module: the first line that calls it by its own name; of an API: the line behind the
// recorder's own. All lines where there is no such line.
StackLines ShortStack(std::string_view node_name, StackLines lines);

// Whether the lines say that a module was computed a second time, in the backward pass.
bool ShowsRecomputation(StackLines lines);

}  // namespace msprobe::analysis::graph
