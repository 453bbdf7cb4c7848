// Any bytes as a csv file: rows end, cells lie inside the text or its copies, lines rise.
#include <cstdint>
#include <cstdlib>
#include <string_view>

#include "src/profile/ascend_text/reader.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using msprobe::profile::CsvNumbers;
  using msprobe::profile::CsvRows;
  const std::string_view text(reinterpret_cast<const char*>(data), size);
  msprobe::Result<CsvRows> rows = CsvRows::FromText(text, "fuzz.csv");
  if (!rows.ok()) {
    return 0;
  }
  CsvNumbers numbers(*rows);
  uint64_t line = 0;
  for (;;) {
    const msprobe::Result<bool> next = rows->Next();
    if (!next.ok() || !*next) {
      break;
    }
    if (rows->line() < line) {
      std::abort();
    }
    line = rows->line();
    for (size_t column = 0; column < 4; ++column) {
      if ((*rows)[column].size() > size) {
        std::abort();
      }
      numbers.NumberOrNan(column, "column");
    }
  }
  return 0;
}
