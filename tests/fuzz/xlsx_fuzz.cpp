// Any bytes as a workbook and as a csv file; every cell that comes out is looked at.
#include <cstdint>
#include <cstdlib>
#include <span>
#include <string_view>

#include "src/report/readers.h"

namespace {

constexpr uint64_t kSmallBytes = uint64_t{1} << 20U;

void Touch(const msprobe::report::Table& table) {
  for (size_t row = 0; row < table.row_count(); ++row) {
    for (const msprobe::report::Cell& cell : table.row(row)) {
      if (msprobe::report::CellText(cell).size() > kSmallBytes) {
        std::abort();
      }
    }
  }
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  msprobe::report::ReadLimits limits;
  limits.member_bytes = kSmallBytes;
  limits.total_bytes = 4 * kSmallBytes;
  limits.cells = size_t{1} << 16U;
  const auto tables =
      msprobe::report::ReadXlsxBytes(std::as_bytes(std::span<const uint8_t>(data, size)), limits);
  if (tables.ok()) {
    for (const msprobe::report::Table& table : *tables) {
      Touch(table);
    }
  }
  const std::string_view text(reinterpret_cast<const char*>(data), size);
  const auto csv = msprobe::report::ReadCsvText(text, "fuzz", limits);
  if (csv.ok()) {
    Touch(*csv);
  }
  return 0;
}
