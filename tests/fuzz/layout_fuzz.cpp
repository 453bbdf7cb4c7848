// layout.json, and the file of compare --layout.
#include <cstdint>
#include <cstdlib>

#include "src/layout/layout_file.h"
#include "tests/fuzz/input_folder.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  namespace layout = msprobe::layout;
  const std::string text(msprobe::fuzz::TextOf(data, size));
  const msprobe::Result<layout::RankLayout> read = layout::ParseLayout(text, "layout.json");
  if (read.ok()) {
    for (const auto& [name, record] : read->parameters) {
      if (record.parts && (*record.parts < 1 || (record.part && *record.part >= *record.parts))) {
        std::abort();
      }
    }
    static_cast<void>(read->GlobalPath("decoder.layers.0.mlp"));
  }
  const msprobe::Result<layout::GivenLayouts> given =
      layout::GivenLayouts::Parse(text, "layouts.json");
  if (given.ok()) {
    static_cast<void>(given->Of(true, 3, 8));
  }
  return 0;
}
