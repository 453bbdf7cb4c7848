#include "src/report/sheet_parts.h"

namespace msprobe::report {
namespace {

constexpr size_t kSheetNameCharacters = 31;

}  // namespace

std::vector<std::pair<size_t, size_t>> SplitEvenly(size_t row_count, size_t limit) {
  const size_t part_count = row_count == 0 ? 1 : (row_count + limit - 1) / limit;
  std::vector<std::pair<size_t, size_t>> parts;
  size_t first = 0;
  for (size_t part = 0; part < part_count; ++part) {
    const size_t count = row_count / part_count + (part < row_count % part_count ? 1 : 0);
    parts.emplace_back(first, count);
    first += count;
  }
  return parts;
}

std::string PartSheetName(const std::string& name, size_t part) {
  const std::string ending = "_part_" + std::to_string(part);
  return name.substr(0, kSheetNameCharacters - ending.size()) + ending;
}

std::vector<Table> SplitIntoParts(const Table& table, size_t limit) {
  std::vector<Table> parts;
  for (const auto& [first, count] : SplitEvenly(table.row_count(), limit)) {
    Table& part = parts.emplace_back(PartSheetName(table.name(), parts.size()), table.columns());
    part.Reserve(count);
    for (size_t row = first; row < first + count; ++row) {
      part.AddRow(table.row(row), table.fill(row));
    }
  }
  return parts;
}

}  // namespace msprobe::report
