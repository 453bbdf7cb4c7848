// The input as the text of a dump.json: cut into entries, each judged and read as a communication.
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <limits>
#include <string_view>

#include "src/analysis/nonfinite/rank_dump.h"
#include "src/analysis/nonfinite/search.h"
#include "src/dump/communication.h"
#include "src/dump/entry_scan.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  namespace nonfinite = msprobe::analysis::nonfinite;
  constexpr double kInfinity = std::numeric_limits<double>::infinity();
  const std::string_view text(reinterpret_cast<const char*>(data), size);
  const auto visit = [](const msprobe::dump::ScannedEntry& entry,
                        const msprobe::dump::EntryScanOutcome& /*so_far*/) {
    const msprobe::Result<nonfinite::EntryFacts> facts =
        nonfinite::ReadEntryFacts(entry.text, kInfinity);
    // What is found bad must not have been passed over as good.
    if (facts.ok() && facts->output != 0 && !entry.is_suspicious &&
        entry.text.find_first_of("eE") == std::string_view::npos) {
      std::abort();
    }
    const auto tree = msprobe::dump::ParseEntry(entry.text);
    if (tree.ok()) {
      static_cast<void>(nonfinite::JudgeEntry(entry.name, *tree));
      using msprobe::dump::MatchRules;
      for (const MatchRules rules :
           {MatchRules::kLibraries, MatchRules::kPythonGraph, MatchRules::kPythonDifference}) {
        msprobe::dump::RankCommunications calls(0, rules);
        for (const char* api : {"batch_isend_irecv", "gather", "recv"}) {
          static_cast<void>(calls.Add(msprobe::dump::ReadCommunication(api, *tree, rules)));
        }
        const msprobe::dump::RankCommunications* rank = &calls;
        static_cast<void>(msprobe::dump::MatchCommunications({&rank, 1}));
      }
    }
    return true;
  };
  static_cast<void>(msprobe::dump::ScanEntryText(text, visit).ok());
  return 0;
}
