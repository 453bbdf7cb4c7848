// How Python prints a value of a dump: str() and type() of what json.load made of it. Result cells
// and checksums of scalar arguments hold these texts.
#pragma once

#include <string>
#include <string_view>

#include "src/dump/entry_tree.h"

namespace msprobe::analysis {

// repr(): texts quoted, "None", "True", "[0, 1]", "{'k': 1.0}".
void AppendPythonRepr(const dump::EntryTree& tree, uint32_t node, std::string& out);
// str(): as repr(), but a text stands without quotes.
std::string PythonStr(const dump::EntryTree& tree, uint32_t node);
// "<class 'int'>" and so on.
std::string_view PythonClass(dump::NodeKind kind);

}  // namespace msprobe::analysis
