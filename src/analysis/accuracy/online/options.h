// What is asked of a check of operators while their training runs.
#pragma once

#include <cstdint>
#include <functional>
#include <vector>

#include "src/analysis/accuracy/check/options.h"
#include "src/online/endpoint.h"

namespace msprobe::analysis::accuracy {

struct OnlineOptions {
  CheckOptions check;  // but for what belongs to a dump
  online::Endpoint endpoint;
  std::vector<int64_t> ranks;  // that are expected; empty: whoever comes
  // Asked some times a second: true ends the check, which answers with what it has.
  std::function<bool()> is_stopped = [] { return false; };
};

}  // namespace msprobe::analysis::accuracy
