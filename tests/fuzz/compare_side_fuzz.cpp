// One side of a comparison: rows of a dump.json, for both lines of the tool.
#include <cstdint>
#include <cstdlib>

#include "src/analysis/compare/side.h"
#include "tests/fuzz/input_folder.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  namespace compare = msprobe::analysis::compare;
  static const msprobe::fuzz::InputFolder folder;
  const std::filesystem::path path = folder.Write("dump.json", msprobe::fuzz::TextOf(data, size));
  for (const compare::Edition edition : {compare::Edition::kV8, compare::Edition::kV26}) {
    compare::SideOptions options;
    options.edition = edition;
    options.allow_truncated = true;
    const msprobe::Result<compare::Side> side = compare::LoadSide(path, options);
    if (!side.ok()) {
      continue;
    }
    for (const compare::SideRow& row : side->rows) {
      if (row.entry >= side->entries.size() || row.point_to_point > side->point_to_point.size()) {
        std::abort();
      }
    }
    for (const compare::SideEntry& entry : side->entries) {
      if (entry.first_row + entry.row_count > side->rows.size()) {
        std::abort();
      }
    }
  }
  return 0;
}
