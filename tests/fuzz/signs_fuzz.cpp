// The signs of a gradient, as bytes or as bits: whatever the file says, all of it can be read.
#include <algorithm>
#include <cstdint>
#include <vector>

#include "src/analysis/grad/grad.h"
#include "tests/fuzz/input_folder.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using msprobe::analysis::grad::SignFile;
  static const msprobe::fuzz::InputFolder folder;
  const std::filesystem::path path = folder.Write("signs", msprobe::fuzz::TextOf(data, size));
  std::vector<std::byte> scratch;
  const msprobe::Result<SignFile> file = SignFile::Open(path, scratch);
  if (!file.ok()) {
    return 0;
  }
  SignFile::Scratch blocks;
  // An array may repeat its elements without storing them: a few blocks of it are enough.
  constexpr int64_t kMostElements = int64_t{1} << 20;
  const auto count =
      static_cast<size_t>(std::min(msprobe::ElementCount(file->shape()), kMostElements));
  uint64_t seen = 0;
  for (size_t at = 0; at < count; at += SignFile::kBlockElements) {
    const size_t part = std::min(SignFile::kBlockElements, count - at);
    for (const std::byte bits : file->Bits(at, part, blocks)) {
      seen += std::to_integer<uint8_t>(bits);
    }
    file->Release(at, part);
  }
  return seen == UINT64_MAX ? 1 : 0;
}
