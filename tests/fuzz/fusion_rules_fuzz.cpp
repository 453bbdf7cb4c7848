// The graph of a compiled model: whatever it says, its operators have origins or none.
#include <cstdint>
#include <cstdlib>

#include "src/analysis/kernel_dump/fusion_rules.h"
#include "tests/fuzz/input_folder.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  namespace dumps = msprobe::analysis::kernel_dump;
  static const msprobe::fuzz::InputFolder folder;
  const msprobe::Result<dumps::FusionRules> rules =
      dumps::FusionRules::Read(folder.Write("graph.json", msprobe::fuzz::TextOf(data, size)));
  if (!rules.ok()) {
    return 0;
  }
  if (rules->empty()) {
    std::abort();  // a file without rules is an error
  }
  for (const auto& [origin, place] : rules->ByOrigin()) {
    if (!rules->has(place.op) || rules->Origin(place.op, place.output) != origin) {
      std::abort();
    }
    static_cast<void>(rules->InputOrigin(place.op, place.output));
  }
  return 0;
}
