// A digest file, and what joining it with itself as another rank makes of it.
#include <cstdint>
#include <cstdlib>
#include <string>
#include <utility>
#include <vector>

#include "src/digest/digest.h"
#include "tests/fuzz/input_folder.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  namespace digest = msprobe::digest;
  const std::string text(msprobe::fuzz::TextOf(data, size));
  const msprobe::Result<digest::Digest> read = digest::ParseDigest(text, "digest.json");
  if (!read.ok()) {
    return 0;
  }
  for (const digest::Entry& entry : read->entries) {
    if (entry.blocks.size() != digest::BlockCount(entry.rows())) {
      std::abort();
    }
  }
  const msprobe::Result<digest::Digest> again =
      digest::ParseDigest(digest::DigestJson(*read), "digest.json");
  if (!again.ok() || again->entries.size() != read->entries.size()) {
    std::abort();
  }
  std::vector<digest::Digest> ranks = {*read, *again};
  ranks.front().rank = 0;
  ranks.back().rank = 1;
  static_cast<void>(digest::JoinRanks(std::move(ranks)));
  return 0;
}
