// The key "alert" of the configuration.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "src/monitor/batch.h"

namespace msprobe::monitor {

struct AlertRule {
  enum class Kind : uint8_t { kTurbulence, kNan };
  Kind kind = Kind::kTurbulence;
  std::optional<double> threshold;
  std::vector<Op> ops;  // empty: the rule's default
};

struct AlertSettings {
  std::vector<AlertRule> rules;
  bool dump = false;
  bool compat = false;  // judge as the Python tool does
  int64_t warm_up_steps = 0;
  int32_t min_history = 5;
  int32_t window = 32;
};

}  // namespace msprobe::monitor
