// Small documents that we write: made as a tree of nlohmann/json, spelled as Writer spells. What is
// large, or copies parts of what was read, goes to a Writer directly.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include <nlohmann/json_fwd.hpp>

#include "src/json/writer.h"

namespace msprobe::json {

// The document as a whole text, without a line break at its end. `indent` and `non_finite` as of
// Writer; members stand in the order they were given.
std::string DocumentText(const nlohmann::ordered_json& document, int indent,
                         Writer::NonFinite non_finite);

// As a value of a larger text; and the members of an object as some of those of the open one.
// Recurse as deep as the document nests.
void WriteDocument(const nlohmann::ordered_json& document, Writer& writer);
void WriteMembers(const nlohmann::ordered_json& object, Writer& writer);

nlohmann::ordered_json NumberOrNull(const std::optional<int64_t>& number);

}  // namespace msprobe::json
