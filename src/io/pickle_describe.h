// Pickle values in words, for people.
#pragma once

#include <string>

#include "src/io/pickle_value.h"

namespace msprobe::io {

struct PickleDescription {
  std::string type;  // "int", "torch.Size", the name of a class
  std::string text;  // at most about 200 characters
};

// None, bool, numbers, text, bytes, globals.
bool IsPlainPickleValue(const Pickle& pickle, PickleId id);
// Objects that say everything in one line: torch.Size, torch.device, enum members, complex and
// numpy scalars, BytesIO.
bool IsSmallPickleObject(const Pickle& pickle, PickleId id);
// Any value; containers show their first items, objects their class.
PickleDescription DescribePickleValue(const Pickle& pickle, PickleId id);
// `key` as an element of a tensor's path: text as it is (made valid UTF-8, shortened beyond 1000
// bytes), others described.
std::string PickleKeyText(const Pickle& pickle, PickleId key);

}  // namespace msprobe::io
