// The answer of `monitor csv2tb`.
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

#include "msprobe/status.h"

#include "src/analysis/monitor/common/monitored_run.h"
#include "src/report/document.h"

namespace msprobe::analysis::monitor {

// The tables of a run that become event files, and where they go.

struct Csv2TbOptions {
  std::filesystem::path run;
  FindOptions find;
  std::vector<std::string> tables;  // empty: EventTables()
  std::filesystem::path output;     // empty: <run>/<now>-csv2tensorboard_by_step
  size_t threads = 0;               // 0: one per core
};

// The tables that are converted unless others are asked for, and all that may be asked for.
const std::vector<std::string>& EventTables();
const std::vector<std::string>& KnownTables();

// The event files that were written.

struct Csv2TbResult {
  std::filesystem::path output;
  size_t ranks = 0;
  size_t files = 0;
  uint64_t scalars = 0;
  size_t unread_files = 0;  // tables of the run that are left out or end early
  std::vector<std::string> warnings;
};

// Tables of a monitored run as TensorBoard event files.

// <output>/rank<R>/<table>/events.out.tfevents...: scalars "vp<stage>:<name>[:micro<m>]/<op>", by
// name, step and column. Folders of tables that are there already are replaced. Runs that went on
// in a further folder are put together.
Result<Csv2TbResult> RunCsv2Tb(const Csv2TbOptions& options);

report::Document MakeDocument(const Csv2TbResult& result);

}  // namespace msprobe::analysis::monitor
