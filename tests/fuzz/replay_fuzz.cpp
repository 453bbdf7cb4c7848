// Recorded tensors of the monitor: feed.jsonl beside a feed.bin of 64 bytes.
#include <cstdint>
#include <string>

#include "src/monitor/replay.h"
#include "tests/fuzz/input_folder.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  static const msprobe::fuzz::InputFolder folder;
  static const std::filesystem::path bytes = folder.Write("feed.bin", std::string(64, '\x3f'));
  static const std::filesystem::path output = folder.MakeFolder("output");
  folder.Write("feed.jsonl", msprobe::fuzz::TextOf(data, size));
  msprobe::monitor::ReplayOptions options;
  options.feed = folder.path();
  options.output = output;
  options.compat = size % 2 == 0;
  static_cast<void>(msprobe::monitor::Replay(options).ok());
  for (const auto& entry : std::filesystem::directory_iterator(output)) {
    std::filesystem::remove(entry.path());
  }
  return 0;
}
