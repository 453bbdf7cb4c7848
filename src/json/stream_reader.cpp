#include "src/json/stream_reader.h"

#include "src/json/parse_engine.h"

namespace msprobe::json {

Status ParseStream(std::string_view text, Handler& handler, ParseOutcome* outcome, int max_depth) {
  return internal::Parse(text, internal::Dialect::kPython, handler, outcome, max_depth, nullptr);
}

}  // namespace msprobe::json
