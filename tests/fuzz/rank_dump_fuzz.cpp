// A rank's dump as nan_analyze loads it.
#include <cstdint>
#include <cstdlib>

#include "src/analysis/nan/rank_dump.h"
#include "tests/fuzz/input_folder.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  namespace nan = msprobe::analysis::nan;
  static const msprobe::fuzz::InputFolder folder;
  folder.Write("dump.json", msprobe::fuzz::TextOf(data, size));
  const msprobe::Result<nan::RankDump> rank = nan::LoadRank(0, folder.path(), {});
  if (rank.ok()) {
    for (const nan::Operator& operation : rank->operators) {
      if (operation.text_offset + operation.text_bytes > size ||
          (operation.call != nan::Operator::kNoCall && operation.call >= rank->calls.size())) {
        std::abort();
      }
    }
  }
  return 0;
}
