// Where batches go. Called by the writer thread alone, in the order of steps.
#pragma once

#include <filesystem>
#include <memory>

#include "msprobe/status.h"

#include "src/monitor/batch.h"
#include "src/monitor/csv_text.h"

namespace msprobe::monitor {

class Writer {
 public:
  Writer() = default;
  Writer(const Writer&) = delete;
  Writer& operator=(const Writer&) = delete;
  virtual ~Writer() = default;

  virtual Status Write(const Batch& batch) = 0;
  // All batches of a step were given: everything so far must survive the end of the process.
  virtual Status EndStep(int64_t step) = 0;
  virtual Status Close() = 0;
};

// `folder` exists. A file that is there already (append_output) is continued; a last line without
// its end is of a writer that died, and goes. What a full disk refuses is kept, up to 64 MiB, and
// tried again.
std::unique_ptr<Writer> MakeCsvWriter(std::filesystem::path folder, const CsvRules& rules,
                                      int64_t steps_per_file);
// Scalars "<tag>_<op>", one event file in `folder`.
std::unique_ptr<Writer> MakeTensorBoardWriter(std::filesystem::path folder);
// monitor_data.trend.db of this rank in `folder`. SQLite is looked for while running; an error
// tells what to install.
Result<std::unique_ptr<Writer>> MakeStoreWriter(const std::filesystem::path& folder, int32_t rank);

}  // namespace msprobe::monitor
