// Where batches go. Called by the writer thread alone, in the order of steps.
#pragma once

#include <cstdint>
#include <filesystem>
#include <memory>
#include <string>

#include "msprobe/status.h"

#include "src/monitor/batch.h"
#include "src/monitor/settings.h"

namespace msprobe::monitor {

// Batches as lines of CSV. How a number is spelled depends on its neighbours: the columns of a
// batch are typed each as a whole, as the Python tool's data frames are.

struct CsvRules {
  // Numbers are rounded to so many decimals: value * 10^digits to the nearest whole number, ties to
  // even, and divided again.
  int32_t digits = 6;
  // A number that would keep fewer significant digits is rounded to so many instead. 0: none is.
  int32_t significant = 0;
  // A finite number too large to be rounded becomes inf, as the Python tool has it; otherwise it
  // stays what it is.
  bool compat = false;
};

inline CsvRules CsvRulesOf(const Settings& settings) {
  return {.digits = settings.digits,
          .significant = settings.compat ? 0 : settings.significant_digits,
          .compat = settings.compat};
}

// "vpp_stage,name,step[,micro_step],<ops...>\n"
void AppendCsvHeader(const Batch& batch, std::string& out);
// One line per row.
void AppendCsvRows(const Batch& batch, const CsvRules& rules, std::string& out);

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
