// A torch distributed checkpoint: .metadata, and the file that it places chunks in. Its first two
// bytes are the length of .metadata.
#include <cstdint>
#include <cstdlib>

#include "src/checkpoint/distributed/reader.h"
#include "tests/fuzz/touch_parameters.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace msprobe::checkpoint;
  static const msprobe::fuzz::InputFolder folder;
  if (size < 2) {
    return 0;
  }
  const std::string_view input = msprobe::fuzz::TextOf(data, size).substr(2);
  const size_t length = std::min<size_t>(input.size(), data[0] + 256U * data[1]);
  folder.Write(".metadata", input.substr(0, length));
  folder.Write("__0_0.distcp", input.substr(length));
  Options options;
  options.optimizer = true;
  const msprobe::Result<Checkpoint> checkpoint = OpenDistributed(folder.path(), options);
  if (checkpoint.ok()) {
    TouchParameters(*checkpoint);
  }
  return 0;
}
