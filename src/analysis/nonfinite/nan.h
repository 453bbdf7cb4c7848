// Searches a dump for the first NaN or infinity of a step: `msprobe nan_analyze`.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <limits>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "msprobe/status.h"

#include "src/analysis/nonfinite/overflow.h"
#include "src/analysis/nonfinite/rank_dump.h"
#include "src/analysis/nonfinite/search.h"
#include "src/dump/json_source.h"
#include "src/report/document.h"

namespace msprobe::analysis::nonfinite {

struct Options {
  std::filesystem::path input;  // a step's folder; with `all_steps` the folder of the steps
  std::filesystem::path output = "./output";
  bool all_steps = false;
  bool mask_aware = true;
  double threshold = std::numeric_limits<double>::infinity();
  size_t top = 1;       // origins to describe, beyond those that are reported together
  bool graph = false;   // also write the propagation as a graph
  bool levels = false;  // also judge every operator by itself
  size_t threads = 0;
  bool quiet = false;
};

// An origin with all that the dump says about it.
struct Finding {
  int64_t rank = 0;
  std::string name;
  uint64_t index = 0;  // among the rank's operators
  int64_t clock = 0;
  OriginKind kind = OriginKind::kComputed;
  BadValues made = 0;
  std::string note;
  bool reported = false;                   // in the result file, too
  dump::EntryTree entry;                   // empty when it could not be read again
  std::vector<std::string> modules;        // root ... parent, the operator last
  bool lacks_modules = false;              // the capture recorded none
  std::vector<std::string> stack;          // innermost frame first; empty when there is none
  std::vector<std::string> forward_stack;  // of a backward operator: where its forward call stood
};

enum class Outcome : uint8_t {
  kGood,     // nothing bad that needs an explanation
  kFound,    // an operator made the bad values
  kEntered,  // they came from outside of what was recorded, or were asked for
  kPartial,  // nothing bad in what is there, but a dump ends early, is damaged or empty
  kNothing,  // no maximum of any tensor was recorded: not known
};

struct StepAnswer {
  std::filesystem::path folder;
  std::optional<int64_t> step;
  Outcome outcome = Outcome::kGood;
  std::vector<RankDump> ranks;    // by number
  std::vector<Finding> findings;  // those reported first, then further ones
  SearchResult search;
  std::vector<Origin> reported;  // of the search, same order as the findings
  Propagation propagation;
  std::vector<std::string> warnings;
  // Overflow records of the devices, where there are any beside the ranks.
  OverflowFindings device;
  LevelSummary levels;  // only with Options::levels
  std::vector<std::filesystem::path> files;
  uint64_t unread_ranks = 0;   // left out, because they could not be read
  bool is_incomplete = false;  // a process that shared the work did not deliver
  uint64_t operator_count = 0;
  uint64_t size_bytes = 0;
  double seconds = 0;
};

struct Answer {
  StepAnswer step;                      // the first bad one of several, or the last good one
  std::vector<std::string> good_steps;  // folders in front of it, with all_steps
  // False in a process that handed its share to another one; nothing else here is of use then.
  bool reports = true;
};

// Takes out of `result.origins` the modules around another origin of the same rank, around weights
// that were bad before, and around a communication that brought bad values: their inputs are good
// and their outputs bad, but they only pass it on. A module around an operator whose bad inputs
// are not recorded gives way to that operator, which becomes an origin of the kind kUnrecorded.
void ResolveContainers(std::span<const RankDump> ranks, SearchResult& result);

// Everything that is known, for programs: strict JSON, NaN and infinities as text.
std::string AnswerJson(const Answer& answer, int exit_code);

// A rank that cannot be read is a warning as long as another one can be. Under a launcher each
// process reads its share of the ranks, and the first one searches. Of several steps the first one
// with bad values ends the search. Result files appear only where there is something to tell.
Result<Answer> Run(const Options& options);

inline constexpr std::array<report::GateLevel, 2> kGateLevels = {
    {{"origin", "an operator that made NaN or infinity from good inputs"},
     {"any", "also bad values that came from outside or were requested"}}};

// `with_levels`: the answer has them.
report::Document MakeDocument(const Answer& answer, bool with_levels);
std::string MarkdownAnswer(const Answer& answer);

}  // namespace msprobe::analysis::nonfinite
