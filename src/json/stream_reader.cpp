#include "src/json/stream_reader.h"

#include <charconv>
#include <cstdlib>
#include <string>

#include "src/json/parse_engine.h"

namespace msprobe::json {

bool Handler::OnNumber(std::string_view digits) {
  const char* begin = digits.data();
  const char* end = begin + digits.size();
  int64_t integer = 0;
  const auto as_integer = std::from_chars(begin, end, integer);
  if (as_integer.ec == std::errc() && as_integer.ptr == end) {
    return OnInt(integer);
  }
  double value = 0;
  const auto as_float = std::from_chars(begin, end, value);
  if (as_float.ec == std::errc::result_out_of_range) {
    value = std::strtod(std::string(digits).c_str(),
                        nullptr);  // zero or infinity, as Python reads it
  }
  return OnFloat(value, digits);
}

Status ParseStream(std::string_view text, Handler& handler, ParseOutcome* outcome, int max_depth) {
  return internal::Parse(text, internal::Dialect::kPython, handler, outcome, max_depth, nullptr);
}

}  // namespace msprobe::json
