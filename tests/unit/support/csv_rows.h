// Tables in CSV as the files have them.
#pragma once

#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace msprobe::test_support {

// The cells of each line, the head included. Cells hold no quotes.
inline std::vector<std::vector<std::string>> CsvRows(std::string_view text) {
  std::vector<std::vector<std::string>> rows;
  std::vector<std::string> row;
  std::string cell;
  bool quoted = false;
  for (const char c : text) {
    if (c == '"') {
      quoted = !quoted;
    } else if (!quoted && (c == ',' || c == '\n')) {
      row.push_back(std::exchange(cell, ""));
      if (c == '\n') {
        rows.push_back(std::exchange(row, {}));
      }
    } else if (c != '\r') {
      cell += c;
    }
  }
  return rows;
}

}  // namespace msprobe::test_support
