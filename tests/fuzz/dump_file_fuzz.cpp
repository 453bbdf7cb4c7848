// dump.json: header, entries, the rows that are made of them, and the names of both. What is read
// with --allow-truncated holds at least what is read without.
#include <cstdint>
#include <cstdlib>
#include <string>
#include <string_view>

#include "src/dump/dump_file.h"
#include "src/dump/layout.h"
#include "src/dump/names.h"
#include "tests/fuzz/input_folder.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace msprobe::dump;
  static const msprobe::fuzz::InputFolder folder;
  const std::string_view text = msprobe::fuzz::TextOf(data, size);
  const std::filesystem::path path = folder.Write("dump.json", text);
  uint64_t entries[2] = {0, 0};
  bool whole = false;
  for (const bool allow_truncated : {false, true}) {
    LeafWalker walker;
    const msprobe::Result<DumpHeader> header =
        ReadDumpFile(path, {.allow_truncated = allow_truncated},
                     [&](std::string_view name, const EntryTree& entry) -> msprobe::Status {
                       ++entries[allow_truncated ? 1 : 0];
                       static_cast<void>(WithDirection(name, Direction::kBackward));
                       walker.ForEach(name, entry, [&](std::string_view row, uint32_t index) {
                         static_cast<void>(ParseRowName(row));
                         static_cast<void>(IsTensorLeaf(entry, index));
                         static_cast<void>(LeafText(entry, index, "data_name"));
                       });
                       return {};
                     });
    if (header.ok() && header->extras.size() > kMaxExtras) {
      std::abort();
    }
    whole = whole || (!allow_truncated && header.ok());
  }
  if (whole && entries[0] != entries[1]) {
    std::abort();
  }
  const EntryName name = ParseEntryName(text);
  static_cast<void>(name);
  static_cast<void>(ParseRowName(text));
  for (const auto parse : {ParseRankName, ParseStepName, ParseProcessName}) {
    const NumberedName numbered = parse(text);
    if (numbered.valid && numbered.number.value_or(0) < 0) {
      std::abort();
    }
  }
  return 0;
}
