// The statistics and the CSV writer on recorded tensors, without a model.
#pragma once

#include <cstdint>
#include <filesystem>
#include <string>

#include "msprobe/status.h"

namespace msprobe::monitor {

struct ReplayOptions {
  std::filesystem::path feed;    // the folder of feed.jsonl and feed.bin
  std::filesystem::path config;  // empty: defaults
  std::filesystem::path output;  // CSVs are written right here; files of the same name go
  bool compat = false;           // as if the configuration said so
};

struct ReplayTotals {
  uint64_t tensors = 0;
  uint64_t rows = 0;
};

// feed.jsonl holds {"event": "metrics", "ops", "eps", "items": [{"tag", "offset", "nbytes",
// "dtype", "shape"} or {"tag", "non_tensor": true}]} and {"event": "write", "prefix", "step",
// "tags", "use_micro_step"}, one object a line. Errors name file and line.
Result<ReplayTotals> Replay(const ReplayOptions& options);

}  // namespace msprobe::monitor
