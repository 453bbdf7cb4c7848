#include "src/analysis/rl/token_tables.h"

#include <array>
#include <cmath>

#include <fmt/format.h>

#include "src/base/strings.h"

namespace msprobe::analysis::rl {
namespace {

using report::Cell;

constexpr std::array<ColumnName, 8> kWorstColumns = {{
    {"序列", "sequence"},
    {"位置", "position"},
    {"对数概率1", "log probability 1"},
    {"对数概率2", "log probability 2"},
    {"概率1", "probability 1"},
    {"概率2", "probability 2"},
    {"概率差", "probability difference"},
    {"词元", "token"},  // only where ids are wanted
}};

constexpr std::array<ColumnName, 15> kStepColumns = {{
    {"shape1", "shape1"},
    {"shape2", "shape2"},
    {"词元数", "tokens"},
    {"掩码词元数", "masked tokens"},
    {"最大概率差", "max probability difference"},
    {"平均概率差", "mean probability difference"},
    {"概率差标准差", "std of probability difference"},
    {"平均对数概率差(1-2)", "mean log probability difference (1-2)"},
    {"NaN个数1", "NaN count 1"},
    {"NaN个数2", "NaN count 2"},
    {"负无穷个数1", "minus infinity count 1"},
    {"负无穷个数2", "minus infinity count 2"},
    {"大于0个数1", "above 0 count 1"},
    {"大于0个数2", "above 0 count 2"},
    kNoteColumn,
}};

constexpr double kMostExactIntegers = 9007199254740992;  // 2^53

Cell IdCell(const std::optional<double>& id) {
  if (!id || !std::isfinite(*id)) {
    return {};
  }
  return std::fabs(*id) <= kMostExactIntegers && std::trunc(*id) == *id
             ? Cell::Integer(static_cast<int64_t>(*id))
             : Cell::Number(*id);
}

std::string TokenNote(const TokenPair& pair, Language language) {
  const bool chinese = language == Language::kChinese;
  if (!pair.error.empty()) {
    return pair.error;
  }
  if (!pair.numbers) {
    return std::string(PartnerNote(pair.files, language));
  }
  if (pair.first_shape != pair.second_shape) {
    return std::string(ShapesNote(language));
  }
  return pair.numbers->tokens > 0 ? "" : chinese ? "没有可比较的词元" : "no token to compare";
}

void AppendNumbers(const TokenNumbers& numbers, std::vector<Cell>& cells) {
  cells.push_back(CountCell(numbers.tokens));
  cells.push_back(CountCell(numbers.masked));
  const bool any = numbers.tokens > 0;
  cells.push_back(any ? NumberCell(numbers.max_difference) : Cell());
  cells.push_back(any ? NumberCell(numbers.difference.mean()) : Cell());
  cells.push_back(any ? NumberCell(numbers.difference.standard_deviation()) : Cell());
  cells.push_back(numbers.log_difference.count() > 0 ? NumberCell(numbers.log_difference.mean())
                                                     : Cell());
  for (const uint64_t OddValues::*count :
       {&OddValues::nan, &OddValues::minus_infinity, &OddValues::too_large}) {
    cells.push_back(CountCell(numbers.first.*count));
    cells.push_back(CountCell(numbers.second.*count));
  }
}

}  // namespace

report::Table WorstTokensTable(const TokenComparison& comparison, Language language) {
  const bool has_ids = !comparison.ids.empty();
  const size_t column_count = kWorstColumns.size() - (has_ids ? 0 : 1);
  report::Table table("tokens", NamesOf(std::span(kWorstColumns).first(column_count), language));
  for (size_t i = 0; i < comparison.worst.size(); ++i) {
    const WorstToken& token = comparison.worst[i];
    std::vector<Cell> cells = LocationCells(table, comparison.pairs[token.pair].files.location);
    cells.insert(
        cells.end(),
        {Cell::Integer(token.sequence), Cell::Integer(token.position), Cell::Number(token.first),
         Cell::Number(token.second), Cell::Number(std::exp(token.first)),
         Cell::Number(std::exp(token.second)), Cell::Number(token.difference)});
    if (has_ids) {
      cells.push_back(IdCell(comparison.ids[i]));
    }
    table.AddRow(cells);
  }
  return table;
}

report::Table TokenStepsTable(const TokenComparison& comparison, Language language) {
  report::Table table("steps", NamesOf(kStepColumns, language));
  for (const TokenPair& pair : comparison.pairs) {
    std::vector<Cell> cells = LocationCells(table, pair.files.location);
    for (const std::optional<Shape>& shape : {pair.first_shape, pair.second_shape}) {
      cells.push_back(shape ? table.KeepText(ShapeText(*shape)) : Cell());
    }
    if (pair.numbers) {
      AppendNumbers(*pair.numbers, cells);
    }
    cells.resize(kLocationColumns + kStepColumns.size() - 1);
    cells.push_back(NoteCell(table, TokenNote(pair, language)));
    table.AddRow(cells);
  }
  return table;
}

}  // namespace msprobe::analysis::rl
