// The whole of `compare`: finds the pairs, compares each, writes the files, sums up. Never prints.
#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include "msprobe/status.h"

#include "src/analysis/compare/compare_pair.h"
#include "src/analysis/compare/options.h"
#include "src/analysis/compare/summary.h"
#include "src/base/output_files.h"
#include "src/base/threads.h"

namespace msprobe::analysis::compare {

// The result of a whole comparison: the summary of its pairs, and what is to be said beside it.
// Rows of a single pair: pair_result.h.

struct Comparison {
  base::RunStamp stamp;  // in the names of all its files
  RunSummary summary;
  std::vector<std::string> warnings;
  std::vector<std::string> answers;          // of -da: one line per step
  std::vector<std::string> calls;            // of kernel dumps: the calls they belong to
  std::vector<std::string> log_lines;        // of -tensor_log
  std::vector<std::filesystem::path> files;  // of -da, beside those of the pairs
  // False in a process that handed its share to another one, which reports on all
  // (base/shared_run.h): nothing else here is of use then.
  bool reports = true;
};

// Decides which side computed the first diverging call wrong: where both dumps hold
// tensors, that call is recomputed from what each side gave it.

// Fills `wrong_side` of the first computation that the pair diverges in. False where there is
// nothing to recompute: no such call, or no tensors. A call that cannot be recomputed is reported
// as such; nothing fails. Memory: the tensors of that call as float64.
bool NameWrongSide(ComparedPair& pair, base::ThreadPool& pool);

// Not ok when nothing could be compared at all. A pair that fails among several is recorded in its
// summary; the others go on. Under a launcher each process compares its share of the ranks; pairs
// of one that did not deliver are recorded as failed.
Result<Comparison> Run(const Options& options);

// summary.json into the output folder; returns its path.
Result<std::filesystem::path> WriteSummary(const Options& options, const Comparison& run,
                                           int exit_code);

}  // namespace msprobe::analysis::compare
