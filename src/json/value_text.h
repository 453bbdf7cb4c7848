// A value of a tree, or a part of one, as text: JSON again, or as Python prints what json.load
// makes of it.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "src/json/value_tree.h"
#include "src/json/writer.h"

namespace msprobe::json {

// The value at node `root` with everything below it; numbers keep the digits they were read with.
void WriteTree(const ValueTree& tree, uint32_t root, Writer& json);

// One line for people: a text as it is, everything else as JSON, "[1, null]".
std::string CompactText(const ValueTree& tree, uint32_t index);

// repr(): texts quoted, "None", "True", "[0, 1]", "{'k': 1.0}".
void AppendPythonRepr(const ValueTree& tree, uint32_t node, std::string& out);
// str(): as repr(), but a text stands without quotes.
std::string PythonStr(const ValueTree& tree, uint32_t node);
// "<class 'int'>" and so on.
std::string_view PythonClass(ValueKind kind);

}  // namespace msprobe::json
