// A rank's dump as nan_analyze loads it.
#include <cstdint>
#include <cstdlib>

#include "src/analysis/nonfinite/rank_dump.h"
#include "tests/fuzz/input_folder.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  namespace nonfinite = msprobe::analysis::nonfinite;
  static const msprobe::fuzz::InputFolder folder;
  folder.Write("dump.json", msprobe::fuzz::TextOf(data, size));
  const msprobe::Result<nonfinite::RankDump> rank = nonfinite::LoadRank(0, folder.path(), {});
  if (rank.ok()) {
    const size_t calls = rank->communications.call_count();
    for (const nonfinite::Operator& operation : rank->operators) {
      if (operation.text_offset + operation.text_bytes > size ||
          (operation.call != nonfinite::Operator::kNoCall && operation.call >= calls)) {
        std::abort();
      }
    }
    if (rank->endpoints.size() != rank->communications.endpoints().size()) {
      std::abort();
    }
    for (size_t place = 0; place < rank->endpoints.size(); ++place) {
      const uint32_t operation = rank->endpoints[place].operator_place;
      if (operation >= rank->operators.size() ||
          rank->operators[operation].call != rank->communications.endpoints()[place].call) {
        std::abort();
      }
    }
  }
  return 0;
}
