// Streaming JSON: events instead of a document, so that a dump of any size is read in constant
// memory. Accepts what Python's json module writes: bare NaN, Infinity, -Infinity.
#pragma once

#include <cstdint>
#include <string_view>

#include "msprobe/status.h"

namespace msprobe::json {

// Texts are valid only during the call. Return false to stop; ParseStream then returns ok.
class Handler {
 public:
  virtual ~Handler() = default;
  virtual bool OnNull() = 0;
  virtual bool OnBool(bool value) = 0;
  // A number as written. Decodes it and calls one of the two below, unless a handler that wants few
  // numbers decides otherwise.
  virtual bool OnNumber(std::string_view digits);
  virtual bool OnInt(int64_t value) = 0;
  // Floats, and integers beyond int64. `digits` is the number as written.
  virtual bool OnFloat(double value, std::string_view digits) = 0;
  virtual bool OnText(std::string_view value) = 0;
  virtual bool OnBeginObject() = 0;
  virtual bool OnKey(std::string_view key) = 0;
  virtual bool OnEndObject() = 0;
  virtual bool OnBeginArray() = 0;
  virtual bool OnEndArray() = 0;
};

struct ParseOutcome {
  bool truncated = false;     // the text ended inside a value: everything before it was delivered
  uint64_t error_offset = 0;  // byte where parsing failed
};

// Errors are kBadFormat and name byte, line and column. Nesting deeper than `max_depth` is an
// error, never a crash.
Status ParseStream(std::string_view text, Handler& handler, ParseOutcome* outcome = nullptr,
                   int max_depth = 512);

}  // namespace msprobe::json
