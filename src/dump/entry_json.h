// A part of an entry as JSON text again.
#pragma once

#include <cstdint>
#include <string>

#include "src/dump/entry_tree.h"
#include "src/json/writer.h"

namespace msprobe::dump {

// The value at node `root` with everything below it; numbers keep the digits they were read with.
void WriteTree(const EntryTree& tree, uint32_t root, json::Writer& json);

// One line for people: a text as it is, everything else as JSON, "[1, null]".
std::string CompactText(const EntryTree& tree, uint32_t index);

}  // namespace msprobe::dump
