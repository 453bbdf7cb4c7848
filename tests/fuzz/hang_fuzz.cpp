// Recordings of two ranks, one of them cut short: what is read can be judged, and the map fits its
// rows.
#include <cstdint>
#include <cstdlib>

#include "src/analysis/hang/hang.h"
#include "src/analysis/hang/recordings.h"
#include "tests/fuzz/input_folder.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  namespace hang = msprobe::analysis::hang;
  static const msprobe::fuzz::InputFolder folder;
  static const std::filesystem::path traces = folder.MakeFolder("traces");
  folder.Write("traces/rank_0", msprobe::fuzz::TextOf(data, size));
  folder.Write("traces/rank_1", msprobe::fuzz::TextOf(data, size - size / 4));
  std::vector<std::string> warnings;
  const auto recordings = hang::ReadRecordings(traces, 1, true, warnings);
  if (!recordings.ok()) {
    return 0;
  }
  for (const hang::Recording& recording : *recordings) {
    for (const hang::Call& call : recording.calls) {
      if (call.group >= recording.groups.size() || call.kind >= recording.texts.size()) {
        std::abort();
      }
    }
  }
  const std::filesystem::path result = folder.path() / "result";
  std::filesystem::remove_all(result);
  const auto findings = hang::Run({.path = traces, .output = result, .threads = 1, .quiet = true});
  if (!findings.ok() || findings->map.states.size() != findings->map.ranks.size() ||
      hang::MakeDocument(*findings).verdict.word.empty()) {
    std::abort();
  }
  return 0;
}
