// One entry of a dump.json (a call's inputs and outputs) as a flat tree that is reused from entry
// to entry: no document of the whole file ever exists.
#pragma once

#include "src/json/value_text.h"
#include "src/json/value_tree.h"

namespace msprobe::dump {

using NodeKind = json::ValueKind;
using Node = json::ValueNode;
using EntryTree = json::ValueTree;
using EntryTreeBuilder = json::ValueTreeBuilder;
using json::CompactText;

}  // namespace msprobe::dump
