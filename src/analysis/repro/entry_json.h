// Entries of a dump as documents that can be changed and written again.
#pragma once

#include <nlohmann/json.hpp>

#include "msprobe/status.h"

#include "src/dump/entry_tree.h"

namespace msprobe::analysis::repro {

using Json = nlohmann::ordered_json;

// The whole value. kBadFormat: it is nested too deeply.
Result<Json> EntryJson(const dump::EntryTree& tree);

// The record of a tensor: it has a dtype and a shape.
bool IsTensorRecord(const Json& value);

}  // namespace msprobe::analysis::repro
