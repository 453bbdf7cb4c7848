// Any bytes as a table of a monitored run: first line the head, then rows. What comes out is as
// large as what went in allows.
#include <cstdint>
#include <cstdlib>
#include <string>
#include <string_view>

#include "src/analysis/monitor/common/table_rows.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using msprobe::analysis::monitor::internal::ReadTableHead;
  using msprobe::analysis::monitor::internal::ReadTableRows;
  const std::string_view text(reinterpret_cast<const char*>(data), size);
  const size_t end = text.find('\n');
  const auto head = ReadTableHead(text.substr(0, end), {});
  if (!head.ok() || end == std::string_view::npos) {
    return 0;
  }
  // What is read at a time ends with a line end.
  const std::string_view lines = text.substr(end + 1, text.rfind('\n') - end);
  const auto rows = ReadTableRows(lines, *head);
  if (rows.steps.size() != rows.name_of.size() || rows.steps.size() > rows.lines ||
      rows.values.size() != rows.steps.size() * head->ops.size() ||
      rows.diagnostics.size() > msprobe::analysis::monitor::internal::TableRows::kMostDiagnostics) {
    std::abort();
  }
  size_t counted = 0;
  for (const auto& name : rows.names) {
    counted += name.rows;
  }
  for (const uint32_t name : rows.name_of) {
    if (name >= rows.names.size()) {
      std::abort();
    }
  }
  if (counted != rows.steps.size()) {
    std::abort();
  }
  return 0;
}
