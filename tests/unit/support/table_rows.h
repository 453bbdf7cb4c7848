// Tables as text.
#pragma once

#include <string>
#include <vector>

#include "src/report/table.h"

namespace msprobe::test_support {

// Cells joined by '|', line ends as "\n" in words.
inline std::vector<std::string> Rows(const report::Table& table) {
  std::vector<std::string> rows;
  for (size_t i = 0; i < table.row_count(); ++i) {
    std::string text;
    for (const report::Cell& cell : table.row(i)) {
      text += text.empty() && &cell == table.row(i).data() ? "" : "|";
      for (const char c : report::CellText(cell)) {
        text += c == '\n' ? std::string("\\n") : std::string(1, c);
      }
    }
    rows.push_back(text);
  }
  return rows;
}

}  // namespace msprobe::test_support
