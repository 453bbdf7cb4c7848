#include "src/analysis/response_anomaly/result_rows.h"

#include <array>

namespace msprobe::analysis::response_anomaly {

using report::Cell;

const std::vector<std::string>& RowColumns() {
  static const std::vector<std::string> columns = {"line",
                                                   "name",
                                                   "is_ill",
                                                   "ill_type",
                                                   "illness",
                                                   "first_token",
                                                   "tokens",
                                                   "candidates",
                                                   "by_categories",
                                                   "nans",
                                                   "positive_infinities",
                                                   "negative_infinities",
                                                   "windows",
                                                   "rare_tokens",
                                                   "garbled_windows",
                                                   "repeats_both",
                                                   "repeats_trajectory",
                                                   "repeats_period",
                                                   "model",
                                                   "error"};
  return columns;
}

report::Table NewTable() { return report::Table("requests", RowColumns()); }

void AddRow(const Row& row, report::Table& table) {
  const Judgement& judgement = row.judgement;
  const auto count = [](size_t value) { return Cell::Integer(static_cast<int64_t>(value)); };
  const auto text = [&](std::string_view value) {
    return value.empty() ? Cell() : table.KeepText(value);
  };
  if (!row.error.empty()) {
    std::vector<Cell> cells(RowColumns().size());
    cells[0] = count(row.line);
    cells[1] = text(row.name);
    cells.back() = text(row.error);
    table.AddRow(cells);
    return;
  }
  const bool is_ill = judgement.illness != Illness::kNone;
  const std::array<Cell, 20> cells = {
      count(row.line),
      text(row.name),
      Cell::Boolean(is_ill),
      Cell::Integer(static_cast<int64_t>(judgement.illness)),
      Cell::Text(IllnessName(judgement.illness)),
      judgement.first_token ? count(*judgement.first_token) : Cell(),
      count(judgement.tokens),
      count(judgement.candidates),
      Cell::Boolean(judgement.by_categories),
      count(judgement.nans),
      count(judgement.positive_infinities),
      count(judgement.negative_infinities),
      count(judgement.windows),
      count(judgement.rare_tokens),
      count(judgement.garbled_windows),
      count(judgement.repeats_both),
      count(judgement.repeats_trajectory),
      count(judgement.repeats_period),
      text(row.model),
      Cell()};
  table.AddRow(cells);
}

}  // namespace msprobe::analysis::response_anomaly
