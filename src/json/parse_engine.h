// Inside of the room: the one place that knows RapidJSON. stream_reader.h and config.h are its two
// faces.
#pragma once

#include <cstddef>
#include <string_view>

#include "msprobe/status.h"

#include "src/json/stream_reader.h"

namespace msprobe::json::internal {

enum class Dialect {
  kPython,  // what json.dump writes
  kConfig,  // also comments and trailing commas
};

// Where an offset lies, 1-based; columns count bytes.
struct LinePosition {
  size_t line = 1;
  size_t column = 1;
};
LinePosition Locate(std::string_view text, size_t offset);

// ParseStream for either dialect. `position`, if given, holds an offset inside of the event's
// token.
Status Parse(std::string_view text, Dialect dialect, Handler& handler, ParseOutcome* outcome,
             int max_depth, size_t* position);

}  // namespace msprobe::json::internal
