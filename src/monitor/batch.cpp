#include "src/monitor/batch.h"

namespace msprobe::monitor {

std::optional<double> NumberOf(const Value& value) {
  if (const auto* real = std::get_if<double>(&value)) {
    return *real;
  }
  if (const auto* integer = std::get_if<int64_t>(&value)) {
    return static_cast<double>(*integer);
  }
  if (const auto* boolean = std::get_if<bool>(&value)) {
    return *boolean ? 1.0 : 0.0;
  }
  return std::nullopt;
}

}  // namespace msprobe::monitor
