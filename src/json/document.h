// Documents that are read or written whole, as trees of nlohmann/json: reading their values without
// knowing their kinds, parsing, and printing as JSON (spelled as Writer spells) or as Python does.
// Large documents, and those that copy parts of their input, are written with a Writer directly.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>

#include <nlohmann/json_fwd.hpp>

#include "msprobe/status.h"

#include "src/json/writer.h"

namespace msprobe::json {

using Json = nlohmann::ordered_json;

// Each is neutral (nullptr, 0, false, empty) where the value is of another kind. NumberOf knows
// integers, floats and big integers.
const Json* Find(const Json& object, std::string_view key);
// nullptr also for a member that is null.
const Json* FindGiven(const Json& object, std::string_view key);
// A null where there is no such member.
const Json& Member(const Json& object, std::string_view key);
std::span<const Json> ItemsOf(const Json& list);
int64_t IntOf(const Json& value);
// From `least` to `most`. The error is what a message says behind the name of the value: "must be
// an integer".
Result<int64_t> IntegerIn(const Json& value, int64_t least, int64_t most);
double NumberOf(const Json& value);
bool BoolOf(const Json& value);
const std::string& TextOf(const Json& value);
std::string_view KindName(const Json& value);  // "a list", "text", ...

// An integer beyond 64 bits, which the tree has no kind for: a binary value that holds its digits.
// Only data have it; in settings such a number is a float.
Json BigInteger(std::string_view digits);
bool IsBigInteger(const Json& value);
// The decimal text of a signed or unsigned integer.
std::string IntegerText(const Json& value);

// A whole text as data: accepts what ParseStream accepts; a key that is there twice keeps its first
// place and its last value. Too many values (4 Mi) are an error.
Result<Json> ParseDocument(std::string_view text);

// The document as a whole text, without a line break at its end. `indent` and `non_finite` as of
// Writer; members stand in the order they were given. All that follow recurse as deep as the
// document nests, which is limited where it is read.
std::string DocumentText(const Json& document, int indent, Writer::NonFinite non_finite);
// As a value of a larger text; and the members of an object as some of those of the open one.
void WriteDocument(const Json& document, Writer& writer);
void WriteMembers(const Json& object, Writer& writer);

// repr(): texts quoted, "None", "True", "[0, 1]", "{'k': 1.0}".
void AppendPythonRepr(const Json& value, std::string& out);
// str(): as repr(), but a text stands without quotes.
std::string PythonStr(const Json& value);

// Leaves a container without members. The destructor of nlohmann's containers gathers their
// children in a vector, so that it ends the process where memory is short: what holds a tree during
// a training takes it apart first.
void TakeApart(Json& value) noexcept;

Json NumberOrNull(const std::optional<int64_t>& number);

}  // namespace msprobe::json
