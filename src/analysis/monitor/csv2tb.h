// Tables of a monitored run as TensorBoard event files.
#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

#include "msprobe/status.h"

#include "src/analysis/monitor/run.h"

namespace msprobe::monitor {

struct EventOptions {
  std::filesystem::path run;
  FindOptions find;
  std::vector<std::string> tables;  // empty: EventTables()
  std::filesystem::path output;     // empty: <run>/<now>-csv2tensorboard_by_step
  size_t threads = 0;               // 0: one per core
};

struct EventResult {
  std::filesystem::path output;
  size_t ranks = 0;
  size_t files = 0;
  uint64_t scalars = 0;
  std::vector<std::string> warnings;
};

// The tables that are converted unless others are asked for, and all that may be asked for.
const std::vector<std::string>& EventTables();
const std::vector<std::string>& KnownTables();

// <output>/rank<R>/<table>/events.out.tfevents...: scalars "vp<stage>:<name>[:micro<m>]/<op>", by
// name, step and column. Folders of tables that are there already are replaced. Runs that went on
// in a further folder are put together.
Result<EventResult> ConvertToEvents(const EventOptions& options);

}  // namespace msprobe::monitor
