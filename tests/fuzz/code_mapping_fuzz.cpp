// A graph's text, and a name in which its scopes are looked for.
#include <cstdint>

#include "src/analysis/kernel_dump/code_mapping.h"
#include "tests/fuzz/input_folder.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace msprobe::analysis::kernel_dump;
  static const msprobe::fuzz::InputFolder folder;
  const std::string_view text = msprobe::fuzz::TextOf(data, size);
  const msprobe::Result<IrNodes> nodes = ReadIr(folder.Write("graph.ir", text));
  if (nodes.ok()) {
    const ScopeFinder finder(*nodes);
    static_cast<void>(finder.Find(text.substr(0, 4096)));
  }
  return 0;
}
