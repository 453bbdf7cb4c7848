// stack.json and construct.json of a dump.
#include <cstdint>
#include <cstdlib>
#include <string>

#include "src/dump/stack_file.h"
#include "tests/fuzz/input_folder.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  static const msprobe::fuzz::InputFolder folder;
  const std::filesystem::path path = folder.Write("stack.json", msprobe::fuzz::TextOf(data, size));
  const msprobe::Result<msprobe::dump::StackFile> stacks = msprobe::dump::StackFile::Read(path);
  if (stacks.ok()) {
    static_cast<void>(stacks->Find("Functional.conv2d.0.forward"));
  }
  const msprobe::Result<msprobe::dump::ConstructFile> construct =
      msprobe::dump::ConstructFile::Read(path);
  if (construct.ok() && construct->empty() &&
      !construct->ParentOf("Functional.conv2d.0.forward").empty()) {
    std::abort();
  }
  return 0;
}
