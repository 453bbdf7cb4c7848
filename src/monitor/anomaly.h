// One entry of anomaly.json.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "src/json/writer.h"

namespace msprobe::monitor {

struct Anomaly {
  std::string key;
  int64_t rank = 0;
  int64_t step = 0;
  int64_t micro_step = 0;
  int64_t pp_stage = 0;
  int64_t vpp_stage = 0;
  int64_t call_id = 0;
  std::string tag_name;
  std::string message;
  std::vector<int64_t> group_mates;
};

// `"key": {...}` as the Python tool writes it.
void WriteAnomaly(const Anomaly& anomaly, json::Writer& json);

}  // namespace msprobe::monitor
