#include <algorithm>
#include <string>
#include <string_view>
#include <vector>

#include <fmt/format.h>

#include "src/report/writers.h"

namespace msprobe::report {
namespace {

std::string Centred(std::string_view text, size_t width) {
  const size_t room = width - std::min(width, text.size());
  // An odd blank stands behind.
  return std::string(room / 2, ' ') + std::string(text) + std::string(room - room / 2, ' ');
}

}  // namespace

std::string RuledTable(const Table& table) {
  std::string rule = "+";
  std::vector<std::string> lines(table.row_count() + 1, "|");
  for (size_t column = 0; column < table.columns().size(); ++column) {
    size_t width = table.columns()[column].size();
    for (size_t row = 0; row < table.row_count(); ++row) {
      width = std::max(width, CellText(table.row(row)[column]).size());
    }
    rule += std::string(width + 2, '-') + "+";
    lines[0] += " " + Centred(table.columns()[column], width) + " |";
    for (size_t row = 0; row < table.row_count(); ++row) {
      lines[row + 1] += " " + Centred(CellText(table.row(row)[column]), width) + " |";
    }
  }
  const size_t inner = rule.size() - 2;
  std::string text = fmt::format("+{}+\n|{}|\n{}\n{}\n{}\n", std::string(inner, '-'),
                                 Centred(table.name(), inner), rule, lines[0], rule);
  for (size_t row = 1; row < lines.size(); ++row) {
    text += lines[row] + "\n";
  }
  return text + rule + "\n";
}

}  // namespace msprobe::report
